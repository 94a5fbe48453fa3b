"""Manifests of envelope version 1, read only. The trees contain the SSTs directly; a view's id is its SST's id."""

# mypy: untyped-calls-exclude="slatespark.format._generated"

from __future__ import annotations

from collections.abc import Iterable

from slatespark.format._generated import CompactedSsTable as SstTable
from slatespark.format._generated import ManifestV1 as ManifestTable
from slatespark.format._generated import SortedRun as RunTable
from slatespark.format.codecs import Buffer
from slatespark.format.manifest_state import Manifest
from slatespark.format.manifest_tables import checkpoint_of, external_db_of, optional_ulid_of, sst_map_of, tracker_of
from slatespark.format.references import SortedRun, SstHandle, SstView, compacted_sst_of
from slatespark.format.tables import bytes_of, items_of, text_of
from slatespark.format.verifier import verify
from slatespark.format.wire_table import WireTable
from slatespark.format.wire_tables import MANIFEST_V1


def decode_manifest_v1(body: Buffer) -> Manifest:
    """Decode the flatbuffer after an envelope of version 1."""
    unknown_fields = verify(body, MANIFEST_V1, what="manifest")
    table = ManifestTable.ManifestV1.GetRootAs(body)
    handles: list[SstHandle] = []
    l0 = _views_of(items_of(table.L0Length(), table.L0), handles)
    compacted = tuple(_run_of(run, handles) for run in items_of(table.CompactedLength(), table.Compacted))
    return Manifest(
        nonce=table.ManifestId(),
        external_dbs=tuple(external_db_of(entry) for entry in items_of(table.ExternalDbsLength(), table.ExternalDbs)),
        initialized=table.Initialized(),
        writer_epoch=table.WriterEpoch(),
        compactor_epoch=table.CompactorEpoch(),
        replay_after_wal_id=table.ReplayAfterWalId(),
        wal_id_last_seen=table.WalIdLastSeen(),
        last_compacted_l0_sst_view_id=optional_ulid_of(table.L0LastCompacted()),
        ssts=sst_map_of(handles),
        l0=l0,
        compacted=compacted,
        last_l0_clock_tick=table.LastL0ClockTick(),
        checkpoints=tuple(
            checkpoint_of(WireTable.of(entry)) for entry in items_of(table.CheckpointsLength(), table.Checkpoints)
        ),
        last_l0_seq=table.LastL0Seq(),
        recent_snapshot_min_seq=table.RecentSnapshotMinSeq(),
        sequence_tracker=tracker_of(bytes_of(table.SequenceTrackerAsNumpy())),
        wal_object_store_uri=text_of(table.WalObjectStoreUri()),
        unknown_fields=unknown_fields,
    )


def _run_of(table: RunTable.SortedRun, handles: list[SstHandle]) -> SortedRun:
    return SortedRun(table.Id(), _views_of(items_of(table.SstsLength(), table.Ssts), handles))


def _views_of(tables: Iterable[SstTable.CompactedSsTable], handles: list[SstHandle]) -> tuple[SstView, ...]:
    views = []
    for table in tables:
        handle, visible_range = compacted_sst_of(table)
        handles.append(handle)
        views.append(SstView(handle.id, handle.id, visible_range))
    return tuple(views)
