"""Manifest object <-> `Manifest`.

    00-01   u16be envelope version, 1 or 2; slatespark writes 2
    02-..   flatbuffer ManifestV1 or ManifestV2

A manifest of version 1 is decoded to the same dataclass, with the SST ids as view ids. Source:
`docs/reference/format/manifest.md`, `docs/reference/format/flatbuffers.md`.
"""

# mypy: untyped-calls-exclude="slatespark.format._generated"

from __future__ import annotations

from dataclasses import replace
from typing import Final

import flatbuffers

from slatespark.format._generated import Checkpoint as CheckpointTable
from slatespark.format._generated import ExternalDb as ExternalDbTable
from slatespark.format._generated import ManifestV2 as ManifestTable
from slatespark.format._generated import Segment as SegmentTable
from slatespark.format._generated import WriterCheckpoint as WriterCheckpointTable
from slatespark.format.building import halves_of, put_offsets, put_ulid, put_ulids, put_uuid
from slatespark.format.codecs import Buffer
from slatespark.format.envelope import open_envelope, refuse_unknown_fields, seal_envelope
from slatespark.format.manifest import Checkpoint, ExternalDb, Manifest, Segment
from slatespark.format.manifest_check import check_readable
from slatespark.format.manifest_tables import manifest_without_trees, sst_map_of
from slatespark.format.manifest_v1 import decode_manifest_v1
from slatespark.format.open_ends import close_open_ends
from slatespark.format.references import HANDLE, VIEW, handles_of, put_run, run_of, views_of
from slatespark.format.schemas import CHECKPOINT, MANIFEST_V2, SEGMENT
from slatespark.format.sequence_tracker import encode_sequence_tracker
from slatespark.format.table_templates import Form, Parts, TemplateBuilder
from slatespark.format.ulid import Ulid
from slatespark.format.verifier import verify
from slatespark.format.wire_table import WireTable, field_numbers

_WRITER_CHECKPOINT: Final = 1

_MARKER, _SSTS, _L0, _COMPACTED, _SEGMENTS, _EXTRACTOR = field_numbers(
    MANIFEST_V2, "last_compacted_l0_sst_view_id", "ssts", "l0", "compacted", "segments", "segment_extractor_name"
)
_SEGMENT_PREFIX, _SEGMENT_MARKER, _SEGMENT_L0, _SEGMENT_COMPACTED = field_numbers(
    SEGMENT, "prefix", "last_compacted_l0_sst_view_id", "l0", "compacted"
)


def decode_manifest(data: Buffer) -> Manifest:
    """Decode a manifest object; a view of a run whose last key is unknown ends where the next one starts.

    Raises
    ------
    CorruptDataError : damaged, or not readable by the client either
    UnsupportedFormatError : unknown version of the envelope, of an SST or of the sequence tracker
    """
    return close_open_ends(decode_as_stored(data))


def decode_as_stored(data: Buffer) -> Manifest:
    """Decode a manifest object and change nothing; errors as of `decode_manifest`."""
    version, body = open_envelope(data, "Manifest")
    manifest = decode_manifest_v1(body) if version == 1 else _decode_manifest_v2(body)
    check_readable(manifest)
    return manifest


def _decode_manifest_v2(body: Buffer) -> Manifest:
    unknown_fields = verify(body, MANIFEST_V2, what="manifest")
    table = WireTable.root(body)
    return replace(
        manifest_without_trees(table, MANIFEST_V2, unknown_fields),
        last_compacted_l0_sst_view_id=table.find_ulid(_MARKER),
        ssts=sst_map_of(handles_of(table, _SSTS)),
        l0=views_of(table, _L0),
        compacted=tuple(map(run_of, table.tables(_COMPACTED))),
        segments=_segments_of(table.tables(_SEGMENTS)),
        segment_extractor_name=table.text(_EXTRACTOR),
    )


def _segments_of(tables: list[WireTable]) -> tuple[Segment, ...]:
    """Return the segments ordered by prefix, as the client orders them."""
    return tuple(sorted((_segment_of(table) for table in tables), key=lambda segment: segment.prefix))


def _segment_of(table: WireTable) -> Segment:
    return Segment(
        prefix=table.octets(_SEGMENT_PREFIX) or b"",
        last_compacted_l0_sst_view_id=table.find_ulid(_SEGMENT_MARKER),
        l0=views_of(table, _SEGMENT_L0),
        compacted=tuple(map(run_of, table.tables(_SEGMENT_COMPACTED))),
    )


def encode_manifest(manifest: Manifest) -> bytes:
    """Encode a manifest object, always as version 2.

    Requires: the rules of `invariants` hold. Version 2 has no `wal_object_store_uri`; it is omitted.

    Raises
    ------
    UnsupportedFormatError : it was decoded from a manifest with fields that would be erased
    """
    refuse_unknown_fields(manifest.unknown_fields, "The manifest")
    builder = TemplateBuilder(1024 + 256 * len(manifest.ssts))
    builder.Finish(_put_manifest(builder, manifest))
    return seal_envelope(builder.Output())


