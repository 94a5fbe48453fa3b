"""Lookup of many keys among sorted keys."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels.columns import RowColumns
from slatespark.kernels.row_ranges import check_key_offsets, check_row_ranges


def match_keys(
    rows: RowColumns, low: int, high: int, key_bytes: NDArray[np.uint8], key_offsets: NDArray[np.int64]
) -> NDArray[np.int64]:
    """See `slatespark.kernels.match_keys`."""
    check_row_ranges([rows], np.array([low], np.int64), np.array([high], np.int64))
    wanted = set(_keys(key_bytes, key_offsets))
    return np.array([row for row in range(low, high) if rows.key(row) in wanted], np.int64)


def lower_bounds(
    rows_key_bytes: NDArray[np.uint8],
    rows_key_offsets: NDArray[np.int64],
    wanted_bytes: NDArray[np.uint8],
    wanted_offsets: NDArray[np.int64],
) -> NDArray[np.int64]:
    """See `slatespark.kernels.lower_bounds`."""
    rows = _keys(rows_key_bytes, rows_key_offsets)
    return np.array([bisect_left(rows, key) for key in _keys(wanted_bytes, wanted_offsets)], np.int64)


def lower_bound(rows: RowColumns, key: bytes, low: int, high: int) -> int:
    """See `slatespark.kernels.lower_bound`."""
    check_row_ranges([rows], np.array([low], np.int64), np.array([high], np.int64))
    return bisect_left(range(high), key, lo=low, hi=high, key=rows.key)


def lower_bound_in_each(
    sources: Sequence[RowColumns], key: bytes, lows: NDArray[np.int64], highs: NDArray[np.int64]
) -> NDArray[np.int64]:
    """See `slatespark.kernels.lower_bound_in_each`."""
    check_row_ranges(sources, lows, highs)
    ranges = zip(sources, lows.tolist(), highs.tolist(), strict=True)
    return np.array([lower_bound(rows, key, low, high) for rows, low, high in ranges], np.int64)


def _keys(key_bytes: NDArray[np.uint8], key_offsets: NDArray[np.int64]) -> list[bytes]:
    check_key_offsets(key_bytes, key_offsets)
    data = key_bytes.tobytes()
    return [data[start:end] for start, end in pairwise(key_offsets.tolist())]
