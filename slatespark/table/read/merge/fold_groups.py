"""Groups of merge operands in decoded rows -> the rows that they fold to, many groups at a time.

`merge_function.fold_rows` defines the result of one group. The built-in operators work on whole arrays; others are
called once for each group.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels import gather_keys, take_rows
from slatespark.kernels.columns import (
    GROUP_HEAD,
    GROUP_REST,
    HAS_CREATE,
    HAS_EXPIRE,
    MERGE,
    PLAIN,
    TOMBSTONE,
    RowColumns,
    Selection,
    packed_rows,
)
from slatespark.table.read.merge.merge_function import (
    INT_BYTES,
    MergeFunction,
    fold_concat,
    fold_max,
    fold_min,
    fold_sum,
    folded_value,
    no_operator,
)
from slatespark.units import MAX_MS, MIN_MS

# Bytes of all values one behind the other, and (groups + 1,) where each starts.
Values: TypeAlias = tuple[NDArray[np.uint8], NDArray[np.int64]]


def fold_selection(
    sources: list[RowColumns], selection: Selection, fold: MergeFunction | None, *, keeps_operands: bool = False
) -> tuple[list[RowColumns], Selection]:
    """Replace each group of operands in a selection by the row it folds to.

    Parameters
    ----------
    keeps_operands : a group without a base folds to an operand, for rows below it; else to a put

    Returns
    -------
    The sources with the folded rows as a further one, and a selection of plain rows only.
    """
    grouped = selection.marks != PLAIN
    if not grouped.any():
        return sources, selection
    first = selection.marks[grouped] == GROUP_HEAD
    folded = fold_groups(sources, selection.rows[grouped], first, fold, keeps_operands=keeps_operands)
    rows = selection.rows.copy()
    rows[selection.marks == GROUP_HEAD] = packed_rows(len(sources), len(folded))
    rows = rows[selection.marks != GROUP_REST]
    return [*sources, folded], Selection(rows, np.zeros(len(rows), np.uint8))


def fold_groups(
    sources: list[RowColumns],
    rows: NDArray[np.int64],
    first: NDArray[np.bool_],
    fold: MergeFunction | None,
    *,
    keeps_operands: bool = False,
) -> RowColumns:
    """Return one row for each group.

    Parameters
    ----------
    rows : packed; the groups one behind the other, each from its newest operand to its oldest, then its base: a put, or
        a tombstone, which counts as no base
    first : (m,) true where a group begins
    fold : the operator
    keeps_operands : a group without a base folds to an operand; else to a put

    Raises
    ------
    OptionError
        Without an operator, or when it returns no bytes.
    """
    taken, starts = take_rows(sources, rows), np.flatnonzero(first)
    if fold is None:
        raise no_operator(taken.key(0))
    flags, last = taken.flags, np.append(starts[1:], len(rows)) - 1
    live = (flags & TOMBSTONE) == 0
    created, expiring = live & ((flags & HAS_CREATE) != 0), live & ((flags & HAS_EXPIRE) != 0)
    has_create, has_expire = np.logical_or.reduceat(created, starts), np.logical_or.reduceat(expiring, starts)
    create_ts = np.maximum.reduceat(np.where(created, taken.create_ts, MIN_MS), starts)
    expire_ts = np.minimum.reduceat(np.where(expiring, taken.expire_ts, MAX_MS), starts)
    kinds = flags[last] & MERGE if keeps_operands else np.zeros(len(starts), np.uint8)
    data, offsets = _folded_values(taken, starts, live, fold)
    key_offsets, key_bytes = gather_keys([taken], starts)
    return RowColumns(
        key_bytes=key_bytes,
        key_offsets=key_offsets.astype(np.int64),
        seqs=taken.seqs[starts],
        flags=(kinds | has_create * np.uint8(HAS_CREATE) | has_expire * np.uint8(HAS_EXPIRE)).astype(np.uint8),
        create_ts=np.where(has_create, create_ts, 0),
        expire_ts=np.where(has_expire, expire_ts, 0),
        value_bytes=data,
        value_starts=offsets[:-1],
        value_lengths=np.diff(offsets),
    )


def _folded_values(
    taken: RowColumns, starts: NDArray[np.int64], live: NDArray[np.bool_], fold: MergeFunction
) -> Values:
    if not live.all():  # a tombstone is the last of its group and follows an operand, with which the group begins
        starts = starts - np.cumsum(~live)[starts]
        taken = take_rows([taken], np.flatnonzero(live))
    for known, fold_all in _WHOLE_ARRAYS:
        if fold is known and (values := fold_all(taken, starts)) is not None:
            return values
    return _fold_one_by_one(taken, starts, fold)


def _fold_one_by_one(taken: RowColumns, starts: NDArray[np.int64], fold: MergeFunction) -> Values:
    data, ends = taken.value_bytes.tobytes(), (taken.value_starts + taken.value_lengths).tolist()
    values = [data[start:end] for start, end in zip(taken.value_starts.tolist(), ends, strict=True)]
    has_base = ((taken.flags & MERGE) == 0).tolist()
    results = []
    for start, end in pairwise([*starts.tolist(), len(values)]):
        oldest = end - has_base[end - 1]
        base = values[oldest] if oldest < end else None
        results.append(folded_value(fold, base, values[start:oldest][::-1], taken.key(start)))
    offsets = np.cumsum([0, *map(len, results)], dtype=np.int64)
    return np.frombuffer(b"".join(results), np.uint8), offsets


def _concat_all(taken: RowColumns, starts: NDArray[np.int64]) -> Values:
    sizes = np.diff(starts, append=len(taken))
    backward = np.repeat(2 * starts + sizes - 1, sizes) - np.arange(len(taken), dtype=np.int64)
    turned = take_rows([taken], backward)
    ends = np.cumsum(turned.value_lengths)
    return turned.value_bytes, np.append(np.zeros(1, np.int64), ends[starts + sizes - 1])


def _of_integers(operator: np.ufunc, dtype: str) -> Callable[[RowColumns, NDArray[np.int64]], Values | None]:
    """Return an operator on little-endian integers; it returns None if not all values are, for the error."""

    def fold_all(taken: RowColumns, starts: NDArray[np.int64]) -> Values | None:
        if (taken.value_lengths != INT_BYTES).any():
            return None
        numbers = taken.value_bytes[: INT_BYTES * len(taken)].view(dtype)
        results = operator.reduceat(numbers, starts).astype(dtype, copy=False)
        return results.view(np.uint8), INT_BYTES * np.arange(len(starts) + 1, dtype=np.int64)

    return fold_all


_WHOLE_ARRAYS: Final[tuple[tuple[MergeFunction, Callable[[RowColumns, NDArray[np.int64]], Values | None]], ...]] = (
    (fold_concat, _concat_all),
    (fold_sum, _of_integers(np.add, "<u8")),
    (fold_max, _of_integers(np.maximum, "<i8")),
    (fold_min, _of_integers(np.minimum, "<i8")),
)
