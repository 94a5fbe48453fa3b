"""What became of a job that was handed over: the version that committed it, or that it was not committed.

The list of jobs does not tell for sure: a finished job soon leaves it, and a coordinator that dies between its manifest
and its list marks a committed job as failed when it is back. So the versions since are looked through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from slatespark.errors import CommitConflictError
from slatespark.format.compactions import Compactions, TieredSpec
from slatespark.format.manifest import Manifest
from slatespark.format.references import SstHandle
from slatespark.format.ulid import Ulid
from slatespark.table.clock import TimedWait
from slatespark.table.cooperation.claimed_job import ClaimedJob
from slatespark.table.cooperation.job_list import JobList
from slatespark.table.cooperation.job_rules import NOT_BEGUN, VOID, as_failed, find_job, with_job
from slatespark.table.cooperation.rivals import hold_off, release
from slatespark.table.log.manifests import later_manifests
from slatespark.table.stores import TableStores

LOCAL_POLL_MS = 50
REMOTE_POLL_MS = 250


def poll_ms(stores: TableStores) -> int:
    """Return the pause between two polls of the list."""
    return REMOTE_POLL_MS if stores.main.is_remote else LOCAL_POLL_MS


def await_commit(job: ClaimedJob, outputs: Sequence[SstHandle], *, timeout_ms: int) -> int | None:
    """Wait until the coordinator has committed a job, and return the version that did; None if it never will.

    After the time-out the job is withdrawn, so that None is certain as long as coordinators are faster than that.

    Parameters
    ----------
    job : handed over
    outputs : the files that it was handed over with
    """
    assert isinstance(job.entry.spec, TieredSpec)
    await_end([job], timeout_ms=timeout_ms)
    return find_commit(job.jobs.stores, job.entry.spec, outputs, first=job.found.number + 1)


def await_end(claimed: Sequence[ClaimedJob], *, timeout_ms: int) -> None:
    """Wait until jobs that were handed over have ended; after the time-out they are withdrawn."""
    jobs = claimed[0].jobs
    wait = TimedWait(jobs.clock, timeout_ms)
    with _without_rivals(claimed) as poll:
        while (is_active := poll()) and not wait.is_over:
            wait.pause(poll_ms(jobs.stores))
        if is_active:
            for job in claimed:
                with suppress(CommitConflictError):  # then it stays active
                    withdraw(jobs, job.id)


@contextmanager
def _without_rivals(claimed: Sequence[ClaimedJob]) -> Iterator[Callable[[], bool]]:
    """Keep others from the sources of jobs while they wait for their commit.

    Gives a call that reads the list, and tells whether a job is still active.
    """
    jobs, job_ids = claimed[0].jobs, [job.id for job in claimed]
    seen: set[Ulid] = set()

    def held(listed: Compactions) -> Compactions | None:
        if not _are_active(listed, job_ids):
            return None
        seen.update(each.id for each in listed.jobs)
        changed = listed
        for job in claimed:
            changed = hold_off(changed, job.entry, job.holder())
        return None if changed == listed else changed

    def freed(listed: Compactions) -> Compactions | None:
        changed = listed
        for job in claimed:
            changed = release(changed, job.entry, job.holder(), seen)
        return None if changed == listed else changed

    try:
        yield lambda: _are_active(_edited(jobs, held), job_ids)
    finally:
        _edited(jobs, freed)


def _edited(jobs: JobList, change: Callable[[Compactions], Compactions | None]) -> Compactions:
    """Return the list with a change, or as it is where others change it all the time.

    That may not pass for a conflict of the job, which was handed over: the coordinator commits it all the same. A rival
    is held off at the next look, and one that stays held is taken back by the coordinator.
    """
    with suppress(CommitConflictError):
        return jobs.edit(change).value
    return jobs.refresh().value


def have_ended(jobs: JobList, job_ids: Sequence[Ulid]) -> bool:
    """Tell whether none of some jobs is active in the newest list."""
    return not _are_active(jobs.refresh().value, job_ids)


def _are_active(listed: Compactions, job_ids: Sequence[Ulid]) -> bool:
    return any(job.id in job_ids for job in listed.active_jobs())


def find_commit(stores: TableStores, spec: TieredSpec, outputs: Sequence[SstHandle], *, first: int) -> int | None:
    """Return the version from `first` on that committed a job with these outputs; None if none did.

    Versions that were collected are passed over.
    """
    for number, manifest in later_manifests(stores, first):
        if manifest is not None and _shows(manifest, spec, outputs):
            return number
    return None


def _shows(manifest: Manifest, spec: TieredSpec, outputs: Sequence[SstHandle]) -> bool:
    """Tell whether a version has a job's outputs in place of its sources."""
    tree = manifest.find_tree(spec.segment)
    if tree is None or {view.id for view in tree.l0} & set(spec.l0_view_ids):
        return False
    run = next((run for run in tree.compacted if run.id == spec.destination), None)
    return run is not None and [view.sst_id for view in run.views] == [output.id for output in outputs]


def withdraw(jobs: JobList, job_id: Ulid, *, unless_begun: bool = False) -> None:
    """Take a job back that nobody else may finish, whatever its state: the coordinator ends it as failed.

    It cannot just be removed from the list: a coordinator that has read it would write it again.

    Parameters
    ----------
    unless_begun : leave it to a worker that has begun it. If that is a client's, it merges on, and would stop if it got
        another job with the same destination
    """

    def ended(listed: Compactions) -> Compactions | None:
        entry = find_job(listed, job_id)
        if entry is None or not entry.status.is_active() or entry.spec == VOID:
            return None
        if unless_begun and entry.status not in NOT_BEGUN:
            return None
        return with_job(listed, as_failed(entry))

    jobs.edit(ended)
