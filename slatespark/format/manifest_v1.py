"""Manifests of envelope version 1, read only. The trees contain the SSTs directly; a view's id is its SST's id."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from slatespark.format.codecs import Buffer
from slatespark.format.manifest import Manifest
from slatespark.format.manifest_tables import manifest_without_trees, sst_map_of
from slatespark.format.references import SortedRun, SstHandle, SstView, compacted_sst_of
from slatespark.format.schemas import MANIFEST_V1, SORTED_RUN
from slatespark.format.verifier import verify
from slatespark.format.wire_table import WireTable, field_numbers

_MARKER, _L0, _COMPACTED, _WAL_STORE = field_numbers(
    MANIFEST_V1, "l0_last_compacted", "l0", "compacted", "wal_object_store_uri"
)
_RUN_ID, _RUN_SSTS = field_numbers(SORTED_RUN, "id", "ssts")


def decode_manifest_v1(body: Buffer) -> Manifest:
    """Decode the flatbuffer after an envelope of version 1."""
    unknown_fields = verify(body, MANIFEST_V1, what="manifest")
    table = WireTable.root(body)
    handles: list[SstHandle] = []
    l0 = _views_of(table.tables(_L0), handles)
    compacted = tuple(_run_of(run, handles) for run in table.tables(_COMPACTED))
    return replace(
        manifest_without_trees(table, MANIFEST_V1, unknown_fields),
        last_compacted_l0_sst_view_id=table.find_ulid(_MARKER),
        ssts=sst_map_of(handles),
        l0=l0,
        compacted=compacted,
        wal_object_store_uri=table.text(_WAL_STORE),
    )


def _run_of(run: WireTable, handles: list[SstHandle]) -> SortedRun:
    return SortedRun(run.u32(_RUN_ID), _views_of(run.tables(_RUN_SSTS), handles))


def _views_of(tables: Iterable[WireTable], handles: list[SstHandle]) -> tuple[SstView, ...]:
    views = []
    for table in tables:
        handle, visible_range = compacted_sst_of(table)
        handles.append(handle)
        views.append(SstView(handle.id, handle.id, visible_range))
    return tuple(views)
