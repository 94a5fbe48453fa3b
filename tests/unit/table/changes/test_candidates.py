"""Which keys are looked up in both versions: no others, and none that may have changed is left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.kernels.columns import Visibility
from slatespark.options import ReadOptions
from slatespark.ranges import ALL_KEYS
from slatespark.table.changes.candidates import find_candidates
from slatespark.table.changes.plan import ChangeSettings, ChangeSplit
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.read.arrow import project
from slatespark.table.read.planning.plan import Layer
from slatespark.table.read.scan_settings import ScanSettings
from slatespark.table.snapshot import WalTail
from slatespark.table.stores import TableStores
from tests.unit.table.layers import new_stores, put_file

OLD_SEQ, NEW_SEQ = 100, 200
OLD_MS, NEW_MS = 1000, 2000
NOTHING: tuple[list[bytes], list[bytes]] = ([], [])


def put(
    key: bytes, seq: int, value: bytes = b"v", *, create_ts_ms: int | None = None, expire_ts_ms: int | None = None
) -> Row:
    return Row(key, seq, value=value, create_ts_ms=create_ts_ms, expire_ts_ms=expire_ts_ms)


def merge(key: bytes, seq: int) -> Row:
    return Row(key, seq, RowKind.MERGE, b"v")


def delete(key: bytes, seq: int) -> Row:
    return Row(key, seq, RowKind.DELETE)


def settings_of(
    *, now_ms: tuple[int, int] = (OLD_MS, NEW_MS), retention_ms: int | None = None, **more: bool
) -> ChangeSettings:
    projection = project(ReadOptions(path="memory://candidates"), codec=TableDefinition().codec())
    old, new = (
        ScanSettings(
            Visibility(max_seq, time_ms, include_expired=more.get("include_expired", False)),
            projection,
            fold=None,
            wal=WalTail(0, 0),
            wal_above_seq=0,
            buffer_bytes=1 << 20,
            retired_ms=None if retention_ms is None else time_ms - retention_ms,
        )
        for max_seq, time_ms in zip((OLD_SEQ, NEW_SEQ), now_ms, strict=True)
    )
    return ChangeSettings(old, new, projection, None, more.get("pre_images", True), version=2, committed_ms=0)


def found(
    old: Sequence[Row] = (),
    new: Sequence[Row] = (),
    *,
    due: Sequence[Row] = (),
    tails: tuple[Sequence[Row], Sequence[Row]] = ((), ()),
    **settings: Any,
) -> tuple[list[bytes], list[bytes]]:
    """The keys that are looked up, and those of the rows that decide by themselves."""
    stores = new_stores()
    only_old, only_new, ending = (layers_of(stores, rows) for rows in (old, new, due))
    split = ChangeSplit(ALL_KEYS, (), (), only_old, only_new, ending)
    in_wal = [rows_to_columns(rows) if rows else None for rows in tails]
    parts = list(find_candidates(stores, split, settings_of(**settings), (in_wal[0], in_wal[1])))
    written = [rows.key(number) for part in parts for rows in part.written for number in range(len(rows))]
    return [key for part in parts for key in part.keys], written


def layers_of(stores: TableStores, rows: Sequence[Row]) -> tuple[Layer, ...]:
    return (Layer("rows", (put_file(stores, rows),)),) if rows else ()


# --- rows that both versions have ------------------------------------------------------------------------------------


def test_rows_that_a_compaction_moved_are_not_looked_up() -> None:
    moved = [put(b"a", 5), delete(b"b", 6), put(b"c", 7, expire_ts_ms=5000), put(b"d", 8, create_ts_ms=3)]
    assert found(moved, moved) == NOTHING
    assert found(moved, moved, pre_images=False) == NOTHING


def test_below_the_newest_row_nothing_counts() -> None:
    assert found([put(b"a", 5), put(b"a", 3), put(b"b", 1)], [put(b"a", 5), put(b"b", 1)]) == NOTHING
    assert found([merge(b"a", 5), put(b"a", 3)], [merge(b"a", 5)]) == ([b"a"], [])
    assert found([put(b"a", 5), merge(b"a", 3)], [put(b"a", 5)]) == NOTHING


@pytest.mark.parametrize(
    "rewritten",
    [
        pytest.param(put(b"a", 5, b"w"), id="another value"),
        pytest.param(put(b"a", 5, b"vv"), id="a longer value"),
        pytest.param(put(b"a", 5, create_ts_ms=3), id="a creation"),
        pytest.param(put(b"a", 5, expire_ts_ms=5000), id="an expiry"),
        pytest.param(delete(b"a", 5), id="a tombstone"),
        pytest.param(merge(b"a", 5), id="an operand"),
        pytest.param(put(b"a", 6), id="another number: a shared row may lie between the two"),
        pytest.param(put(b"b", 5), id="another key"),
    ],
)
def test_rows_that_differ(rewritten: Row) -> None:
    keys = sorted({b"a", rewritten.key})
    assert found([put(b"a", 5)], [rewritten]) == (keys, [])
    assert found([rewritten], [put(b"a", 5)]) == (keys, [])


def test_a_row_without_a_value_is_no_tombstone() -> None:
    assert found([put(b"a", 5, b"")], [delete(b"a", 5)]) == ([b"a"], [])


def test_an_operand_that_ended_hides_nothing() -> None:
    ended = [Row(b"a", 5, RowKind.MERGE, b"v", expire_ts_ms=OLD_MS)]
    for other in (delete(b"a", 5), put(b"a", 5, expire_ts_ms=OLD_MS)):
        assert found(ended, [other]) == found([other], ended) == ([b"a"], [])


def test_rows_that_differ_in_a_time() -> None:
    assert found([put(b"a", 5, create_ts_ms=3)], [put(b"a", 5, create_ts_ms=4)]) == ([b"a"], [])
    assert found([put(b"a", 5, expire_ts_ms=5000)], [put(b"a", 5, expire_ts_ms=5001)]) == ([b"a"], [])


def test_rows_that_only_one_version_has() -> None:
    assert found([put(b"a", 5)], [put(b"b", 6), put(b"b", 5)]) == ([b"a", b"b"], [])
    assert found([delete(b"a", 5)]) == ([b"a"], [])


def test_a_row_that_one_version_has_twice() -> None:
    stores = new_stores()
    twice = (*layers_of(stores, [put(b"a", 5)]), *layers_of(stores, [put(b"a", 5)]))
    split = ChangeSplit(ALL_KEYS, (), (), new_only=twice)
    [part] = find_candidates(stores, split, settings_of(), (None, None))
    assert part.keys == [b"a"]


def test_an_expired_row_that_a_compaction_made_a_tombstone() -> None:
    ended = [put(b"a", 5, expire_ts_ms=OLD_MS)]
    assert found(ended, [delete(b"a", 5)]) == NOTHING
    assert found([delete(b"a", 5)], ended) == NOTHING
    assert found(ended, [delete(b"a", 5)], include_expired=True) == ([b"a"], [])
    assert found([put(b"a", 5, expire_ts_ms=OLD_MS + 1)], [delete(b"a", 5)]) == ([b"a"], [])


# --- rows that end between the versions ------------------------------------------------------------------------------


@pytest.mark.parametrize(("ends_ms", "is_found"), [(OLD_MS, False), (OLD_MS + 1, True), (NEW_MS, True), (2001, False)])
def test_rows_that_expire(ends_ms: int, is_found: bool) -> None:
    rows = [put(b"a", 5, expire_ts_ms=ends_ms)]
    wanted = ([b"a"], []) if is_found else NOTHING
    assert found(due=rows) == found(rows, rows) == wanted
    assert found(due=rows, pre_images=False) == wanted
    assert found(due=rows, include_expired=True) == NOTHING


@pytest.mark.parametrize(("made_ms", "is_found"), [(600, False), (601, True), (1600, True), (1601, False)])
def test_rows_that_retire(made_ms: int, is_found: bool) -> None:
    rows = [put(b"a", 5, create_ts_ms=made_ms)]
    wanted = ([b"a"], []) if is_found else NOTHING
    assert found(due=rows, retention_ms=400) == found(rows, rows, retention_ms=400) == wanted
    tombstone = [Row(b"a", 5, RowKind.DELETE, create_ts_ms=made_ms)]
    assert found(due=tombstone, retention_ms=400) == NOTHING


# --- the WAL ---------------------------------------------------------------------------------------------------------


def test_rows_of_the_wal() -> None:
    rows = [put(b"a", 105), put(b"b", 104)]
    assert found(tails=((), rows)) == found(tails=(rows, ())) == ([b"a", b"b"], [])
    assert found(tails=((), rows), pre_images=False) == ([], [b"a", b"b"])
    assert found(tails=(rows, rows)) == NOTHING
    assert found(new=rows, tails=(rows, ())) == NOTHING  # flushed
    assert found(new=[put(b"a", 105)], tails=(rows, rows[1:])) == NOTHING


# --- without old rows ------------------------------------------------------------------------------------------------


def test_new_rows_decide_by_themselves() -> None:
    new = [put(b"a", OLD_SEQ + 1), delete(b"b", OLD_SEQ + 2), put(b"c", OLD_SEQ), merge(b"d", OLD_SEQ + 3)]
    assert found(new=new, pre_images=False) == ([b"c", b"d"], [b"a", b"b"])
    assert found(new=new) == ([b"a", b"b", b"c", b"d"], [])
    assert found([put(b"a", 5)], new[:1], pre_images=False) == ([], [b"a"])


def test_old_rows_and_rewritten_ones_do_not() -> None:
    assert found([put(b"a", 5)], pre_images=False) == ([b"a"], [])
    assert found([put(b"a", 150)], pre_images=False) == ([b"a"], [])
    assert found([put(b"a", 150)], [put(b"a", 150, b"w")], pre_images=False) == ([b"a"], [])
