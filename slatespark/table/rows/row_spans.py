"""Which of some sorted rows have keys in given ranges, and which have not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels import key_span
from slatespark.kernels.columns import RowColumns
from slatespark.ranges import KeyRange, key_after, overlapping_ranges


def spans_within(rows: RowColumns, low: int, high: int, ranges: Sequence[KeyRange]) -> Iterator[tuple[int, int]]:
    """Yield the spans of rows [low, high) with keys in some ranges, each span not empty, ascending.

    Requires: keys of the rows ascending; ranges ascending, not overlapping.
    """
    if low >= high:
        return
    whole = KeyRange(rows.key(low), key_after(rows.key(high - 1)))
    for keys in overlapping_ranges(ranges, whole):
        start, end = key_span(rows, keys, low, high)
        if start < end:
            yield start, end
        low = end


def rows_outside(rows: RowColumns, low: int, high: int, ranges: Sequence[KeyRange]) -> NDArray[np.int64]:
    """Return the positions of those rows [low, high) whose keys lie in none of some ranges; as `spans_within`."""
    kept = np.ones(high - low, np.bool_)
    for start, end in spans_within(rows, low, high, ranges):
        kept[start - low : end - low] = False
    return low + np.flatnonzero(kept)
