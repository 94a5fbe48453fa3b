"""Which row versions of decoded windows are past retention. Arrays in, arrays out; pure.

The *group* of a key is its versions from the newest down to the first that is not an operand. The group determines the
visible row, and hides the versions below it. As in reads (`table/read/merge/retention.py`), operands retire together
with the put below them, when the newest of them does.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels import (
    gather_fields,
    gather_keys,
    key_lengths,
    key_span,
    new_key_mask,
    take_rows,
    value_lengths,
)
from slatespark.kernels.columns import HAS_CREATE, MERGE, TOMBSTONE, RowColumns, Selection
from slatespark.kernels.lifetimes import below_group, expired, is_live, key_sizes, reached, retired, retired_groups
from slatespark.kernels.results import Fields
from slatespark.ranges import KeyRange
from slatespark.table.read.planning.row_cuts import keys_alone
from slatespark.units import MIN_MS


def live_and_due(rows: RowColumns, retired_ms: int) -> NDArray[np.bool_]:
    """Return which rows are due, other than tombstones."""
    return is_live(rows) & retired(rows, retired_ms)


def find_earliest_young(rows: RowColumns, low: int, high: int, retired_ms: int) -> int | None:
    """Return the smallest create_ts above `retired_ms` in rows [low, high) other than tombstones; None without any."""
    span = slice(low, high)
    created = (rows.flags[span] & (HAS_CREATE | TOMBSTONE)) == HAS_CREATE
    is_retired = reached(rows.flags[span], HAS_CREATE, rows.create_ts[span], retired_ms)
    later = rows.create_ts[span][created & ~is_retired]
    return int(later.min()) if len(later) else None


# --- retired keys ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class RetiredKeys:
    """Keys whose visible row is due.

    Attributes
    ----------
    rows : tombstones for the keys, ascending, without sequence number; each has the creation time of the newest version
    stored_bytes : size of the keys and values of their newest versions
    """

    rows: RowColumns
    stored_bytes: int


def retired_keys(
    windows: Iterable[tuple[Sequence[RowColumns], Selection]], now_ms: int, retired_ms: int
) -> Iterator[RetiredKeys]:
    """Yield the keys whose visible row is due, some at a time.

    A key without a visible row, because its whole group has expired, counts if the whole group is due.

    Parameters
    ----------
    windows : all versions of whole keys, newest first; a key that spans several windows has them to itself
    """
    for sources, rows, fields, first in _whole_keys(windows):
        starts, retires = np.flatnonzero(first), _retired_groups(fields, first, now_ms, retired_ms)
        heads = rows[starts[retires]]
        if len(heads):
            size = int(key_lengths(sources, heads).sum() + value_lengths(sources, heads).sum())
            tombstones = keys_alone(sources, heads, flags=TOMBSTONE)
            created_ts = np.where((fields.flags & HAS_CREATE) != 0, fields.create_ts, MIN_MS)
            tombstones.create_ts[:] = np.maximum.reduceat(created_ts, starts)[retires]
            yield RetiredKeys(tombstones, size)


def _whole_keys(
    windows: Iterable[tuple[Sequence[RowColumns], Selection]],
) -> Iterator[tuple[Sequence[RowColumns], NDArray[np.int64], Fields, NDArray[np.bool_]]]:
    """Yield windows of whole keys; for a key that spans windows, its newest row with the fields of all versions."""
    waiting: list[Fields] = []
    head: tuple[Sequence[RowColumns], NDArray[np.int64]] | None = None
    for sources, selection in windows:
        rows = selection.rows
        if not len(rows):
            continue
        fields, first = gather_fields(sources, rows), new_key_mask(sources, rows)
        goes_on = head is not None and _key(sources, rows[:1]) == _key(*head)
        if head is not None and not goes_on:
            yield _joined(head, waiting)
            head, waiting = None, []
        if goes_on or not first[1:].any():
            if head is None:
                kept = take_rows(sources, rows[:1])
                head = ([kept], np.zeros(1, np.int64))
            waiting.append(fields)
        else:
            yield sources, rows, fields, first
    if head is not None:
        yield _joined(head, waiting)


def _joined(
    head: tuple[Sequence[RowColumns], NDArray[np.int64]], waiting: Sequence[Fields]
) -> tuple[Sequence[RowColumns], NDArray[np.int64], Fields, NDArray[np.bool_]]:
    fields = Fields.joined(waiting)
    first = np.zeros(len(fields.seqs), np.bool_)
    first[0] = True
    return head[0], np.repeat(head[1], len(first)), fields, first


def _key(sources: Sequence[RowColumns], row: NDArray[np.int64]) -> bytes:
    return gather_keys(sources, row)[1].tobytes()


def _retired_groups(fields: Fields, first: NDArray[np.bool_], now_ms: int, retired_ms: int) -> NDArray[np.bool_]:
    """Return for each key whether its visible row is due."""
    starts = np.flatnonzero(first)
    grouped = ~below_group(first, (fields.flags & MERGE) != 0) & is_live(fields)
    shown = grouped & ~expired(fields, now_ms)
    counts = np.where(np.repeat(np.logical_or.reduceat(shown, starts), key_sizes(first)), shown, grouped)
    created = counts & ((fields.flags & HAS_CREATE) != 0)
    return retired_groups(created, counts & retired(fields, retired_ms), starts)


# --- rewriting a file -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Survivors:
    """The rows that a rewrite keeps.

    Attributes
    ----------
    positions : positions of the kept rows, ascending
    tombstones : which of them become tombstones
    gone : number of removed rows other than tombstones
    """

    positions: NDArray[np.int64]
    tombstones: NDArray[np.bool_]
    gone: int


def surviving_rows(rows: RowColumns, low: int, high: int, older: Sequence[KeyRange], retired_ms: int) -> Survivors:
    """Return the rows of [low, high) that a rewrite in place keeps.

    A group that is due as a whole is removed, with the versions that it hides. Versions below a kept group are removed
    if all of them are due. If an older layer may hold the key, the newest removed version stays as a tombstone:
    otherwise an as-of read before the group would find a version of the older layer.

    Parameters
    ----------
    rows : whole keys
    older : keys that older layers may hold, ascending
    """
    positions = np.arange(low, high, dtype=np.int64)
    fields, first = gather_fields([rows], positions), new_key_mask([rows], positions)
    starts, sizes = np.flatnonzero(first), key_sizes(first)
    due = retired(fields, retired_ms)
    below = below_group(first, (fields.flags & MERGE) != 0)
    group_goes = np.repeat(np.logical_and.reduceat(below | due, starts), sizes)
    rest_goes = np.repeat(np.logical_and.reduceat(~below | due, starts), sizes)
    opens_rest = below.copy()
    opens_rest[1:] &= ~below[:-1]  # the newest version of a key is never below its group
    newest_gone = np.where(group_goes, first, opens_rest & rest_goes)
    tombstones = newest_gone & is_covered(rows, low, high, older)
    kept = tombstones | ~(group_goes | (below & rest_goes))
    return Survivors(positions[kept], tombstones[kept], int((is_live(fields) & (~kept | tombstones)).sum()))


def is_covered(rows: RowColumns, low: int, high: int, ranges: Sequence[KeyRange]) -> NDArray[np.bool_]:
    """Return which of the rows [low, high) have a key in any of the ranges, which are ascending and disjoint."""
    mask = np.zeros(high - low, np.bool_)
    opening = rows.key(low)
    first = bisect_left(ranges, True, key=lambda keys: keys.end is None or keys.end > opening)
    for keys in ranges[first:]:
        start, end = key_span(rows, keys, low, high)
        mask[start - low : end - low] = True
        if start == high or end == high:
            break
    return mask
