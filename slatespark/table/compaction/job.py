"""The entry of a running compaction in `.compactions`, which the client's tools list and garbage collectors respect.

It is listed before the first output is uploaded, until the commit has landed: collectors keep every SST that is younger
than it. Listing it fences no client: the commit claims the epochs. The worker sends heartbeats, and its id is recorded
beside the claims, so that other jobs of slatespark recognise it. Partial outputs are never listed: if the process dies,
a coordinator that reclaims the job merges the sources as they are then.

A running job lists only runs, and only existing ones. slatespark's commits move L0 views, and a client whose worker
misses a source retries the job again and again; meanwhile it merges no L0 view, and its writer stalls at eight. So L0
views are never listed as sources, and a job without runs is not listed before its commit.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from slatespark.errors import ClockRegressionError, SlateError
from slatespark.format.compactions import (
    Compaction,
    Compactions,
    CompactionSpec,
    CompactionStatus,
    TieredSpec,
    WorkerSpec,
)
from slatespark.format.ulid import Ulid
from slatespark.table.clock import Clock, new_ulid
from slatespark.table.commit.active_jobs import (
    HEARTBEAT_FRESH_MS,
    awaits_commit,
    has_fresh_heartbeat,
    is_own_job,
    runs_here,
)
from slatespark.table.commit.foreign_clients import is_claim
from slatespark.table.commit.held_lease import HeldLease
from slatespark.table.commit.hold import NEVER_STALE_MS, is_hold, working_jobs
from slatespark.table.cooperation.job_rules import find_job, with_job
from slatespark.table.log.compactions import edit_compactions
from slatespark.table.log.manifests import MAX_AHEAD_MS, fetch_latest_manifest
from slatespark.table.records.workers import delete_worker, publish_worker
from slatespark.table.stores import TableStores
from slatespark.table.tasks import running
from slatespark.units import ms_to_text, time_text

HEARTBEAT_S: Final = 10.0  # a coordinator reclaims a job after 30 s without one


@dataclass(slots=True)
class ListedJob:
    """A compaction of slatespark as `.compactions` lists it.

    Attributes
    ----------
    entry : the current entry, running or ended
    spec : specification with all sources
    lease : of the job, renewed while it runs
    is_held : the listed heartbeat never becomes stale: no client may reclaim the job, since that would lose history
    reported_ms : when the heartbeat was last put or renewed
    removals : how often the entry was removed from the list
    """

    stores: TableStores
    clock: Clock
    entry: Compaction
    spec: TieredSpec
    lease: HeldLease
    is_held: bool
    reported_ms: int
    removals: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)
    _writing: threading.Lock = field(default_factory=threading.Lock)

    def complete(self) -> None:
        """End a committed job; the commit has listed it as completed."""
        self._end(CompactionStatus.COMPLETED)

    def fail(self) -> None:
        """List the job as failed; if that fails too, the entry is dropped later for its stale heartbeat."""
        self._end(CompactionStatus.FAILED)

    def _end(self, status: CompactionStatus) -> None:
        self._ended.set()
        with self._writing:
            if not self.entry.status.is_active():
                return
            ended = replace(self.entry, spec=self.spec, status=status)
            with contextlib.suppress(SlateError):  # of the clock too: the commit has landed, or the job has failed
                ended = replace(ended, worker=self._worker(self.clock.now_ms()))
                edit_compactions(self.stores, self.clock, lambda listed: _with_finished(self.stores, listed, ended))
                assert ended.worker is not None
                delete_worker(self.stores.main, ended.worker.worker_id)
            self.entry = ended

    def report(self) -> None:
        """Renew the heartbeat.

        An entry that was removed from the list is put back, unless another job has its runs. It is removed if its runs
        are gone.
        """
        with self._writing:
            if not self.entry.status.is_active():
                return
            self._report(self.clock.now_ms())

    def _report(self, now_ms: int) -> None:
        self.lease.renew()
        if self.is_held or self._lapses:  # a vacuum deletes the record of a worker that seems dead
            publish_worker(self.stores.main, self.lease.write_id, now_ms)
        alive = replace(self.entry, worker=self._worker(NEVER_STALE_MS if self.is_held else now_ms))
        edit_compactions(self.stores, self.clock, lambda listed: self._with_alive(listed, alive, now_ms))
        self.entry, self.reported_ms = alive, now_ms

    def count_lapses(self) -> int:
        """Return how often collectors may have taken the outputs for abandoned ones.

        That is after a suspension of the process for so long that the lease expired, or that the entry was removed.
        """
        with self._writing:
            now_ms = self.clock.now_ms()
            if now_ms - self.reported_ms >= HEARTBEAT_FRESH_MS:
                self._report(now_ms)
            return self._lapses

    @property
    def _lapses(self) -> int:
        return self.lease.lapses + self.removals

    def _with_alive(self, listed: Compactions, alive: Compaction, now_ms: int) -> Compactions | None:
        """Return the list with the live job in it; None if it needs no change."""
        found = find_job(listed, alive.id)
        if found is not None and not found.status.is_active():  # its commit is under way
            return with_job(listed, replace(found, worker=self._worker(now_ms)))
        number, exist = _newest_with_runs(self.stores, alive.spec)
        if not exist:
            return None if found is None else _without_job(listed, alive.id)
        self.removals += found is None
        if found is None and (_is_taken(listed, alive.spec) or is_claim(self.stores, number)):
            return None  # the commit that follows the claim may remove its runs
        return None if found == alive else with_job(listed, alive)

    def _worker(self, heartbeat_ms: int) -> WorkerSpec:
        assert self.entry.worker is not None  # set by `_list_job`
        return replace(self.entry.worker, last_heartbeat_ms=heartbeat_ms)

    def report_regularly(self) -> None:
        """Renew the heartbeat until the job has ended; after a failure the next renewal catches up."""
        while not self._ended.wait(HEARTBEAT_S):
            with contextlib.suppress(SlateError):
                self.report()


@contextlib.contextmanager
def listed_job(
    stores: TableStores, clock: Clock, spec: TieredSpec, write_id: str, *, is_held: bool
) -> Iterator[ListedJob]:
    """List a compaction as running, with heartbeats, while the context is open. It failed unless `complete` was called.

    Other compactions of slatespark on the same runs are removed from the list, and so are abandoned ones.

    Parameters
    ----------
    spec : the sources
    write_id : id of the job, which has a lease
    is_held : no client may ever reclaim the job
    """
    now_ms = clock.now_ms()
    worker = WorkerSpec(publish_worker(stores.main, write_id, now_ms), NEVER_STALE_MS if is_held else now_ms)
    entry = _list_job(stores, clock, replace(spec, l0_view_ids=()), worker)
    lease = HeldLease(stores, clock, write_id, created_ms=entry.id.timestamp_ms, renewed_ms=now_ms)
    job = ListedJob(stores, clock, entry, spec, lease, is_held, reported_ms=now_ms)
    heart = threading.Thread(target=job.report_regularly, name=f"slatespark-{write_id}", daemon=True)
    with running([heart], job.fail):
        yield job


def _list_job(stores: TableStores, clock: Clock, spec: TieredSpec, worker: WorkerSpec) -> Compaction:
    """Return the entry of a new job; it is listed if it has runs, and all of them exist."""
    job_id = Ulid(0)

    def listing(listed: Compactions) -> Compactions | None:
        nonlocal job_id
        now_ms = clock.now_ms()
        newest_ms = max((job.id.timestamp_ms for job in listed.jobs), default=0)  # ids of jobs ascend
        if newest_ms > now_ms + MAX_AHEAD_MS:
            raise ClockRegressionError(
                f"{stores.url}: the newest compaction was created at {time_text(newest_ms)}, the local clock says "
                f"{time_text(now_ms)}.",
                why="Compaction ids ascend, and may not be in the future.",
                todo=f"Correct the clock, or compact again once it has reached {ms_to_text(newest_ms - MAX_AHEAD_MS)}.",
            )
        job_id = new_ulid(clock, max(now_ms, newest_ms))
        if not _newest_with_runs(stores, spec)[1]:
            return None
        kept = tuple(job for job in listed.jobs if _stays(stores, job, spec, now_ms))
        return replace(listed, jobs=(*kept, Compaction(job_id, spec, CompactionStatus.RUNNING, worker=worker)))

    edit_compactions(stores, clock, listing)
    return Compaction(job_id, spec, CompactionStatus.RUNNING, worker=worker)


def _stays(stores: TableStores, job: Compaction, spec: TieredSpec, now_ms: int) -> bool:
    """Tell whether a job stays on the list beside a new one of slatespark."""
    if not job.status.is_active() or job.status is CompactionStatus.COMPACTED:
        return True  # of the latter the coordinator may have begun the commit
    if job.worker is None:
        return False
    if is_hold(job):
        return True
    if is_own_job(stores, job):
        return runs_here(stores, job, now_ms) and not _share_sources(job, spec)
    return has_fresh_heartbeat(job, now_ms)


def _share_sources(job: Compaction, spec: CompactionSpec) -> bool:
    return bool(set(job.spec.sorted_runs) & set(spec.sorted_runs) or set(job.spec.l0_view_ids) & set(spec.l0_view_ids))


def _is_taken(listed: Compactions, spec: CompactionSpec) -> bool:
    """Tell whether another job, other than a hold, has sources of one that is not listed."""
    return any(_share_sources(job, spec) for job in working_jobs(listed))


def _newest_with_runs(stores: TableStores, spec: CompactionSpec) -> tuple[int, bool]:
    """Return the newest version, and whether the job has runs, all of which exist in it."""
    number, manifest = fetch_latest_manifest(stores)
    return number, bool(spec.sorted_runs) and set(spec.sorted_runs) <= set(manifest.run_ids())


def _without_job(listed: Compactions, job_id: Ulid) -> Compactions:
    return replace(listed, jobs=tuple(job for job in listed.jobs if job.id != job_id))


def _with_finished(stores: TableStores, listed: Compactions, ended: Compaction) -> Compactions | None:
    """Return the list with an ended job; None if it needs no change.

    Earlier ended jobs are removed, as the client does (docs/reference/format/compactions.md).
    """
    assert ended.worker is not None  # every job of slatespark has one
    now_ms = ended.worker.last_heartbeat_ms
    found = find_job(listed, ended.id)
    is_there = ended.status is CompactionStatus.COMPLETED if found is None else found.status is ended.status
    if is_there:  # it is, or it was and others have ended since
        return None
    outputs = () if found is None else found.output_ssts
    others = _without_job(listed, ended.id).jobs
    stay = tuple(job for job in others if job.status.is_active() or awaits_commit(stores, job, now_ms))
    return replace(listed, jobs=(*stay, replace(ended, output_ssts=outputs)))
