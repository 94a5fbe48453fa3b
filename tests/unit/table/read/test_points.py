"""Looking up keys shows what a full scan shows of them, and reads little."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from slatespark import SlateStore
from slatespark.errors import CorruptDataError
from slatespark.format.codecs import Compression
from slatespark.format.filter import FilterSet
from slatespark.format.row import Row, RowKind
from slatespark.kernels import take_rows
from slatespark.kernels.columns import RowColumns, Visibility
from slatespark.options import ReadOptions
from slatespark.ranges import ByteRange, KeyRange, key_after, point_range
from slatespark.storage.counted_store import range_requests
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import Buffer
from slatespark.table.clock import SystemClock
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.fetch import fetch_index, filter_sets, indexes, measure_slices, sample_indexes
from slatespark.table.read.planning.plan import (
    Layer,
    Split,
    cut_layers,
    cut_to_ranges,
    plan_layers,
    plan_points,
    plan_ranges,
)
from slatespark.table.read.points import key_cursors
from slatespark.table.read.reader import fetch_read_plan, look_up, run_read
from slatespark.table.read.scan import visible_windows
from slatespark.table.stores import TableStores
from tests.support.failing_store import FailingStore
from tests.support.row_values import columns_to_rows
from tests.unit.table.layers import new_stores, put_file
from tests.unit.table.read.test_scan import CONCAT, windowed

EVERYTHING = Visibility(max_seq=2**63, now_ms=0)


def looked_up(
    stores: TableStores,
    split: Split,
    visibility: Visibility = EVERYTHING,
    *,
    tail: Sequence[RowColumns] = (),
    buffer_bytes: int = 1 << 20,
) -> list[Row]:
    found: list[Row] = []
    for cursors in key_cursors(
        stores, split.layers, split.points or (), tail, buffer_bytes=buffer_bytes, window_bytes=100
    ):
        for sources, selection in visible_windows(cursors, visibility, CONCAT):
            found.extend(columns_to_rows(take_rows(sources, selection.rows)))
    return found


def test_small_ranges_share_a_split_and_large_ones_are_cut() -> None:
    stores = new_stores()
    layer = Layer("run 0", (put_file(stores, [Row(b"%04d" % number, 1) for number in range(2000)], block_size=200),))
    ranges = [KeyRange(b"%04d" % start, b"%04d" % (start + 2)) for start in range(0, 100, 10)]
    ranges.append(KeyRange(b"0500", b"1500"))
    splits = plan_ranges(
        [layer],
        ranges,
        target_bytes=5000,
        sample=partial(sample_indexes, stores),
        measure=partial(measure_slices, stores),
    )
    assert splits[0].ranges == tuple(ranges[:10])
    assert splits[0].keys == KeyRange(b"0000", b"0092")
    assert len(splits) > 3
    assert splits[1].keys.start == b"0500"


def test_ranges_that_meet_the_same_file_are_slices_of_it() -> None:
    stores = new_stores()
    part = put_file(stores, [Row(bytes([key]), 1) for key in b"abcdef"])
    [cut] = cut_to_ranges([Layer("run 0", (part,))], [KeyRange(b"a", b"c"), KeyRange(b"d", b"e"), KeyRange(b"x")])
    assert [piece.keys for piece in cut.slices] == [KeyRange(b"a", b"c"), KeyRange(b"d", b"e")]


def test_operands_of_other_keys_in_the_same_block_do_not_matter() -> None:
    stores = new_stores()
    rows = [Row(b"a", 1, RowKind.MERGE, b"1"), Row(b"b", 1, value=b"2")]
    layer = Layer("run 0", (put_file(stores, rows),))
    for cursors in key_cursors(stores, [layer], [b"b"], (), buffer_bytes=1 << 20):
        [(sources, selection)] = visible_windows(cursors, EVERYTHING, None)
        assert [row.value for row in columns_to_rows(take_rows(sources, selection.rows))] == [b"2"]


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
def test_damage_is_placed_in_the_file(compression: Compression) -> None:
    stores = new_stores()
    rows = [Row(b"%04d" % number, 1, value=b"v" * 20) for number in range(500)]
    part = put_file(stores, rows, block_size=200, compression=compression)
    index = fetch_index(stores, part.file)
    block, _ = index.blocks_for(point_range(rows[300].key))
    start = int(index.block_edges(part.file.info)[block])
    data = bytearray(stores.main.get(part.file.path))
    data[start + 20] ^= 0xFF
    stores.main.put(part.file.path, [bytes(data)])
    split = Split(KeyRange(), (Layer("run 0", (part,)),), points=(rows[0].key, rows[300].key, rows[400].key))
    with pytest.raises(CorruptDataError, match="checksum") as caught:
        looked_up(stores, split)
    assert (caught.value.path[-len(part.file.path) :], caught.value.offset) == (part.file.path, start)


def test_files_of_a_run_in_the_wrong_order_are_noticed() -> None:
    stores = new_stores()
    layer = Layer("run", (put_file(stores, [Row(b"a", 1), Row(b"c", 1)]), put_file(stores, [Row(b"c", 2)])))
    with pytest.raises(CorruptDataError, match="key 63"):
        looked_up(stores, Split(KeyRange(), (layer,), points=(b"a", b"c")))


# --- requests -------------------------------------------------------------------------------------------------------


class RemoteStore(FailingStore):
    """A store that counts, and that the readers take for a remote one."""

    @property
    def is_remote(self) -> bool:
        return True


class RangeCounter(RemoteStore):
    """It counts the ranges of SSTs one by one, and what a remote store would read at once."""

    ranges = 0
    most_bytes = 0

    def get_range(self, path: str, span: ByteRange) -> Buffer:
        self._note(path, [span])
        return super().get_range(path, span)

    def get_ranges(self, path: str, spans: Sequence[ByteRange]) -> list[Buffer]:
        self._note(path, spans)
        return super().get_ranges(path, spans)

    def _note(self, path: str, spans: Sequence[ByteRange]) -> None:
        if path.startswith("compacted/"):
            self.ranges += len(spans)
            self.most_bytes = max(self.most_bytes, range_requests(spans).read_bytes)


def compacted_table(name: str, rows: int) -> TableStores:
    """One sorted run of several files, with filters."""
    store = SlateStore.create(f"memory://{name}")
    keys = [b"%08d" % (2 * number) for number in range(rows)]
    store.write(pa.table({"key": keys, "value": [b"v" * 90 for _ in keys]}), sstSize="256k")
    counter = RangeCounter(MemoryStore(name))
    return TableStores(main=counter, wal=counter)


def test_a_look_up_in_a_compacted_table_reads_three_ranges() -> None:
    stores = compacted_table("points-compacted", 10_000)
    options = ReadOptions.parse({"path": "memory://points-compacted"})
    counter = stores.main
    assert isinstance(counter, RangeCounter)
    for number in (0, 7, 5000, 9999):
        indexes.clear()
        filter_sets.clear()
        counter.ranges = 0
        found = look_up(stores, [b"%08d" % (2 * number)], options, SystemClock())
        assert found is not None
        assert 1 < counter.ranges <= 3  # filter, index, block
        counter.ranges = 0
        assert look_up(stores, [b"%08d" % (2 * number)], options, SystemClock()) is not None
        assert counter.ranges == 1  # filter and index are held
    counter.ranges = 0
    misses = sum(look_up(stores, [b"%08d" % (2 * number + 1)], options, SystemClock()) is None for number in range(100))
    assert (misses, counter.ranges < 20) == (100, True)


def test_a_look_up_in_a_typed_table_reads_no_more() -> None:
    rows = pa.table({"tenant": [f"t{number % 7}" for number in range(5000)], "id": range(5000), "n": range(5000)})
    SlateStore.create("memory://points-typed", rows.schema, "tenant,id").write(rows, sstSize="64k")
    counter = RangeCounter(MemoryStore("points-typed"))
    stores = TableStores(main=counter, wal=counter)
    for options in ({}, {"filter": "tenant = 't3' AND id = 3503"}):
        indexes.clear()
        filter_sets.clear()
        parsed = ReadOptions.parse({"path": "memory://points-typed", **options})
        counter.ranges = 0
        if options:
            [found] = run_read(stores, fetch_read_plan(stores, parsed, SystemClock()))
        else:
            found = look_up(stores, ("t3", 3503), parsed, SystemClock())
        assert found.to_pylist() == [{"tenant": "t3", "id": 3503, "n": 3503}]
        assert 1 < counter.ranges <= 3


def test_many_keys_are_one_request_a_file() -> None:
    stores = compacted_table("points-many", 10_000)
    counter = stores.main
    assert isinstance(counter, RangeCounter)
    _, manifest = fetch_latest_manifest(stores)
    layers = plan_layers(manifest, {})
    files = sum(len(layer.slices) for layer in layers)
    wanted = sorted(b"%08d" % (2 * int(number)) for number in np.random.default_rng(1).choice(10_000, 500, False))
    [split] = plan_points(layers, wanted, target_bytes=64 << 20)
    assert [row.key for row in looked_up(stores, split, buffer_bytes=64 << 20)] == wanted
    assert files > 3
    assert counter.count("get_ranges", "compacted/*") == files


@pytest.mark.parametrize("buffer_bytes", [1, 4096, 1 << 20])
def test_a_small_buffer_asks_no_filter_twice_for_a_key(monkeypatch: pytest.MonkeyPatch, buffer_bytes: int) -> None:
    """Filters and indexes were searched for all keys each time that the blocks of some had filled the buffer."""
    stores = compacted_table(f"points-probed-{buffer_bytes}", 10_000)
    layers = plan_layers(fetch_latest_manifest(stores).value, {})
    wanted = [b"%08d" % number for number in range(0, 20_000, 100)]
    probed, probe = 0, FilterSet.probe

    def counted(filters: FilterSet, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        nonlocal probed
        probed += len(hashes)
        return probe(filters, hashes)

    monkeypatch.setattr(FilterSet, "probe", counted)
    [split] = plan_points(layers, wanted, target_bytes=64 << 20)
    assert [row.key for row in looked_up(stores, split, buffer_bytes=buffer_bytes)] == wanted
    assert probed == len(wanted)


@pytest.mark.parametrize("versions", [1, 40])
def test_rows_that_compress_well_are_held_in_several_spans(versions: int) -> None:
    stores, buffer_bytes, value_bytes = new_stores(), 1 << 16, 20_000
    keys = [b"%04d" % number for number in range(60)]
    rows = [Row(key, seq, RowKind.PUT, bytes(value_bytes)) for key in keys for seq in range(versions, 0, -1)]
    layer = Layer("run 0", (put_file(stores, rows, compression=Compression.ZSTD),))
    held = []
    for cursors in key_cursors(stores, [layer], keys, (), buffer_bytes=buffer_bytes, window_bytes=value_bytes):
        spans = [span for cursor in cursors for span in cursor.spans()]
        held += [int(row.value_lengths[low:high].sum()) for row, low, high in spans]
    assert sum(held) == len(rows) * value_bytes
    assert max(held) <= 8 * buffer_bytes
    assert len(held) < len(rows) or versions > 1  # those of one key are read in windows


def test_a_block_counts_once_for_all_keys_that_it_holds() -> None:
    """Of many small files each key needs the one block, which was read again for a few keys at a time."""
    counter = RangeCounter(MemoryStore("points-shared"))
    stores = TableStores(main=counter, wal=counter)
    wanted = [b"%04d" % number for number in range(1000)]
    layers = [
        Layer(f"run {number}", (put_file(stores, [Row(key, 9 - number) for key in wanted], block_size=8192),))
        for number in range(3)
    ]
    stored = sum(layer.slices[0].file.data_bytes for layer in layers)
    [split] = plan_points(layers, wanted, target_bytes=64 << 20)
    assert [row.key for row in looked_up(stores, split, buffer_bytes=stored)] == wanted
    assert counter.count("get_ranges", "compacted/*") == len(layers)


@pytest.mark.parametrize("step", [1, 5, 50, 1000])
def test_what_a_distant_store_reads_between_blocks_counts(step: int) -> None:
    """Blocks less than 1 MiB apart are read with what lies between them: a whole file for keys far apart."""
    counter = RangeCounter(MemoryStore(f"points-gaps-{step}"))
    stores = TableStores(main=counter, wal=counter)
    rows = [Row(b"%05d" % number, 1, value=bytes(2000)) for number in range(4000)]
    layer = Layer("run 0", (put_file(stores, rows),))
    file, buffer_bytes = layer.slices[0].file, 1 << 20
    wanted = [row.key for row in rows[::step]]
    [split] = plan_points([layer], wanted, target_bytes=64 << 20)
    assert [row.key for row in looked_up(stores, split, buffer_bytes=buffer_bytes)] == wanted
    assert counter.most_bytes <= buffer_bytes
    assert counter.count("get_ranges", "compacted/*") <= 2 * file.data_bytes // buffer_bytes


def test_ranges_of_one_file_are_read_ahead() -> None:
    stores = compacted_table("points-ahead", 10_000)
    _, manifest = fetch_latest_manifest(stores)
    ranges = [KeyRange(b"%08d" % start, b"%08d" % (start + 20)) for start in range(0, 20_000, 500)]
    layers = cut_to_ranges(plan_layers(manifest, {}), ranges)
    expected = [b"%08d" % number for start in range(0, 20_000, 500) for number in range(start, start + 20, 2)]
    assert [row.key for row in windowed(stores, layers, 4096, EVERYTHING)] == expected


def test_a_split_of_points_has_only_the_files_between_them() -> None:
    stores = new_stores()
    layer = Layer("run", tuple(put_file(stores, [Row(bytes([key]), 1)]) for key in b"abcdef"))
    splits = plan_points([layer], [b"a", b"b", b"e"], target_bytes=8192)
    assert [split.points for split in splits] == [(b"a", b"b"), (b"e",)]
    assert [len(split.layers[0].slices) for split in splits] == [2, 1]
    assert splits[0].layers == cut_layers([layer], KeyRange(b"a", key_after(b"b")))
