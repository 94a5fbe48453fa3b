from __future__ import annotations

import pytest

from slatespark.format.references import SstView
from slatespark.format.row import Row, RowKind
from slatespark.format.ulid import Ulid
from slatespark.options import WriteOptions
from slatespark.ranges import KeyRange, point_range
from slatespark.table.read.merge.cursor import LayerCursor, layer_windows
from slatespark.table.read.planning.plan import FileSlice, Layer
from slatespark.table.retention.expiry_files import fetch_outline
from slatespark.table.retention.plan import DueView, StoredView, plan_due_blocks
from slatespark.table.retention.reap_rewrites import Rewrite, RewriteTask
from slatespark.table.stores import TableStores
from tests.support.fake_clock import FakeClock
from tests.support.row_values import columns_to_rows
from tests.unit.table.layers import new_stores, put_file

RETIRED_MS = 100
YOUNG_OPERAND = [Row(b"k", 9, RowKind.MERGE, b"+", 300), Row(b"k", 5, value=b"old", create_ts_ms=10)]
ROWS = [
    Row(b"a", 1, value=b"old", create_ts_ms=10),
    Row(b"b", 1, value=b"young", create_ts_ms=300),
    *YOUNG_OPERAND,
    Row(b"m", 1, value=b"old", create_ts_ms=100),
    Row(b"z", 1, value=b"no time"),
]


def due_view(part: FileSlice, *older: KeyRange) -> DueView:
    return DueView(StoredView(SstView(Ulid(1), Ulid(1)), part), older)


def task_of(stores: TableStores, window_bytes: int, **options: str) -> RewriteTask:
    parsed = WriteOptions.parse({"path": stores.url, **options})
    return RewriteTask(stores, FakeClock(1000), parsed, RETIRED_MS, 1000, window_bytes)


def rewrite(stores: TableStores, view: DueView, window_bytes: int) -> Rewrite:
    return task_of(stores, window_bytes).rewrite(view)


def rows_in(stores: TableStores, files: Rewrite) -> list[Row]:
    layer = Layer("new", tuple(file.whole() for file in files.files))
    cursor, found = LayerCursor(layer_windows(stores, layer, 1 << 20)), []
    while cursor.load():
        assert cursor.rows is not None
        found += columns_to_rows(cursor.rows)[cursor.low : cursor.high]
        cursor.low = cursor.high
    return found


@pytest.mark.parametrize(("block_size", "window_bytes"), [(1, 1), (1, 1 << 20), (4096, 1)])
def test_a_key_that_spans_windows_is_kept(block_size: int, window_bytes: int) -> None:
    stores = new_stores()
    found = rewrite(stores, due_view(put_file(stores, ROWS, block_size=block_size)), window_bytes)
    assert rows_in(stores, found) == [ROWS[1], *YOUNG_OPERAND, ROWS[-1]], "a young operand keeps all versions below it"
    assert found.gone == 2


def test_a_tombstone_stays_if_older_views_may_hold_the_key() -> None:
    stores = new_stores()
    found = rewrite(stores, due_view(put_file(stores, ROWS), point_range(b"m")), 1 << 20)
    assert rows_in(stores, found) == [ROWS[1], *YOUNG_OPERAND, Row(b"m", 1, RowKind.DELETE, create_ts_ms=100), ROWS[-1]]
    assert found.gone == 2


def test_only_rows_within_a_view_are_rewritten() -> None:
    stores = new_stores()
    part = put_file(stores, ROWS, keys=KeyRange(b"a", b"k"))
    assert rows_in(stores, rewrite(stores, due_view(part), 1 << 20)) == [ROWS[1]]


def test_files_may_end_with_a_tombstone_for_a_due_row() -> None:
    stores = new_stores()
    rows = [Row(b"%06d" % number, number, value=b"v" * 50, create_ts_ms=10) for number in range(4000)]
    view = due_view(put_file(stores, rows), KeyRange(b"", None))
    found = task_of(stores, 1 << 20, sstSize="16k", compression="none").rewrite(view)
    assert len(found.files) > 2
    assert rows_in(stores, found) == [Row(row.key, row.seq, RowKind.DELETE, create_ts_ms=10) for row in rows]


def test_an_empty_result() -> None:
    stores = new_stores()
    found = rewrite(stores, due_view(put_file(stores, ROWS[:1])), 1 << 20)
    assert found == Rewrite((), 1)


@pytest.mark.parametrize(("block_size", "window_bytes", "gone"), [(1, 1, 3), (1, 1 << 20, 3), (4096, 1, 6)])
def test_the_count_matches_the_rewrite(block_size: int, window_bytes: int, gone: int) -> None:
    """Versions of one key in several windows count as kept, which is conservative."""
    stores = new_stores()
    rows = [
        *ROWS[:2],
        *(Row(b"k", seq, create_ts_ms=10) for seq in (9, 8, 7)),
        *(Row(key, 1, create_ts_ms=20) for key in (b"l", b"m")),
        ROWS[-1],
    ]
    part = put_file(stores, rows, block_size=block_size)
    view, outline = due_view(part), fetch_outline(stores, part.file)
    blocks = plan_due_blocks(part, outline, RETIRED_MS)
    found = task_of(stores, window_bytes).count_gone(view, outline, blocks.reads)
    assert found == gone
    assert rewrite(stores, view, 1 << 20).gone == 6
