"""What a compaction did, or would do."""

from __future__ import annotations

from dataclasses import dataclass

from slatespark.ranges import KeyRange


@dataclass(frozen=True, slots=True)
class CompactionJob:
    """One plan, and what came of it.

    Attributes
    ----------
    kind : how it was chosen: `size-tiered`, `full`, `interval`, `L0`, `due`, `small runs`
    sources : names of the layers that were merged, newest first
    keys : what was merged, ascending
    destination : number of the run that has the outputs
    is_lowest : nothing older lies below, so tombstones went
    files_in, bytes_in : files with sources, and stored bytes that were read; of a plan, the files as a whole
    version : that the commit published; None for a plan that was not run, as all below
    files_out, bytes_out : what took its place
    rows_in, rows_out : versions read and left
    expired : versions that had expired or were past retention
    dropped : versions that are in no file any more
    filtered : versions that filters dropped, made tombstones of, or changed
    filters_waited : filters were not asked, for an open snapshot of a client may need any version; or rows past the
        retention of a filter stayed, for merge operands may lie above them
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
    """What a compaction did, or would do.

    Attributes
    ----------
    url, version : the table, and the manifest id that it was left at
    now_ms : the instant at which expiry was judged; None if nothing counted as expired
    dry_run : nothing was done: the jobs are plans
    jobs : in order, each a commit of its own; none if there was nothing to merge: then no filter was asked
    filters : names of those that were given
    rows_in, rows_out, expired, dropped, filtered, bytes_in, bytes_out : sums over the jobs
    elapsed_ms : from the first plan to the last commit
    has_own_time : whether `now_ms` is of a clock of the table's own
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

    @property
    def filters_waited(self) -> bool:
        """Whether filters had to wait in some job."""
        return any(job.filters_waited for job in self.jobs)
