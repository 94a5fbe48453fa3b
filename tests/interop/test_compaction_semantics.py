"""The same files merged by the client's compactor and by ours: the same versions stay, with the same times.

Ours goes by the clock tick and the snapshots that the manifest states, as the client's does. What is free to
differ: how rows are spread over files and blocks, and the ids of files.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark import SlateStore
from slatespark.format.manifest import Manifest
from slatespark.format.row import Row, RowKind
from slatespark.options import WriteOptions
from slatespark.ranges import ALL_KEYS
from slatespark.table.compaction.merge import MergeRules, RangeTask, merge_range
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.merge.cursor import LayerCursor, layer_windows
from slatespark.table.read.planning.plan import Layer, plan_layers
from slatespark.table.stores import TableStores, open_stores
from tests.support.client import Client, ClientOptions, Delete, Location, Merge, Put, Ttl, Write
from tests.support.client_admin import compact_full, compact_l0, create_checkpoint
from tests.support.effort import examples
from tests.support.fake_clock import FakeClock
from tests.support.row_values import columns_to_rows
from tests.support.workload import FAR_FUTURE_MS

OPTIONS = ClientOptions(compactor=True)


@dataclass(frozen=True)
class Flush:
    """Write the memtable, a little later than what is in it."""


@dataclass(frozen=True)
class TakeSnapshot:
    """Hold on to what is there; the client keeps the versions."""


@dataclass(frozen=True)
class DropSnapshot:
    """Let go of the oldest snapshot."""


@dataclass(frozen=True)
class MergeL0:
    """Let both merge L0 into a run of its own, above what there is."""


@dataclass(frozen=True)
class Checkpoint:
    """Pin the files, which has no say in what a compaction keeps."""


Step: TypeAlias = Write | Flush | TakeSnapshot | DropSnapshot | MergeL0 | Checkpoint

keys = st.sampled_from([b"a", b"a\x00", b"b"])
# Soon gone: some expire between a flush and a compaction.
ttls = st.sampled_from([Ttl(), Ttl(), Ttl(after_ms=1), Ttl(after_ms=6), Ttl(at_ms=FAR_FUTURE_MS), Ttl(at_ms=5)])
values = st.binary(min_size=1, max_size=4)
steps: st.SearchStrategy[Step] = st.one_of(
    st.builds(Put, keys, values, ttls),
    st.builds(Delete, keys),
    st.builds(Merge, keys, values, ttls),
    st.builds(Merge, keys, values, ttls),
    st.sampled_from([Flush(), Flush(), TakeSnapshot(), DropSnapshot(), MergeL0(), Checkpoint()]),
)


def stored_rows(stores: TableStores, layers: Sequence[Layer]) -> list[Row]:
    found: list[Row] = []
    for layer in layers:
        cursor = LayerCursor(layer_windows(stores, layer, 1 << 20))
        while cursor.load():
            assert cursor.rows is not None
            found += columns_to_rows(cursor.rows)[cursor.low : cursor.high]
            cursor.low = cursor.high
    return found


def merged_by_us(stores: TableStores, manifest: Manifest, layers: Sequence[Layer], *, is_bottom: bool) -> list[Row]:
    rules = MergeRules(
        now_ms=manifest.last_l0_clock_tick,
        min_seq=manifest.recent_snapshot_min_seq,
        drops_tombstones=is_bottom,
        merge_operator="concat",
    )
    task = RangeTask(ALL_KEYS, tuple(layers), rules, WriteOptions.parse({"path": stores.url}), 1000)
    result = merge_range(stores, FakeClock(), task)
    return stored_rows(stores, [Layer("new", tuple(file.whole() for file in result.files))])


@dataclass
class Merging:
    """A database of the client, of which we merge the same files before it does."""

    location: Location
    client: Client
    snapshots: list[object]

    def apply(self, steps: Sequence[Step]) -> None:
        for step in steps:
            match step:
                case Put() | Delete() | Merge():
                    self.client.write([step])
                case Flush():
                    time.sleep(0.002)
                    self.client.flush_memtable()
                case TakeSnapshot():
                    self.snapshots.append(self.client.take_snapshot())
                case DropSnapshot():
                    del self.snapshots[:1]
                case Checkpoint():
                    create_checkpoint(self.location)
                case MergeL0():
                    self.compare(full=False)

    def compare(self, *, full: bool) -> None:
        """Merge with both, and compare what each leaves."""
        self.client.flush_memtable()
        stores = open_stores(str(self.location.folder), storage={})
        _, manifest = fetch_latest_manifest(stores)
        layers = plan_layers(manifest, {})
        sources = layers if full else layers[: len(manifest.l0)]
        ours = merged_by_us(stores, manifest, sources, is_bottom=full or not manifest.compacted)
        run_id = compact_full(self.client) if full else compact_l0(self.client)
        if run_id is not None:
            _, after = fetch_latest_manifest(stores)
            made = [layer for layer in plan_layers(after, {}) if layer.name == f"run {run_id}"]
            assert ours == stored_rows(stores, made)

    def compare_tables(self, copy: Path) -> None:
        """Compact the database with the client, and a copy with `SlateStore.compact`; all that each stores is equal."""
        self.client.flush_memtable()
        shutil.copytree(self.location.folder, copy)
        _, manifest = fetch_latest_manifest(open_stores(str(copy), storage={}))
        ours, theirs = SlateStore.open(str(copy)), SlateStore.open(str(self.location.folder))
        compact_full(self.client)
        ours.compact(full=True, now=max(0, manifest.last_l0_clock_tick), mergeOperator="concat")
        assert ours.scan(readVersions="all").read_all() == theirs.scan(readVersions="all").read_all()


@pytest.mark.slow
@settings(max_examples=examples(5))
@given(st.lists(steps, min_size=1, max_size=40))
def test_both_compactors_leave_the_same_versions(workload: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        location = Location.local(Path(folder) / "db")
        with Client.open(location, OPTIONS) as client:
            merging = Merging(location, client, [])
            merging.apply(workload)
            merging.compare_tables(Path(folder) / "copy")
            merging.snapshots.clear()


def test_versions_that_a_snapshot_sees_stay(tmp_path: Path) -> None:
    location = Location.local(tmp_path / "db")
    with Client.open(location, OPTIONS) as client:
        merging = Merging(location, client, [])
        merging.apply(
            [Put(b"a", b"1"), Flush(), Put(b"a", b"2"), TakeSnapshot(), Delete(b"a"), Flush(), Put(b"a", b"3")]
        )
        client.flush_memtable()
        stores = open_stores(str(location.folder), storage={})
        _, manifest = fetch_latest_manifest(stores)
        ours = merged_by_us(stores, manifest, plan_layers(manifest, {}), is_bottom=True)
        assert [(row.seq, row.kind, row.value) for row in ours] == [
            (4, RowKind.PUT, b"3"),
            (3, RowKind.DELETE, b""),
            (2, RowKind.PUT, b"2"),
        ]
        merging.compare(full=True)
        merging.snapshots.clear()
