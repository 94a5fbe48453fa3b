"""Which row versions of decoded windows are past retention. Arrays in, arrays out; pure.

The versions of a key form a *group*: from the newest down to the first that is no operand. The group decides what the
key shows, versions below it are hidden by it. As on read (`slatespark.table.read.retention`), operands retire together
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
    lower_bound,
    new_key_mask,
    take_rows,
    value_lengths,
)
from slatespark.kernels.columns import HAS_CREATE, MERGE, TOMBSTONE, RowColumns, Selection
from slatespark.kernels.lifetimes import expired, is_live, reached, retired, retired_groups
from slatespark.kernels.results import Fields
from slatespark.ranges import KeyRange


def live_and_due(rows: RowColumns, retired_ms: int) -> NDArray[np.bool_]:
    """Return which rows are due and no tombstones."""
    return is_live(rows) & retired(rows, retired_ms)


def earliest_young(rows: RowColumns, low: int, high: int, retired_ms: int) -> int | None:
    """Return the smallest create_ts above `retired_ms` of the rows [low, high) that are no tombstones; None if none."""
    span = slice(low, high)
    created = (rows.flags[span] & (HAS_CREATE | TOMBSTONE)) == HAS_CREATE
    is_retired = reached(rows.flags[span], HAS_CREATE, rows.create_ts[span], retired_ms)
    later = rows.create_ts[span][created & ~is_retired]
    return int(later.min()) if len(later) else None


# --- what is visible ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class RetiredKeys:
    """Keys that show nothing but what is due.

    Attributes
    ----------
    rows : tombstones for them, ascending, without sequence number and times
    stored_bytes : of key and value of their newest versions
    """

    rows: RowColumns
    stored_bytes: int


def retired_keys(
    windows: Iterable[tuple[Sequence[RowColumns], Selection]], now_ms: int, retired_ms: int
) -> Iterator[RetiredKeys]:
    """Yield the keys that show nothing but what is due, some at a time.

    A key that shows nothing, because everything in its group has expired, counts if all of that is due.

    Parameters
    ----------
    windows : all versions of whole keys, newest first; a key that goes on in the next window has windows of its own
    """
    for sources, rows, fields, first in _whole_keys(windows):
        heads = rows[np.flatnonzero(first)[_retired_groups(fields, first, now_ms, retired_ms)]]
        if len(heads):
            size = int(key_lengths(sources, heads).sum() + value_lengths(sources, heads).sum())
            yield RetiredKeys(_tombstones(sources, heads), size)


def _whole_keys(
    windows: Iterable[tuple[Sequence[RowColumns], Selection]],
) -> Iterator[tuple[Sequence[RowColumns], NDArray[np.int64], Fields, NDArray[np.bool_]]]:
    """Yield windows of whole keys; of a key that comes in pieces, its newest row with the fields of all versions."""
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
    fields = Fields(
        seqs=np.concatenate([part.seqs for part in waiting]),
        flags=np.concatenate([part.flags for part in waiting]),
        create_ts=np.concatenate([part.create_ts for part in waiting]),
        expire_ts=np.concatenate([part.expire_ts for part in waiting]),
    )
    first = np.zeros(len(fields.seqs), np.bool_)
    first[0] = True
    return head[0], np.repeat(head[1], len(first)), fields, first


def _key(sources: Sequence[RowColumns], row: NDArray[np.int64]) -> bytes:
    return gather_keys(sources, row)[1].tobytes()


def _retired_groups(fields: Fields, first: NDArray[np.bool_], now_ms: int, retired_ms: int) -> NDArray[np.bool_]:
    """Return for each key whether it shows nothing but what is due."""
    starts = np.flatnonzero(first)
    grouped = ~_settled(fields, first) & is_live(fields)
    shown = grouped & ~expired(fields, now_ms)
    counts = np.where(np.repeat(np.logical_or.reduceat(shown, starts), _sizes(first)), shown, grouped)
    created = counts & ((fields.flags & HAS_CREATE) != 0)
    return retired_groups(created, counts & retired(fields, retired_ms), starts)


def _settled(fields: Fields, first: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which rows lie below the group of their key."""
    is_base = (fields.flags & MERGE) == 0
    before = np.cumsum(is_base) - is_base
    settled: NDArray[np.bool_] = before > np.repeat(before[first], _sizes(first))
    return settled


def _sizes(first: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return how many rows each key has."""
    return np.diff(np.flatnonzero(first), append=len(first))


def _tombstones(sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> RowColumns:
    offsets, data = gather_keys(sources, rows)
    count = len(rows)
    return RowColumns(
        key_bytes=data,
        key_offsets=offsets.astype(np.int64),
        seqs=np.zeros(count, np.uint64),
        flags=np.full(count, TOMBSTONE, np.uint8),
        create_ts=np.zeros(count, np.int64),
        expire_ts=np.zeros(count, np.int64),
        value_bytes=np.zeros(0, np.uint8),
        value_starts=np.zeros(count, np.int64),
        value_lengths=np.zeros(count, np.int64),
    )


# --- what is left of a file -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Survivors:
    """What a rewrite keeps of some rows.

    Attributes
    ----------
    positions : of the rows that stay, ascending
    buried : which of them become tombstones
    gone : how many rows that were no tombstones are not there any more
    """

    positions: NDArray[np.int64]
    buried: NDArray[np.bool_]
    gone: int


def surviving_rows(rows: RowColumns, low: int, high: int, older: Sequence[KeyRange], retired_ms: int) -> Survivors:
    """Return what a rewrite in place keeps of the rows [low, high) of a file.

    A group that is due as a whole goes, with all that it hides. Versions below a group that stays go if all of them are
    due. Where an older layer may hold the key, the newest version of what goes stays as a tombstone: a read of the past
    that does not see the group yet would find an older one instead.

    Parameters
    ----------
    rows : whole keys
    older : keys that older layers may hold, ascending
    """
    positions = np.arange(low, high, dtype=np.int64)
    fields, first = gather_fields([rows], positions), new_key_mask([rows], positions)
    starts, sizes = np.flatnonzero(first), _sizes(first)
    due = retired(fields, retired_ms)
    settled = _settled(fields, first)
    group_goes = np.repeat(np.logical_and.reduceat(settled | due, starts), sizes)
    rest_goes = np.repeat(np.logical_and.reduceat(~settled | due, starts), sizes)
    opens_rest = settled.copy()
    opens_rest[1:] &= ~settled[:-1]  # the newest version of a key is never below its group
    newest_gone = np.where(group_goes, first, opens_rest & rest_goes)
    buried = newest_gone & is_covered(rows, low, high, older)
    kept = buried | ~(group_goes | (settled & rest_goes))
    return Survivors(positions[kept], buried[kept], int((is_live(fields) & (~kept | buried)).sum()))


def is_covered(rows: RowColumns, low: int, high: int, ranges: Sequence[KeyRange]) -> NDArray[np.bool_]:
    """Return which of the rows [low, high) have a key in any of the ranges, which ascend and lie apart."""
    mask = np.zeros(high - low, np.bool_)
    opening = rows.key(low)
    first = bisect_left(ranges, True, key=lambda keys: keys.end is None or keys.end > opening)
    for keys in ranges[first:]:
        start = lower_bound(rows, keys.start, low, high)
        end = high if keys.end is None else lower_bound(rows, keys.end, start, high)
        mask[start - low : end - low] = True
        if start == high or end == high:
            break
    return mask
