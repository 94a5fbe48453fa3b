"""The report of a reap as text."""

from __future__ import annotations

from collections.abc import Iterator

from slatespark.table.retention.reap_report import ReapReport
from slatespark.texts import align_facts, plural, printable
from slatespark.units import bytes_to_text, ms_to_text

MAX_CHECKPOINTS = 5  # named; further ones are counted


def reap_text(report: ReapReport) -> str:
    """Return a report as facts in two columns."""
    return align_facts(_facts(report))


def _facts(report: ReapReport) -> Iterator[tuple[str, str]]:
    yield "table", report.url
    yield "version", str(report.version)
    if report.retention_ms is None:
        yield "retention", "none: rows are never past it"
        return
    if report.reaped_through_ms is None:
        yield "reaped through", "nothing: every instant is still within retention for some supported read"
        return
    yield "reaped through", _instant(report.reaped_through_ms, report)
    yield "rows", f"{report.rows:,} in {plural(report.passes, 'commit')}, {bytes_to_text(report.bytes)}"
    if report.passes:
        yield "files", f"{report.files_dropped:,} dropped, {report.files_rewritten:,} rewritten"
        yield "tombstones", f"{report.tombstones:,}"
    if report.delete_rate_mb_per_s is not None and report.bytes:
        yield "delete rate", f"{report.delete_rate_mb_per_s:,.1f} MB/s"
    if report.next_deadline_ms is not None:
        yield "next deadline", _instant(report.next_deadline_ms, report)
    if report.kept_by_checkpoints:
        yield "still readable by", "\n".join(_checkpoints(report))


def _checkpoints(report: ReapReport) -> Iterator[str]:
    kept = report.kept_by_checkpoints
    for point in kept[:MAX_CHECKPOINTS]:
        end = "forever" if point.expires_ms is None else f"until {ms_to_text(point.expires_ms)}"
        yield f"checkpoint {printable(point.name or point.id)} of version {point.version}, {end}"
    if len(kept) > MAX_CHECKPOINTS:
        yield f"and {plural(len(kept) - MAX_CHECKPOINTS, 'more checkpoint')}"


def _instant(ms: int, report: ReapReport) -> str:
    return str(ms) if report.has_own_time else ms_to_text(ms)
