"""Sets of ordinals as half-open intervals `[start, end)`; `end=None` is unbounded.

Ordinals are integers or bytes. A set is a tuple of ascending intervals that do not overlap. They may touch: the values
of a list keep one interval each.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Any, TypeAlias

Interval: TypeAlias = tuple[Any, Any]
Intervals: TypeAlias = tuple[Interval, ...]


def union(intervals: Iterable[Interval]) -> Intervals:
    """Return the union of intervals given in any order."""
    merged: list[Interval] = []
    for start, end in sorted((item for item in intervals if not _is_empty(item)), key=lambda item: item[0]):
        if merged and _overlaps(merged[-1][1], start):
            merged[-1] = (merged[-1][0], _max_end(merged[-1][1], end))
        else:
            merged.append((start, end))
    return tuple(merged)


def intersect(one: Intervals, other: Intervals) -> Intervals:
    """Return the intersection of two sets."""
    found: list[Interval] = []
    a = b = 0
    while a < len(one) and b < len(other):
        overlap = (max(one[a][0], other[b][0]), _min_end(one[a][1], other[b][1]))
        if not _is_empty(overlap):
            found.append(overlap)
        if one[a][1] is not None and (other[b][1] is None or one[a][1] <= other[b][1]):
            a += 1
        else:
            b += 1
    return tuple(found)


def parts_within(intervals: Intervals, interval: Interval) -> Intervals:
    """Return the parts of a set that lie in an interval; unlike `intersect`, looks at no other intervals of the set."""
    start, end = interval
    first = max(0, bisect_right(intervals, start, key=_start_of) - 1)
    stop = len(intervals) if end is None else bisect_left(intervals, end, first, key=_start_of)
    return intersect((interval,), intervals[first:stop])


def complement(intervals: Intervals, universe: Interval) -> Intervals:
    """Return the complement of a set in the universe. Requires: the set lies in the universe."""
    found: list[Interval] = []
    start = universe[0]
    for low, high in intervals:
        found.append((start, low))
        if high is None:
            return tuple(item for item in found if not _is_empty(item))
        start = high
    found.append((start, universe[1]))
    return tuple(item for item in found if not _is_empty(item))


def join_touching(intervals: Intervals) -> Intervals:
    """Return the same set with as few intervals as possible."""
    joined: list[Interval] = []
    for start, end in intervals:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return tuple(joined)


def is_single(interval: Interval) -> bool:
    """Tell whether the interval holds exactly one value."""
    start, end = interval
    if isinstance(start, bytes):
        return bool(end == start + b"\0")
    return bool(end == start + 1)


def _start_of(interval: Interval) -> Any:
    return interval[0]


def _is_empty(interval: Interval) -> bool:
    return interval[1] is not None and interval[1] <= interval[0]


def _overlaps(end: Any, start: Any) -> bool:
    """Tell whether an interval that ends at `end` overlaps one that starts at `start`."""
    return end is None or end > start


def _max_end(one: Any, other: Any) -> Any:
    return None if one is None or other is None else max(one, other)


def _min_end(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else min(one, other)
