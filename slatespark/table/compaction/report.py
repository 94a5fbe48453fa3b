"""CompactionReport: the result of a compaction, or its plan."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from slatespark.log_lines import log_event
from slatespark.ranges import KeyRange
from slatespark.shown import Shown
from slatespark.table.columns.write import CopyOutcome
from slatespark.table.compaction.merge import MergedRange
from slatespark.table.compaction.plan import CompactionPlan
from slatespark.table.records.commit_record import CommitRecord

_SUMMED: Final = ("rows_in", "rows_out", "expired", "dropped", "filtered", "bytes_in", "bytes_out")  # over the jobs

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CompactionJob:
    """One merge, done or planned.

    Attributes
    ----------
    kind : how it was chosen: `size-tiered`, `full`, `interval`, `cut files`, `L0`, `due`, `small runs`
    sources : names of the merged layers, newest first
    keys : merged key ranges, ascending
    destination : number of the output run
    is_lowest : nothing older lies below, so tombstones were dropped
    files_in, bytes_in : files and stored bytes read; of a plan, the whole files
    version : published by the commit; None for a plan that was not run, as all below; beside a live client whose own
        worker was faster, all below are None
    files_out, bytes_out : files and bytes written
    rows_in, rows_out : versions read and written
    expired : versions that had expired or were past retention
    dropped : versions that are in no file any more
    filtered : versions that filters dropped, turned into tombstones, or changed
    tombstones : deletions among the versions read
    filters_waited : filters were not called, because an open snapshot of a client may need any version; or rows past
        the retention of a filter stayed, because merge operands may lie above them
    """

    kind: str
    sources: tuple[str, ...]
    keys: tuple[KeyRange, ...]
    destination: int
    is_lowest: bool
    files_in: int
    bytes_in: int
    version: int | None = None
    files_out: int | None = None
    bytes_out: int | None = None
    rows_in: int | None = None
    rows_out: int | None = None
    expired: int | None = None
    dropped: int | None = None
    filtered: int | None = None
    tombstones: int | None = None
    filters_waited: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class CompactionReport(Shown):
    """The result of a compaction, or its plan.

    Attributes
    ----------
    url, version : the table, and its manifest id afterwards
    now_ms : the instant at which expiry was evaluated; None if nothing counted as expired
    dry_run : nothing was done: the jobs are plans
    jobs : jobs in order, each a commit of its own; none if nothing was merged: then no filter was called
    filters : names of the given filters
    rows_in, rows_out, expired, dropped, filtered, bytes_in, bytes_out : sums over the jobs
    elapsed_ms : time from the first plan to the last commit
    has_own_time : whether `now_ms` is of a clock of the table's own
    copies : what became of the columnar copy of each file that was to get one
    is_compacted : a full compaction was requested, and the table already is one compacted run: nothing was done
    """

    url: str
    version: int
    now_ms: int | None = None
    dry_run: bool = False
    jobs: tuple[CompactionJob, ...] = ()
    filters: tuple[str, ...] = ()
    rows_in: int = 0
    rows_out: int = 0
    expired: int = 0
    dropped: int = 0
    filtered: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    elapsed_ms: int = 0
    has_own_time: bool = False
    is_compacted: bool = False
    copies: tuple[CopyOutcome, ...] = ()

    @classmethod
    def of_jobs(cls, jobs: Sequence[CompactionJob], **facts: Any) -> CompactionReport:
        """Return the report of some jobs, with the sums of their rows and bytes; `facts` are all other fields."""
        sums: dict[str, Any] = {name: sum(getattr(job, name) or 0 for job in jobs) for name in _SUMMED}
        return cls(jobs=tuple(jobs), **sums, **facts)

    @property
    def removed(self) -> int:
        """Number of versions that were deletions, had expired, or were filtered: what they removed is gone."""
        return sum((job.tombstones or 0) + (job.expired or 0) + (job.filtered or 0) for job in self.jobs)

    @property
    def filters_waited(self) -> bool:
        """Whether filters were deferred in some job."""
        return any(job.filters_waited for job in self.jobs)


def log_job(url: str, job: CompactionJob) -> CompactionJob:
    """Log a job that is done, and return it."""
    log_event(
        _log,
        "compaction",
        url,
        version=job.version,
        kind=job.kind.replace(" ", "-"),
        layers=len(job.sources),
        files_in=job.files_in,
        files_out=job.files_out,
        bytes_in=job.bytes_in,
        bytes_out=job.bytes_out,
        rows_in=job.rows_in,
        rows_out=job.rows_out,
    )
    return job


def planned_job(plan: CompactionPlan, *, waits: bool) -> CompactionJob:
    """Return the facts of the plan of a job.

    Parameters
    ----------
    waits : whether filters are not called
    """
    return CompactionJob(
        kind=plan.kind,
        sources=tuple(layer.name for layer in plan.layers),
        keys=plan.keys,
        destination=plan.destination,
        is_lowest=plan.is_lowest,
        files_in=len(plan.files),
        bytes_in=plan.stored_bytes,
        filters_waited=waits,
    )


def with_result(job: CompactionJob, record: CommitRecord, merged: MergedRange) -> CompactionJob:
    """Return the facts of a planned job with those of its commit, and of what it merged."""
    return replace(
        job,
        version=record.manifest_id,
        files_out=len(merged.files),
        bytes_in=merged.bytes_in,
        bytes_out=merged.bytes_out,
        rows_in=merged.rows_in,
        rows_out=merged.rows_out,
        expired=merged.expired,
        dropped=merged.dropped,
        filtered=merged.filtered,
        tombstones=merged.tombstones,
    )
