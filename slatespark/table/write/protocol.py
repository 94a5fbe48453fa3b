"""The steps that take a database over for one commit: claim both epochs, fence the WAL, clear active compactions.

Source: spec sections 4.3, 10.1, 12.1, 12.10.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from slatespark.errors import CommitConflictError, SnapshotExpiredError, UnsupportedFormatError
from slatespark.format.compactions import (
    Compaction,
    Compactions,
    CompactionStatus,
    decode_compactions,
    encode_compactions,
)
from slatespark.format.invariants import check_manifest
from slatespark.format.manifest import Manifest, decode_manifest, encode_manifest
from slatespark.format.paths import (
    COMPACTIONS_DIR,
    COMPACTIONS_EXTENSION,
    compactions_path,
    wal_path,
)
from slatespark.ranges import KeyRange
from slatespark.table.clock import Clock
from slatespark.table.located import reading
from slatespark.table.numbered_log import NumberedLog, OutrunError
from slatespark.table.records import (
    fetch_claimed_digests,
    fetch_worker_report,
    find_worker,
    manifest_digest,
    publish_claim,
)
from slatespark.table.snapshot import fetch_latest_manifest, manifest_log, wal_sizes
from slatespark.table.stores import TableStores
from slatespark.table.write.history_hold import HELD_MS, HOLDER

HEARTBEAT_FRESH_MS = 30_000  # the client's own time-out of a compaction worker (spec 6.3)
NONCE_BITS = 64
MAX_AHEAD_MS = 10_000  # the real client waits this long for its clock to pass the last tick, then fails (spec 4.1)


class RaceLostError(Exception):
    """Somebody was faster at one step; nothing was published, and the commit may start over."""


class PassedByCollectorError(RaceLostError):
    """A version was created, and may have been the newest one for a while, before a collector passed its number.

    Others may have gone on from it: to publish its rows once more could count operands twice.
    """


@dataclass(frozen=True, slots=True)
class Claim:
    """Epochs that are ours until somebody claims higher ones.

    Attributes
    ----------
    manifest_id : the version that claims them
    writer_epoch, compactor_epoch : their values
    fence : id of our WAL fence; no row of another writer can follow it
    """

    manifest_id: int
    writer_epoch: int
    compactor_epoch: int
    fence: int

    def holds(self, manifest: Manifest) -> bool:
        """Tell whether a manifest still carries our epochs."""
        return (manifest.writer_epoch, manifest.compactor_epoch) == (self.writer_epoch, self.compactor_epoch)


def refuse_unwritable(url: str, manifest: Manifest) -> None:
    """Refuse databases that may be read but not written."""
    if manifest.segments or manifest.segment_extractor_name is not None:
        raise UnsupportedFormatError(
            f"{url} is segmented by {manifest.segment_extractor_name!r}; such databases can only be read.",
            todo="Write with a SlateDB client that has this extractor.",
        )
    if not manifest.initialized:
        raise UnsupportedFormatError(f"{url} is a clone that is still being made.", todo="Wait until it is finished.")


def publish_manifest(
    stores: TableStores,
    manifest_id: int,
    manifest: Manifest,
    current: Manifest | None,
    clock: Clock,
    *,
    own_time: bool = False,
) -> None:
    """Check the invariants of a manifest and create it as version `manifest_id`.

    Parameters
    ----------
    own_time : the table has a clock of its own, which ours says nothing about

    Raises
    ------
    RaceLostError
        When the version exists.
    InternalError
        When an invariant does not hold; nothing was published.
    PassedByCollectorError
        When a collector passed the version before it could be known whether it was published.
    """
    now_ms = clock.now_ms() + MAX_AHEAD_MS
    check_manifest(manifest, current, new_id=manifest_id, now_ms=now_ms, own_time=own_time)
    try:
        manifest_log(stores).create(manifest_id, encode_manifest(manifest))
    except OutrunError as exc:
        raise PassedByCollectorError(manifest_id) from exc
    except FileExistsError as exc:
        raise RaceLostError(f"manifest {manifest_id} exists") from exc


Prepare: TypeAlias = Callable[[Manifest, Mapping[int, int], int], Manifest]


def claim_epochs(
    stores: TableStores,
    checked_id: int,
    checked: Manifest,
    clock: Clock,
    *,
    write_id: str,
    attempt: int,
    prepare: Prepare | None = None,
    removes: Sequence[KeyRange] = (),
) -> Claim:
    """Claim both epochs right after the manifest that was checked, fence the WAL, and make sure that both held.

    Parameters
    ----------
    prepare : what else the claim says: of (claim, sizes of the WAL files by id, first WAL id that is free)
    removes : keys of which the commit is about to take rows away without a newer version of them

    Raises
    ------
    RaceLostError
        When another writer came in between.
    """
    # The place of the fence is chosen before the claim, as the client does: whoever claims after us fences no lower, so
    # that our fence meets theirs instead of landing in the middle of their files.
    taken = wal_sizes(stores, checked)
    first_free = _first_free_wal_id(taken, checked)
    claiming = replace(
        checked,
        writer_epoch=checked.writer_epoch + 1,
        compactor_epoch=checked.compactor_epoch + 1,
        nonce=clock.random_bits(NONCE_BITS),
    )
    manifest_id = checked_id + 1
    if prepare is not None:
        claiming = prepare(claiming, taken, first_free)
    check_manifest(claiming, checked, new_id=manifest_id, now_ms=clock.now_ms() + MAX_AHEAD_MS)
    data = encode_manifest(claiming)
    publish_claim(stores.main, manifest_id, write_id, attempt, data, removes=removes)
    try:
        manifest_log(stores).create(manifest_id, data)
    except FileExistsError as exc:
        raise RaceLostError(f"manifest {manifest_id} exists") from exc
    claim = Claim(manifest_id, claiming.writer_epoch, claiming.compactor_epoch, first_free)
    while not _fence_wal(stores, claim):
        _check_held(stores, claim)
        claim = replace(claim, fence=claim.fence + 1)
    _check_held(stores, claim)
    return claim


def _first_free_wal_id(taken: Mapping[int, int], manifest: Manifest) -> int:
    number = manifest.replay_after_wal_id + 1
    while number in taken:
        number += 1
    return number


def _fence_wal(stores: TableStores, claim: Claim) -> bool:
    """Put an empty object where the writer before us goes on; False if there is a file already."""
    try:
        stores.wal.create(wal_path(claim.fence), b"")
    except FileExistsError:
        return False
    return True


def _check_held(stores: TableStores, claim: Claim) -> None:
    if not claim.holds(fetch_latest_manifest(stores)[1]):
        raise RaceLostError(f"epochs {claim.writer_epoch}/{claim.compactor_epoch} were claimed by another writer")


# --- other clients --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Baseline:
    """How far the database had come when a write was planned.

    Attributes
    ----------
    manifest_id : newest version; 0 if there was no table
    writer_epoch, compactor_epoch, last_l0_seq : of that version
    wal_end : first WAL id that did not exist
    """

    manifest_id: int
    writer_epoch: int
    compactor_epoch: int
    last_l0_seq: int
    wal_end: int


def refuse_foreign_client(
    stores: TableStores, latest_id: int, latest: Manifest, baseline: Baseline, *, now_ms: int
) -> None:
    """Refuse to commit when a SlateDB client was at work since the write was planned.

    Parameters
    ----------
    latest_id, latest : the newest manifest
    baseline : what the write was planned on

    Raises
    ------
    CommitConflictError
        When epochs were raised by anyone but a job of ours, when rows were added under the same epochs, in the WAL or
        in L0, or when a compaction with a fresh heartbeat runs.
    """
    if (epoch := _find_foreign_epoch(stores, latest_id, latest, baseline)) is not None:
        raise _client_active(stores, f"a SlateDB client claimed {epoch} during the write")
    # Under epochs that a job of ours claimed, only that job writes; and only jobs of ours create tables with rows.
    unclaimed = baseline.manifest_id > 0 and _epochs(latest) == _epochs(baseline)
    moved = unclaimed and latest.last_l0_seq != baseline.last_l0_seq
    flushed = moved and not are_epochs_ours(stores, latest_id, latest)
    first_new = max(baseline.wal_end, latest.replay_after_wal_id + 1)
    if flushed or any(size for number, size in wal_sizes(stores, latest).items() if number >= first_new):
        raise _client_active(
            stores, f"the SlateDB client with writer epoch {latest.writer_epoch} wrote during the write"
        )
    refuse_foreign_job(stores, now_ms=now_ms)


def refuse_foreign_job(stores: TableStores, *, now_ms: int) -> None:
    """Refuse while another client's compaction with a fresh heartbeat runs; raises `CommitConflictError`."""
    compactions = fetch_compactions(stores)[1]
    for job in compactions.active_jobs():
        if not has_fresh_heartbeat(job, now_ms) or is_own_job(stores, job):
            continue
        # What tells that it is ours goes once it has ended, and is off the list by then.
        if job.id in {active.id for active in fetch_compactions(stores)[1].active_jobs()}:
            raise _client_active(stores, f"a compaction under compactor epoch {compactions.compactor_epoch} is running")


