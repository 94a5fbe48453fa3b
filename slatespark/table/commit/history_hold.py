"""The hold: a job in `.compactions` that keeps a client's scheduler off the runs of a history table. Pure.

It is a running job that nobody works on. Its worker's heartbeat lies so far in the future that coordinators never take
the job back, and they schedule no other work on its runs. It does not stop a compaction that somebody
submits, and collectors take no SST that is younger than the job; so every commit puts a new one in its place.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from slatespark.format.compactions import Compaction, CompactionStatus, TieredSpec, WorkerSpec
from slatespark.format.ulid import Ulid

PLACEHOLDER_WORKER: Final = "slatespark-hold"
NEVER_STALE_MS: Final = 1 << 62  # a heartbeat that is never stale


def plan_hold(runs: Iterable[int], job_id: Ulid) -> Compaction | None:
    """Return the job that holds runs; None if there are none.

    Parameters
    ----------
    runs : before a commit those that it takes, too: it may never come to its end
    job_id : with the time from which on collectors spare SSTs
    """
    held = tuple(sorted(set(runs), reverse=True))
    if not held:
        return None
    spec = TieredSpec(l0_view_ids=(), sorted_runs=held, destination=held[-1])
    return Compaction(job_id, spec, CompactionStatus.RUNNING, worker=WorkerSpec(PLACEHOLDER_WORKER, NEVER_STALE_MS))
