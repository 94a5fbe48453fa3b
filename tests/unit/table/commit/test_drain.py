"""Draining the WAL: which rows it holds above the trees, and which of them become files."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from slatespark.format.manifest import Manifest
from slatespark.format.paths import wal_path
from slatespark.format.row import Row, rows_to_columns
from slatespark.format.segments import WHOLE
from slatespark.options import WriteOptions
from slatespark.ranges import KeyRange
from slatespark.table.commit.drain import Drained, drain_wal, upload_drained
from slatespark.table.commit.tree_edit import DROP_TREES, KEEP_TREES, CutViews, TreeEdit
from slatespark.table.stores import TableStores
from slatespark.table.write.restored_trees import RestoreTrees
from tests.support.fake_clock import FakeClock
from tests.support.wal_files import encode_wal
from tests.unit.table.layers import new_stores, rows_of


def with_wal(*files: Sequence[Row]) -> TableStores:
    """A place with WAL files 1, 2, ...; one without rows is a fence."""
    stores = new_stores()
    for number, rows in enumerate(files, 1):
        stores.main.put(wal_path(number), [encode_wal(rows) if rows else b""])
    return stores


def drained_keys(drained: Drained) -> list[tuple[bytes, int]]:
    rows = drained.rows
    return [] if rows is None else [(rows.key(row), int(rows.seqs[row])) for row in range(len(rows))]


def test_rows_above_the_trees_up_to_the_fence() -> None:
    stores = with_wal([Row(b"a", 5)], [Row(b"b", 6)], [Row(b"a", 7), Row(b"c", 7)], [Row(b"d", 8)], [])
    drained = drain_wal(stores, Manifest(replay_after_wal_id=1, last_l0_seq=6), fence_id=4)
    assert drained_keys(drained) == [(b"a", 7), (b"c", 7)], "row 5 is in the trees, 6 too, and 8 is above the fence"
    assert drained.last_seq == 7


@pytest.mark.parametrize("last_l0_seq", [6, 7])
def test_a_wal_without_newer_rows(last_l0_seq: int) -> None:
    drained = drain_wal(with_wal([Row(b"a", 5)], [Row(b"b", 6)], []), Manifest(last_l0_seq=last_l0_seq), fence_id=3)
    assert drained == Drained(None, last_l0_seq, None)


@pytest.mark.parametrize(("times", "tick_ms"), [([None, None], None), ([None, -5], -5), ([30, 20], 30), ([0, None], 0)])
def test_the_tick_is_the_highest_time_of_the_rows(times: list[int | None], tick_ms: int | None) -> None:
    rows = [Row(b"k%d" % at, at + 1, create_ts_ms=time) for at, time in enumerate(times)]
    assert drain_wal(with_wal(*[[row] for row in rows], []), Manifest(), fence_id=len(rows) + 1).tick_ms == tick_ms


ROWS = [Row(b"b", 4), Row(b"b", 3), Row(b"c", 5), Row(b"d", 6), Row(b"e", 7)]


def cut(*keys: tuple[bytes, bytes | None]) -> CutViews:
    return CutViews(tuple(KeyRange(*bounds) for bounds in keys), 0)


@pytest.mark.parametrize(
    ("edit", "kept"),
    [
        pytest.param(KEEP_TREES, [4, 3, 5, 6, 7], id="all"),
        pytest.param(DROP_TREES, [], id="none"),
        pytest.param(RestoreTrees(()), [], id="those of an earlier version replace all"),
        pytest.param(cut((b"c", b"e")), [4, 3, 7], id="outside an interval"),
        pytest.param(cut((b"b", b"b\0")), [5, 6, 7], id="all versions of the first key go"),
        pytest.param(cut((b"e", None)), [4, 3, 5, 6], id="the end is open"),
        pytest.param(cut((b"", b"c"), (b"d", b"e")), [5, 7], id="several intervals"),
        pytest.param(cut((b"", None)), [], id="everything"),
        pytest.param(cut((b"cc", b"cd"), (b"x", None)), [4, 3, 5, 6, 7], id="intervals between the keys"),
    ],
)
def test_rows_that_an_edit_keeps(edit: TreeEdit, kept: list[int]) -> None:
    stores, clock = new_stores(), FakeClock(1000)
    files = upload_drained(
        stores,
        Drained(rows_to_columns(ROWS), 7, None),
        edit,
        WHOLE,
        WriteOptions.parse({"path": "memory://unused"}),
        clock,
    )
    assert [row.seq for file in files for row in rows_of(stores, file)] == kept


def test_no_rows_need_no_file() -> None:
    stores = new_stores()
    options = WriteOptions.parse({"path": "memory://unused"})
    assert upload_drained(stores, Drained(None, 3, None), KEEP_TREES, WHOLE, options, FakeClock(0)) == ()
    assert list(stores.main.list("")) == []
