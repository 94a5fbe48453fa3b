"""Binary search of a key among sorted rows."""

from __future__ import annotations

from bisect import bisect_left

from slatespark.kernels.columns import RowColumns


def lower_bound(rows: RowColumns, key: bytes, low: int, high: int) -> int:
    """Return the first row in `[low, high)` whose key is at least `key`, else `high`.

    Requires: keys ascending.
    """
    return bisect_left(range(high), key, lo=low, hi=high, key=rows.key)