def _client_active(stores: TableStores, fact: str) -> CommitConflictError:
    return CommitConflictError(
        f"{stores.url}: {fact}.",
        why="Committing would shut that client out.",
        todo="Write again when it is closed, or set ifClientActive=fence.",
    )


def _find_foreign_epoch(stores: TableStores, latest_id: int, latest: Manifest, baseline: Baseline) -> str | None:
    """Return the first epoch raised since the baseline that no claim of ours explains."""
    known = _epochs(baseline)
    if known == _epochs(latest):
        return None
    log = manifest_log(stores)
    for number in range(baseline.manifest_id + 1, latest_id + 1):
        try:
            data = bytes(log.get(number))
        except SnapshotExpiredError:  # collected, so nobody can tell whose it was
            if are_epochs_ours(stores, latest_id, latest):  # and if it was a client's, that is shut out by now
                return None
            return f"writer epoch {latest.writer_epoch}, perhaps,"
        epochs = _epochs(decode_manifest(data))
        if epochs != known and manifest_digest(data) not in fetch_claimed_digests(stores.main, number):
            return f"writer epoch {epochs[0]}" if epochs[0] != known[0] else f"compactor epoch {epochs[1]}"
        known = epochs
    return None


def are_epochs_ours(stores: TableStores, latest_id: int, latest: Manifest) -> bool:
    """Tell whether the version that raised the epochs to their present values is a claim of ours."""
    log, epochs = manifest_log(stores), _epochs(latest)
    for number in range(latest_id, 0, -1):
        try:
            data = bytes(log.get(number))
        except SnapshotExpiredError:
            return False
        if _epochs(decode_manifest(data)) != epochs:
            return False
        if manifest_digest(data) in fetch_claimed_digests(stores.main, number):
            return True
    return False


