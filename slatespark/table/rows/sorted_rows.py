"""SortedRows: a piece of the rows that a task writes, in key order. Also reduces several versions of a key to one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import InvalidRequestError
from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.kernels import gather_fields, new_key_mask
from slatespark.kernels.columns import MERGE, RowColumns, key_at, packed_rows
from slatespark.table.read.merge.merge_function import MergeFunction, fold_rows, row_at


@dataclass(frozen=True, slots=True)
class SortedRows:
    """A piece of the sorted sequence: packed `rows` of `sources`.

    Attributes
    ----------
    is_scattered : the rows lie anywhere in the sources; gather them before going through them several times
    """

    sources: Sequence[RowColumns]
    rows: NDArray[np.int64]
    is_scattered: bool = False

    @classmethod
    def whole(cls, rows: RowColumns) -> SortedRows:
        """Return all rows of one source."""
        return cls([rows], np.arange(len(rows), dtype=np.int64))

    def key(self, at: int) -> bytes:
        """Return the key of row number `at` of the piece."""
        return key_at(self.sources, int(self.rows[at]))


def one_version_per_key(
    sources: list[RowColumns],
    rows: NDArray[np.int64],
    fold: MergeFunction | None,
    *,
    first: NDArray[np.bool_] | None = None,
) -> tuple[list[RowColumns], NDArray[np.int64]]:
    """Keep the last of adjacent rows of one key; an operand folds onto the rows before it.

    Parameters
    ----------
    sources, rows : packed rows; those of one key follow each other, oldest first
    fold : joins operands, None if not given
    first : (n,) True where rows of another key begin, or of another time; by default where the key changes

    Returns
    -------
    Sources (with the folded rows as a further one) and the rows that stay, in the same order.
    """
    first = new_key_mask(sources, rows) if first is None else first
    if first.all():
        return sources, rows
    last = np.append(first[1:], True)
    kept = rows[last]
    repeated = last & ~first & ((gather_fields(sources, rows).flags & MERGE) != 0)
    if not repeated.any():
        return sources, kept
    starts = np.maximum.accumulate(np.where(first, np.arange(len(rows)), 0))
    folded = [
        _fold_repeats([row_at(sources, int(row)) for row in rows[starts[end] : end + 1]], fold)
        for end in np.flatnonzero(repeated)
    ]
    kept[np.cumsum(last)[repeated] - 1] = packed_rows(len(sources), len(folded))
    return [*sources, rows_to_columns(folded)], kept


def _fold_repeats(versions: list[Row], fold: MergeFunction | None) -> Row:
    """Return one row for several of one key, given oldest to newest, of which the newest is an operand."""
    if fold is None:
        raise InvalidRequestError(
            f"Key {versions[0].key.hex()} has several merge operands in one write, and there is no operator.",
            todo="Give the option mergeOperator.",
        )
    group: list[Row] = []
    for row in reversed(versions):
        if row.kind is not RowKind.DELETE:
            group.append(row)
        if row.kind is not RowKind.MERGE:
            break
    if len({row.expire_ts_ms for row in group}) > 1:  # folded, they would all go when the first one does
        raise InvalidRequestError(
            f"Key {versions[0].key.hex()} has several merge operands in one write, which expire at different times.",
            todo="Give the rows of a key the same expiry, or write them one after the other.",
        )
    result = fold_rows(group, fold)
    grounded = len(group) < len(versions) or group[-1].kind is RowKind.PUT
    return result if grounded else replace(result, kind=RowKind.MERGE)
