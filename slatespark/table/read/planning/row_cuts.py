"""Which rows of a source have keys in given ranges, and which have not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels import gather_keys, key_span, sort_rows, take_rows
from slatespark.kernels.columns import RowColumns
from slatespark.ranges import ALL_KEYS, KeyRange, key_after, overlapping_ranges


def cut_rows(rows: RowColumns, ranges: Sequence[KeyRange]) -> RowColumns | None:
    """Return a copy of the rows of a sorted source that lie in any of the ranges; the source if all do, None if none.

    Requires: the ranges lie apart.
    """
    positions = np.concatenate([np.arange(*key_span(rows, keys), dtype=np.int64) for keys in ranges])
    if len(positions) == len(rows):
        return rows if len(rows) else None
    return take_rows([rows], positions) if len(positions) else None


def has_rows(rows: RowColumns, keys: KeyRange) -> bool:
    """Tell whether a sorted source has rows with keys in a range."""
    start, end = key_span(rows, keys)
    return start < end


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


def positions_within(rows: RowColumns, keys: KeyRange) -> NDArray[np.int64]:
    """Return the positions, ascending, of those rows, in any order, whose keys lie in a range."""
    everything = np.arange(len(rows), dtype=np.int64)
    if keys == ALL_KEYS:
        return everything
    order = sort_rows(rows)
    low, high = key_span(keys_alone([rows], order), keys)
    return np.sort(order[low:high])


def keys_alone(sources: Sequence[RowColumns], rows: NDArray[np.int64], *, flags: int = 0) -> RowColumns:
    """Return a copy of packed rows that has their keys alone, as `RowColumns.of_keys`."""
    offsets, key_bytes = gather_keys(sources, rows)
    return RowColumns.of_keys(key_bytes, offsets.astype(np.int64), flags=flags)
