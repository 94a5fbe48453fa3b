"""What a compaction worker did, and what waits for it."""

from __future__ import annotations

from dataclasses import dataclass

from slatespark.errors import SlateError
from slatespark.format.compactions import Compactions, CompactionStatus
from slatespark.format.manifest import Manifest
from slatespark.shown import Shown
from slatespark.table.commit.hold import working_jobs


@dataclass(frozen=True, slots=True, repr=False)
class WorkerReport(Shown):
    """A job that was handed back to its coordinator.

    Attributes
    ----------
    url : URL of the database
    job : id in `.compactions`
    segment : prefix of the tree in hexadecimal, empty for the root
    sources : names of the merged layers, newest first
    destination : number of the output run
    rows_in, rows_out, bytes_in, bytes_out, files_out : versions, stored bytes and files read and written
    elapsed_ms : time from the claim to the hand-over
    waited_ms : time from when the worker first saw the job scheduled to the hand-over
    filters_waited : as in `CompactionJob`
    """

    url: str
    job: str
    segment: str
    sources: tuple[str, ...]
    destination: int
    rows_in: int
    rows_out: int
    bytes_in: int
    bytes_out: int
    files_out: int
    elapsed_ms: int
    waited_ms: int
    filters_waited: bool = False

    @property
    def mb_per_s(self) -> float:
        """Millions of bytes read per second."""
        return self.bytes_in / 1000 / max(1, self.elapsed_ms)


@dataclass(frozen=True, slots=True, repr=False)
class WorkerOutcome(Shown):
    """What came of a job, or of a look at a database.

    Attributes
    ----------
    url : URL of the database
    report, error : exactly one of them is set
    """

    url: str
    report: WorkerReport | None
    error: SlateError | None


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits in a database.

    Attributes
    ----------
    l0_views : in the tree that has the most; the client's writer stalls at 8, by default
    runs : number of runs in the tree that has the most
    waiting : scheduled jobs that no worker has
    running : jobs that a worker has, this one included
    """

    l0_views: int = 0
    runs: int = 0
    waiting: int = 0
    running: int = 0


def backlog_of(manifest: Manifest, listed: Compactions) -> Backlog:
    """Return what waits in a database."""
    trees = manifest.trees()
    jobs = list(working_jobs(listed))
    return Backlog(
        l0_views=max(len(tree.l0) for tree in trees),
        runs=max(len(tree.compacted) for tree in trees),
        waiting=sum(job.status is CompactionStatus.SCHEDULED for job in jobs),
        running=sum(job.status is CompactionStatus.RUNNING for job in jobs),
    )


@dataclass(frozen=True, slots=True, repr=False)
class WorkerStatus(Shown):
    """The state of a database that a worker serves.

    Attributes
    ----------
    url : URL of the database
    backlog : backlog when it was last read; None before that
    merging : jobs that this worker merges now
    handed_over, failed : jobs since the worker was made
    bytes_in : size of what the jobs read that were handed over
    last_error : error of the last request or job, until one succeeds
    """

    url: str
    backlog: Backlog | None
    merging: int
    handed_over: int
    failed: int
    bytes_in: int
    last_error: SlateError | None
