"""ClaimedJob: a job that this process works on, from its claim to the hand-over of its outputs.

Several are claimed, and handed over, in one version of the list each: the coordinator commits all that it finds handed
over in one manifest.

A client of SlateDB 0.18 schedules no more jobs than it may run at once, `max_concurrent_compactions`. Of jobs that
were submitted together it has examined all once it has scheduled one. The others stay submitted: no worker may take
them, and the scheduler leaves their sources alone. The coordinator ignores a claim of such a job, but accepts its
outputs. So these are this worker's without a claim, until the coordinator schedules them after all.

While they live a thread renews the heartbeat. The coordinator takes a job back whose worker sent none for 30 s (by
default), so nothing is stuck when we die: the job is free again.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from slatespark.errors import CommitConflictError, SlateError
from slatespark.format.compactions import Compaction, Compactions, CompactionStatus, TieredSpec, WorkerSpec
from slatespark.format.manifest import Manifest
from slatespark.format.references import SstHandle
from slatespark.format.ulid import Ulid
from slatespark.table.clock import Clock
from slatespark.table.cooperation.job_list import JobList
from slatespark.table.cooperation.job_rules import (
    NOT_BEGUN,
    VOID,
    check_outputs,
    find_job,
    has_sources,
    rivals_at_work,
    same_sources,
    with_job,
)
from slatespark.table.cooperation.rivals import hold_off
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.log.versioned_object import Version
from slatespark.table.tasks import running

HEARTBEAT_MS: Final = 3_000
TURN_MS: Final = 500  # between two looks at jobs that wait: once they are scheduled, any worker may take them
PATIENCE: Final = 2  # edits that may lose every race; after some more the coordinator has taken the job back

_WORKER_PREFIX: Final = "slatespark-worker-"  # other than that of the jobs of commits: see table/records/workers.py
_log = logging.getLogger(__name__)


class JobLostError(Exception):
    """The job is no longer this worker's: it was taken back, given to another, or removed. Its outputs are garbage."""


class SourcesGoneError(Exception):
    """The newest version lacks a source of the job, or another worker merges one: the job can never be committed."""


def new_worker_id(clock: Clock) -> str:
    """Return the id of a worker, which is unique."""
    return f"{_WORKER_PREFIX}{clock.random_bits(64):016x}"


def is_own_worker(worker: WorkerSpec) -> bool:
    """Tell whether a worker is a process of slatespark that claims jobs of a client."""
    return worker.worker_id.startswith(_WORKER_PREFIX)


def is_claimable(listed: Compactions, job: Compaction) -> bool:
    """Tell whether a worker may take a job: it is scheduled, merges something, and no other worker has its sources."""
    is_free = job.status is CompactionStatus.SCHEDULED and job.worker is None and isinstance(job.spec, TieredSpec)
    return is_free and not rivals_at_work(listed, job)


