"""Jobs in `.compactions` at a commit: which are slatespark's, which are alive, and which the commit removes."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from slatespark.errors import SlateError
from slatespark.format.compactions import (
    Compaction,
    Compactions,
    CompactionStatus,
)
from slatespark.format.manifest import Manifest
from slatespark.table.clock import Clock, new_ulid
from slatespark.table.commit.claim import Claim
from slatespark.table.commit.hold import NEVER_STALE_MS, is_hold, plan_hold
from slatespark.table.log.compactions import create_compactions, fetch_compactions
from slatespark.table.log.versioned_object import RaceLostError, Version
from slatespark.table.records.workers import fetch_worker_report, find_worker
from slatespark.table.stores import TableStores

if TYPE_CHECKING:  # planning a write uploads nothing
    from slatespark.table.rows.sst_upload import NewFile

HEARTBEAT_FRESH_MS = 30_000  # the client's own time-out of a compaction worker (docs/reference/format/compactions.md)


def has_fresh_heartbeat(job: Compaction, now_ms: int) -> bool:
    """Tell whether the worker of a job reported lately; a hold, with a heartbeat in the far future, is never stale."""
    if job.status is not CompactionStatus.RUNNING or job.worker is None:
        return False
    return abs(now_ms - job.worker.last_heartbeat_ms) < HEARTBEAT_FRESH_MS


def _is_alive(heartbeat_ms: int, now_ms: int) -> bool:
    """Tell whether a worker of slatespark reported lately, also after `now_ms`: that may be from before its report."""
    return heartbeat_ms != NEVER_STALE_MS and now_ms - heartbeat_ms < HEARTBEAT_FRESH_MS


def is_own_job(stores: TableStores, job: Compaction) -> bool:
    """Tell whether a job is a compaction of slatespark, or a hold."""
    if job.worker is None:
        return False
    return is_hold(job) or find_worker(stores.main, job.worker.worker_id) is not None


def runs_here(stores: TableStores, job: Compaction, now_ms: int) -> bool:
    """Tell whether a job is a compaction of slatespark whose worker is alive, as far as its reports tell."""
    if job.worker is None or job.status is not CompactionStatus.RUNNING:
        return False
    if find_worker(stores.main, job.worker.worker_id) is None:
        return False
    # No coordinator may ever find such a job stale, so its worker reports in a record of its own.
    if job.worker.last_heartbeat_ms == NEVER_STALE_MS:
        reported_ms = fetch_worker_report(stores.main, job.worker.worker_id)
        return reported_ms is not None and _is_alive(reported_ms, now_ms)
    return _is_alive(job.worker.last_heartbeat_ms, now_ms)


def is_at_work(stores: TableStores, job: Compaction, now_ms: int) -> bool:
    """Tell whether a job is running, slatespark's or a client's; a hold is not."""
    return runs_here(stores, job, now_ms) or has_fresh_heartbeat(job, now_ms)


def awaits_commit(stores: TableStores, job: Compaction, now_ms: int) -> bool:
    """Tell whether a compaction of slatespark is listed as completed but perhaps not committed yet.

    Until then its entry protects its files from garbage collection.
    """
    if job.worker is None or job.status is not CompactionStatus.COMPLETED:
        return False
    if not _is_alive(job.worker.last_heartbeat_ms, now_ms):
        return False
    return find_worker(stores.main, job.worker.worker_id) is not None


def completed_job(own: Compaction | None, files: Sequence[NewFile], now_ms: int) -> Compaction | None:
    """Return the entry of a compaction of slatespark after its commit; None for other operations."""
    if own is None:
        return None
    assert own.worker is not None  # all of slatespark's have one
    worker = replace(own.worker, last_heartbeat_ms=now_ms)
    outputs = tuple(file.handle for file in files)
    return replace(own, status=CompactionStatus.COMPLETED, output_ssts=outputs, worker=worker)


def clear_active_jobs(
    stores: TableStores,
    claim: Claim,
    hold: Compaction | None = None,
    *,
    now_ms: int,
    runs: Collection[int],
    own: Compaction | None = None,
    listed: Version[Compactions] | None = None,
) -> None:
    """Remove active jobs from the list: a job that stayed could later bring back rows that the commit removes.

    slatespark's running compactions stay: their entries protect their files from garbage collection. A coordinator
    that reclaims one has no output to commit, and merges the sources as they are then. But its runs must exist: a
    client's worker that misses one releases the job, claims it again, and so on forever.

    Parameters
    ----------
    hold : an active job to add, if any
    runs : ids of the runs that the commit leaves
    own : the compaction that is about to be committed, as completed: if this process dies, no worker reclaims it
    listed : the newest list, if it was fetched just now, after the claim

    Raises
    ------
    RaceLostError
        When another coordinator claimed a higher epoch, or changed the list meanwhile.
    """
    number, compactions = fetch_compactions(stores) if listed is None else listed
    if compactions.compactor_epoch > claim.compactor_epoch:  # a client stops when an epoch decreases
        raise RaceLostError("another coordinator claimed a higher epoch")
    left = frozenset(runs)

    def stays(job: Compaction) -> bool:
        if job.status.is_active():
            return runs_here(stores, job, now_ms) and left.issuperset(job.spec.sorted_runs)
        return own is None or awaits_commit(stores, job, now_ms)  # the client keeps only the last one

    kept = [job for job in compactions.jobs if (own is None or job.id != own.id) and stays(job)]
    added = [job for job in (hold, own) if job is not None]
    if len(kept) == len(compactions.jobs) and not added:
        return
    cleared = replace(compactions, compactor_epoch=claim.compactor_epoch, jobs=(*kept, *added))
    create_compactions(stores, Version(number + 1, cleared))


def hold_exactly(stores: TableStores, clock: Clock, claim: Claim, manifest: Manifest) -> None:
    """Hold exactly the published runs of a history table: a client does not create a run whose id is held."""
    with contextlib.suppress(RaceLostError, SlateError):  # the commit has landed, and the next one renews the hold
        now_ms, runs = clock.now_ms(), manifest.run_ids()
        clear_active_jobs(stores, claim, plan_hold(runs, new_ulid(clock, now_ms)), now_ms=now_ms, runs=runs)