def _put_manifest(builder: TemplateBuilder, manifest: Manifest) -> int:
    external_dbs = put_offsets(builder, [_put_external_db(builder, entry) for entry in manifest.external_dbs])
    marker = _put_optional_ulid(builder, manifest.last_compacted_l0_sst_view_id)
    ssts = put_offsets(builder, [builder.put(HANDLE, handle) for handle in manifest.ssts.values()])
    l0 = put_offsets(builder, [builder.put(VIEW, view) for view in manifest.l0])
    compacted = put_offsets(builder, [put_run(builder, run) for run in manifest.compacted])
    checkpoints = put_offsets(builder, [_put_checkpoint(builder, entry) for entry in manifest.checkpoints])
    tracker = builder.CreateByteVector(encode_sequence_tracker(manifest.sequence_tracker))
    segments = put_offsets(builder, [_put_segment(builder, entry) for entry in manifest.segments])
    extractor = manifest.segment_extractor_name
    extractor_name = None if extractor is None else builder.CreateString(extractor)

    ManifestTable.Start(builder)
    ManifestTable.AddManifestId(builder, manifest.nonce)
    if manifest.external_dbs:
        ManifestTable.AddExternalDbs(builder, external_dbs)
    ManifestTable.AddInitialized(builder, manifest.initialized)
    ManifestTable.AddWriterEpoch(builder, manifest.writer_epoch)
    ManifestTable.AddCompactorEpoch(builder, manifest.compactor_epoch)
    ManifestTable.AddReplayAfterWalId(builder, manifest.replay_after_wal_id)
    ManifestTable.AddWalIdLastSeen(builder, manifest.wal_id_last_seen)
    if marker is not None:
        ManifestTable.AddLastCompactedL0SstViewId(builder, marker)
    ManifestTable.AddSsts(builder, ssts)
    ManifestTable.AddL0(builder, l0)
    ManifestTable.AddCompacted(builder, compacted)
    ManifestTable.AddLastL0ClockTick(builder, manifest.last_l0_clock_tick)
    ManifestTable.AddCheckpoints(builder, checkpoints)
    ManifestTable.AddLastL0Seq(builder, manifest.last_l0_seq)
    ManifestTable.AddRecentSnapshotMinSeq(builder, manifest.recent_snapshot_min_seq)
    ManifestTable.AddSequenceTracker(builder, tracker)
    ManifestTable.AddSegments(builder, segments)
    if extractor_name is not None:
        ManifestTable.AddSegmentExtractorName(builder, extractor_name)
    return int(ManifestTable.End(builder))


def _put_optional_ulid(builder: flatbuffers.Builder, ulid: Ulid | None) -> int | None:
    return None if ulid is None else put_ulid(builder, ulid)


def _put_external_db(builder: flatbuffers.Builder, entry: ExternalDb) -> int:
    path = builder.CreateString(entry.path)
    source = put_uuid(builder, entry.source_checkpoint_id)
    final = None if entry.final_checkpoint_id is None else put_uuid(builder, entry.final_checkpoint_id)
    sst_ids = put_ulids(builder, entry.sst_ids)
    ExternalDbTable.Start(builder)
    ExternalDbTable.AddPath(builder, path)
    ExternalDbTable.AddSourceCheckpointId(builder, source)
    if final is not None:
        ExternalDbTable.AddFinalCheckpointId(builder, final)
    ExternalDbTable.AddSstIds(builder, sst_ids)
    return int(ExternalDbTable.End(builder))


def _put_checkpoint(builder: TemplateBuilder, checkpoint: Checkpoint) -> int:
    if checkpoint.metadata_epoch is not None:  # a union
        return _build_checkpoint(builder, checkpoint)
    return builder.put(_CHECKPOINT, checkpoint)


def _build_checkpoint(builder: flatbuffers.Builder, checkpoint: Checkpoint) -> int:
    uuid = put_uuid(builder, checkpoint.id)
    name = None if checkpoint.name is None else builder.CreateString(checkpoint.name)
    metadata = None
    if checkpoint.metadata_epoch is not None:
        WriterCheckpointTable.Start(builder)
        WriterCheckpointTable.AddEpoch(builder, checkpoint.metadata_epoch)
        metadata = WriterCheckpointTable.End(builder)
    CheckpointTable.Start(builder)
    CheckpointTable.AddId(builder, uuid)
    CheckpointTable.AddManifestId(builder, checkpoint.manifest_id)
    CheckpointTable.AddCheckpointExpireTimeS(builder, checkpoint.expire_time_s)
    CheckpointTable.AddCheckpointCreateTimeS(builder, checkpoint.create_time_s)
    if metadata is not None:
        CheckpointTable.AddMetadataType(builder, _WRITER_CHECKPOINT)
        CheckpointTable.AddMetadata(builder, metadata)
    if name is not None:
        CheckpointTable.AddName(builder, name)
    return int(CheckpointTable.End(builder))


def _checkpoint_parts(checkpoint: Checkpoint) -> Parts:
    high, low = halves_of(checkpoint.id)
    numbers = high, low, checkpoint.manifest_id, checkpoint.expire_time_s, checkpoint.create_time_s
    return numbers, (None if checkpoint.name is None else checkpoint.name.encode("utf-8"),)


_CHECKPOINT: Final = Form(CHECKPOINT, _build_checkpoint, _checkpoint_parts)


def _put_segment(builder: TemplateBuilder, segment: Segment) -> int:
    prefix = builder.CreateByteVector(segment.prefix)
    marker = _put_optional_ulid(builder, segment.last_compacted_l0_sst_view_id)
    l0 = put_offsets(builder, [builder.put(VIEW, view) for view in segment.l0])
    compacted = put_offsets(builder, [put_run(builder, run) for run in segment.compacted])
    SegmentTable.Start(builder)
    SegmentTable.AddPrefix(builder, prefix)
    if marker is not None:
        SegmentTable.AddLastCompactedL0SstViewId(builder, marker)
    SegmentTable.AddL0(builder, l0)
    SegmentTable.AddCompacted(builder, compacted)
    return int(SegmentTable.End(builder))
