"""Byte ranges and key ranges, both half-open: `[start, end)`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, order=True)
class ByteRange:
    """Bytes `[start, end)` of an object."""

    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start

    def shift(self, by: int) -> ByteRange:
        """Return the range moved by `by` bytes."""
        return ByteRange(self.start + by, self.end + by)


def coalesce(ranges: Iterable[ByteRange], *, max_gap: int, max_bytes: int) -> list[ByteRange]:
    """Merge ranges at most `max_gap` bytes apart, as long as the merged range stays within `max_bytes`.

    Parameters
    ----------
    ranges : ranges in any order, possibly overlapping
    max_gap : unneeded bytes that may be read between two ranges
    max_bytes : upper bound of a merged range; a single longer range is kept whole

    Returns
    -------
    Ascending ranges. Each given range lies in exactly one of them.
    """
    merged: list[ByteRange] = []
    for item in sorted(ranges):
        if merged:
            last = merged[-1]
            end = max(last.end, item.end)
            overlaps = item.start < last.end
            if overlaps or (item.start - last.end <= max_gap and end - last.start <= max_bytes):
                merged[-1] = ByteRange(last.start, end)
                continue
        merged.append(item)
    return merged


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys `[start, end)` in unsigned byte order; `end=None` is unbounded."""

    start: bytes = b""
    end: bytes | None = None

    def is_empty(self) -> bool:
        """Tell whether no key can lie in the range."""
        return self.end is not None and self.end <= self.start

    def contains(self, key: bytes) -> bool:
        """Tell whether `key` lies in the range."""
        return key >= self.start and (self.end is None or key < self.end)

    def intersect(self, other: KeyRange) -> KeyRange:
        """Return the keys that lie in both ranges (possibly an empty range)."""
        end = other.end if self.end is None else self.end if other.end is None else min(self.end, other.end)
        return KeyRange(max(self.start, other.start), end)

    def overlaps(self, other: KeyRange) -> bool:
        """Tell whether any key lies in both ranges."""
        return not self.intersect(other).is_empty()


ALL_KEYS = KeyRange()


def key_after(key: bytes) -> bytes:
    """Return the smallest key above `key`; converts an inclusive end or exclusive start to the half-open form."""
    return key + b"\0"


def complement_ranges(ranges: Iterable[KeyRange]) -> tuple[KeyRange, ...]:
    """Return the keys outside all ranges.

    Requires: ranges ascending, disjoint and not empty; they may be adjacent.
    """
    outside = []
    start: bytes | None = b""
    for item in ranges:
        assert start is not None  # nothing follows an unbounded range
        outside.append(KeyRange(start, item.start))
        start = item.end
    if start is not None:
        outside.append(KeyRange(start))
    return tuple(item for item in outside if not item.is_empty())


def merge_ranges(ranges: Iterable[KeyRange]) -> tuple[KeyRange, ...]:
    """Return the union of the ranges as ascending, disjoint, non-adjacent ranges; empty ones are dropped."""
    joined: list[KeyRange] = []
    for item in sorted((item for item in ranges if not item.is_empty()), key=lambda item: item.start):
        last = joined[-1] if joined else None
        if last is None or (last.end is not None and last.end < item.start):
            joined.append(item)
        elif last.end is not None and (item.end is None or item.end > last.end):
            joined[-1] = KeyRange(last.start, item.end)
    return tuple(joined)


def overlapping_ranges(ranges: Sequence[KeyRange], keys: KeyRange) -> Iterator[KeyRange]:
    """Yield those of some ranges that overlap `keys`. Requires: ranges ascending and not overlapping."""
    first = max(0, bisect_right(ranges, keys.start, key=lambda item: item.start) - 1)
    for at in range(first, len(ranges)):
        if keys.end is not None and ranges[at].start >= keys.end:
            return
        if ranges[at].overlaps(keys):
            yield ranges[at]


def parts_within(ranges: Sequence[KeyRange], keys: KeyRange) -> list[KeyRange]:
    """Return the parts of some ranges that lie in `keys`. Requires: ranges ascending, not overlapping."""
    return [part.intersect(keys) for part in overlapping_ranges(ranges, keys)]


def pair_overlapping(items: Iterable[tuple[KeyRange, Item]]) -> Iterator[tuple[Item, Item]]:
    """Yield each pair of items whose ranges overlap. Requires: no range is empty."""
    open_items: list[tuple[KeyRange, Item]] = []
    for keys, item in sorted(items, key=lambda each: each[0].start):
        open_items = [each for each in open_items if each[0].end is None or each[0].end > keys.start]
        yield from ((other, item) for _, other in open_items)
        open_items.append((keys, item))


def point_range(key: bytes) -> KeyRange:
    """Return the range that contains only `key`."""
    return KeyRange(key, key_after(key))


def prefix_range(prefix: bytes) -> KeyRange:
    """Return the range of all keys that start with `prefix`."""
    stem = prefix.rstrip(b"\xff")
    return KeyRange(prefix, stem[:-1] + bytes([stem[-1] + 1]) if stem else None)
