from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from slatespark.ranges import ByteRange, KeyRange, coalesce, point_range, prefix_range

spans = st.builds(lambda start, size: ByteRange(start, start + size), st.integers(0, 500), st.integers(1, 50))

keys = st.binary(max_size=3)

key_ranges = st.builds(KeyRange, keys, st.none() | keys)


@given(st.lists(spans, max_size=20), st.integers(0, 20), st.integers(1, 100))
def test_each_span_lies_in_exactly_one_merged_range(parts: list[ByteRange], max_gap: int, max_bytes: int) -> None:
    merged = coalesce(parts, max_gap=max_gap, max_bytes=max_bytes)
    assert merged == sorted(merged)
    assert all(before.end <= after.start for before, after in itertools.pairwise(merged))
    for part in parts:
        assert sum(whole.start <= part.start and part.end <= whole.end for whole in merged) == 1


@given(key_ranges, key_ranges, keys)
def test_intersection_holds_what_both_hold(a: KeyRange, b: KeyRange, key: bytes) -> None:
    assert a.intersect(b).contains(key) == (a.contains(key) and b.contains(key))


@given(keys, keys)
def test_prefix_range_holds_the_keys_with_that_prefix(prefix: bytes, key: bytes) -> None:
    assert prefix_range(prefix).contains(key) == key.startswith(prefix)
    assert prefix_range(prefix).contains(prefix + key)


@given(keys, keys)
def test_point_range_holds_one_key(key: bytes, other: bytes) -> None:
    assert point_range(key).contains(other) == (key == other)
