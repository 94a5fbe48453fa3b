"""Checks of row ranges and key offsets passed to kernels."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import InternalError
from slatespark.kernels.columns import RowColumns


def check_row_ranges(sources: Sequence[RowColumns], lows: NDArray[np.int64], highs: NDArray[np.int64]) -> None:
    """Raise `InternalError` for row ranges `[lows[i], highs[i])` outside source i."""
    if not len(sources) == len(lows) == len(highs):
        raise InternalError(f"There are {len(sources)} sources, but {len(lows)} and {len(highs)} ends of row ranges.")
    for number, (rows, low, high) in enumerate(zip(sources, lows.tolist(), highs.tolist(), strict=True)):
        if not 0 <= low <= high <= len(rows):
            raise InternalError(f"Row range [{low}, {high}) lies outside source {number}, which has {len(rows)} rows.")


def check_first_rows(first_rows: NDArray[np.int64], rows: int) -> None:
    """Raise `InternalError` unless blocks of `rows` rows start at these: from 0 on, ascending, none of them empty."""
    starts = first_rows.tolist()
    if not starts or starts[0] != 0 or any(end <= start for start, end in pairwise([*starts, rows])):
        raise InternalError(f"{len(starts)} blocks do not start at rows from 0 to {rows}, none of them empty.")


def check_key_offsets(key_bytes: NDArray[np.uint8], key_offsets: NDArray[np.int64]) -> None:
    """Raise `InternalError` for keys with offsets outside their bytes. Requires: offsets ascending."""
    if not len(key_offsets) or not 0 <= key_offsets[0] <= key_offsets[-1] <= len(key_bytes):
        raise InternalError(f"Offsets of {len(key_offsets) - 1} keys do not fit {len(key_bytes)} bytes.")
