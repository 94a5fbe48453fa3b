"""Conditions that are exactly key intervals, messages for others, and rows outside the intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark import OptionError
from slatespark.encoding.predicates import bind_filter, parse_filter
from slatespark.encoding.row_codec import RAW_CODEC
from slatespark.ranges import KeyRange
from slatespark.table.rows.key_bounds import KeyBounds
from slatespark.table.write.exact_ranges import exact_ranges
from tests.support.effort import examples
from tests.unit.table.write.test_range_replace import CODEC, SCHEMA, rows

SMALL = st.tuples(st.sampled_from([None, "", "a", "a\0", "ab", "b"]), st.integers(-2, 2), st.integers(-300, 300))


@st.composite
def conditions(draw: st.DrawFn) -> str:
    """Comparisons on leading columns of the key, which are intervals of keys."""
    quoted = {"tenant": ["'a'", "'a\\0'", "'ab'", "''"], "part": ["-2", "0", "1"], "day": ["-256", "-1", "0", "255"]}
    columns = ("tenant", "part", "day")[: draw(st.integers(1, 3))]
    parts = []
    for column in columns:
        one, two = draw(st.lists(st.sampled_from(quoted[column]), min_size=2, max_size=2, unique=True))
        forms = [f"= {one}", f"IN ({one}, {two})", "IS NULL"]
        if column == columns[-1]:
            forms += [f">= {one}", f"< {two}", f"<> {one}", f"BETWEEN {one} AND {two}", "IS NOT NULL"]
        parts.append(f"{column} {draw(st.sampled_from(forms))}")
    return " AND ".join(parts)


@settings(max_examples=examples(75))
@given(conditions(), st.lists(SMALL, min_size=1, max_size=30))
def test_a_key_lies_in_the_intervals_if_the_condition_holds(condition: str, keys: list[tuple[Any, ...]]) -> None:
    condition_of_rows = bind_filter(parse_filter(condition), SCHEMA)
    if condition_of_rows.is_unsatisfiable:
        with pytest.raises(OptionError, match="key"):
            exact_ranges(condition, CODEC, name="where")
        return
    ranges = exact_ranges(condition, CODEC, name="where")
    table = rows(*keys)
    passes = condition_of_rows.mask(table.combine_chunks().to_batches()[0])
    encoded = CODEC.encode_keys(table)
    bounds = KeyBounds(ranges, condition)
    inside = bounds._inside(*encoded)
    assert inside.tolist() == np.asarray(passes).tolist()
    by_hand = [any(each.contains(CODEC.encode_key(key)) for each in ranges) for key in keys]
    assert by_hand == inside.tolist()


@given(
    st.lists(st.binary(min_size=1, max_size=2), min_size=1, max_size=6, unique=True),
    st.lists(st.binary(min_size=1, max_size=3), min_size=1, max_size=20),
    st.booleans(),
)
def test_inside_and_outside_of_several_intervals(edges: list[bytes], keys: list[bytes], is_open: bool) -> None:
    edges.sort()
    ranges = [KeyRange(start, end) for start, end in zip(edges[::2], edges[1::2], strict=False)]
    if is_open or not ranges:
        ranges.append(KeyRange(edges[-1]))
    encoded = RAW_CODEC.encode_keys(pa.table({"key": pa.array(keys, pa.binary())}))
    inside = KeyBounds(tuple(ranges), "these")._inside(*encoded)
    assert inside.tolist() == [any(each.contains(key) for each in ranges) for key in keys]
