"""The report of a vacuum as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slatespark.table.gc.report import VacuumReport
from slatespark.texts import align_facts, align_table, plural, printable
from slatespark.units import bytes_to_text, duration_to_text

_NAMES = {
    "compactions": "compactions file",
    "wal": "WAL file",
    "sst": "SST",
    "columns": "columnar copy",
    "unfinished": "unfinished file",
    "metadata": "metadata object",
}


def vacuum_text(report: VacuumReport, *, with_kept: bool = False) -> str:
    """Return a report as facts in two columns; a dry run also lists each object and why it would be deleted.

    Parameters
    ----------
    with_kept : list every object, including those that are kept
    """
    parts = [align_facts(_facts(report))]
    shown = report.files if with_kept else report.collected if report.dry_run else ()
    if shown:
        rows = [(file.action, file.path, str(file.size), file.reason) for file in shown]
        parts.append(align_table(("action", "object", "bytes", "why"), rows, right=("bytes",)))
    return "\n\n".join(parts)


def counted_objects(counts: Mapping[str, int]) -> str:
    """Return numbers of objects by kind as text."""
    return ", ".join(plural(number, _NAMES.get(kind, kind)) for kind, number in sorted(counts.items())) or "nothing"


def _facts(report: VacuumReport) -> Iterator[tuple[str, str]]:
    yield "table", report.url
    yield "version", "none: there is no table here" if report.version is None else str(report.version)
    yield "minimum age", duration_to_text(report.min_age_ms)
    counted = counted_objects(report.counts)
    yield "would delete" if report.dry_run else "deleted", f"{counted}, {bytes_to_text(report.bytes)}"
    yield "kept", f"{plural(len(report.kept), 'object')}, {bytes_to_text(sum(file.size for file in report.kept))}"
    if report.checkpoints_released:
        names = [
            f"{printable(point.name or point.id)} of version {point.version}" for point in report.checkpoints_released
        ]
        yield "checkpoints released", "\n".join(names)
    if report.jobs_dropped:
        yield "compactions dropped", "\n".join(map(printable, report.jobs_dropped))
    if report.views_removed:
        yield "views without rows", f"{report.views_removed} {'to be removed' if report.dry_run else 'removed'}"
    if report.unknown is not None:
        yield "warning", f"unreferenced SSTs and WAL files were kept: {printable(report.unknown)}"
