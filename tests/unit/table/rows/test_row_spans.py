"""Spans of sorted rows by key, against a plain loop."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.ranges import KeyRange, merge_ranges
from slatespark.table.rows.row_spans import rows_outside, spans_within

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
