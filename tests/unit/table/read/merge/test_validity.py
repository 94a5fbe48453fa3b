"""An interval holds exactly the instants as of which a read shows that row."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import slatespark.table.read.merge.validity as validity
from slatespark.errors import OptionError, UnsupportedFormatError
from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.kernels import take_rows
from slatespark.table.read.merge.merge_function import resolve_operator
from slatespark.table.read.merge.validity import ValiditySettings, interval_columns, valid_intervals
from slatespark.units import MAX_MS, MIN_MS
from tests.support.row_values import columns_to_rows

CONCAT = resolve_operator("concat")

Found = list[tuple[Row, int, int]]


def intervals(rows: Iterable[Row], settings: ValiditySettings | None = None, fold: Any = None) -> Found:
    columns = rows_to_columns(list(rows))
    windows = [([columns], np.arange(len(columns), dtype=np.int64))]
    return collected(valid_intervals(windows, settings or ValiditySettings(0), fold))


def collected(parts: Iterable[Any]) -> Found:
    found: Found = []
    for sources, rows, starts, ends, _ in parts:
        shown = columns_to_rows(take_rows(sources, rows))
        found += zip(shown, starts.tolist(), ends.tolist(), strict=True)
    return found


def put(seq: int, created: int | None, expires: int | None = None, key: bytes = b"k") -> Row:
    return Row(key, seq, RowKind.PUT, b"%d" % seq, created, expires)


def delete(seq: int, created: int | None) -> Row:
    return Row(b"k", seq, RowKind.DELETE, b"", created, None)


def spans(found: Found) -> list[tuple[int, int, int]]:
    return [(row.seq, start, end) for row, start, end in found]


def test_a_version_ends_where_the_next_begins() -> None:
    assert spans(intervals([put(3, 30), put(2, 20), put(1, 10), put(9, 5, key=b"l")])) == [
        (3, 30, MAX_MS),
        (2, 20, 30),
        (1, 10, 20),
        (9, 5, MAX_MS),
    ]


def test_a_deletion_closes_and_has_no_interval() -> None:
    assert spans(intervals([put(3, 30), delete(2, 20), put(1, 10)])) == [(3, 30, MAX_MS), (1, 10, 20)]


def test_an_expiry_closes_if_it_comes_first() -> None:
    assert spans(intervals([put(2, 20, 25), put(1, 10, 100)])) == [(2, 20, 25), (1, 10, 20)]
    kept = ValiditySettings(0, ends_by_expiry=False)
    assert spans(intervals([put(2, 20, 25), put(1, 10, 15)], kept)) == [(2, 20, MAX_MS), (1, 10, 20)]


def test_what_no_read_ever_showed_has_no_interval() -> None:
    assert spans(intervals([put(3, 10), put(2, 10), put(1, 10, 10)])) == [(3, 10, MAX_MS)]
    assert spans(intervals([put(2, None), put(1, 10)])) == [(2, MIN_MS, MAX_MS)]
    assert spans(intervals([put(1, 10, 10)])) == []


def test_versions_whose_times_are_out_of_order() -> None:
    assert spans(intervals([put(4, 10), put(3, 30), put(2, 20), put(1, 5)])) == [(4, 10, MAX_MS), (1, 5, 10)]


def test_retention_ends_a_version() -> None:
    found = intervals([put(2, 20), put(1, 10)], ValiditySettings(0, retention_ms=5))
    assert spans(found) == [(2, 20, 25), (1, 10, 15)]


def test_what_was_over_by_the_floor_is_left_out() -> None:
    rows = [put(3, 30), put(2, 20), put(1, 10)]
    assert spans(intervals(rows, ValiditySettings(0, floor_ms=20))) == [(3, 30, MAX_MS), (2, 20, 30)]
    assert spans(intervals(rows, ValiditySettings(0, floor_ms=19)))[-1] == (1, 10, 20)


def test_operands_make_new_rows_of_what_lies_below() -> None:
    operands = [Row(b"k", seq, RowKind.MERGE, b"+%d" % seq, 10 * seq, None) for seq in (4, 3)]
    found = intervals([*operands, put(2, 20), put(1, 10)], fold=CONCAT)
    assert [(row.value, start, end) for row, start, end in found] == [
        (b"2+3+4", 40, MAX_MS),
        (b"2+3", 30, 40),
        (b"2", 20, 30),
        (b"1", 10, 20),
    ]
    with pytest.raises(OptionError, match="mergeOperator"):
        intervals(operands)


def test_an_operand_that_expires_parts_its_row() -> None:
    operand = Row(b"k", 2, RowKind.MERGE, b"+", 20, 25)
    found = intervals([operand, put(1, 10)], fold=CONCAT)
    assert [(row.value, start, end) for row, start, end in found] == [
        (b"1", 25, MAX_MS),
        (b"1+", 20, 25),
        (b"1", 10, 20),
    ]


def test_operands_that_have_expired_are_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    count, lifetime_ms, looked_at = 200, 10, 0
    states = validity._Tracker._states

    def counted(tracker: Any, versions: list[Row], start: int, end: int) -> Any:
        nonlocal looked_at
        looked_at += len(versions)
        return states(tracker, versions, start, end)

    monkeypatch.setattr(validity._Tracker, "_states", counted)
    rows = [Row(b"k", seq, RowKind.MERGE, b"+", seq, seq + lifetime_ms) for seq in range(count, 0, -1)]
    found = intervals([*rows[:-1], Row(b"k", 1, RowKind.MERGE, b"+", 1, 1)], fold=CONCAT)  # the first never lived
    assert looked_at <= count * lifetime_ms
    assert [row.value for row, start, _ in found if start == 100] == [b"+" * lifetime_ms]
    assert min(start for _, start, _ in found) == 2


def test_the_columns() -> None:
    rows = rows_to_columns([put(3, 3), put(2, 2), put(1, None)])
    [found] = valid_intervals([([rows], np.arange(3, dtype=np.int64))], ValiditySettings(0), None)
    columns = {name: column.cast("int64") for name, column in interval_columns(found, now_ms=2).items()}
    assert {name: column.to_pylist() for name, column in columns.items()} == {
        "_valid_from": [3000, 2000, None],
        "_valid_to": [None, 3000, 2000],
        "_is_current": [0, 1, 0],
    }


@pytest.mark.parametrize("kind", [RowKind.PUT, RowKind.MERGE])
@pytest.mark.parametrize("retention_ms", [None, 5])
def test_the_last_instant_there_is(kind: RowKind, retention_ms: int | None) -> None:
    """What was written then is valid, and has no end; what it replaced has one."""
    rows = rows_to_columns([Row(b"k", 3, kind, b"new", MAX_MS, None), put(2, MAX_MS - 1), put(1, 3)])
    settings = ValiditySettings(0, retention_ms=retention_ms)
    [found] = valid_intervals([([rows], np.arange(3, dtype=np.int64))], settings, CONCAT)
    assert [row.seq for row, _, _ in collected([found])] == [3, 2, 1]
    assert [end.as_py() is None for end in interval_columns(found, 0)["_valid_to"].cast("int64")] == [
        True,
        False,
        False,
    ]
    assert interval_columns(found, MAX_MS)["_is_current"].to_pylist() == [True, False, False]
    assert interval_columns(found, MAX_MS - 1)["_is_current"].to_pylist() == [False, True, False]


def test_an_expiry_at_the_last_instant_is_an_end() -> None:
    rows = rows_to_columns([put(1, 3, MAX_MS)])
    [found] = valid_intervals([([rows], np.arange(1, dtype=np.int64))], ValiditySettings(0), None)
    assert interval_columns(found, MAX_MS)["_is_current"].to_pylist() == [False]
    assert interval_columns(found, MAX_MS)["_valid_to"].null_count == 0


def test_operands_out_of_order_are_refused() -> None:
    operand = Row(b"k", 2, RowKind.MERGE, b"+", 5, None)
    for base in (put(1, 10), delete(1, 10)):
        with pytest.raises(UnsupportedFormatError, match="seq 2"):
            intervals([operand, base], fold=CONCAT)


def test_an_operand_of_the_time_of_its_base() -> None:
    found = intervals([Row(b"k", 2, RowKind.MERGE, b"+", 10, None), put(1, 10)], fold=CONCAT)
    assert [(row.value, start, end) for row, start, end in found] == [(b"1+", 10, MAX_MS)]
