"""The hold: a job in `.compactions` that keeps a client's scheduler off the runs of a history table. Pure.

It is a running job that nobody works on. Its worker's heartbeat lies so far in the future that coordinators never take
the job back, and they schedule no other work on its runs (spec 12.7). It does not stop a compaction that somebody
submits, and collectors take no SST that is younger than the job; so every commit puts a new one in its place.
"""

from __future__ import annotations

from typing import Final

from slatespark.format.compactions import Compaction, CompactionStatus, TieredSpec, WorkerSpec
from slatespark.format.manifest import Manifest
from slatespark.format.ulid import Ulid

HOLDER: Final = "slatespark-hold"
HELD_MS: Final = 1 << 62  # a heartbeat that is never stale


def plan_hold(manifest: Manifest, job_id: Ulid) -> Compaction | None:
    """Return the job that holds all runs of a manifest; None if there are none.

    Parameters
    ----------
    job_id : with the time from which on collectors spare SSTs
    """
    runs = tuple(run.id for run in manifest.compacted)
    if not runs:
        return None
    spec = TieredSpec(l0_view_ids=(), sorted_runs=runs, destination=runs[-1])
    return Compaction(job_id, spec, CompactionStatus.RUNNING, worker=WorkerSpec(HOLDER, HELD_MS))
