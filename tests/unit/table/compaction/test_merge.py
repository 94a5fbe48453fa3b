"""Merged layers match the model, however they are cut into files, blocks and windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from slatespark.errors import CorruptDataError, OptionError
from slatespark.format.row import Row, RowKind
from slatespark.kernels import take_rows
from slatespark.options import WriteOptions
from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.table.compaction.merge import LayerMerge, MergedRange, MergeRules, RangeTask, merge_range
from slatespark.table.read.merge.cursor import LayerCursor, layer_windows
from slatespark.table.read.merge.merge_function import resolve_operator
from slatespark.table.read.planning.plan import Layer
from slatespark.table.rows.row_keeper import RowKeeper
from slatespark.table.stores import TableStores
from tests.support.fake_clock import FakeClock
from tests.support.row_values import columns_to_rows
from tests.unit.table.layers import new_stores, put_file

PLAIN = MergeRules(now_ms=100, min_seq=2**64 - 1, drops_tombstones=True, merge_operator="concat")


def merged(stores: TableStores, layers: Sequence[Layer], rules: MergeRules, window_bytes: int) -> list[Row]:
    keeper = RowKeeper(rules.retention(), resolve_operator(rules.merge_operator))
    found: list[Row] = []
    for piece in LayerMerge(stores, layers, keeper, window_bytes).pieces():
        found += columns_to_rows(take_rows(piece.sources, piece.rows))
    return found


def uploaded(stores: TableStores, result: MergedRange) -> list[Row]:
    layer = Layer("new", tuple(file.whole() for file in result.files))
    cursor, found = LayerCursor(layer_windows(stores, layer, 1 << 20)), list[Row]()
    while cursor.load():
        assert cursor.rows is not None
        found += columns_to_rows(cursor.rows)[cursor.low : cursor.high]
        cursor.low = cursor.high
    return found


def run(stores: TableStores, layers: Sequence[Layer], rules: MergeRules = PLAIN, **options: object) -> MergedRange:
    given_options = WriteOptions.parse({"path": stores.url, **options})
    task = RangeTask(ALL_KEYS, tuple(layers), rules, given_options, 1000)
    return merge_range(stores, FakeClock(1000), task)


# --- reads ----------------------------------------------------------------------------------------------------------


# --- single cases ---------------------------------------------------------------------------------------------------


def test_what_a_merge_reports() -> None:
    stores = new_stores()
    newer = put_file(stores, [Row(b"a", 5, RowKind.DELETE), Row(b"b", 6, value=b"new"), Row(b"d", 7, expire_ts_ms=100)])
    older = put_file(stores, [Row(b"a", 1, value=b"old"), Row(b"b", 2, value=b"old"), Row(b"c", 3, value=b"c")])
    result = run(stores, [Layer("L0", (newer,)), Layer("run 0", (older,))])
    assert uploaded(stores, result) == [Row(b"b", 6, value=b"new"), Row(b"c", 3, value=b"c")]
    assert (result.rows_in, result.rows_out, result.expired, result.dropped) == (6, 2, 1, 4)
    assert result.bytes_in == newer.file.data_bytes + older.file.data_bytes
    assert result.bytes_out == sum(len(stores.main.get(f"compacted/{file.handle.id}.sst")) for file in result.files)
    assert {file.handle.id.timestamp_ms for file in result.files} == {1000}


def test_an_empty_result() -> None:
    stores = new_stores()
    gone = put_file(stores, [Row(b"a", 5, RowKind.DELETE), Row(b"b", 6, expire_ts_ms=100)])
    assert run(stores, [Layer("L0", (gone,))]).files == ()


def test_files_end_near_their_size_and_do_not_overlap() -> None:
    stores = new_stores()
    rows = [Row(b"%06d" % number, number, value=b"%d" % number * 30) for number in range(4000)]
    layers = [Layer(f"run {half}", (put_file(stores, rows[half::2]),)) for half in (1, 0)]
    result = run(stores, layers, sstSize="64k", compression="none")
    assert uploaded(stores, result) == rows
    assert len(result.files) > 5
    assert all(file.size < 128 << 10 for file in result.files)


def test_files_may_end_with_an_expired_row() -> None:
    stores = new_stores()
    rows = [Row(b"%06d" % number, number, value=b"v" * 50, expire_ts_ms=100) for number in range(4000)]
    rules = replace(PLAIN, drops_tombstones=False)
    result = run(stores, [Layer("run 1", (put_file(stores, rows),))], rules, sstSize="16k", compression="none")
    assert len(result.files) > 2
    assert uploaded(stores, result) == [Row(row.key, row.seq, RowKind.DELETE) for row in rows]


def test_a_version_in_two_layers_is_kept_once() -> None:
    stores = new_stores()
    layers = [Layer("L0", (put_file(stores, [Row(b"k", 5, value=b"same")]),)) for _ in range(2)]
    assert merged(stores, layers, PLAIN, 1 << 20) == [Row(b"k", 5, value=b"same")]


@pytest.mark.parametrize("window_bytes", [1, 1 << 20])
def test_operands_without_an_operator_are_refused(window_bytes: int) -> None:
    stores = new_stores()
    rows = [Row(b"k", 5, RowKind.MERGE, b"+"), Row(b"k", 4, value=b"base")]
    layers = [Layer("L0", (put_file(stores, rows, block_size=1),))]
    rules = MergeRules(now_ms=None, min_seq=0, drops_tombstones=False)
    with pytest.raises(OptionError, match="mergeOperator"):
        merged(stores, layers, rules, window_bytes)


def test_a_newer_layer_with_lower_seqs_is_refused() -> None:
    stores = new_stores()
    low, high = [Row(b"k", seq) for seq in (5, 4)], [Row(b"k", seq) for seq in (9, 8)]
    layers = [Layer(name, (put_file(stores, rows, block_size=1),)) for name, rows in (("L0", low), ("run 0", high))]
    with pytest.raises(CorruptDataError, match="order"):
        merged(stores, layers, PLAIN, 1)


def test_a_group_of_operands_may_span_many_windows() -> None:
    stores = new_stores()
    operands = [Row(b"k", seq, RowKind.MERGE, b"%d," % seq, create_ts_ms=seq) for seq in range(300, 1, -1)]
    base = Row(b"k", 1, value=b"base:", create_ts_ms=1)
    layers = [
        Layer("L0", (put_file(stores, operands[:100], block_size=40),)),
        Layer("run 0", (put_file(stores, [*operands[100:], base], block_size=40),)),
    ]
    total = b"base:" + b"".join(b"%d," % seq for seq in range(2, 301))
    assert merged(stores, layers, PLAIN, 100) == [Row(b"k", 300, value=total, create_ts_ms=300)]


def test_only_windows_are_held_of_a_key_with_many_versions() -> None:
    """A history without a floor keeps all versions, merged window by window."""
    stores = new_stores()
    rows = [Row(b"k", seq, value=b"v" * 1000, create_ts_ms=seq) for seq in range(2000, 0, -1)]
    rules = MergeRules(now_ms=None, min_seq=2**64 - 1, drops_tombstones=True, has_history=True)
    keeper = RowKeeper(rules.retention(), None)
    layers = [Layer("run 0", (put_file(stores, rows),))]
    sizes = [len(piece.rows) for piece in LayerMerge(stores, layers, keeper, 64 << 10).pieces()]
    assert sum(sizes) == 2000
    assert max(sizes) < 100


def test_rows_outside_a_view_are_not_merged() -> None:
    stores = new_stores()
    rows = [Row(b"%d" % number, number) for number in range(1, 10)]
    part = put_file(stores, rows, keys=KeyRange(b"3", b"5"))
    assert merged(stores, [Layer("run 0", (part,))], PLAIN, 1 << 20) == rows[2:4]
