"""The coordinator of a SlateDB client as one more actor, with its compactions left to workers.

It claims the compactor epoch, lists jobs, takes back those of silent workers, and commits what workers hand over. As in
SlateDB 0.18, it schedules no more jobs than are to run at once, and a job that changes nothing gets no version. Source:
`docs/explanation/cooperating-with-a-client.md`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from slatespark.format.compactions import Compaction, Compactions, CompactionStatus, TieredSpec
from slatespark.format.manifest import Checkpoint, Manifest
from slatespark.format.references import SortedRun, SstView
from slatespark.storage.object_store import ObjectStore
from slatespark.table.clock import Clock, new_ulid, new_uuid
from slatespark.table.log.compactions import create_compactions, fetch_compactions
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.log.versioned_object import RaceLostError, Version
from slatespark.table.stores import TableStores
from tests.faults.jobs import stores_of
from tests.simulation.client import FencedClientError
from tests.simulation.manifests import create_version

SILENT_MS: Final = 30_000
CHECKPOINT_S: Final = 900


@dataclass(slots=True)
class Coordinator:
    """A running coordinator.

    Attributes
    ----------
    epoch : its own
    sources : how many L0 views and runs a job of its own merges at least
    at_once : how many jobs are scheduled or running at once
    """

    store: ObjectStore
    clock: Clock
    sources: int = 2
    at_once: int = 1
    epoch: int = 0

    @property
    def stores(self) -> TableStores:
        """Without anything that it has seen before."""
        return stores_of(self.store)

    def start(self) -> None:
        """Claim the epoch, and take back what was scheduled; raises `FencedClientError` if another one does too."""
        while True:
            number, manifest = fetch_latest_manifest(self.stores)
            claim = replace(manifest, nonce=0, compactor_epoch=manifest.compactor_epoch + 1)
            if create_version(self.stores, number + 1, claim):
                break
        self.epoch = claim.compactor_epoch

        def taken(listed: Compactions) -> Compactions:
            if listed.compactor_epoch >= self.epoch:
                raise FencedClientError
            jobs = (
                replace(job, status=CompactionStatus.SUBMITTED) if job.status is CompactionStatus.SCHEDULED else job
                for job in listed.jobs
            )
            return Compactions(self.epoch, tuple(jobs))

        self._edit(taken, epoch=None)

    def tick(self) -> None:
        """Do everything once; raises `FencedClientError` if another one has taken over."""
        self._edit(self._reclaimed)
        for job in fetch_compactions(self.stores).value.jobs:
            if job.status is CompactionStatus.COMPACTED:
                self._commit(job)
        self._edit(lambda listed: self._scheduled(self._proposed(listed)))

    # --- jobs ---------------------------------------------------------------------------------------------------------

    def _reclaimed(self, listed: Compactions) -> Compactions:
        now_ms = self.clock.now_ms()

        def is_silent(job: Compaction) -> bool:
            heard = job.worker is not None and now_ms - job.worker.last_heartbeat_ms < SILENT_MS
            return job.status is CompactionStatus.RUNNING and not heard

        return replace(
            listed,
            jobs=tuple(
                replace(job, status=CompactionStatus.SCHEDULED, worker=None) if is_silent(job) else job
                for job in listed.jobs
            ),
        )

    def _proposed(self, listed: Compactions) -> Compactions:
        """Add a job of all L0 views and the newest run, unless one of L0 is active."""
        manifest = self._newest().value
        if listed.active_jobs() or len(manifest.l0) + min(1, len(manifest.compacted)) < self.sources:
            return listed
        runs = tuple(run.id for run in manifest.compacted[:1])
        destination = runs[-1] if runs else 0
        newest_ms = max((job.id.timestamp_ms for job in listed.jobs), default=0)
        job_id = new_ulid(self.clock, max(self.clock.now_ms(), newest_ms))
        spec = TieredSpec(tuple(view.id for view in manifest.l0), runs, destination)
        return replace(listed, jobs=(*listed.jobs, Compaction(job_id, spec, CompactionStatus.SUBMITTED)))

    def _scheduled(self, listed: Compactions) -> Compactions:
        """Schedule submitted jobs that are valid; the others have failed."""
        manifest = self._newest().value
        jobs: list[Compaction] = []
        for job in listed.jobs:
            found = job
            if job.status is CompactionStatus.SUBMITTED:
                others = [each for each in (*jobs, *listed.jobs[len(jobs) :]) if each.id != job.id and is_at_work(each)]
                is_free = not any(has_l0(each) for each in others) or not has_l0(job)
                if not is_valid(job, manifest, others):
                    found = replace(job, status=CompactionStatus.FAILED)
                elif is_free and sum(map(has_turn, others)) < self.at_once:
                    found = replace(job, status=CompactionStatus.SCHEDULED)
            jobs.append(found)
        return replace(listed, jobs=tuple(jobs))

    def _commit(self, job: Compaction) -> None:
        """Publish the outputs of a job, after a checkpoint for those who read its sources."""
        assert isinstance(job.spec, TieredSpec)
        status = CompactionStatus.COMPLETED
        while True:
            number, manifest = self._newest()
            if is_applied(job, manifest):
                break
            if not is_valid(job, manifest, []):
                status = CompactionStatus.FAILED
                break
            now_s = self.clock.now_ms() // 1000
            point = Checkpoint(new_uuid(self.clock), number, now_s + CHECKPOINT_S, now_s)
            pinned = replace(manifest, nonce=0, checkpoints=(*manifest.checkpoints, point))
            if create_version(self.stores, number + 1, pinned) and create_version(
                self.stores, number + 2, compacted(pinned, job)
            ):
                break
        self._edit(lambda listed: _ended(listed, job, status))

    # --- objects ------------------------------------------------------------------------------------------------------

    def _newest(self) -> Version[Manifest]:
        found = fetch_latest_manifest(self.stores)
        if found.value.compactor_epoch != self.epoch:
            raise FencedClientError
        return found

    def _edit(self, change: Callable[[Compactions], Compactions], epoch: int | None = -1) -> None:
        while True:
            number, listed = fetch_compactions(self.stores)
            if epoch is not None and listed.compactor_epoch != self.epoch:
                raise FencedClientError
            changed = change(listed)
            if changed == listed:
                return
            with contextlib.suppress(RaceLostError):
                create_compactions(self.stores, Version(number + 1, changed))
                return


def has_l0(job: Compaction) -> bool:
    """Tell whether a job merges L0 views."""
    return bool(job.spec.l0_view_ids)


def is_at_work(job: Compaction) -> bool:
    """Tell whether a job was given to a worker, or comes from one."""
    return job.status.is_active() and job.status is not CompactionStatus.SUBMITTED


def has_turn(job: Compaction) -> bool:
    """Tell whether a worker may take a job, or has it."""
    return job.status in (CompactionStatus.SCHEDULED, CompactionStatus.RUNNING)


def is_valid(job: Compaction, manifest: Manifest, others: list[Compaction]) -> bool:
    """Tell whether a job can be scheduled or committed: its sources are neighbours, in their order."""
    spec = job.spec
    if not isinstance(spec, TieredSpec):
        return False
    order: list[object] = [*(view.id for view in manifest.l0), *(run.id for run in manifest.compacted)]
    wanted: list[object] = [*spec.l0_view_ids, *spec.sorted_runs]
    if not wanted or wanted[0] not in order:
        return False
    first = order.index(wanted[0])
    if order[first : first + len(wanted)] != wanted:
        return False
    runs = [run.id for run in manifest.compacted]
    if spec.sorted_runs:
        fits = spec.destination == min(spec.sorted_runs)
    else:
        fits = all(spec.destination > run for run in runs)
    taken = {source for each in others for source in (*each.spec.l0_view_ids, *each.spec.sorted_runs)}
    return fits and not taken & set(wanted)


def is_applied(job: Compaction, manifest: Manifest) -> bool:
    """Tell whether a version shows the outputs of a job of runs that goes into one of them, and none of the others."""
    spec = job.spec
    if not isinstance(spec, TieredSpec) or spec.l0_view_ids or spec.destination not in spec.sorted_runs:
        return False
    found = [run for run in manifest.compacted if run.id in spec.sorted_runs]
    views = tuple(SstView(output.id, output.id) for output in job.output_ssts)
    return [(run.id, run.views) for run in found] == [(spec.destination, views)]


def compacted(manifest: Manifest, job: Compaction) -> Manifest:
    """Return a manifest with the outputs of a job in place of its sources."""
    spec = job.spec
    assert isinstance(spec, TieredSpec)
    run = SortedRun(spec.destination, tuple(SstView(output.id, output.id) for output in job.output_ssts))
    kept = [each for each in manifest.compacted if each.id not in spec.sorted_runs]
    after = replace(
        manifest,
        ssts=manifest.ssts.adding(job.output_ssts),
        l0=tuple(view for view in manifest.l0 if view.id not in spec.l0_view_ids),
        compacted=tuple(sorted([*kept, run], key=lambda each: -each.id)),
        last_compacted_l0_sst_view_id=(spec.l0_view_ids or (manifest.last_compacted_l0_sst_view_id,))[0],
    )
    return replace(after, ssts=after.ssts.keeping({view.sst_id for view in after.views()}))


def _ended(listed: Compactions, job: Compaction, status: CompactionStatus) -> Compactions:
    """Return the list with a job ended; of those that have, only the newest stays."""
    jobs = [replace(each, status=status) if each.id == job.id else each for each in listed.jobs]
    ended = [each for each in jobs if not each.status.is_active()]
    newest = max(ended, key=lambda each: each.id, default=None)
    return replace(listed, jobs=tuple(each for each in jobs if each.status.is_active() or each is newest))
