"""The hold: a job in `.compactions` that keeps a client's scheduler off the runs of a history table. Pure.

It is a running job without a worker. Its heartbeat lies so far in the future that coordinators never reclaim it, and
they schedule no other job on its runs. It does not stop a compaction that a user submits. Collectors keep every SST
that is younger than the oldest job, so every commit replaces the hold by a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from slatespark.format.compactions import Compaction, Compactions, CompactionStatus, TieredSpec, WorkerSpec
from slatespark.format.ulid import Ulid

HOLD_WORKER: Final = "slatespark-hold"
NEVER_STALE_MS: Final = 1 << 62  # a heartbeat that is never stale


def plan_hold(runs: Iterable[int], job_id: Ulid) -> Compaction | None:
    """Return the job that holds runs; None if there are none.

    Parameters
    ----------
    runs : runs to hold; before a commit, include those that it removes: the commit may fail
    job_id : its time is the one from which collectors keep SSTs
    """
    held = tuple(sorted(set(runs), reverse=True))
    if not held:
        return None
    spec = TieredSpec(l0_view_ids=(), sorted_runs=held, destination=held[-1])
    return Compaction(job_id, spec, CompactionStatus.RUNNING, worker=WorkerSpec(HOLD_WORKER, NEVER_STALE_MS))


def is_hold(job: Compaction) -> bool:
    """Tell whether a job is a hold, on which nobody works."""
    return job.worker is not None and job.worker.worker_id == HOLD_WORKER


def working_jobs(listed: Compactions) -> Iterator[Compaction]:
    """Yield the active jobs other than holds."""
    return (job for job in listed.active_jobs() if not is_hold(job))
