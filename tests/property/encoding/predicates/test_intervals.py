"""The algebra of intervals, compared with sets of numbers."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from slatespark.encoding.predicates.intervals import (
    Intervals,
    complement,
    intersect,
    join_touching,
    parts_within,
    union,
)

WHOLE = (0, 20)

NUMBERS = st.integers(0, 20)

SETS = st.lists(st.tuples(NUMBERS, st.one_of(NUMBERS, st.none())), max_size=6).map(union)


def members(intervals: Intervals) -> set[int]:
    return {number for start, end in intervals for number in range(start, 20 if end is None else end)}


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=6))
def test_union(parts: list[tuple[int, int]]) -> None:
    united = union(parts)
    assert members(united) == {number for start, end in parts for number in range(start, end)}
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(united))


@given(SETS, SETS)
def test_intersection(one: Intervals, other: Intervals) -> None:
    assert members(intersect(one, other)) == members(one) & members(other)


@given(SETS, NUMBERS, st.one_of(NUMBERS, st.none()))
def test_parts_within_an_interval(some: Intervals, start: int, end: int | None) -> None:
    assert parts_within(some, (start, end)) == intersect(((start, end),), some)


@given(SETS)
def test_complement(some: Intervals) -> None:
    outside = complement(some, WHOLE)
    assert members(outside) == set(range(20)) - members(some)


@given(SETS)
def test_joined(some: Intervals) -> None:
    joined = join_touching(some)
    assert members(joined) == members(some)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(joined))
