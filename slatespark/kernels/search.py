"""Binary search of a key among sorted rows."""

from __future__ import annotations

from bisect import bisect_left

from slatespark.kernels.columns import RowColumns
from slatespark.ranges import KeyRange


def lower_bound(rows: RowColumns, key: bytes, low: int, high: int) -> int:
    """Return the first row in `[low, high)` whose key is at least `key`, else `high`.

    Requires: keys ascending.
    """
    return bisect_left(range(high), key, lo=low, hi=high, key=rows.key)


def key_span(rows: RowColumns, keys: KeyRange, low: int = 0, high: int | None = None) -> tuple[int, int]:
    """Return the span `[start, end)` of those rows in `[low, high)` whose keys lie in a range.

    Requires: keys ascending.

    Parameters
    ----------
    high : None for all rows from `low` on
    """
    high = len(rows) if high is None else high
    start = lower_bound(rows, keys.start, low, high) if keys.start else low
    return start, high if keys.end is None else lower_bound(rows, keys.end, start, high)
