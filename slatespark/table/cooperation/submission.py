"""A job of our own: submitted, scheduled by the client's coordinator, and claimed by us.

    wait until no job is in the way -> submit -> the coordinator schedules it -> claim it -> the block runs
              ^                                    |  refused: another job came first
              '------------------------------------'

The block merges, hands over and calls `outcome.await_commit`. Whatever goes wrong, the job does not stay behind: it is
withdrawn, or our worker dies and the coordinator takes it back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from slatespark.errors import CommitConflictError, SlateError
from slatespark.format.compactions import Compaction, Compactions, CompactionStatus, TieredSpec
from slatespark.format.manifest import Manifest
from slatespark.format.ulid import Ulid
from slatespark.table.clock import Clock
from slatespark.table.cooperation.abandoned_jobs import AbandonedJobs
from slatespark.table.cooperation.claimed_job import (
    HEARTBEAT_MS,
    ClaimedJob,
    JobLostError,
    SourcesGoneError,
    claimed_job,
    new_worker_id,
)
from slatespark.table.cooperation.job_list import JobList
from slatespark.table.cooperation.job_rules import (
    blocking_jobs,
    find_job,
    next_job_id,
    same_sources,
    with_job,
)
from slatespark.table.cooperation.outcome import poll_ms, withdraw
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.stores import TableStores

CLIENT_TIMEOUT_MS: Final = 30_000

PlanJob: TypeAlias = Callable[[Manifest, Compactions], TieredSpec | None]
"""What to merge, for the newest manifest and list; None if there is nothing to merge. Called for every attempt."""


class TakenError(Exception):
    """Another worker took a job that we submitted, and it was committed.

    Attributes
    ----------
    spec, planned : what it merged, and the version for which it was planned
    version : that has its result
    """

    def __init__(self, spec: TieredSpec, planned: Manifest, version: int) -> None:
        super().__init__(spec, planned, version)
        self.spec, self.planned, self.version = spec, planned, version


class MovedError(Exception):
    """The coordinator finished a job of ours without a worker: it moves files that share no keys as they are.

    Clients do so with `enable_trivial_move`.
    """


@dataclass(slots=True)
class Submitter:
    """Submits jobs of ours to the coordinator of one database.

    Attributes
    ----------
    timeout_ms : `clientTimeout`: how long a job may take to be claimed, and how long its commit may take
    heartbeat_ms : the interval of heartbeats
    accepts_others : it is as well if another worker does the job: then `TakenError` is raised
    """

    stores: TableStores
    clock: Clock
    timeout_ms: int = CLIENT_TIMEOUT_MS
    heartbeat_ms: int = HEARTBEAT_MS
    accepts_others: bool = False
    jobs: JobList = field(init=False)

    def __post_init__(self) -> None:
        self.jobs = JobList(self.stores, self.clock)

    @contextlib.contextmanager
    def job(self, plan: PlanJob) -> Iterator[ClaimedJob | None]:
        """Open a job that is ours; None if the plan finds nothing to merge.

        The plan is asked again whenever another job came first: one of the scheduler, ours in the hands of a worker of
        the client, or views that the coordinator moved without rewriting them.

        Parameters
        ----------
        plan : makes the job for the newest version; see `job_rules.spec_of_slice`

        Raises
        ------
        CommitConflictError
            When no coordinator answered within the time-out, or other jobs were in the way for so long. Nothing is left
            in the list. Also when the job was lost in the block (`JobLostError`, `SourcesGoneError`).
        TakenError
            When another worker did the job, and others are accepted.
        MovedError
            When no worker was needed, and others are not accepted.
        """
        end_ms = self.clock.now_ms() + self.timeout_ms
        worker_id = new_worker_id(self.clock)
        while (submitted := self._submit(plan, end_ms)) is not None:
            job_id, planned = submitted
            with contextlib.ExitStack() as claim:
                claimed = self._claim(claim, job_id, worker_id, end_ms)
                if claimed is not None:
                    with self._guarded(claimed):
                        yield claimed
                    return
            if self.accepts_others:
                self._await_other(job_id, planned, end_ms)
            elif _is_moved(find_job(self.jobs.known, job_id)):
                raise MovedError
        yield None

    def _claim(self, claim: contextlib.ExitStack, job_id: Ulid, worker_id: str, end_ms: int) -> ClaimedJob | None:
        """Claim a job of ours once it is scheduled; None if it will not be: another job, or another worker, was faster.

        Parameters
        ----------
        claim : holds it
        """
        try:
            while (job := self.jobs.find(job_id)) is not None:
                if job.status is CompactionStatus.SCHEDULED:
                    found = claim.enter_context(
                        claimed_job(self.jobs, job_id, worker_id, heartbeat_ms=self.heartbeat_ms)
                    )
                    if found is not None:
                        return found
                elif job.status is not CompactionStatus.SUBMITTED:
                    return None
                self._pause(end_ms, ())
        except SourcesGoneError:
            withdraw(self.jobs, job_id)
        except BaseException:
            with contextlib.suppress(SlateError):
                withdraw(self.jobs, job_id)
            raise
        return None

    def _await_other(self, job_id: Ulid, planned: Manifest, end_ms: int) -> None:
        """Wait for a job that another worker may have taken; raises `TakenError` once it is committed.

        Parameters
        ----------
        planned : the version for which it was planned
        """
        job = self.jobs.find(job_id)
        if job is None or job.status is CompactionStatus.FAILED or not isinstance(job.spec, TieredSpec):
            return
        spec = job.spec
        while job is not None and job.status in (CompactionStatus.RUNNING, CompactionStatus.COMPACTED):
            self._pause(end_ms, (job,))
            job = self.jobs.find(job_id)
        number, manifest = fetch_latest_manifest(self.stores)
        if _is_moved(job) or not same_sources(planned, manifest, spec):
            raise TakenError(spec, planned, number)

    @contextlib.contextmanager
    def _guarded(self, claimed: ClaimedJob) -> Iterator[None]:
        """End the job as failed unless the block has handed it over; a released one might never find a worker."""
        try:
            yield
        except (JobLostError, SourcesGoneError) as exc:
            raise CommitConflictError(
                f"{self.stores.url}: compaction {claimed.id} was taken from this process before it was finished.",
                why="Its heartbeat was late, or somebody submitted another job with the same sources.",
                todo="Try again.",
            ) from exc
        finally:
            if claimed.entry.status is CompactionStatus.RUNNING:
                with contextlib.suppress(SlateError):
                    claimed.fail()

    def _submit(self, plan: PlanJob, end_ms: int) -> tuple[Ulid, Manifest] | None:
        """Submit a job as soon as none is in the way; return its id, and the version for which it was planned.

        None if there is nothing to merge.
        """
        abandoned = AbandonedJobs(self.jobs)
        while True:
            number, listed = self.jobs.refresh()
            if not number:
                raise self._no_coordinator()
            manifest = fetch_latest_manifest(self.stores).value
            spec = plan(manifest, listed)
            if spec is None:
                return None
            blockers = blocking_jobs(listed, spec)
            if not blockers and (job_id := self._append(spec, manifest)) is not None:
                return job_id, manifest
            abandoned.end(blockers)
            self._pause(end_ms, blockers)

    def _append(self, spec: TieredSpec, manifest: Manifest) -> Ulid | None:
        """List a job as submitted, and return its id; None if another one came in the way."""
        job_id = Ulid(0)

        def appended(listed: Compactions) -> Compactions | None:
            nonlocal job_id
            job_id = next_job_id(manifest, listed, self.clock)
            if blocking_jobs(listed, spec):
                return None
            return with_job(listed, Compaction(job_id, spec, CompactionStatus.SUBMITTED))

        return job_id if find_job(self.jobs.edit(appended).value, job_id) is not None else None

    def _pause(self, end_ms: int, blockers: tuple[Compaction, ...]) -> None:
        """Wait a little; raises `CommitConflictError` after the time-out."""
        if self.clock.now_ms() < end_ms:
            self.clock.sleep_ms(poll_ms(self.stores))
            return
        if not blockers:
            raise self._no_coordinator()
        raise CommitConflictError(
            f"{self.stores.url}: after {self.timeout_ms} ms compactions of the client are still in the way: "
            f"{', '.join(f'{job.id} ({job.status.name.lower()})' for job in blockers)}.",
            todo="Try again, or give a longer clientTimeout; check that a worker of the client runs.",
        )

    def _no_coordinator(self) -> CommitConflictError:
        return CommitConflictError(
            f"{self.stores.url}: no coordinator of a client answered within {self.timeout_ms} ms.",
            why="No client has the database open, or it runs without a compactor.",
            todo="Set ifClientActive=fail, or fence if a client without a compactor is to be fenced.",
        )


def _is_moved(job: Compaction | None) -> bool:
    """Tell whether a job is listed that was finished without a worker."""
    return job is not None and job.status is CompactionStatus.COMPLETED and job.worker is None
