"""Jobs of others on the sources of one that was handed over and is not committed yet. Pure.

A worker that begins such a job now reads a version without the outputs of the other, and its commit would drop them.
The coordinator does not look: its own scheduler makes no such jobs, but everybody may submit one.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import replace
from typing import Final

from slatespark.format.compactions import Compaction, Compactions, CompactionStatus, TieredSpec, WorkerSpec
from slatespark.format.ulid import Ulid
from slatespark.table.cooperation.job_rules import BEGUN, as_failed, blocking_jobs, overlap, with_job

_TAKEN: Final = "-taken"  # ends the name of a holder whose job had a worker


def hold_off(listed: Compactions, job: Compaction, holder: WorkerSpec) -> Compactions:
    """Return the list in which nobody works on a job that overlaps one that was handed over.

    One that waits for a worker is claimed by a holder. If that dies, the coordinator takes the job back. One that was
    begun since the hand-over is taken from its worker. One that was only submitted fails, since it cannot be claimed:
    the coordinator may schedule it and commit the other at one look, and a worker be done with it before our next look.
    A drain needs no worker, and the coordinator refuses what it left without sources.
    """
    for rival in _rivals(listed, job):
        if rival.status is CompactionStatus.SUBMITTED and isinstance(rival.spec, TieredSpec):
            listed = with_job(listed, as_failed(rival))
        elif rival.status is CompactionStatus.SCHEDULED:
            listed = with_job(listed, replace(rival, status=CompactionStatus.RUNNING, worker=holder))
        elif rival.status in BEGUN and not _is_held(rival, holder):
            listed = with_job(listed, _taken(rival, job, holder))
    return listed


def release(listed: Compactions, job: Compaction, holder: WorkerSpec, seen: Container[Ulid]) -> Compactions:
    """Return the list without what a holder holds, once the job is committed or has failed.

    What was taken from a worker stays until the coordinator takes it back.

    Parameters
    ----------
    seen : jobs that were listed before that. If one was begun since, it may have been too early
    """
    for rival in _rivals(listed, job):
        if _is_held(rival, holder):
            if not _is_taken(rival):
                listed = with_job(listed, replace(rival, status=CompactionStatus.SCHEDULED, worker=None))
        elif rival.status in BEGUN and rival.id in seen:
            listed = with_job(listed, _taken(rival, job, holder))
    return listed


def _taken(rival: Compaction, job: Compaction, holder: WorkerSpec) -> Compaction:
    """Return a job that its worker has lost.

    If its sources are still there after the commit, it is claimed by a holder that sends no more heartbeats. So it is
    begun anew, from what is there by then, after the time-out: its worker notices earlier that the job is no longer its
    own. If it failed at once, the next job could get the number of its run while that worker still merges, and two jobs
    with one number stop the client's worker. Its progress is forgotten, since it is of sources as they were.
    """
    if rival.status is CompactionStatus.RUNNING and not _loses_sources(rival, job):
        worker = WorkerSpec(holder.worker_id + _TAKEN, holder.last_heartbeat_ms)
        return replace(rival, worker=worker, context=None)
    return as_failed(rival)


def _loses_sources(rival: Compaction, job: Compaction) -> bool:
    """Tell whether the commit of a job removes sources of another one: its destination stays, as another run."""
    assert isinstance(job.spec, TieredSpec)  # it was handed over
    gone = set(job.spec.sorted_runs) - {job.spec.destination}
    return not gone.isdisjoint(rival.spec.sorted_runs) or bool(set(job.spec.l0_view_ids) & set(rival.spec.l0_view_ids))


def _rivals(listed: Compactions, job: Compaction) -> Iterator[Compaction]:
    return (other for other in blocking_jobs(listed, job.spec, job.id) if overlap(other.spec, job.spec))


def _is_held(job: Compaction, holder: WorkerSpec) -> bool:
    is_running = job.status is CompactionStatus.RUNNING
    return is_running and job.worker is not None and job.worker.worker_id.removesuffix(_TAKEN) == holder.worker_id


def _is_taken(job: Compaction) -> bool:
    return job.worker is not None and job.worker.worker_id.endswith(_TAKEN)
