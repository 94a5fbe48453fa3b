"""Separators of the index: short keys between neighbouring blocks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels.columns import RowColumns
from slatespark.kernels.reference.gather import unpacked


def separator_keys(
    sources: Sequence[RowColumns], rows: NDArray[np.int64], first_rows: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """See `slatespark.kernels.separator_keys`."""
    keys = [source.key(row) for source, row in unpacked(sources, rows)]
    separators = [_separator(keys[row - 1], keys[row]) if row else b"" for row in first_rows.tolist()]
    offsets = np.cumsum([0, *map(len, separators)], dtype=np.int64)
    return np.frombuffer(b"".join(separators), np.uint8), offsets


def _separator(last: bytes, first: bytes) -> bytes:
    """Return the shortest prefix of `first` above `last`; all of `first` if the two are equal."""
    shared = 0
    while shared < min(len(last), len(first)) and last[shared] == first[shared]:
        shared += 1
    return first[: shared + 1]
