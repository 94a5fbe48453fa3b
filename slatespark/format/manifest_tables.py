"""Tables common to both manifest versions: external databases, checkpoints, the sequence tracker."""

# mypy: untyped-calls-exclude="slatespark.format._generated"

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from slatespark.errors import CorruptDataError
from slatespark.format._generated import ExternalDb as ExternalDbTable
from slatespark.format._generated import Ulid as UlidTable
from slatespark.format.manifest_state import Checkpoint, ExternalDb
from slatespark.format.references import SstHandle, SstMap
from slatespark.format.sequence_tracker import SequenceTracker, decode_sequence_tracker
from slatespark.format.tables import items_of, text_of, ulid_of, uuid_at, uuid_of
from slatespark.format.ulid import Ulid
from slatespark.format.wire_columns import WireColumns
from slatespark.format.wire_table import WireTable, field_numbers
from slatespark.format.wire_tables import CHECKPOINT, WRITER_CHECKPOINT

_WRITER_CHECKPOINT: Final = 1
_ID, _MANIFEST_ID, _EXPIRES, _CREATED, _METADATA, _NAME = field_numbers(
    CHECKPOINT, "id", "manifest_id", "checkpoint_expire_time_s", "checkpoint_create_time_s", "metadata", "name"
)
_METADATA_TYPE: Final = _METADATA - 1  # of a union, the type comes first
(_EPOCH,) = field_numbers(WRITER_CHECKPOINT, "epoch")


def optional_ulid_of(table: UlidTable.Ulid | None) -> Ulid | None:
    """Decode a ULID; None if the table is absent."""
    return None if table is None else ulid_of(table)


def tracker_of(data: bytes | None) -> SequenceTracker:
    """Decode the sequence tracker; an absent one has no points."""
    return SequenceTracker() if data is None else decode_sequence_tracker(data)


def sst_map_of(handles: Iterable[SstHandle]) -> SstMap:
    """Return the SSTs by id; duplicate entries must be equal."""
    found: dict[Ulid, SstHandle] = {}
    for handle in handles:
        if found.setdefault(handle.id, handle) != handle:
            raise CorruptDataError(f"The manifest has two different entries for SST {handle.id}.")
    return SstMap(found.values())


def external_db_of(table: ExternalDbTable.ExternalDb) -> ExternalDb:
    """Decode an external database from a verified table."""
    final = table.FinalCheckpointId()
    return ExternalDb(
        path=text_of(table.Path()) or "",
        source_checkpoint_id=uuid_of(table.SourceCheckpointId()),
        final_checkpoint_id=None if final is None else uuid_of(final),
        sst_ids=tuple(ulid_of(entry) for entry in items_of(table.SstIdsLength(), table.SstIds)),
    )


def checkpoints_of(table: WireTable, field: int) -> tuple[Checkpoint, ...]:
    """Decode a vector of checkpoints in a verified table: one for each version that is kept."""
    many = WireColumns.of_vector(table, field)
    if many is None or many.has(_METADATA).any():
        return tuple(map(checkpoint_of, table.tables(field)))
    return tuple(
        map(
            Checkpoint,
            many.tables(_ID).uuids(),
            many.numbers(_MANIFEST_ID),
            many.numbers(_EXPIRES, "<u4"),
            many.numbers(_CREATED, "<u4"),
            map(text_of, many.octets(_NAME)),
        )
    )


def checkpoint_of(table: WireTable) -> Checkpoint:
    """Decode a checkpoint from a verified table."""
    writer = table.find(_METADATA) if table.i8(_METADATA_TYPE) == _WRITER_CHECKPOINT else None
    return Checkpoint(
        id=uuid_at(table.table(_ID)),
        manifest_id=table.u64(_MANIFEST_ID),
        expire_time_s=table.u32(_EXPIRES),
        create_time_s=table.u32(_CREATED),
        name=text_of(table.octets(_NAME)),
        metadata_epoch=None if writer is None else writer.u64(_EPOCH),
    )
