"""The tables of `flatbuffers/*.fbs` in the verifier's form. A test compares the two.

Offsets are vtable slots, on disk, do not change. Source: `docs/reference/format/flatbuffers.md`.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from slatespark.format.verifier import Kind, Slot, Table

_u8 = partial(Slot, kind=Kind.SCALAR, width=1)
_u16 = partial(Slot, kind=Kind.SCALAR, width=2)
_u32 = partial(Slot, kind=Kind.SCALAR, width=4)
_u64 = partial(Slot, kind=Kind.SCALAR, width=8)
_bytes = partial(Slot, kind=Kind.SCALARS, width=1)
_u32s = partial(Slot, kind=Kind.SCALARS, width=4)
_string = partial(Slot, kind=Kind.STRING)


def _table(name: str, offset: int, target: Table, *, required: bool = False) -> Slot:
    return Slot(name, offset, Kind.TABLE, required=required, target=target)


def _tables(name: str, offset: int, target: Table, *, required: bool = False) -> Slot:
    return Slot(name, offset, Kind.TABLES, required=required, target=target)


def _union(name: str, offset: int, variants: dict[int, Table], *, required: bool = False) -> Slot:
    return Slot(name, offset, Kind.UNION, required=required, variants=variants)


ULID: Final = Table("Ulid", (_u64("high", 4), _u64("low", 6)))
UUID: Final = Table("Uuid", (_u64("high", 4), _u64("low", 6)))
BYTES_BOUND: Final = Table("BytesBound", (_bytes("key", 4), _u8("bound_type", 6)))
BYTES_RANGE: Final = Table(
    "BytesRange",
    (
        _table("start_bound", 4, BYTES_BOUND, required=True),
        _table("end_bound", 6, BYTES_BOUND, required=True),
    ),
)

SST_INFO: Final = Table(
    "SsTableInfo",
    (
        _bytes("first_entry", 4),
        _u64("index_offset", 6),
        _u64("index_len", 8),
        _u64("filter_offset", 10),
        _u64("filter_len", 12),
        _u8("compression_format", 14),
        _u8("sst_type", 16),
        _bytes("last_entry", 18),
        _u64("stats_offset", 20),
        _u64("stats_len", 22),
        _u8("filter_format", 24),
    ),
)
BLOCK_STATS: Final = Table("BlockStats", (_u16("num_puts", 4), _u16("num_deletes", 6), _u16("num_merges", 8)))
SST_STATS: Final = Table(
    "SstStats",
    (
        _u64("num_puts", 4),
        _u64("num_deletes", 6),
        _u64("num_merges", 8),
        _u64("raw_key_size", 10),
        _u64("raw_val_size", 12),
        _tables("block_stats", 14, BLOCK_STATS),
    ),
)
COMPACTED_SST: Final = Table(
    "CompactedSsTable",
    (
        _table("id", 4, ULID, required=True),
        _table("info", 6, SST_INFO, required=True),
        _table("visible_range", 8, BYTES_RANGE),
        _u16("format_version", 10),
    ),
)
COMPACTED_SST_V2: Final = Table(
    "CompactedSsTableV2",
    (
        _table("id", 4, ULID, required=True),
        _table("info", 6, SST_INFO, required=True),
        _u16("format_version", 8),
    ),
)
SST_VIEW: Final = Table(
    "CompactedSsTableView",
    (
        _table("id", 4, ULID, required=True),
        _table("sst_id", 6, ULID, required=True),
        _table("visible_range", 8, BYTES_RANGE),
    ),
)
SORTED_RUN: Final = Table("SortedRun", (_u32("id", 4), _tables("ssts", 6, COMPACTED_SST, required=True)))
SORTED_RUN_V2: Final = Table("SortedRunV2", (_u32("id", 4), _tables("ssts", 6, SST_VIEW, required=True)))

EXTERNAL_DB: Final = Table(
    "ExternalDb",
    (
        _string("path", 4, required=True),
        _table("source_checkpoint_id", 6, UUID, required=True),
        _table("final_checkpoint_id", 8, UUID),
        _tables("sst_ids", 10, ULID, required=True),
    ),
)
WRITER_CHECKPOINT: Final = Table("WriterCheckpoint", (_u64("epoch", 4),))
CHECKPOINT: Final = Table(
    "Checkpoint",
    (
        _table("id", 4, UUID, required=True),
        _u64("manifest_id", 6),
        _u32("checkpoint_expire_time_s", 8),
        _u32("checkpoint_create_time_s", 10),
        _union("metadata", 14, {1: WRITER_CHECKPOINT}),
        _string("name", 16),
    ),
)
SEGMENT: Final = Table(
    "Segment",
    (
        _bytes("prefix", 4, required=True),
        _table("last_compacted_l0_sst_view_id", 6, ULID),
        _tables("l0", 8, SST_VIEW, required=True),
        _tables("compacted", 10, SORTED_RUN_V2, required=True),
    ),
)
MANIFEST_V1: Final = Table(
    "ManifestV1",
    (
        _u64("manifest_id", 4),
        _tables("external_dbs", 6, EXTERNAL_DB),
        _u8("initialized", 8),
        _u64("writer_epoch", 10),
        _u64("compactor_epoch", 12),
        _u64("replay_after_wal_id", 14),
        _u64("wal_id_last_seen", 16),
        _table("l0_last_compacted", 18, ULID),
        _tables("l0", 20, COMPACTED_SST, required=True),
        _tables("compacted", 22, SORTED_RUN, required=True),
        _u64("last_l0_clock_tick", 24),
        _tables("checkpoints", 26, CHECKPOINT, required=True),
        _u64("last_l0_seq", 28),
        _string("wal_object_store_uri", 30),
        _u64("recent_snapshot_min_seq", 32),
        _bytes("sequence_tracker", 34),
    ),
)
MANIFEST_V2: Final = Table(
    "ManifestV2",
    (
        _u64("manifest_id", 4),
        _tables("external_dbs", 6, EXTERNAL_DB),
        _u8("initialized", 8),
        _u64("writer_epoch", 10),
        _u64("compactor_epoch", 12),
        _u64("replay_after_wal_id", 14),
        _u64("wal_id_last_seen", 16),
        _table("last_compacted_l0_sst_view_id", 18, ULID),
        _tables("ssts", 20, COMPACTED_SST_V2, required=True),
        _tables("l0", 22, SST_VIEW, required=True),
        _tables("compacted", 24, SORTED_RUN_V2, required=True),
        _u64("last_l0_clock_tick", 26),
        _tables("checkpoints", 28, CHECKPOINT, required=True),
        _u64("last_l0_seq", 30),
        _u64("recent_snapshot_min_seq", 32),
        _bytes("sequence_tracker", 34),
        _tables("segments", 36, SEGMENT),
        _string("segment_extractor_name", 38),
    ),
)

TIERED_SPEC: Final = Table(
    "TieredCompactionSpec",
    (
        _tables("ssts", 4, ULID),
        _u32s("sorted_runs", 6),
        _tables("l0_view_ids", 8, ULID),
        _bytes("segment", 10),
        _u32("destination", 12),
    ),
)
DRAIN_SPEC: Final = Table(
    "DrainSegmentSpec",
    (
        _bytes("segment", 4, required=True),
        _tables("l0_view_ids", 6, ULID),
        _u32s("sorted_runs", 8),
    ),
)
WORKER_SPEC: Final = Table("WorkerSpec", (_string("worker_id", 4), _u64("last_heartbeat_ms", 6)))
SUBCOMPACTION: Final = Table(
    "Subcompaction",
    (
        _table("range", 4, BYTES_RANGE, required=True),
        _tables("output_ssts", 6, COMPACTED_SST),
        _u8("status", 8),
    ),
)
TIERED_CONTEXT: Final = Table(
    "TieredCompactionContext",
    (
        _tables("subcompactions", 4, SUBCOMPACTION),
        _u64("retention_min_seq", 6),
    ),
)
COMPACTION: Final = Table(
    "Compaction",
    (
        _table("id", 4, ULID, required=True),
        _union("spec", 8, {1: TIERED_SPEC, 2: DRAIN_SPEC}, required=True),
        _u8("status", 10),
        _tables("output_ssts", 12, COMPACTED_SST),
        _table("worker", 14, WORKER_SPEC),
        _union("ctx", 18, {1: TIERED_CONTEXT}),
    ),
)
COMPACTIONS_V1: Final = Table(
    "CompactionsV1",
    (
        _u64("compactor_epoch", 4),
        _tables("recent_compactions", 6, COMPACTION, required=True),
    ),
)
