"""Versions of a row that differ by parts of a millisecond only: times are kept in ms, so one of them would be lost.

A load with such rows is refused, unless `sequenceColumn` says which of them stays. A *remainder* is what a time lost
when it became ms, in ns whatever its column counts: the rows of a write may count finer than the table. Rows that were
uploaded have lost theirs; it is read again where the column is stored as a value too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds
from numpy.typing import NDArray

from slatespark.encoding.instants import PER_MS
from slatespark.encoding.row_codec import RowCodec
from slatespark.encoding.schema import find_name
from slatespark.errors import InvalidRequestError
from slatespark.kernels import gather_fields
from slatespark.kernels.columns import MERGE, TOMBSTONE, RowColumns
from slatespark.table.read.merge.merge_function import row_at
from slatespark.table.read.planning.key_prefixes import name_key
from slatespark.units import ms_to_text

UNKNOWN: Final = -1  # of a row that was uploaded

_NS_PER_MS: Final = PER_MS["ns"]


def remainders_of(column: pa.Array | pa.ChunkedArray) -> NDArray[np.int64] | None:
    """Return what the times of a column lose when they become ms, in ns; None if none loses anything.

    Parameters
    ----------
    column : (n,) without nulls
    """
    if not kinds.is_timestamp(column.type) or column.type.unit not in PER_MS:
        return None
    per_ms = PER_MS[column.type.unit]
    remainders: NDArray[np.int64] = column.cast(pa.int64()).to_numpy() % per_ms
    return remainders * (_NS_PER_MS // per_ms) if remainders.any() else None


def loses_parts(column: pa.Array) -> bool:
    """Tell whether times of a column lose anything when they become ms; nulls do not."""
    return remainders_of(column.drop_null()) is not None


@dataclass(frozen=True, slots=True)
class DistinctTimes:
    """The check that versions of a key differ by a millisecond at least.

    Attributes
    ----------
    column : `timestampColumn`, as the rows spell it
    codec : of the table
    """

    column: str
    codec: RowCodec

    def check(
        self,
        sources: Sequence[RowColumns],
        rows: NDArray[np.int64],
        same: NDArray[np.bool_],
        times: NDArray[np.int64],
        remainders: NDArray[np.int64],
    ) -> None:
        """Raise `InvalidRequestError` where a row has the key and ms of the one before, and perhaps another time.

        Parameters
        ----------
        sources, rows : (n,) packed rows
        same : (n,) whether a row has the key and ms of the row before
        times, remainders : (n,) of the rows; a remainder may be `UNKNOWN`
        """
        differs = np.append(False, (remainders[1:] != remainders[:-1]) | (remainders[1:] == UNKNOWN))
        lost = np.flatnonzero(same & differs)
        if len(lost):
            at = int(lost[0])
            raise self._refusal(row_at(sources, int(rows[at])).key, int(times[at]))

    def _refusal(self, key: bytes, time_ms: int) -> InvalidRequestError:
        return InvalidRequestError(
            f"timestampColumn: {self.column} has several times within the millisecond {ms_to_text(time_ms)} for "
            f"{name_key(self.codec, key)}.",
            why="A history table keeps times in milliseconds, so only one of these versions would stay.",
            todo=f"Set sequenceColumn to say which (sequenceColumn={self.column} keeps the latest, if it is a column "
            "of the table), or truncate the column to milliseconds; then the last row stays. In files to be ingested "
            "sequenceColumn decides between the rows of one file.",
        )

    def stored_remainders(self, sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the remainders of uploaded rows by the values that they hold, else `UNKNOWN`.

        Parameters
        ----------
        sources, rows : (n,) packed rows
        """
        found = np.full(len(rows), UNKNOWN, np.int64)
        name = find_name(self.codec.schema, self.column)
        held = np.flatnonzero((gather_fields(sources, rows).flags & (TOMBSTONE | MERGE)) == 0)
        if name is None or not len(held):
            return found
        column: pa.Array = self.codec.decode(sources, rows[held], [name])[name]
        if kinds.is_timestamp(column.type) and not column.null_count:
            remainders = remainders_of(column)
            found[held] = 0 if remainders is None else remainders
        return found
