"""Facts of a version from manifests alone: who wrote it, and what changed from the version before. Pure.

Every slatespark manifest has a nonce, a client's has none (docs/adr/0001). So the author is known even without a commit
record. The operation follows from a comparison with the version before, if that still exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from slatespark.format.manifest_outline import ManifestOutline
from slatespark.table.records.operations import ENGINE

CLIENT: Final = "slatedb"  # any SlateDB client: manifests do not name it
CLAIM: Final = "claim"


_NOTHING: Final = ManifestOutline(
    nonce=0,
    initialized=True,
    writer_epoch=0,
    compactor_epoch=0,
    replay_after_wal_id=0,
    wal_id_last_seen=0,
    last_l0_seq=0,
    sst_ids=frozenset(),
    l0=frozenset(),
    runs=frozenset(),
    checkpoints={},
    external_dbs=0,
)


@dataclass(frozen=True, slots=True)
class VersionChange:
    """A version compared with the one before.

    Attributes
    ----------
    engine : `slatespark`, or `slatedb` for a SlateDB client
    operation : see `VersionFacts`; None if unknown
    first_seq, last_seq : the sequence numbers of the rows added to the trees; None without any
    added, removed : number of files; None if the version before is unknown
    """

    engine: str
    operation: str | None
    first_seq: int | None = None
    last_seq: int | None = None
    added: int | None = None
    removed: int | None = None


# What a claim changes besides the epochs.
CLAIMED: Final = VersionChange(ENGINE, CLAIM, added=0, removed=0)


def compare_versions(before: ManifestOutline | None, after: ManifestOutline, *, is_first: bool) -> VersionChange:
    """Return what a version changed.

    Parameters
    ----------
    before : the version just before; None if there is none, or it is unknown
    after : the version
    is_first : whether it is the first version of the table
    """
    engine = ENGINE if after.nonce else CLIENT
    if is_first:
        before = _NOTHING
    if before is None:
        return VersionChange(engine, None)
    grew = after.last_l0_seq > before.last_l0_seq
    return VersionChange(
        engine,
        "create" if is_first else _operation(before, after),
        before.last_l0_seq + 1 if grew else None,
        after.last_l0_seq if grew else None,
        added=len(after.sst_ids - before.sst_ids),
        removed=len(before.sst_ids - after.sst_ids),
    )


def _operation(before: ManifestOutline, after: ManifestOutline) -> str | None:
    """Return the operation; of several at once the most important one."""
    if after.writer_epoch > before.writer_epoch:
        return CLAIM if after.nonce else "open"
    if after.compactor_epoch > before.compactor_epoch:
        return "open compactor"
    has_new_trees = (before.l0, before.runs, before.sst_ids) != (after.l0, after.runs, after.sst_ids)
    if has_new_trees and after.nonce:
        return None  # a slatespark commit without a record: unknown
    if after.l0 - before.l0:
        return "flush"
    if has_new_trees:
        return "compact"
    return _operation_on_versions(before, after)


def _operation_on_versions(before: ManifestOutline, after: ManifestOutline) -> str | None:
    """Return the operation of a change that leaves the trees unchanged."""
    if after.checkpoints.keys() - before.checkpoints.keys():
        return "create checkpoint"
    if before.checkpoints.keys() - after.checkpoints.keys():
        return "delete checkpoint"
    if after.checkpoints != before.checkpoints:
        return "refresh checkpoint"
    if after.initialized and not before.initialized:
        return "clone"
    if after.external_dbs < before.external_dbs:
        return "detach"
    return None if after.nonce else "advance"
