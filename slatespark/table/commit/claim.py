"""Claiming a database for one commit: both epochs in one manifest, then a fence in the WAL.

See docs/explanation/taking-over-a-database.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from slatespark.errors import UnsupportedFormatError
from slatespark.format.invariants import check_manifest
from slatespark.format.manifest import Manifest, encode_manifest
from slatespark.format.paths import wal_path
from slatespark.format.tables import refuse_unknown_fields
from slatespark.ranges import KeyRange
from slatespark.table.clock import Clock
from slatespark.table.log.manifests import MAX_AHEAD_MS, NONCE_BITS, fetch_latest_manifest, manifest_log
from slatespark.table.log.versioned_object import RaceLostError
from slatespark.table.records.claims import publish_claim
from slatespark.table.snapshot import wal_sizes
from slatespark.table.stores import TableStores


@dataclass(frozen=True, slots=True)
class Claim:
    """Epochs that are ours until another writer claims higher ones.

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
    """Refuse databases that can be read but not written."""
    refuse_unknown_fields(manifest.unknown_fields, f"{url}: the manifest")
    if manifest.segments or manifest.segment_extractor_name is not None:
        raise UnsupportedFormatError(
            f"{url} is segmented by {manifest.segment_extractor_name!r}; such databases can only be read.",
            todo="Write with a SlateDB client that has this extractor.",
        )
    if not manifest.initialized:
        raise UnsupportedFormatError(
            f"{url} is a clone that is still being created.", todo="Wait until it is finished."
        )


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
    """Claim both epochs in the manifest after the checked one, fence the WAL, and confirm that both are still ours.

    Parameters
    ----------
    prepare : completes the claim; called with (claim, sizes of the WAL files by id, first free WAL id)
    removes : key ranges in which the commit removes rows without writing a newer version

    Raises
    ------
    RaceLostError
        When another writer was faster.
    """
    # The fence's id is chosen before the claim, as the client does. A later claimant fences no lower, so our fence
    # collides with theirs instead of landing among their files.
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
    """Create an empty object at the id that the previous writer would write next; False if that file exists."""
    try:
        stores.wal.create(wal_path(claim.fence), b"")
    except FileExistsError:
        return False
    return True


def _check_held(stores: TableStores, claim: Claim) -> None:
    if not claim.holds(fetch_latest_manifest(stores)[1]):
        raise RaceLostError(f"epochs {claim.writer_epoch}/{claim.compactor_epoch} were claimed by another writer")
