"""The entry of a running compaction in `.compactions`: what the client's tools list, and collectors go by.

It is there from before the first output is uploaded until the commit has landed: no SST that is younger than it is
collected. Nobody is fenced for it: the epochs are claimed by the commit. The worker reports by heartbeats, and
its id is noted beside the claims, so that other jobs of ours know it. Partial outputs are never listed: a coordinator
that takes the job over after our end merges what its sources show by then.

A job that is listed as running names runs alone, and only those that are there. Commits of ours give L0 views other
places, and a client whose worker misses a source takes the job up again and again; meanwhile it merges no L0 view, and
its writer comes to a halt at eight. So L0 views stay free, and a job without runs is not listed before its commit.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
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
from slatespark.table.commit.active_jobs import awaits_commit, has_fresh_heartbeat, is_own_job, runs_here
from slatespark.table.commit.foreign_clients import is_claim
from slatespark.table.commit.hold import NEVER_STALE_MS, PLACEHOLDER_WORKER
from slatespark.table.log.compactions import compactions_object
from slatespark.table.log.manifests import MAX_AHEAD_MS, fetch_latest_manifest
from slatespark.table.records.leases import LEASE_LIFETIME_MS, renew_lease
from slatespark.table.records.workers import delete_worker, publish_worker
from slatespark.table.stores import TableStores
from slatespark.units import ms_to_text

HEARTBEAT_S: Final = 10.0  # a coordinator takes a job back after 30 s without one


@dataclass(slots=True)
class ListedJob:
    """A compaction of ours as `.compactions` lists it.

    Attributes
    ----------
    entry : as it is listed while it runs, or at its end
    spec : with all sources
    write_id : of the job, whose lease is renewed as long as it takes
    is_held : the heartbeat in the list never grows old: nobody may take it over, since that would cost history
    leased_ms : when the lease was made, or renewed last
    """

    stores: TableStores
    clock: Clock
    entry: Compaction
    spec: TieredSpec
    write_id: str
    is_held: bool
    leased_ms: int
    _ended: threading.Event = field(default_factory=threading.Event)
    _writing: threading.Lock = field(default_factory=threading.Lock)

    def complete(self) -> None:
        """End a job that was committed; the commit has listed it as completed."""
        self._end(CompactionStatus.COMPLETED)

    def fail(self) -> None:
        """List the job as failed; if that fails, too, the entry is dropped as one without a heartbeat."""
        self._end(CompactionStatus.FAILED)

    def _end(self, status: CompactionStatus) -> None:
        self._ended.set()
        with self._writing:
            if not self.entry.status.is_active():
                return
            ended = replace(self.entry, spec=self.spec, status=status, worker=self._worker(self.clock.now_ms()))
            with contextlib.suppress(SlateError):
                _edit_list(self.stores, self.clock, lambda listed: _with_finished(self.stores, listed, ended))
                assert ended.worker is not None
                delete_worker(self.stores.main, ended.worker.worker_id)
            self.entry = ended

    def report(self) -> None:
        """Renew the heartbeat.

        An entry that was taken off the list is put back, unless another job has its runs. One that names runs that are
        gone is taken off.
        """
        with self._writing:
            if not self.entry.status.is_active():
                return
            now_ms = self.clock.now_ms()
            if self.is_held:
                publish_worker(self.stores.main, self.write_id, now_ms)
            alive = replace(self.entry, worker=self._worker(NEVER_STALE_MS if self.is_held else now_ms))
            _edit_list(self.stores, self.clock, lambda listed: self._with_alive(listed, alive, now_ms))
            self.entry = alive
            if now_ms - self.leased_ms > LEASE_LIFETIME_MS // 4:
                renew_lease(self.stores.main, self.write_id, alive.id.timestamp_ms, now_ms)
                self.leased_ms = now_ms

    def _with_alive(self, listed: Compactions, alive: Compaction, now_ms: int) -> Compactions | None:
        """Return the list with the job alive in it; None if it is right as it is."""
        found = next((job for job in listed.jobs if job.id == alive.id), None)
        others = tuple(job for job in listed.jobs if job.id != alive.id)
        if found is not None and not found.status.is_active():  # its commit is under way
            return replace(listed, jobs=(*others, replace(found, worker=self._worker(now_ms))))
        number, stands = _find_runs(self.stores, alive.spec)
        if not stands:
            return None if found is None else replace(listed, jobs=others)
        if found is None and (_is_taken(listed, alive.spec) or is_claim(self.stores, number)):
            return None  # what follows a claim may take its runs away: then it is not to be there
        return None if found == alive else replace(listed, jobs=(*others, alive))

    def _worker(self, heartbeat_ms: int) -> WorkerSpec:
        assert self.entry.worker is not None  # `_list_job` gave it one
        return replace(self.entry.worker, last_heartbeat_ms=heartbeat_ms)

    def report_regularly(self) -> None:
        """Renew the heartbeat until the job has ended; a failure is made good by the next one."""
        while not self._ended.wait(HEARTBEAT_S):
            with contextlib.suppress(SlateError):
                self.report()


@contextlib.contextmanager
def listed_job(
    stores: TableStores, clock: Clock, spec: TieredSpec, write_id: str, *, is_held: bool
) -> Iterator[ListedJob]:
    """List a compaction of runs as running, with heartbeats, as long as the context lasts; it failed if not completed.

    Other compactions of ours that work on the same runs go off the list, and so do those that nobody works on.

    Parameters
    ----------
    spec : what is merged
    write_id : of the job, whose lease stands
    is_held : nobody may ever take the job over
    """
    now_ms = clock.now_ms()
    worker = WorkerSpec(publish_worker(stores.main, write_id, now_ms), NEVER_STALE_MS if is_held else now_ms)
    entry = _list_job(stores, clock, replace(spec, l0_view_ids=()), worker)
    job = ListedJob(stores, clock, entry, spec, write_id, is_held, now_ms)
    heart = threading.Thread(target=job.report_regularly, name=f"slatespark-{write_id}", daemon=True)
    heart.start()
    try:
        yield job
    finally:
        job.fail()
        heart.join()


def _list_job(stores: TableStores, clock: Clock, spec: TieredSpec, worker: WorkerSpec) -> Compaction:
    """Return the entry of a new job; it is listed if there are runs in it, and all of them in the table."""
    job_id = Ulid(0)

    def listing(listed: Compactions) -> Compactions | None:
        nonlocal job_id
        now_ms = clock.now_ms()
        newest_ms = max((job.id.timestamp_ms for job in listed.jobs), default=0)  # ids of jobs ascend
        if newest_ms > now_ms + MAX_AHEAD_MS:
            raise ClockRegressionError(
                f"{stores.url}: the newest compaction is of {ms_to_text(newest_ms)} ({newest_ms}), our clock says "
                f"{ms_to_text(now_ms)} ({now_ms}).",
                why="Files of a compaction are not older than the one before it, and may not be of the future.",
                todo=f"Compact again from {ms_to_text(newest_ms - MAX_AHEAD_MS)} by our clock on, or set it right.",
            )
        job_id = new_ulid(clock, max(now_ms, newest_ms))
        if not _find_runs(stores, spec)[1]:
            return None
        kept = tuple(job for job in listed.jobs if _stays(stores, job, spec, now_ms))
        return replace(listed, jobs=(*kept, Compaction(job_id, spec, CompactionStatus.RUNNING, worker=worker)))

    _edit_list(stores, clock, listing)
    return Compaction(job_id, spec, CompactionStatus.RUNNING, worker=worker)


def _stays(stores: TableStores, job: Compaction, spec: TieredSpec, now_ms: int) -> bool:
    """Tell whether a job stays on the list beside a new one of ours."""
    if not job.status.is_active():
        return True
    if job.worker is None:
        return False
    if job.worker.worker_id == PLACEHOLDER_WORKER:
        return True
    if is_own_job(stores, job):
        return runs_here(stores, job, now_ms) and not _share_sources(job, spec)
    return has_fresh_heartbeat(job, now_ms)


def _share_sources(job: Compaction, spec: CompactionSpec) -> bool:
    return bool(set(job.spec.sorted_runs) & set(spec.sorted_runs) or set(job.spec.l0_view_ids) & set(spec.l0_view_ids))


def _is_taken(listed: Compactions, spec: CompactionSpec) -> bool:
    """Tell whether another job has taken the place of one that is not listed; a hold has not."""
    active = (job for job in listed.active_jobs() if job.worker is None or job.worker.worker_id != PLACEHOLDER_WORKER)
    return any(_share_sources(job, spec) for job in active)


def _find_runs(stores: TableStores, spec: CompactionSpec) -> tuple[int, bool]:
    """Return the newest version, and whether a job merges runs, all of which it has."""
    number, manifest = fetch_latest_manifest(stores)
    return number, bool(spec.sorted_runs) and set(spec.sorted_runs) <= set(manifest.run_ids())


def _with_finished(stores: TableStores, listed: Compactions, ended: Compaction) -> Compactions | None:
    """Return the list with a job at its end; None if it is right as it is.

    Of those before that have ended, the client keeps none (docs/reference/format/compactions.md).
    """
    assert ended.worker is not None  # all of ours have one
    now_ms = ended.worker.last_heartbeat_ms
    found = next((job for job in listed.jobs if job.id == ended.id), None)
    is_there = ended.status is CompactionStatus.COMPLETED if found is None else found.status is ended.status
    if is_there:  # or it was, before others ended
        return None
    outputs = () if found is None else found.output_ssts
    others = (job for job in listed.jobs if job.id != ended.id)
    stay = tuple(job for job in others if job.status.is_active() or awaits_commit(stores, job, now_ms))
    return replace(listed, jobs=(*stay, replace(ended, output_ssts=outputs)))


def _edit_list(stores: TableStores, clock: Clock, edit: Callable[[Compactions], Compactions | None]) -> None:
    """Publish the list of compactions with a change, under the epoch that it has; None leaves it as it is."""
    compactions_object(stores).update(clock, lambda newest: edit(newest.value))