@dataclass(slots=True, eq=False)
class ClaimedJob:
    """A job that we own, until `hand_over`, `release` or `fail`.

    Attributes
    ----------
    entry : the job as it was listed last: running, with this worker
    found : the newest manifest, read after the claim: what is merged, and by which rules
    waits : the coordinator has not scheduled it yet, so it is ours without a claim
    may_be_handed : a hand-over was tried, so the outputs may be committed: they must not be deleted any more
    """

    jobs: JobList
    entry: Compaction
    worker_id: str
    found: Version[Manifest]
    waits: bool = False
    may_be_handed: bool = False
    _lost: threading.Event = field(default_factory=threading.Event)
    _ended: threading.Event = field(default_factory=threading.Event)

    @property
    def id(self) -> Ulid:
        """The id of the job. Its time is the lowest that the ids of outputs may have."""
        return self.entry.id

    def check(self) -> None:
        """Raise `JobLostError` if it is known that the job is no longer this worker's; costs no request."""
        if self._lost.is_set():
            raise JobLostError(str(self.id))

    def hand_over(self, outputs: Sequence[SstHandle]) -> None:
        """Give the outputs to the coordinator, which commits them; `outcome.await_commit` tells when.

        Parameters
        ----------
        outputs : uploaded files in key order, with ids not older than the job's; none if no row is left

        Raises
        ------
        JobLostError
            When the job is no longer this worker's.
        SourcesGoneError
            When another worker has begun a job with the same sources, or has finished one: then this one must not be
            committed.
        """
        hand_over_together({self: outputs})

    def release(self) -> None:
        """Give the job back, for any worker to take; does nothing if it is no longer this worker's."""

        def released(listed: Compactions) -> Compactions | None:
            entry = self._owned(listed)
            if entry.status in NOT_BEGUN:
                return None
            return with_job(listed, replace(entry, status=CompactionStatus.SCHEDULED, worker=None))

        with contextlib.suppress(JobLostError):
            self._end(released)

    def fail(self) -> None:
        """Make the coordinator end the job as failed; does nothing if it is no longer this worker's.

        A job that nobody can finish would keep the coordinator from merging L0 views forever. So would one that we
        submitted and released, where no other worker runs.
        """

        def failed(listed: Compactions) -> Compactions:
            return with_job(listed, self._compacted(replace(self._owned(listed), spec=VOID, output_ssts=())))

        with contextlib.suppress(JobLostError):
            self._end(failed)

    def holder(self) -> WorkerSpec:
        """Return the worker that keeps others from the sources until the outputs are committed."""
        return WorkerSpec(f"{self.worker_id}-{self.id}", self.jobs.heartbeat_ms())

    def _handed(self, listed: Compactions, outputs: Sequence[SstHandle]) -> Compactions:
        entry = self._owned(listed)
        if rivals_at_work(listed, entry):
            raise SourcesGoneError(str(self.id))
        self.may_be_handed = True
        handed = with_job(listed, self._compacted(replace(entry, output_ssts=tuple(outputs))))
        return hold_off(handed, entry, self.holder())

    def _is_handed(self, listed: Compactions) -> bool:
        entry = find_job(listed, self.id)
        handed = (CompactionStatus.COMPACTED, CompactionStatus.COMPLETED)
        return entry is not None and entry.status in handed and _is_of(entry, self.worker_id)

    def _compacted(self, entry: Compaction) -> Compaction:
        worker = WorkerSpec(self.worker_id, self.jobs.heartbeat_ms())
        return replace(entry, status=CompactionStatus.COMPACTED, worker=worker, context=None)

    def _end(self, change: Callable[[Compactions], Compactions | None]) -> None:
        """Publish this worker's last change. If that fails, the heartbeat goes on: the job is still this worker's."""
        self._end_in(self.jobs.edit(change).value)

    def _end_in(self, listed: Compactions) -> None:
        self._ended.set()
        self.entry = find_job(listed, self.id) or self.entry

    def _owned(self, listed: Compactions) -> Compaction:
        """Return the job's entry; raises `JobLostError` if the list has none that is this worker's."""
        entry = find_job(listed, self.id)
        if entry is not None and entry.status is CompactionStatus.RUNNING and _is_of(entry, self.worker_id):
            self.waits = False
            return entry
        if entry is not None and self.waits and entry.status in NOT_BEGUN:
            return entry
        self._lost.set()
        raise JobLostError(str(self.id))

    def _renewed(self, listed: Compactions) -> Compactions:
        """Return the list with a new heartbeat, and with the claim of a job that was scheduled meanwhile."""
        if self._ended.is_set():
            return listed
        entry = self._owned(listed)
        if entry.status is CompactionStatus.SUBMITTED:
            return listed
        return with_job(listed, _begun(entry, WorkerSpec(self.worker_id, self.jobs.heartbeat_ms())))


