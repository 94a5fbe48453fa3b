"""The windowed merge shows what a merge of everything at once shows, whatever the windows, blocks and files."""

from __future__ import annotations

import pytest

from slatespark.errors import CorruptDataError, OptionError
from slatespark.format.row import Row, RowKind
from slatespark.kernels import take_rows
from slatespark.kernels.columns import Visibility
from slatespark.table.read.merge.cursor import (
    MAX_WINDOW_BYTES,
    MIN_WINDOW_BYTES,
    LayerCursor,
    layer_windows,
    window_size,
)
from slatespark.table.read.merge.merge_function import MergeFunction, resolve_operator
from slatespark.table.read.planning.plan import Layer
from slatespark.table.read.scan import visible_windows
from slatespark.table.stores import TableStores
from tests.support.row_values import columns_to_rows
from tests.unit.table.layers import new_stores, put_file

CONCAT = resolve_operator("concat")


def windowed(
    stores: TableStores,
    layers: list[Layer] | tuple[Layer, ...],
    window_bytes: int,
    visibility: Visibility,
    fold: MergeFunction | None = CONCAT,
) -> list[Row]:
    cursors = [LayerCursor(layer_windows(stores, layer, window_bytes)) for layer in layers]
    found: list[Row] = []
    for sources, selection in visible_windows(cursors, visibility, fold):
        assert not selection.marks.any()
        found.extend(columns_to_rows(take_rows(sources, selection.rows)))
    return found


def test_a_hot_key_of_many_blocks_and_files_needs_one_window_at_a_time() -> None:
    """300 versions of one key in 3 files, between other keys, and an older layer that holds a base."""
    stores = new_stores()
    hot = [Row(b"hot", seq, RowKind.MERGE, b"%03d" % seq) for seq in range(400, 100, -1)]
    before, after = Row(b"a", 500, value=b"1"), Row(b"z", 500, value=b"2")
    newer = Layer(
        "newer",
        tuple(
            put_file(stores, rows, block_size=64) for rows in ([before, *hot[:100]], hot[100:200], [*hot[200:], after])
        ),
    )
    older = Layer("older", (put_file(stores, [Row(b"hot", 50, value=b"base"), Row(b"hot", 40, value=b"x")]),))
    shown = windowed(stores, [newer, older], 1, Visibility(max_seq=2**63, now_ms=0))
    assert [row.key for row in shown] == [b"a", b"hot", b"z"]
    assert shown[1].value == b"base" + b"".join(row.value for row in reversed(hot))
    every = windowed(stores, [newer, older], 1, Visibility(max_seq=2**63, now_ms=0, all_versions=True))
    assert [row.seq for row in every] == [500, *range(400, 100, -1), 50, 40, 500]
    with pytest.raises(OptionError, match="mergeOperator"):
        windowed(stores, [newer, older], 1, Visibility(max_seq=2**63, now_ms=0), fold=None)


def test_layers_in_the_wrong_order_are_noticed_where_versions_span_windows() -> None:
    stores = new_stores()
    newer = Layer("newer", (put_file(stores, [Row(b"k", seq) for seq in (3, 2, 1)], block_size=1),))
    older = Layer("older", (put_file(stores, [Row(b"k", seq) for seq in (9, 8)], block_size=1),))
    with pytest.raises(CorruptDataError, match="seq 9"):
        windowed(stores, [newer, older], 1, Visibility(max_seq=99, now_ms=0))


@pytest.mark.parametrize("overlap", [b"c", b"b"])
def test_files_of_a_run_that_overlap_are_noticed(overlap: bytes) -> None:
    stores = new_stores()
    layer = Layer(
        "run", (put_file(stores, [Row(b"a", 1), Row(b"c", 1)]), put_file(stores, [Row(overlap, 2), Row(b"d", 1)]))
    )
    if overlap == b"c":  # a shared boundary key, but the newer version comes last
        with pytest.raises(CorruptDataError, match="seq 1"):
            windowed(stores, [layer], 1, Visibility(max_seq=99, now_ms=0))
    else:
        with pytest.raises(CorruptDataError, match="key 62"):
            windowed(stores, [layer], 1, Visibility(max_seq=99, now_ms=0))


def test_window_sizes() -> None:
    assert window_size(1, 10) == MIN_WINDOW_BYTES
    assert window_size(1 << 40, 1) == MAX_WINDOW_BYTES
    assert window_size(64 << 20, 64) == (64 << 20) // 128
    assert window_size(64 << 20, 0) == MAX_WINDOW_BYTES
