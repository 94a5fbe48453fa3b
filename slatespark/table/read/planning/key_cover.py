"""KeyCover: the union of key ranges, for plans that need the keys above or below a file. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from slatespark.ranges import KeyRange


class KeyCover:
    """Keys that lie in any of the ranges added so far, as ascending ranges that do not touch."""

    def __init__(self, ranges: Iterable[KeyRange] = ()) -> None:
        self._starts: list[bytes] = []
        self._ends: list[bytes | None] = []  # ascending; only the last one may be open
        for keys in ranges:
            self.add(keys)

    def add(self, keys: KeyRange) -> None:
        """Add the keys of a range."""
        if keys.is_empty():
            return
        first = bisect_left(self._ends, True, key=lambda end: end is None or end >= keys.start)
        last = len(self._starts) if keys.end is None else bisect_right(self._starts, keys.end)
        start, end = keys.start, keys.end
        if first < last:  # these become one
            start = min(start, self._starts[first])
            reached = self._ends[last - 1]
            end = None if end is None or reached is None else max(end, reached)
        self._starts[first:last], self._ends[first:last] = [start], [end]

    def overlaps(self, keys: KeyRange) -> bool:
        """Tell whether any key of a range was added."""
        first = self._first_beyond(keys.start)
        if keys.is_empty() or first == len(self._starts):
            return False
        return keys.end is None or self._starts[first] < keys.end

    def within(self, keys: KeyRange) -> tuple[KeyRange, ...]:
        """Return the added parts of a range, ascending and apart from each other."""
        first = self._first_beyond(keys.start)
        last = len(self._starts) if keys.end is None else bisect_left(self._starts, keys.end)
        spans = zip(self._starts[first:last], self._ends[first:last], strict=True)
        return tuple(KeyRange(start, end).intersect(keys) for start, end in spans) if not keys.is_empty() else ()

    def shared(self, keys: KeyRange) -> KeyRange | None:
        """Return the part of a range from the first to the last of its keys that was added; None if none was."""
        parts = self.within(keys)
        return KeyRange(parts[0].start, parts[-1].end) if parts else None

    def _first_beyond(self, key: bytes) -> int:
        """Return the number of the first range that ends above a key."""
        return bisect_left(self._ends, True, key=lambda end: end is None or end > key)
