"""Jobs of others on the sources of one that was handed over and is not committed yet. Pure.

A worker that begins such a job now reads a version without our outputs, and its commit would drop them. The coordinator
does not look: its own scheduler makes no such jobs, but everybody may submit one.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import replace

from slatespark.format.compactions import Compaction, Compactions, CompactionStatus, WorkerSpec
from slatespark.format.ulid import Ulid
from slatespark.table.cooperation.job_rules import blocking_jobs, overlap, voided, with_job


def hold_off(listed: Compactions, job: Compaction, holder: WorkerSpec) -> Compactions:
    """Return the list in which nobody works on a job that overlaps one that was handed over.

    One that waits is claimed by a holder. If that dies, the coordinator takes the job back. One that was begun since
    the hand-over ends as failed.
    """
    for rival in _rivals(listed, job):
        if rival.status is CompactionStatus.SCHEDULED:
            listed = with_job(listed, replace(rival, status=CompactionStatus.RUNNING, worker=holder))
        elif _is_begun(rival) and not _is_held(rival, holder):
            listed = with_job(listed, voided(rival))
    return listed


def let_go(listed: Compactions, job: Compaction, holder: WorkerSpec, seen: Container[Ulid]) -> Compactions:
    """Return the list without what a holder holds, once the job is committed or has failed.

    Parameters
    ----------
    seen : jobs that were listed before that. If one was begun since, it may have been too early: it ends as failed
    """
    for rival in _rivals(listed, job):
        if _is_held(rival, holder):
            listed = with_job(listed, replace(rival, status=CompactionStatus.SCHEDULED, worker=None))
        elif _is_begun(rival) and rival.id in seen:
            listed = with_job(listed, voided(rival))
    return listed


def _rivals(listed: Compactions, job: Compaction) -> Iterator[Compaction]:
    return (other for other in blocking_jobs(listed, job.spec, job.id) if overlap(other.spec, job.spec))


def _is_begun(job: Compaction) -> bool:
    return job.status in (CompactionStatus.RUNNING, CompactionStatus.COMPACTED)


def _is_held(job: Compaction, holder: WorkerSpec) -> bool:
    is_running = job.status is CompactionStatus.RUNNING
    return is_running and job.worker is not None and job.worker.worker_id == holder.worker_id
