"""Where the batches of a scan start and end, by the size of their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels import key_lengths, value_lengths
from slatespark.kernels.columns import ROW_BITS, ROW_MASK, RowColumns
from slatespark.table.read.arrow import MAX_BATCH_BYTES, MAX_BATCH_ROWS, SMALL_BATCH_ROWS, Projection
from slatespark.table.read.copies.rows import CopyRows


def cut_batches(
    sources: Sequence[RowColumns], rows: NDArray[np.int64], projection: Projection
) -> Iterator[tuple[int, int]]:
    """Yield where batches of at most 64 Ki rows and, unless a single row is larger, 16 MiB start and end.

    The size of a row is that of its fixed-width columns, and of the stored key or value that holds other columns; of a
    row of a columnar copy, that of these columns themselves.

    Requires: no row comes twice.
    """
    fixed_bytes = projection.row_size[2]
    row_bytes = fixed_bytes + max((_longest(source, projection) for source in sources), default=0)
    fitting = min(MAX_BATCH_ROWS, max(1, MAX_BATCH_BYTES // max(1, row_bytes)))
    if fitting >= min(len(rows), SMALL_BATCH_ROWS):  # as a rule; to add up each row takes a while
        yield from ((start, min(start + fitting, len(rows))) for start in range(0, len(rows), fitting))
        return
    yield from cut_sizes(row_sizes(sources, rows, projection))


def cut_sizes(sizes: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield where batches as of `cut_batches` start and end, for rows of these sizes."""
    reach = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        before = int(reach[start - 1]) if start else 0
        fits = int(np.searchsorted(reach, before + MAX_BATCH_BYTES, side="right"))
        end = min(max(fits, start + 1), start + MAX_BATCH_ROWS)
        yield start, end
        start = end


def row_sizes(sources: Sequence[RowColumns], rows: NDArray[np.int64], projection: Projection) -> NDArray[np.int64]:
    """Return the sizes of packed rows, as `cut_batches` counts them."""
    return projection.row_size[2] + _other_bytes(sources, rows, projection)


def _longest(source: RowColumns, projection: Projection) -> int:
    """Return a bound of what the columns without a fixed width take in any row of a source."""
    if isinstance(source, CopyRows):
        return int(source.row_bytes.max(initial=0))
    of_key, of_value, _ = projection.row_size
    key, value = source.longest
    return key * of_key + value * of_value


def _other_bytes(sources: Sequence[RowColumns], rows: NDArray[np.int64], projection: Projection) -> NDArray[np.int64]:
    """Return what the columns without a fixed width take in each of some packed rows."""
    sizes = np.zeros(len(rows), np.int64)
    is_stored = np.ones(len(rows), bool)
    numbers = rows >> ROW_BITS
    for number, source in enumerate(sources):
        if isinstance(source, CopyRows):
            at = np.flatnonzero(numbers == number)
            sizes[at] = source.row_bytes[rows[at] & ROW_MASK]
            is_stored[at] = False
    of_key, of_value, _ = projection.row_size
    stored = np.flatnonzero(is_stored)
    if of_key:
        sizes[stored] += key_lengths(sources, rows[stored])
    if of_value:
        sizes[stored] += value_lengths(sources, rows[stored])
    return sizes