def _epochs(state: Manifest | Baseline) -> tuple[int, int]:
    return state.writer_epoch, state.compactor_epoch


def has_fresh_heartbeat(job: Compaction, now_ms: int) -> bool:
    """Tell whether a worker reported lately; one from the far future is a hold, which is never stale (spec 12.7)."""
    if job.status is not CompactionStatus.RUNNING or job.worker is None:
        return False
    return _is_fresh(job.worker.last_heartbeat_ms, now_ms)


def _is_fresh(heartbeat_ms: int, now_ms: int) -> bool:
    return abs(now_ms - heartbeat_ms) < HEARTBEAT_FRESH_MS


# --- compactions ----------------------------------------------------------------------------------------------------


def compactions_log(stores: TableStores) -> NumberedLog:
    """Return the chain of compactions files."""
    return NumberedLog(stores.main, COMPACTIONS_DIR, COMPACTIONS_EXTENSION, compactions_path, "compactions")


def fetch_compactions(stores: TableStores) -> tuple[int, Compactions]:
    """Return id and content of the newest compactions file; (0, none) if there is no such file."""
    log = compactions_log(stores)
    found = log.latest()
    if found is None:
        return 0, Compactions(compactor_epoch=0, jobs=())
    with reading(stores.main, log.path(found[0])):
        return found[0], decode_compactions(bytes(found[1]))


