"""The entry of a running compaction in `.compactions`: what the client's tools list, and collectors go by.

It is there from before the first output is uploaded until the commit has landed: no SST that is younger than it is
collected (spec 8). Nobody is fenced for it: the epochs are claimed by the commit. The worker reports by heartbeats, and
its id is noted beside the claims, so that other jobs of ours know it. Partial outputs are never listed: a coordinator
that takes the job over after our end merges what its sources show by then (spec 6.2, 12.1.2).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from slatespark.errors import ClockRegressionError, SlateError, UnavailableError
from slatespark.format.compactions import (
    Compaction,
    Compactions,
    CompactionStatus,
    TieredSpec,
    WorkerSpec,
    encode_compactions,
)
from slatespark.format.manifest import SstHandle
from slatespark.format.ulid import Ulid
from slatespark.table.clock import Clock, back_off, new_ulid
from slatespark.table.records import LEASE_LIFETIME_MS, delete_worker, publish_worker, renew_lease
from slatespark.table.stores import TableStores
from slatespark.table.write.history_hold import HELD_MS, HOLDER
from slatespark.table.write.protocol import (
    MAX_AHEAD_MS,
    compactions_log,
    fetch_compactions,
    has_fresh_heartbeat,
    is_own_job,
    runs_here,
)
from slatespark.units import ms_to_text

HEARTBEAT_S: Final = 10.0  # a coordinator takes a job back after 30 s without one (spec 6.3)
_ATTEMPTS: Final = 20  # at a version of the list, each lost to somebody else's


@dataclass(slots=True)
class ListedJob:
    """A compaction of ours as `.compactions` lists it.

    Attributes
    ----------
    entry : as it was listed last
    write_id : of the job, whose lease is renewed as long as it takes
    is_held : its heartbeat never grows old: nobody may take it over, since that would cost history
    leased_ms : when the lease was made, or renewed last
    """

    stores: TableStores
    clock: Clock
    entry: Compaction
    write_id: str
    is_held: bool
    leased_ms: int
    _ended: threading.Event = field(default_factory=threading.Event)
    _writing: threading.Lock = field(default_factory=threading.Lock)

    def complete(self, outputs: Sequence[SstHandle]) -> None:
        """List the job as completed; the commit has landed whether or not that succeeds."""
        self._end(CompactionStatus.COMPLETED, tuple(outputs))

    def fail(self) -> None:
        """List the job as failed; if that fails, too, the entry is dropped as one without a heartbeat."""
        self._end(CompactionStatus.FAILED, ())

    def _end(self, status: CompactionStatus, outputs: tuple[SstHandle, ...]) -> None:
        self._ended.set()
        with self._writing:
            if not self.entry.status.is_active():
                return
            ended = replace(self.entry, status=status, output_ssts=outputs, worker=self._worker(self.clock.now_ms()))
            with contextlib.suppress(SlateError):
                _edit_list(self.stores, self.clock, lambda listed: _with_finished(listed, ended))
                assert ended.worker is not None
                delete_worker(self.stores.main, ended.worker.worker_id)
            self.entry = ended

    def report(self) -> None:
        """Renew the heartbeat. An entry that was taken off the list is put back, unless another job has its runs."""
        with self._writing:
            if not self.entry.status.is_active():
                return
            alive = replace(self.entry, worker=self._worker(HELD_MS if self.is_held else self.clock.now_ms()))
            _edit_list(self.stores, self.clock, lambda listed: _with_alive(listed, alive))
            self.entry = alive
            now_ms = self.clock.now_ms()
            if now_ms - self.leased_ms > LEASE_LIFETIME_MS // 4:
                renew_lease(self.stores.main, self.write_id, alive.id.timestamp_ms, now_ms)
                self.leased_ms = now_ms

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
    """List a compaction as running, with heartbeats, as long as the context lasts; it failed if it was not completed.

    Other compactions of ours that work on the same runs go off the list, and so do those that nobody works on.

    Parameters
    ----------
    spec : what is merged
    write_id : of the job, whose lease stands
    is_held : nobody may ever take the job over
    """
    now_ms = clock.now_ms()
    worker = WorkerSpec(publish_worker(stores.main, write_id), HELD_MS if is_held else now_ms)
    job = ListedJob(stores, clock, _list_job(stores, clock, spec, worker), write_id, is_held, now_ms)
    heart = threading.Thread(target=job.report_regularly, name=f"slatespark-{write_id}", daemon=True)
    heart.start()
    try:
        yield job
    finally:
        job.fail()
        heart.join()


def _list_job(stores: TableStores, clock: Clock, spec: TieredSpec, worker: WorkerSpec) -> Compaction:
    job_id = Ulid(0)

    def listing(listed: Compactions) -> Compactions:
        nonlocal job_id
        now_ms = clock.now_ms()
        newest_ms = max((job.id.timestamp_ms for job in listed.jobs), default=0)  # ids of jobs ascend (spec 1.2)
        if newest_ms > now_ms + MAX_AHEAD_MS:
            raise ClockRegressionError(
                f"{stores.url}: the newest compaction is of {ms_to_text(newest_ms)} ({newest_ms}), our clock says "
                f"{ms_to_text(now_ms)} ({now_ms}).",
                why="Files of a compaction are not older than the one before it, and may not be of the future.",
                todo=f"Compact again from {ms_to_text(newest_ms - MAX_AHEAD_MS)} by our clock on, or set it right.",
            )
        job_id = new_ulid(clock, max(now_ms, newest_ms))
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
    if job.worker.worker_id == HOLDER:
        return True
    if is_own_job(stores, job):
        return runs_here(stores, job, now_ms) and not _share_sources(job, spec)
    return has_fresh_heartbeat(job, now_ms)


def _share_sources(job: Compaction, spec: TieredSpec) -> bool:
    return bool(set(job.spec.sorted_runs) & set(spec.sorted_runs) or set(job.spec.l0_view_ids) & set(spec.l0_view_ids))


def _with_alive(listed: Compactions, alive: Compaction) -> Compactions | None:
    """Return the list with a job alive in it; None if another one has taken its place."""
    others = tuple(job for job in listed.jobs if job.id != alive.id)
    if len(others) == len(listed.jobs):
        assert isinstance(alive.spec, TieredSpec)  # all of ours are
        active = (job for job in listed.active_jobs() if job.worker is None or job.worker.worker_id != HOLDER)
        if any(_share_sources(job, alive.spec) for job in active):
            return None
    return replace(listed, jobs=(*others, alive))


def _with_finished(listed: Compactions, ended: Compaction) -> Compactions:
    """Return the list with a job at its end; of those before that have ended, the client keeps none (spec 6.1)."""
    others = tuple(job for job in listed.active_jobs() if job.id != ended.id)
    return replace(listed, jobs=(*others, ended))


def _edit_list(stores: TableStores, clock: Clock, edit: Callable[[Compactions], Compactions | None]) -> None:
    """Publish the list of compactions with a change, under the epoch that it has; None leaves it as it is."""
    for attempt in range(_ATTEMPTS):
        number, listed = fetch_compactions(stores)
        changed = edit(listed)
        if changed is None:
            return
        try:
            compactions_log(stores).create(number + 1, encode_compactions(changed))
        except FileExistsError:
            back_off(clock, attempt)
            continue
        return
    raise UnavailableError(f"{stores.url}: the list of compactions changes faster than it can be read.", todo="Retry.")
