from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.kernels import take_rows
from slatespark.kernels.columns import TOMBSTONE
from slatespark.ranges import ALL_KEYS, KeyRange, merge_ranges
from slatespark.table.read.planning.row_cuts import (
    cut_rows,
    has_rows,
    keys_alone,
    positions_within,
    rows_outside,
    spans_within,
)
from tests.unit.kernels.rows import columns, put

SORTED = columns(put(b"a", 1), put(b"c", 2), put(b"d", 3))
MIXED = columns(put(b"d", 1), put(b"a", 2), put(b"d", 3), put(b"c", 4))


def test_rows_of_disjoint_ranges() -> None:
    cut = cut_rows(SORTED, [KeyRange(b"", b"b"), KeyRange(b"d", None)])
    assert cut is not None
    assert [cut.key(row) for row in range(len(cut))] == [b"a", b"d"]
    assert cut.seqs.tolist() == [1, 3]


def test_no_rows_in_the_ranges() -> None:
    assert cut_rows(SORTED, [KeyRange(b"b", b"c"), KeyRange(b"e", None)]) is None


def test_whether_a_range_has_rows() -> None:
    assert [has_rows(SORTED, KeyRange(b"b", end)) for end in (b"c", b"c\0", None)] == [False, True, True]


@pytest.mark.parametrize(
    ("keys", "positions"),
    [(ALL_KEYS, [0, 1, 2, 3]), (KeyRange(b"c", b"e"), [0, 2, 3]), (KeyRange(b"b", b"c"), [])],
)
def test_positions_of_unsorted_rows(keys: KeyRange, positions: list[int]) -> None:
    assert positions_within(MIXED, keys).tolist() == positions


def test_keys_alone() -> None:
    rows = keys_alone([MIXED], positions_within(MIXED, KeyRange(b"d", None)), flags=TOMBSTONE)
    assert [rows.key(row) for row in range(len(rows))] == [b"d", b"d"]
    assert rows.flags.tolist() == [TOMBSTONE, TOMBSTONE]
    assert rows.seqs.tolist() == rows.value_lengths.tolist() == [0, 0]
    assert take_rows([rows], positions_within(rows, ALL_KEYS)).value_bytes.size == 0


keys = st.binary(max_size=2)
ranges = st.lists(st.builds(KeyRange, keys, st.none() | keys), max_size=4).map(merge_ranges)


@given(st.lists(keys, max_size=12).map(sorted), ranges, st.data())
def test_rows_by_range(given_keys: list[bytes], chosen: tuple[KeyRange, ...], data: st.DataObject) -> None:
    rows = rows_to_columns([Row(key, 1, RowKind.PUT, b"") for key in given_keys])
    low, high = sorted((data.draw(st.integers(0, len(rows))), data.draw(st.integers(0, len(rows)))))
    inside = [at for at in range(low, high) if any(keys.contains(given_keys[at]) for keys in chosen)]
    spans = list(spans_within(rows, low, high, chosen))
    assert all(start < end for start, end in spans)
    assert [at for start, end in spans for at in range(start, end)] == inside
    assert rows_outside(rows, low, high, chosen).tolist() == [at for at in range(low, high) if at not in inside]
