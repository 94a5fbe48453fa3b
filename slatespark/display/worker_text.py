"""What a compaction worker did, and what waits for it, as lines of text."""

from __future__ import annotations

from slatespark.table.compaction.worker_report import WorkerReport, WorkerStatus
from slatespark.texts import plural
from slatespark.units import bytes_to_text


def job_line(report: WorkerReport) -> str:
    """Return a line about a job that was handed back."""
    merged = f"{plural(len(report.sources), 'layer')} into run {report.destination}"
    rows = f"{report.rows_in:,} rows, {report.rows_out:,} kept"
    size = f"{bytes_to_text(report.bytes_in)} in, {bytes_to_text(report.bytes_out)} out"
    speed = f"{report.mb_per_s:,.1f} MB/s"
    return f"{report.url}: {merged}, {rows}, {size}, {speed}, {report.waited_ms / 1000:.1f} s after it was scheduled"


def status_line(status: WorkerStatus) -> str:
    """Return a line about what waits in a database."""
    if status.backlog is None:
        return f"{status.url}: not read yet"
    found = status.backlog
    jobs = f"{plural(found.waiting, 'job')} waiting, {found.running:,} running"
    return f"{status.url}: {plural(found.l0_views, 'L0 view')}, {plural(found.runs, 'run')}, {jobs}"
