"""The report of a compaction, done or planned, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.table.compaction.report import CompactionJob, CompactionReport
from slatespark.texts import align_facts, plural
from slatespark.units import bytes_to_text, ms_to_text

MAX_NAMED = 8  # layers of a job, or key ranges; further ones are counted


def compaction_text(report: CompactionReport) -> str:
    """Return a report as facts in two columns, followed by a paragraph per job."""
    return "\n\n".join([align_facts(_facts(report)), *(align_facts(_job_facts(job)) for job in report.jobs)])


def _facts(report: CompactionReport) -> Iterator[tuple[str, str]]:
    yield "table", report.url
    yield "version", str(report.version)
    if report.now_ms is not None:
        yield "now", str(report.now_ms) if report.has_own_time else ms_to_text(report.now_ms)
    yield from _merges(report)
    yield from _copies(report)
    if report.jobs and not report.dry_run and report.elapsed_ms:
        yield "speed", f"{report.bytes_in / 1000 / report.elapsed_ms:,.1f} MB/s read"


def _merges(report: CompactionReport) -> Iterator[tuple[str, str]]:
    """Yield what was merged, or why nothing was."""
    if report.is_compacted:
        yield "jobs", "none. Nothing to do: the table is one sorted run."
    elif not report.jobs:
        reason = "nothing was merged, so no filter was called" if report.filters else "there is nothing to merge"
        yield "jobs", f"none: {reason}"
    elif report.dry_run:
        yield "jobs", f"{plural(len(report.jobs), 'job')} planned, nothing was done"
    else:
        yield "jobs", plural(len(report.jobs), "job")
        yield "rows", f"{report.rows_in:,} read, {report.rows_out:,} left, {report.expired:,} expired or past retention"
        yield "bytes", f"{bytes_to_text(report.bytes_in)} read, {bytes_to_text(report.bytes_out)} written"


def _copies(report: CompactionReport) -> Iterator[tuple[str, str]]:
    """Yield what became of columnar copies; the reasons of those that were not written, each with a number of files."""
    written = [copy for copy in report.copies if copy.refused is None]
    if written and report.dry_run:
        yield "columnar copies", f"{len(written):,} to be written"
    elif written:
        size = bytes_to_text(sum(copy.stored_bytes for copy in written))
        yield "columnar copies", f"{len(written):,} written, {size}"
    refused = Counter(copy.refused for copy in report.copies if copy.refused is not None)
    for reason, number in refused.items():
        yield "no columnar copy", f"{plural(number, 'file')}: {reason}"


def _job_facts(job: CompactionJob) -> Iterator[tuple[str, str]]:
    yield "kind", job.kind
    yield "sources", f"{_shortened(job.sources)} ({plural(job.files_in, 'file')}, {bytes_to_text(job.bytes_in)})"
    if job.keys != (ALL_KEYS,):
        yield "keys", _shortened([_interval(keys) for keys in job.keys])
    position = "the lowest for these keys" if job.is_lowest else "with older layers below"
    yield "into", f"run {job.destination}, {position}"
    if job.filters_waited:
        yield "filters", "deferred: an open snapshot or merge operands above may need the rows they would remove"
    if job.version is None:
        return
    yield "version", str(job.version)
    yield "files", f"{job.files_out or 0:,}, {bytes_to_text(job.bytes_out or 0)}"
    yield "rows", f"{job.rows_in or 0:,} read, {job.rows_out or 0:,} left"
    if job.filtered:
        yield "filtered", f"{job.filtered:,}"


def _interval(keys: KeyRange) -> str:
    return f"[{keys.start.hex() or 'first'}, {'end' if keys.end is None else keys.end.hex()})"


def _shortened(names: tuple[str, ...] | list[str]) -> str:
    shown = ", ".join(names[:MAX_NAMED])
    return shown if len(names) <= MAX_NAMED else f"{shown} and {len(names) - MAX_NAMED:,} more"
