"""A job of slatespark: submitted, scheduled by the client's coordinator, and claimed by this process.

    wait until no job is in the way -> submit -> the coordinator schedules it -> claim it -> the block runs
              ^                                    |  refused: another job came first
              '------------------------------------'

A job in the way that waits for its commit only need not be waited for: see `following.py`. Of several jobs one must be
scheduled, see `claimed_job.py`: a client may run fewer at once than a load has segments.

The block merges, hands over and calls `outcome.await_commit`. Whatever goes wrong, the job does not stay behind: it is
withdrawn, or the worker dies and the coordinator takes it back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from slatespark.errors import CommitConflictError, SlateError
from slatespark.format.compactions import Compaction, Compactions, CompactionSpec, CompactionStatus, TieredSpec
from slatespark.format.manifest import Manifest
from slatespark.format.ulid import Ulid
from slatespark.table.clock import Clock
from slatespark.table.cooperation.abandoned_jobs import AbandonedJobs
from slatespark.table.cooperation.claimed_job import (
    HEARTBEAT_MS,
    ClaimedJob,
    JobLostError,
    SourcesGoneError,
    claimed_jobs,
    new_worker_id,
)
from slatespark.table.cooperation.coordinator_wait import CoordinatorWait, no_coordinator
from slatespark.table.cooperation.following import after_commit, can_follow, need_commits
from slatespark.table.cooperation.job_list import JobList
from slatespark.table.cooperation.job_rules import (
    BEGUN,
    NOT_BEGUN,
    blocking_jobs,
    find_job,
    jobs_in_turn,
    next_job_id,
    same_sources,
    with_job,
)
from slatespark.table.cooperation.outcome import withdraw
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.log.versioned_object import Version
from slatespark.table.stores import TableStores

CLIENT_TIMEOUT_MS: Final = 30_000

PlanJob: TypeAlias = Callable[[Manifest, Compactions], TieredSpec | None]
"""What to merge, for the newest manifest and list; None if there is nothing to merge. Called for every attempt."""

PlanJobs: TypeAlias = Callable[[Manifest, Compactions], Sequence[CompactionSpec] | None]
"""The same for several jobs, of different trees."""


class JobTakenError(Exception):
    """Another worker took a job that we submitted, and it was committed.

    Attributes
    ----------
    spec, planned : what it merged, and the version for which it was planned
    version : the version that has its result
    """

    def __init__(self, spec: TieredSpec, planned: Manifest, version: int) -> None:
        super().__init__(spec, planned, version)
        self.spec, self.planned, self.version = spec, planned, version


class JobMovedError(Exception):
    """The coordinator finished a job of slatespark without a worker: it moves files that share no keys as they are.

    Clients do so with `enable_trivial_move`.
    """


@dataclass(slots=True)
class Submitter:
    """Submits jobs of slatespark to the coordinator of one database.

    Attributes
    ----------
    timeout_ms : `clientTimeout`: how long a job may take to be claimed, and how long its commit may take
    heartbeat_ms : the interval of heartbeats
    accepts_others : it is as well if another worker does the job: then `JobTakenError` is raised
    follows : plans are also asked for versions that the commit of a job in the way will make. They need its run as a
        source, `following.pending_runs`; others are not submitted before the commit
    """

    stores: TableStores
    clock: Clock
    timeout_ms: int = CLIENT_TIMEOUT_MS
    heartbeat_ms: int = HEARTBEAT_MS
    accepts_others: bool = False
    follows: bool = False
    jobs: JobList = field(init=False)

    def __post_init__(self) -> None:
        self.jobs = JobList(self.stores, self.clock)

    @contextlib.contextmanager
    def job(self, plan: PlanJob) -> Iterator[ClaimedJob | None]:
        """Open a job that is claimed; None if the plan finds nothing to merge.

        The plan is asked again whenever another job came first: one of the scheduler, this one in the hands of a worker
        of the client, or views that the coordinator moved without rewriting them.

        Parameters
        ----------
        plan : makes the job for the newest version; see `job_rules.spec_of_slice`

        Raises
        ------
        CommitConflictError
            When no coordinator answered within the time-out, or other jobs were in the way for so long. Nothing is left
            in the list. Also when the job was lost in the block (`JobLostError`, `SourcesGoneError`).
        JobTakenError
            When another worker did the job, and others are accepted.
        JobMovedError
            When no worker was needed, and others are not accepted.
        """

        def plan_one(manifest: Manifest, listed: Compactions) -> Sequence[CompactionSpec] | None:
            spec = plan(manifest, listed)
            return None if spec is None else (spec,)

        with self.jobs_together(plan_one) as claimed:
            yield None if claimed is None else claimed[0]

    @contextlib.contextmanager
    def jobs_together(self, plan: PlanJobs) -> Iterator[tuple[ClaimedJob, ...] | None]:
        """Open several jobs of different trees, all or none; as `job`, which lists the errors."""
        wait, worker_id = self._new_wait(), new_worker_id(self.clock)
        while (submitted := self._submit(plan, wait)) is not None:
            job_ids, planned = submitted
            with contextlib.ExitStack() as claim:
                claimed = self._claim(claim, job_ids, worker_id, wait)
                if claimed is not None:
                    with self._guarded(claimed):
                        yield claimed
                    return
            wait.refused += 1
            if self.accepts_others:
                self._await_other(job_ids[0], planned.value, wait)
            elif any(_is_moved(find_job(self.jobs.known, job_id)) for job_id in job_ids):
                raise JobMovedError
        yield None

    def submit(self, plan: PlanJobs) -> Version[Manifest] | None:
        """Submit jobs that the coordinator does itself, and wait until it has looked at them.

        Returns the version for which they were planned, None if the plan finds nothing. Whether they were done or
        refused is for the caller to find out.

        Raises
        ------
        CommitConflictError
            When no coordinator answered within the time-out, or other jobs were in the way for so long.
        """
        wait = self._new_wait()
        submitted = self._submit(plan, wait)
        if submitted is None:
            return None
        job_ids, planned = submitted
        try:
            while self._are(job_ids, (CompactionStatus.SUBMITTED,), wait):
                wait.pause()
        except BaseException:
            with contextlib.suppress(SlateError):
                self._withdraw(job_ids)
            raise
        return planned

    def _new_wait(self) -> CoordinatorWait:
        return CoordinatorWait(self.stores, self.clock, self.timeout_ms)

    def _claim(
        self, claim: contextlib.ExitStack, job_ids: Sequence[Ulid], worker_id: str, wait: CoordinatorWait
    ) -> tuple[ClaimedJob, ...] | None:
        """Claim submitted jobs once one is scheduled; None if one will not be: another job, or worker, was faster."""
        abandoned = AbandonedJobs(self.jobs)
        try:
            while self._are(job_ids, NOT_BEGUN, wait):
                own = self._listed(job_ids)
                if any(job.status is CompactionStatus.SCHEDULED for job in own):
                    found = self._try_claim(claim, job_ids, worker_id)
                    if found is not None:
                        return found
                in_turn = self._in_turn(own)
                abandoned.end(in_turn)
                wait.pause(in_turn=in_turn)
        except SourcesGoneError:
            pass
        except BaseException:
            with contextlib.suppress(SlateError):
                self._withdraw(job_ids)
            raise
        self._withdraw(job_ids)
        return None

    def _try_claim(
        self, claim: contextlib.ExitStack, job_ids: Sequence[Ulid], worker_id: str
    ) -> tuple[ClaimedJob, ...] | None:
        """Claim jobs of which one is scheduled; None while they cannot be claimed together."""
        claims = claimed_jobs(self.jobs, job_ids, worker_id, heartbeat_ms=self.heartbeat_ms)
        with contextlib.suppress(CommitConflictError):  # as for the submission: others change the list
            return claim.enter_context(claims)
        return None

    def _listed(self, job_ids: Sequence[Ulid]) -> list[Compaction]:
        found = (find_job(self.jobs.known, job_id) for job_id in job_ids)
        return [job for job in found if job is not None]

    def _in_turn(self, awaited: Sequence[Compaction]) -> tuple[Compaction, ...]:
        """Return the other jobs for which some may have to wait: none unless these are all submitted."""
        if not awaited or any(job.status is not CompactionStatus.SUBMITTED for job in awaited):
            return ()
        return jobs_in_turn(self.jobs.known, [job.id for job in awaited], self.jobs.heartbeat_ms())

    def _are(self, job_ids: Sequence[Ulid], statuses: Sequence[CompactionStatus], wait: CoordinatorWait) -> bool:
        """Tell whether all jobs are listed with one of these states."""
        listed = self.jobs.refresh().value
        wait.observe(listed)
        found = [find_job(listed, job_id) for job_id in job_ids]
        return all(job is not None and job.status in statuses for job in found)

    def _withdraw(self, job_ids: Sequence[Ulid]) -> None:
        for job_id in job_ids:
            withdraw(self.jobs, job_id, unless_begun=True)

    def _await_other(self, job_id: Ulid, planned: Manifest, wait: CoordinatorWait) -> None:
        """Wait for a job that another worker may have taken; raises `JobTakenError` once it is committed.

        Parameters
        ----------
        planned : the version for which it was planned
        """
        job = self.jobs.find(job_id)
        if job is None or job.status is CompactionStatus.FAILED or not isinstance(job.spec, TieredSpec):
            return
        spec = job.spec
        while job is not None and job.status in BEGUN:
            wait.pause((job,))
            job = self.jobs.find(job_id)
        number, manifest = fetch_latest_manifest(self.stores)
        if _is_moved(job) or not same_sources(planned, manifest, spec):
            raise JobTakenError(spec, planned, number)

    @contextlib.contextmanager
    def _guarded(self, claimed: Sequence[ClaimedJob]) -> Iterator[None]:
        """End the jobs as failed unless the block has handed them over; released ones might never find a worker."""
        try:
            yield
        except (JobLostError, SourcesGoneError) as exc:
            raise CommitConflictError(
                f"{self.stores.url}: compaction {exc} was taken from this process before it was finished.",
                why="Its heartbeat was late, another worker took it first, or somebody submitted another job with the "
                "same sources.",
                todo="Try again.",
            ) from exc
        finally:
            for job in claimed:
                if job.entry.status in (*NOT_BEGUN, CompactionStatus.RUNNING):
                    with contextlib.suppress(SlateError):
                        job.fail()

    def _submit(self, plan: PlanJobs, wait: CoordinatorWait) -> tuple[tuple[Ulid, ...], Version[Manifest]] | None:
        """Submit jobs as soon as none is in the way; return their ids, and the version for which they were planned.

        None if there is nothing to merge.
        """
        abandoned = AbandonedJobs(self.jobs)
        while True:
            number, listed = self.jobs.refresh()
            if not number:
                raise no_coordinator(self.stores, self.timeout_ms)
            wait.observe(listed)
            latest = fetch_latest_manifest(self.stores)
            specs = plan(latest.value, listed)
            if not specs:
                return None
            blockers = _blockers(listed, specs)
            if not blockers and (job_ids := self._append(specs, latest.value)) is not None:
                return job_ids, latest
            if (job_ids := self._follow(plan, latest, listed, blockers)) is not None:
                return job_ids, latest
            in_turn = self._in_turn(blockers)
            abandoned.end((*blockers, *in_turn))
            wait.pause(blockers, in_turn=in_turn)

    def _follow(
        self, plan: PlanJobs, latest: Version[Manifest], listed: Compactions, blockers: Sequence[Compaction]
    ) -> tuple[Ulid, ...] | None:
        """Submit jobs for the version that the commit of those in the way will make; None if that cannot be done."""
        if not self.follows or not blockers or not all(map(can_follow, blockers)):
            return None
        following = after_commit(latest.value, blockers)
        specs = plan(following, listed)
        if not specs or not need_commits(specs, blockers):
            return None
        return self._append(specs, following, behind=blockers)

    def _append(
        self, specs: Sequence[CompactionSpec], manifest: Manifest, *, behind: Sequence[Compaction] = ()
    ) -> tuple[Ulid, ...] | None:
        """List jobs as submitted, and return their ids; None if another one came in the way.

        Parameters
        ----------
        behind : jobs that may be in the way as long as they do not change
        """
        job_ids: list[Ulid] = []

        def appended(listed: Compactions) -> Compactions | None:
            job_ids.clear()
            if any(job not in behind for job in _blockers(listed, specs)):
                return None
            for spec in specs:
                job_ids.append(next_job_id(manifest, listed, self.clock))
                listed = with_job(listed, Compaction(job_ids[-1], spec, CompactionStatus.SUBMITTED))
            return listed

        def are_listed(listed: Compactions) -> bool:
            return bool(job_ids) and all(find_job(listed, job_id) is not None for job_id in job_ids)

        try:
            self.jobs.edit(appended, is_done=are_listed)
        except CommitConflictError:  # others change the list all the time; the turn ends when it says
            return None
        return tuple(job_ids) or None


def _is_moved(job: Compaction | None) -> bool:
    """Tell whether a job is listed that was finished without a worker."""
    return job is not None and job.status is CompactionStatus.COMPLETED and job.worker is None


def _blockers(listed: Compactions, specs: Sequence[CompactionSpec]) -> tuple[Compaction, ...]:
    found = {job.id: job for spec in specs for job in blocking_jobs(listed, spec)}
    return tuple(found.values())
