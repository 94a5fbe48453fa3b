"""CompactionReport: the result of a compaction, or its plan."""

from __future__ import annotations

from dataclasses import dataclass

from slatespark.ranges import KeyRange


@dataclass(frozen=True, slots=True)
class CompactionJob:
    """One merge, done or planned.

    Attributes
    ----------
    kind : how it was chosen: `size-tiered`, `full`, `interval`, `L0`, `due`, `small runs`
    sources : names of the merged layers, newest first
    keys : merged key ranges, ascending
    destination : number of the output run
    is_lowest : nothing older lies below, so tombstones were dropped
    files_in, bytes_in : files and stored bytes read; of a plan, the whole files
    version : published by the commit; None for a plan that was not run, as all below
    files_out, bytes_out : files and bytes written
    rows_in, rows_out : versions read and written
    expired : versions that had expired or were past retention
    dropped : versions that are in no file any more
    filtered : versions that filters dropped, turned into tombstones, or changed
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
    filters_waited: bool = False


@dataclass(frozen=True, slots=True)
class CompactionReport:
    """The result of a compaction, or its plan.

    Attributes
    ----------
    url, version : the table, and its manifest id afterwards
    now_ms : the instant at which expiry was judged; None if nothing counted as expired
    dry_run : nothing was done: the jobs are plans
    jobs : in order, each a commit of its own; none if nothing was merged: then no filter was called
    filters : names of the given filters
    rows_in, rows_out, expired, dropped, filtered, bytes_in, bytes_out : sums over the jobs
    elapsed_ms : from the first plan to the last commit
    has_own_time : whether `now_ms` is of a clock of the table's own
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

    @property
    def filters_waited(self) -> bool:
        """Whether filters were deferred in some job."""
        return any(job.filters_waited for job in self.jobs)