def hand_over_together(outputs: Mapping[ClaimedJob, Sequence[SstHandle]]) -> None:
    """Give the outputs of jobs of one list to the coordinator, all or none, so that it commits them in one version.

    Parameters and errors as for `ClaimedJob.hand_over`.
    """
    jobs = next(iter(outputs)).jobs
    latest = fetch_latest_manifest(jobs.stores).value
    for job, files in outputs.items():
        check_outputs(job.id, files)
        if not same_sources(job.found.value, latest, job.entry.spec):
            raise SourcesGoneError(str(job.id))

    def are_handed(listed: Compactions) -> bool:
        return all(job._is_handed(listed) for job in outputs)

    def handed(listed: Compactions) -> Compactions | None:
        if are_handed(listed):  # by an edit that seemed to have lost
            return None
        for job, files in outputs.items():
            listed = job._handed(listed, files)
        return listed

    listed = _edit_patiently(jobs, handed, are_handed)
    for job in outputs:
        job._end_in(listed.value)


def _edit_patiently(
    jobs: JobList, change: Callable[[Compactions], Compactions | None], is_done: Callable[[Compactions], bool]
) -> Version[Compactions]:
    """Edit a list as `JobList.edit`, and do so again where others change it all the time: much work is at stake."""
    for _ in range(PATIENCE):
        with contextlib.suppress(CommitConflictError):
            return jobs.edit(change, is_done=is_done)
    return jobs.edit(change, is_done=is_done)


def renew_heartbeats(claimed: Sequence[ClaimedJob]) -> None:
    """Renew the heartbeats of jobs of one list; raises `JobLostError` when one is no longer this worker's."""

    def renewed(listed: Compactions) -> Compactions | None:
        before = listed
        for job in claimed:
            listed = job._renewed(listed)
        return None if listed is before else listed

    claimed[0].jobs.edit(renewed)


def _renew_regularly(claimed: Sequence[ClaimedJob], interval_ms: int, ended: threading.Event) -> None:
    """Renew heartbeats until the jobs have ended, or one is lost; after a failure the next renewal catches up."""
    left_ms = interval_ms
    while True:
        pause_ms = min(left_ms, TURN_MS) if any(job.waits for job in claimed) else left_ms
        if ended.wait(pause_ms / 1000):
            return
        left_ms -= pause_ms
        try:
            if left_ms <= 0 or _has_turn(claimed):
                left_ms = interval_ms
                renew_heartbeats(claimed)
        except JobLostError:
            return
        except SlateError as exc:
            _log.warning("heartbeat of compaction %s: %s", claimed[0].id, exc)


def _has_turn(claimed: Sequence[ClaimedJob]) -> bool:
    """Tell whether the coordinator has scheduled a job that waited."""
    listed = claimed[0].jobs.refresh().value
    waiting = [find_job(listed, job.id) for job in claimed if job.waits]
    return any(entry is not None and entry.status is CompactionStatus.SCHEDULED for entry in waiting)


@contextlib.contextmanager
def claimed_job(
    jobs: JobList,
    job_id: Ulid,
    worker_id: str,
    *,
    heartbeat_ms: int = HEARTBEAT_MS,
    fails_without_sources: bool = False,
) -> Iterator[ClaimedJob | None]:
    """Claim a scheduled job, with heartbeats while the context is open; None if it is not to be had.

    Whoever leaves the context without `hand_over` or `fail` has released the job.

    Parameters
    ----------
    heartbeat_ms : their interval
    fails_without_sources : fail a job of which a source is missing, instead of releasing it

    Raises
    ------
    SourcesGoneError
        When the newest version lacks a source.
    """
    claims = claimed_jobs(
        jobs, [job_id], worker_id, heartbeat_ms=heartbeat_ms, fails_without_sources=fails_without_sources
    )
    with claims as claimed:
        yield None if claimed is None else claimed[0]


