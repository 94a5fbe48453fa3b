"""Tables that manifests of both versions hold: external databases, checkpoints, the tracker."""

# mypy: untyped-calls-exclude="slatespark.format._generated"

from __future__ import annotations

from collections.abc import Iterable

from slatespark.errors import CorruptDataError
from slatespark.format._generated import Checkpoint as CheckpointTable
from slatespark.format._generated import ExternalDb as ExternalDbTable
from slatespark.format._generated import Ulid as UlidTable
from slatespark.format._generated import WriterCheckpoint as WriterCheckpointTable
from slatespark.format.manifest_state import Checkpoint, ExternalDb
from slatespark.format.references import SstHandle, SstMap
from slatespark.format.sequence_tracker import SequenceTracker, decode_sequence_tracker
from slatespark.format.tables import items_of, text_of, ulid_of, uuid_of
from slatespark.format.ulid import Ulid

_WRITER_CHECKPOINT = 1


def optional_ulid_of(table: UlidTable.Ulid | None) -> Ulid | None:
    """Return the ULID that a table holds, None where there is no table."""
    return None if table is None else ulid_of(table)


def tracker_of(data: bytes | None) -> SequenceTracker:
    """Return the tracker of a manifest; an absent one has no points."""
    return SequenceTracker() if data is None else decode_sequence_tracker(data)


def handles_of(handles: Iterable[SstHandle]) -> SstMap:
    """Return the SSTs by id; one that is listed twice must be the same both times."""
    found: dict[Ulid, SstHandle] = {}
    for handle in handles:
        if found.setdefault(handle.id, handle) != handle:
            raise CorruptDataError(f"The manifest describes SST {handle.id} in two ways.")
    return SstMap(found.values())


def external_db_of(table: ExternalDbTable.ExternalDb) -> ExternalDb:
    """Return the entry that a verified table holds."""
    final = table.FinalCheckpointId()
    return ExternalDb(
        path=text_of(table.Path()) or "",
        source_checkpoint_id=uuid_of(table.SourceCheckpointId()),
        final_checkpoint_id=None if final is None else uuid_of(final),
        sst_ids=tuple(ulid_of(entry) for entry in items_of(table.SstIdsLength(), table.SstIds)),
    )


def checkpoint_of(table: CheckpointTable.Checkpoint) -> Checkpoint:
    """Return the checkpoint that a verified table holds."""
    epoch = None
    metadata = table.Metadata()
    if metadata is not None and table.MetadataType() == _WRITER_CHECKPOINT:
        writer = WriterCheckpointTable.WriterCheckpoint()
        writer.Init(metadata.Bytes, metadata.Pos)
        epoch = writer.Epoch()
    return Checkpoint(
        id=uuid_of(table.Id()),
        manifest_id=table.ManifestId(),
        expire_time_s=table.CheckpointExpireTimeS(),
        create_time_s=table.CheckpointCreateTimeS(),
        name=text_of(table.Name()),
        metadata_epoch=epoch,
    )