def is_own_job(stores: TableStores, job: Compaction) -> bool:
    """Tell whether a job is a compaction of ours, or a hold."""
    if job.worker is None:
        return False
    return job.worker.worker_id == HOLDER or find_worker(stores.main, job.worker.worker_id) is not None


def runs_here(stores: TableStores, job: Compaction, now_ms: int) -> bool:
    """Tell whether a job is a compaction of ours that somebody still works on, as far as can be known."""
    if job.worker is None or job.status is not CompactionStatus.RUNNING:
        return False
    if find_worker(stores.main, job.worker.worker_id) is None:
        return False
    if job.worker.last_heartbeat_ms == HELD_MS:  # no coordinator may ever find it old; its worker notes the time apart
        reported_ms = fetch_worker_report(stores.main, job.worker.worker_id)
        return reported_ms is not None and _is_fresh(reported_ms, now_ms)
    return has_fresh_heartbeat(job, now_ms)


def awaits_commit(stores: TableStores, job: Compaction, now_ms: int) -> bool:
    """Tell whether a compaction of ours is listed as completed, and may not be committed yet.

    Its entry keeps collectors off its files until then.
    """
    if job.worker is None or job.status is not CompactionStatus.COMPLETED:
        return False
    if not _is_fresh(job.worker.last_heartbeat_ms, now_ms):
        return False
    return find_worker(stores.main, job.worker.worker_id) is not None


def is_claim(stores: TableStores, manifest_id: int) -> bool:
    """Tell whether a manifest is the claim of a job of ours: what this job commits is to follow."""
    data = bytes(manifest_log(stores).get(manifest_id))
    return manifest_digest(data) in fetch_claimed_digests(stores.main, manifest_id)


def clear_active_jobs(
    stores: TableStores,
    claim: Claim,
    hold: Compaction | None = None,
    *,
    now_ms: int,
    runs: Collection[int],
    own: Compaction | None = None,
) -> None:
    """Take active jobs off the list: one that stayed would later bring back what a commit removed (spec 12.1.2).

    Compactions of ours that are under way stay, since they keep collectors off their files. They have stored nothing
    that a coordinator could commit: one that took them over would merge what stands by then. But their runs have to be
    there: a worker of the client that misses one releases the job, takes it up again, and so on for ever.

    Parameters
    ----------
    hold : an active job to be there afterwards, if any
    runs : ids of the runs that the commit leaves
    own : the compaction that is about to be committed, completed: if this process dies, nobody takes it over

    Raises
    ------
    RaceLostError
        When another coordinator took over, or wrote meanwhile.
    """
    number, compactions = fetch_compactions(stores)
    if compactions.compactor_epoch > claim.compactor_epoch:  # a client stops at an epoch that falls
        raise RaceLostError("another coordinator claimed a higher epoch")
    left = frozenset(runs)

    def stays(job: Compaction) -> bool:
        if job.status.is_active():
            return runs_here(stores, job, now_ms) and left.issuperset(job.spec.sorted_runs)
        return own is None or awaits_commit(stores, job, now_ms)  # the client keeps the last one alone (spec 6.1)

    kept = [job for job in compactions.jobs if (own is None or job.id != own.id) and stays(job)]
    added = [job for job in (hold, own) if job is not None]
    if len(kept) == len(compactions.jobs) and not added:
        return
    cleared = replace(compactions, compactor_epoch=claim.compactor_epoch, jobs=(*kept, *added))
    try:
        compactions_log(stores).create(number + 1, encode_compactions(cleared))
    except FileExistsError as exc:
        raise RaceLostError("a compactor wrote its state") from exc