@contextlib.contextmanager
def claimed_jobs(
    jobs: JobList,
    job_ids: Sequence[Ulid],
    worker_id: str,
    *,
    heartbeat_ms: int = HEARTBEAT_MS,
    fails_without_sources: bool = False,
) -> Iterator[tuple[ClaimedJob, ...] | None]:
    """Claim several jobs, all or none; parameters and errors as for `claimed_job`.

    One of them must be scheduled. Of jobs that were submitted together the others may wait.
    """
    entries = _claim(jobs, job_ids, worker_id)
    if entries is None:
        yield None
        return
    claimed = tuple(
        ClaimedJob(jobs, entry, worker_id, Version(0, Manifest()), waits=entry.status in NOT_BEGUN) for entry in entries
    )
    ended = threading.Event()
    name = f"{worker_id} {job_ids[0]}"
    heart = threading.Thread(target=_renew_regularly, args=(claimed, heartbeat_ms, ended), name=name, daemon=True)
    with running([heart], lambda: _end_all(claimed, ended)):
        # Read after the claim: the coordinator writes manifests first, so this one is at least as new as the list in
        # which the jobs are this worker's.
        found = fetch_latest_manifest(jobs.stores)
        for job in claimed:
            job.found = found
            if not has_sources(found.value, job.entry.spec):
                if fails_without_sources:
                    job.fail()
                raise SourcesGoneError(str(job.id))
        yield claimed


def _end_all(claimed: Sequence[ClaimedJob], ended: threading.Event) -> None:
    """Release the jobs that are still this worker's, and end their heartbeats."""
    try:
        for job in claimed:
            if not job._ended.is_set():
                with contextlib.suppress(SlateError):
                    job.release()
    finally:  # after an interrupt, too: heartbeats that go on would hold the jobs for as long as the process lives
        for job in claimed:
            job._ended.set()
        ended.set()


def _claim(jobs: JobList, job_ids: Sequence[Ulid], worker_id: str) -> tuple[Compaction, ...] | None:
    """Return the entries of jobs that are this worker's from now on; None if one of them is not to be had."""
    were_free = False

    def found_in(listed: Compactions) -> list[Compaction]:
        return [entry for job_id in job_ids if (entry := find_job(listed, job_id)) is not None]

    def claimed(listed: Compactions) -> Compactions | None:
        nonlocal were_free
        entries = found_in(listed)
        free = [entry for entry in entries if is_claimable(listed, entry)]
        waiting = [entry for entry in entries if _may_wait(listed, entry)]
        if not free or len(free) + len(waiting) < len(job_ids):
            return None
        were_free = True
        worker = WorkerSpec(worker_id, jobs.heartbeat_ms())
        for entry in free:
            listed = with_job(listed, _begun(entry, worker))
        return listed

    def is_claimed(listed: Compactions) -> bool:
        entries = found_in(listed)
        ours = [entry for entry in entries if entry.status is CompactionStatus.RUNNING and _is_of(entry, worker_id)]
        waiting = [entry for entry in entries if entry.status in NOT_BEGUN]
        return were_free and bool(ours) and len(ours) + len(waiting) == len(job_ids)

    listed = jobs.edit(claimed, is_done=is_claimed).value
    return tuple(found_in(listed)) if is_claimed(listed) else None


def _is_of(job: Compaction, worker_id: str) -> bool:
    return job.worker is not None and job.worker.worker_id == worker_id


def _may_wait(listed: Compactions, job: Compaction) -> bool:
    """Tell whether a job is submitted, and none is before it that would make the coordinator refuse it."""
    return job.status is CompactionStatus.SUBMITTED and not rivals_at_work(listed, job)


def _begun(entry: Compaction, worker: WorkerSpec) -> Compaction:
    """Return a job that a worker has.

    It lacks the progress of a worker before: the newest version shows what was committed of it, and what a coordinator
    went on to commit would change the sources under this merge.
    """
    return replace(entry, status=CompactionStatus.RUNNING, worker=worker, context=None)
