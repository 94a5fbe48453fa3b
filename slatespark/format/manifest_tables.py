"""What both versions of a manifest have in common: all but the trees."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from slatespark.errors import CorruptDataError
from slatespark.format.manifest import Checkpoint, ExternalDb, Manifest
from slatespark.format.references import SstHandle, SstMap
from slatespark.format.schemas import CHECKPOINT, EXTERNAL_DB, WRITER_CHECKPOINT
from slatespark.format.sequence_tracker import SequenceTracker, decode_sequence_tracker
from slatespark.format.ulid import Ulid
from slatespark.format.verifier import Table
from slatespark.format.wire_columns import WireColumns, ulids_of
from slatespark.format.wire_table import WireTable, field_numbers

_WRITER_CHECKPOINT: Final = 1
_ID, _MANIFEST_ID, _EXPIRES, _CREATED, _METADATA, _NAME = field_numbers(
    CHECKPOINT, "id", "manifest_id", "checkpoint_expire_time_s", "checkpoint_create_time_s", "metadata", "name"
)
_METADATA_TYPE: Final = _METADATA - 1  # of a union, the type comes first
(_EPOCH,) = field_numbers(WRITER_CHECKPOINT, "epoch")
_PATH, _SOURCE, _FINAL, _SST_IDS = field_numbers(
    EXTERNAL_DB, "path", "source_checkpoint_id", "final_checkpoint_id", "sst_ids"
)


def manifest_without_trees(table: WireTable, kind: Table, unknown_fields: frozenset[str]) -> Manifest:
    """Decode a verified manifest but for its trees; `kind` is its table, of either version."""
    fields = kind.field_numbers
    tracker = table.octets(fields["sequence_tracker"])
    return Manifest(
        nonce=table.u64(fields["manifest_id"]),
        external_dbs=tuple(map(_external_db_of, table.tables(fields["external_dbs"]))),
        initialized=table.i8(fields["initialized"]) != 0,
        writer_epoch=table.u64(fields["writer_epoch"]),
        compactor_epoch=table.u64(fields["compactor_epoch"]),
        replay_after_wal_id=table.u64(fields["replay_after_wal_id"]),
        wal_id_last_seen=table.u64(fields["wal_id_last_seen"]),
        last_l0_clock_tick=table.i64(fields["last_l0_clock_tick"]),
        checkpoints=_checkpoints_of(table, fields["checkpoints"]),
        last_l0_seq=table.u64(fields["last_l0_seq"]),
        recent_snapshot_min_seq=table.u64(fields["recent_snapshot_min_seq"]),
        sequence_tracker=SequenceTracker() if tracker is None else decode_sequence_tracker(tracker),
        unknown_fields=unknown_fields,
    )


def sst_map_of(handles: Iterable[SstHandle]) -> SstMap:
    """Return the SSTs by id; duplicate entries must be equal."""
    found: dict[Ulid, SstHandle] = {}
    for handle in handles:
        if found.setdefault(handle.id, handle) != handle:
            raise CorruptDataError(f"The manifest has two different entries for SST {handle.id}.")
    return SstMap(found.values())


def _external_db_of(table: WireTable) -> ExternalDb:
    return ExternalDb(
        path=table.text(_PATH) or "",
        source_checkpoint_id=table.uuid(_SOURCE),
        final_checkpoint_id=table.find_uuid(_FINAL),
        sst_ids=tuple(ulids_of(table, _SST_IDS)),
    )


def _checkpoints_of(table: WireTable, field: int) -> tuple[Checkpoint, ...]:
    """Decode a vector of checkpoints: one for each version that is kept."""
    many = WireColumns.of_vector(table, field)
    if many is None or many.has(_METADATA).any():
        return tuple(map(checkpoint_of, table.tables(field)))
    names = (None if name is None else name.decode("utf-8") for name in many.octets(_NAME))
    return tuple(
        map(
            Checkpoint,
            many.tables(_ID).uuids(),
            many.numbers(_MANIFEST_ID),
            many.numbers(_EXPIRES, "<u4"),
            many.numbers(_CREATED, "<u4"),
            names,
        )
    )


def checkpoint_of(table: WireTable) -> Checkpoint:
    """Decode a checkpoint from a verified table."""
    writer = table.find(_METADATA) if table.u8(_METADATA_TYPE) == _WRITER_CHECKPOINT else None
    return Checkpoint(
        id=table.uuid(_ID),
        manifest_id=table.u64(_MANIFEST_ID),
        expire_time_s=table.u32(_EXPIRES),
        create_time_s=table.u32(_CREATED),
        name=table.text(_NAME),
        metadata_epoch=None if writer is None else writer.u64(_EPOCH),
    )
