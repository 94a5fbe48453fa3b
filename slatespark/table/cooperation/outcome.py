"""What became of a job that was handed over: the version that committed it, or that it was not committed.

The list of jobs does not tell for sure: a finished job soon leaves it, and a coordinator that dies between its manifest
and its list marks a committed job as failed when it is back. So the versions since are looked through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from slatespark.errors import SnapshotExpiredError
from slatespark.format.compactions import Compactions, TieredSpec
from slatespark.format.manifest import Manifest
from slatespark.format.references import SstHandle
from slatespark.format.ulid import Ulid
from slatespark.table.cooperation.claimed_job import ClaimedJob
from slatespark.table.cooperation.job_list import JobList
from slatespark.table.cooperation.job_rules import VOID, find_job, find_tree, voided, with_job
from slatespark.table.cooperation.rivals import hold_off, let_go
from slatespark.table.log.manifests import fetch_latest_manifest, fetch_manifest
from slatespark.table.stores import TableStores

LOCAL_POLL_MS = 50
REMOTE_POLL_MS = 250


def poll_ms(stores: TableStores) -> int:
    """Return the pause between two looks at the list."""
    return REMOTE_POLL_MS if stores.main.is_remote else LOCAL_POLL_MS


def await_commit(job: ClaimedJob, outputs: Sequence[SstHandle], *, timeout_ms: int) -> int | None:
    """Wait until the coordinator has committed a job, and return the version that did; None if it never will.

    After the time-out the job is withdrawn, so that None is certain as long as coordinators are faster than that.

    Parameters
    ----------
    job : handed over
    outputs : that it was handed over with
    """
    assert isinstance(job.entry.spec, TieredSpec)
    jobs, first = job.jobs, job.found.number + 1
    end_ms = jobs.clock.now_ms() + timeout_ms
    with _without_rivals(job) as look:
        while (listed := look()) is not None and jobs.clock.now_ms() < end_ms:
            jobs.clock.sleep_ms(poll_ms(jobs.stores))
        if listed is not None:
            withdraw(jobs, job.id)
        return find_commit(jobs.stores, job.entry.spec, outputs, first=first)


@contextmanager
def _without_rivals(job: ClaimedJob) -> Iterator[Callable[[], Compactions | None]]:
    """Keep others from the sources of a job while it waits for its commit.

    Gives a call that looks at the list, and returns None once the job has ended.
    """
    seen: set[Ulid] = set()

    def held(listed: Compactions) -> Compactions | None:
        if not _is_active(listed, job.id):
            return None
        seen.update(each.id for each in listed.jobs)
        changed = hold_off(listed, job.entry, job.holder())
        return None if changed == listed else changed

    def look() -> Compactions | None:
        listed = job.jobs.edit(held).value
        return listed if _is_active(listed, job.id) else None

    def freed(listed: Compactions) -> Compactions | None:
        changed = let_go(listed, job.entry, job.holder(), seen)
        return None if changed == listed else changed

    try:
        yield look
    finally:
        job.jobs.edit(freed)


def _is_active(listed: Compactions, job_id: Ulid) -> bool:
    entry = find_job(listed, job_id)
    return entry is not None and entry.status.is_active()


def find_commit(stores: TableStores, spec: TieredSpec, outputs: Sequence[SstHandle], *, first: int) -> int | None:
    """Return the version from `first` on that committed a job with these outputs; None if none did.

    Versions that were collected are passed over.
    """
    latest_id, latest = fetch_latest_manifest(stores)
    for number in range(first, latest_id + 1):
        try:
            manifest = latest if number == latest_id else fetch_manifest(stores, number)
        except SnapshotExpiredError:
            continue
        if _shows(manifest, spec, outputs):
            return number
    return None


def _shows(manifest: Manifest, spec: TieredSpec, outputs: Sequence[SstHandle]) -> bool:
    """Tell whether a version has a job's outputs in place of its sources."""
    tree = find_tree(manifest, spec.segment)
    if tree is None or {view.id for view in tree.l0} & set(spec.l0_view_ids):
        return False
    run = next((run for run in tree.compacted if run.id == spec.destination), None)
    return run is not None and [view.sst_id for view in run.views] == [output.id for output in outputs]


def withdraw(jobs: JobList, job_id: Ulid) -> None:
    """Take a job back that nobody else may finish, whatever its state: the coordinator ends it as failed.

    It cannot just be removed from the list: a coordinator that has read it would write it again.
    """

    def ended(listed: Compactions) -> Compactions | None:
        entry = find_job(listed, job_id)
        if entry is None or not entry.status.is_active() or entry.spec == VOID:
            return None
        return with_job(listed, voided(entry))

    jobs.edit(ended)
