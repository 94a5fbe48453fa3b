"""Separators of the index: short keys between neighbouring blocks, compiled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import InternalError
from slatespark.kernels._compile import Kernel
from slatespark.kernels._native import common_prefix, copy_exact, load64, store64
from slatespark.kernels._sources import address_of, line_of, position_of, source_table
from slatespark.kernels.columns import RowColumns
from slatespark.kernels.gather import KEY, check_row, key_of, measure_bytes


def separator_keys(
    sources: Sequence[RowColumns], rows: NDArray[np.int64], first_rows: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """See `slatespark.kernels.separator_keys`."""
    rows, first_rows = np.ascontiguousarray(rows, np.int64), np.ascontiguousarray(first_rows, np.int64)
    if len(first_rows) and not 0 <= first_rows.min() <= first_rows.max() < len(rows):
        raise InternalError(
            f"Blocks start at rows {first_rows.min()} to {first_rows.max()}, expected below {len(rows)}."
        )
    room = measure_bytes(sources, rows[first_rows], KEY)
    table, offsets, separators = (
        source_table(sources),
        np.zeros(len(first_rows) + 1, np.int64),
        np.empty(room, np.uint8),
    )
    named = address_of(table), len(sources), address_of(rows), address_of(first_rows), len(first_rows)
    total = _separate(*named, address_of(offsets), address_of(separators))
    check_row(total, sources, rows)
    return separators[:total], offsets


@Kernel
def _separate(table: int, sources: int, rows: int, first_rows: int, count: int, offsets: int, separators: int) -> int:
    """Write the separators and their ends; return their total size, or `-1 - i` if row i is invalid."""
    end = 0
    for number in range(count):
        row = load64(first_rows + 8 * number)
        if row > 0:
            last_line = line_of(table, sources, load64(rows + 8 * row - 8))
            if last_line == 0:
                return -row
            last, last_size = key_of(last_line, position_of(load64(rows + 8 * row - 8)))
            packed = load64(rows + 8 * row)
            first, first_size = key_of(line_of(table, sources, packed), position_of(packed))
            size = min(common_prefix(last, first, min(last_size, first_size)) + 1, first_size)
            copy_exact(separators + end, first, size)
            end += size
        store64(offsets + 8 * number + 8, end)
    return end
