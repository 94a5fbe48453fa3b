"""Claiming a database for one commit: both epochs in one manifest, then a fence in the WAL.

See docs/explanation/taking-over-a-database.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeAlias

from slatespark.errors import TableNotFoundError, UnsupportedFormatError
from slatespark.format.envelope import refuse_unknown_fields
from slatespark.format.invariants import check_manifest
from slatespark.format.manifest import Manifest
from slatespark.format.manifest_codec import encode_manifest
from slatespark.format.paths import wal_path
from slatespark.ranges import KeyRange
from slatespark.storage import run_ahead
from slatespark.table.clock import Clock
from slatespark.table.commit.prefetch import FetchJobs
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.log.manifests import MAX_AHEAD_MS, draw_nonce, fetch_newest_since, manifest_log
from slatespark.table.log.numbered_log import CollectedNumberError
from slatespark.table.log.versioned_object import RaceLostError, Version
from slatespark.table.records.claims import publish_claim
from slatespark.table.snapshot import newest_wal_sizes
from slatespark.table.stores import TableStores

MIN_PATIENCE_MS: Final = 200
DRAINED_BYTES_PER_MS: Final = 20_000  # at least: rows of the WAL are sorted and uploaded between claim and commit


@dataclass(frozen=True, slots=True)
class Claim:
    """Epochs that are this commit's until another writer claims higher ones.

    Attributes
    ----------
    version : the one that claims them
    fence_id : id of the fence in the WAL; no row of another writer can follow it
    is_confirmed : whether its number was a new one when it was created. Otherwise a process that slept since it looked
        for the newest version has claimed a version that another one had claimed, and a collector deleted; then
        epochs do not tell, as that claim has raised them by one too
    """

    version: Version[Manifest]
    fence_id: int
    is_confirmed: bool = field(default=False, compare=False)

    @property
    def compactor_epoch(self) -> int:
        """The claimed compactor epoch."""
        return self.version.value.compactor_epoch

    def holds(self, manifest: Manifest) -> bool:
        """Tell whether a manifest still carries these epochs."""
        return manifest.epochs == self.version.value.epochs


def refuse_unwritable(url: str, manifest: Manifest) -> None:
    """Refuse databases that can be read but not written."""
    refuse_unknown_fields(manifest.unknown_fields, f"{url}: the manifest")
    if manifest.segments and (manifest.segment_extractor_name is None or manifest.l0 or manifest.compacted):
        raise UnsupportedFormatError(
            f"{url} has segments, and "
            f"{'no segment extractor' if manifest.segment_extractor_name is None else 'rows outside of them'}.",
            why="No SlateDB client writes this.",
            todo="Copy its rows to a new table.",
        )
    if not manifest.initialized:
        raise UnsupportedFormatError(
            f"{url} is a clone that is still being created.", todo="Wait until it is finished."
        )


Prepare: TypeAlias = Callable[[Manifest, Mapping[int, int], int], Manifest]


def claim_epochs(
    stores: TableStores,
    clock: Clock,
    checked: Version[Manifest],
    *,
    write_id: str,
    attempt: int,
    prepare: Prepare | None = None,
    removes: Sequence[KeyRange] = (),
    patience_ms: int = MIN_PATIENCE_MS,
) -> tuple[Claim, Version[Manifest], FetchJobs]:
    """Claim both epochs in the manifest after the checked one, fence the WAL, and confirm that both still hold.

    Returns the claim, the newest version (the claim itself, or one that a reader has published on top of it), and the
    function that waits for the list of compactions, as it is after the claim.

    Parameters
    ----------
    checked : the newest version, of which the commit has checked what needs no claim
    prepare : completes the claim; called with (claim, sizes of the WAL files by id, first free WAL id)
    removes : key ranges in which the commit removes rows without writing a newer version
    patience_ms : how long the steps until the commit may take; more is added for rows in the WAL

    Raises
    ------
    RaceLostError
        When another writer was faster.
    """
    # The fence's id is chosen before the claim, as the client does. A later claimant fences no lower, so this
    # fence collides with the other instead of landing among its files.
    base, manifest_id = checked.value, checked.number + 1
    taken = newest_wal_sizes(stores, checked)
    first_free = _first_free_wal_id(taken, base)
    claiming = replace(
        base,
        writer_epoch=base.writer_epoch + 1,
        compactor_epoch=base.compactor_epoch + 1,
        nonce=draw_nonce(clock, is_claim=True),
    )
    if prepare is not None:
        claiming = prepare(claiming, taken, first_free)
    check_manifest(claiming, base, new_id=manifest_id, now_ms=clock.now_ms() + MAX_AHEAD_MS)
    data = encode_manifest(claiming)
    patience_ms += sum(taken.values()) // DRAINED_BYTES_PER_MS
    publish_claim(stores.main, manifest_id, write_id, attempt, data, removes=removes, patience_ms=patience_ms)
    try:
        manifest_log(stores).create(manifest_id, data, confirm=False)  # `fetch_held` does, along with the fence
    except FileExistsError as exc:
        raise RaceLostError(f"manifest {manifest_id} exists") from exc
    jobs = run_ahead(partial(fetch_compactions, stores), is_remote=stores.main.is_remote)
    claim, held = _fence(stores, Claim(Version(manifest_id, claiming), first_free))
    return claim, held, jobs


def _fence(stores: TableStores, claim: Claim) -> tuple[Claim, Version[Manifest]]:
    """Fence the WAL, and confirm the epochs; return the claim with the id of the fence, and the newest version."""
    if stores.main.is_remote:
        # Together: whoever publishes a version between read and fence takes the number that the commit needs.
        fence = run_ahead(partial(_fence_wal, stores, claim), is_remote=True)
        try:
            newest = fetch_held(stores, claim)
        finally:
            is_fenced = fence()
        if is_fenced:
            return replace(claim, is_confirmed=True), newest
    # One after the other: whoever has taken an id may hold the epochs by now, and must not meet a second fence.
    while not _fence_wal(stores, claim):
        fetch_held(stores, claim)
        claim = replace(claim, fence_id=claim.fence_id + 1)
    newest = fetch_held(stores, claim)
    return replace(claim, is_confirmed=True), newest


def _first_free_wal_id(taken: Mapping[int, int], manifest: Manifest) -> int:
    number = manifest.replay_after_wal_id + 1
    while number in taken:
        number += 1
    return number


def _fence_wal(stores: TableStores, claim: Claim) -> bool:
    """Create an empty object at the id that the previous writer would write next; False if that file exists."""
    try:
        stores.wal.create(wal_path(claim.fence_id), b"")
    except FileExistsError:
        return False
    return True


def fetch_held(stores: TableStores, claim: Claim) -> Version[Manifest]:
    """Return the newest version, which must carry the claimed epochs.

    Raises
    ------
    RaceLostError
        When it does not.
    TableNotFoundError
        When a drop has declared all versions dead; a writer that tried again would make more of them.
    """
    try:
        newest = fetch_newest_since(stores, claim.version, confirm=not claim.is_confirmed)
    except CollectedNumberError as exc:
        if not manifest_log(stores).numbers():
            raise TableNotFoundError(f"{stores.url}: the table is being removed.") from exc
        raise RaceLostError(f"manifest {claim.version.number} was claimed and collected before") from exc
    if not claim.holds(newest.value):
        own = claim.version.value
        raise RaceLostError(f"epochs {own.writer_epoch}/{own.compactor_epoch} were claimed by another writer")
    return newest
