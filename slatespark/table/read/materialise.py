"""Visible rows -> record batches: the filter's columns first, then the other columns of the rows that are kept.

Values are decoded where they lie. So a row that the filter drops costs only its filter columns, and a column that is
not asked for is never decoded.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slatespark.encoding.without_pandas import array_of_numpy
from slatespark.errors import CorruptDataError
from slatespark.kernels.columns import RowColumns
from slatespark.table.read.arrow import (
    MAX_BATCH_BYTES,
    MAX_BATCH_ROWS,
    SMALL_BATCH_BYTES,
    SMALL_BATCH_ROWS,
    Projection,
    make_batch,
)
from slatespark.table.read.batch_cuts import cut_batches
from slatespark.table.read.copies.rows import read_columns

if TYPE_CHECKING:
    from slatespark.encoding.predicates import Filter

_NOTHING: Final[Mapping[str, pa.Array]] = {}
_MOST: Final = 0.5  # above this share of rows kept, one pass over all columns is cheaper than two


class UndecodableRowsWarning(UserWarning):
    """A read left out rows whose bytes do not decode."""


@dataclass(slots=True)
class UndecodableRows:
    """How many rows a read left out because they do not decode."""

    count: int = 0

    def warn(self, table: str) -> None:
        """Warn of them, if there are any."""
        if self.count:
            rows = "row does" if self.count == 1 else "rows do"
            message = f"{table}: {self.count} {rows} not decode and were left out (ignoreUndecodable=true)."
            # Explicit, for every read: Python shows equal warnings from one place only once per process.
            warnings.warn_explicit(message, UndecodableRowsWarning, __file__, 1, module=__name__)


class Materialiser:
    """Makes the batches of one scan.

    Parameters
    ----------
    projection : the columns
    residual : rows for which it is not true are dropped; None keeps all
    table : name of the table, for messages
    tally : counts rows that do not decode, which are left out; without one they are an error
    """

    def __init__(
        self, projection: Projection, residual: Filter | None, table: str, tally: UndecodableRows | None
    ) -> None:
        self._projection, self._table, self._tally = projection, table, tally
        self._passes = None if residual is None else residual.test()
        self._first = projection.names if residual is None else tuple(residual.columns)
        self._keeps_most = False

    def batches(
        self, sources: Sequence[RowColumns], rows: NDArray[np.int64], known: Mapping[str, pa.Array] = _NOTHING
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are kept.

        Parameters
        ----------
        sources, rows : packed rows
        known : columns that are not decoded, one value for each row
        """
        for start, end in cut_batches(sources, rows, self._projection):
            given = {name: column.slice(start, end - start) for name, column in known.items()}
            batch = self._batch(_Rows(sources, rows[start:end], given))
            if len(batch):
                yield batch

    def _batch(self, found: _Rows) -> pa.RecordBatch:
        names = self._projection.names
        if self._passes is None:
            self._add_columns(found, names)
        else:
            self._add_columns(found, (*self._first, *names) if self._keeps_most else self._first)
            mask = self._passes(found.arrays)
            kept = int(np.count_nonzero(mask))
            self._keeps_most = kept > _MOST * len(mask)
            if kept < len(mask):
                found.keep(mask, names)
            self._add_columns(found, names)
        return make_batch(found.arrays, self._projection)

    def _add_columns(self, found: _Rows, names: Iterable[str]) -> None:
        """Decode the missing columns; rows that do not decode are dropped, or are an error."""
        missing = [name for name in dict.fromkeys(names) if name not in found.arrays]
        if not missing:
            return
        projection = self._projection
        try:
            found.arrays |= read_columns(found.sources, found.rows, missing, projection, self._table)
        except CorruptDataError:
            if self._tally is None:
                raise
            stored = [name for name in missing if name in projection.codec.schema.names]
            fine = projection.codec.decodable_mask(
                found.sources, found.rows, stored, with_deletes=projection.shows_deletes
            )
            self._tally.count += len(fine) - int(np.count_nonzero(fine))
            found.keep(fine, tuple(found.arrays))
            found.arrays |= read_columns(found.sources, found.rows, missing, projection, self._table)


@dataclass(slots=True)
class _Rows:
    """Some packed rows, and those of their columns that are decoded."""

    sources: Sequence[RowColumns]
    rows: NDArray[np.int64]
    arrays: dict[str, pa.Array]

    def keep(self, mask: NDArray[np.bool_], names: Sequence[str]) -> None:
        """Keep the rows of the mask, and of the decoded columns those that are named."""
        self.rows = self.rows[mask]
        selected = array_of_numpy(mask)
        self.arrays = {name: array.filter(selected) for name, array in self.arrays.items() if name in names}


def join_small(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows, with consecutive small batches joined to larger ones, up to the limits of a batch."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if waiting and (rows + len(batch) > MAX_BATCH_ROWS or size + batch.nbytes > MAX_BATCH_BYTES):
            yield _joined(waiting)
            waiting, rows, size = [], 0, 0
        if not waiting and _is_large(len(batch), batch.nbytes):
            yield batch
            continue
        waiting.append(batch)
        rows, size = rows + len(batch), size + batch.nbytes
        if _is_large(rows, size):
            yield _joined(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield _joined(waiting)


def _is_large(rows: int, size: int) -> bool:
    return rows >= SMALL_BATCH_ROWS or size >= SMALL_BATCH_BYTES


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    [joined] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined
