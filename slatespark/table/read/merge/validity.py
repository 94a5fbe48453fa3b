"""From when until when each version of a history table was valid: rows with both ends, as of an SCD-2 table.

A version is valid from its create_ts until the next version of its key, or until it expires or retires, whichever comes
first. A read as of any instant in between shows it. The end of a version depends on the newer versions of its key,
which come first. One number is kept of them across windows, and merge operands are kept until their base comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slatespark.encoding.without_pandas import array_of_numpy
from slatespark.errors import UnsupportedFormatError
from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.kernels import gather_fields, new_key_mask
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE, RowColumns, key_at
from slatespark.kernels.lifetimes import ends_after
from slatespark.table.read.arrow import IS_CURRENT, VALID_FROM, VALID_TO, instants
from slatespark.table.read.merge.merge_function import MergeFunction, fold_rows, row_at
from slatespark.units import MAX_MS, MIN_MS

_ALWAYS: Final = MIN_MS  # where a version without create_ts begins
_OPEN: Final = MAX_MS  # where a version that is still valid ends, which a time may be too
_NEVER: Final = MAX_MS + 1  # the same where numbers have more than 64 bits

# Sources, packed rows, and for each row [start, end), and whether it is still valid: it has no end then.
Intervals: TypeAlias = tuple[
    Sequence[RowColumns], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]
]


@dataclass(frozen=True, slots=True)
class ValiditySettings:
    """The settings that decide how long a version is valid, and which ones are shown.

    Attributes
    ----------
    now_ms : the instant at which a version is current or not
    ends_by_expiry : whether expiry and retention end a version
    retention_ms : retention of the table
    floor_ms : versions that ended at or before it are left out, since others that were valid then may be gone
    """

    now_ms: int
    ends_by_expiry: bool = True
    retention_ms: int | None = None
    floor_ms: int | None = None


def valid_intervals(
    windows: Iterable[tuple[Sequence[RowColumns], NDArray[np.int64]]],
    settings: ValiditySettings,
    fold: MergeFunction | None,
) -> Iterator[Intervals]:
    """Yield the versions that were ever valid, with their intervals.

    Parameters
    ----------
    windows : all versions, keys ascending, of a key the newest first; a key may continue in the next window
    settings : settings of the read
    fold : the merge function, None if not given

    Raises
    ------
    OptionError
        When there are operands and no operator.
    UnsupportedFormatError
        When the operands of a key are not in the order of their times.
    """
    tracker = _Tracker(settings, fold)
    for sources, rows in windows:
        yield from tracker.of_window(sources, rows)
    yield from tracker.flush()


def interval_columns(found: Intervals, now_ms: int) -> dict[str, pa.Array]:
    """Return the three columns of rows and their intervals."""
    _, _, starts, ends, are_open = found
    return {
        VALID_FROM: instants(starts, starts == _ALWAYS),
        VALID_TO: instants(ends, are_open),
        IS_CURRENT: array_of_numpy((starts <= now_ms) & (are_open | (ends > now_ms))),
    }


class _Tracker:
    """The state between windows: the last key, since when it has newer versions, and operands that wait."""

    def __init__(self, settings: ValiditySettings, fold: MergeFunction | None) -> None:
        self._settings, self._fold = settings, fold
        self._key: bytes | None = None
        self._closing = _OPEN
        self._operands: list[tuple[Row, int]] = []

    def of_window(self, sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> Iterator[Intervals]:
        if not len(rows):
            return
        fields = gather_fields(sources, rows)
        starts = np.where(fields.flags & HAS_CREATE, fields.create_ts, _ALWAYS)
        closings, heads = self._closings(sources, rows, starts)
        if self._operands or (fields.flags & MERGE).any():
            yield from self._one_by_one(sources, rows, closings, heads)
            return
        ends, are_open = closings, heads
        if self._settings.ends_by_expiry:
            expires = (fields.flags & HAS_EXPIRE) != 0
            ends, are_open = np.minimum(ends, np.where(expires, fields.expire_ts, _OPEN)), are_open & ~expires
            retention_ms = self._settings.retention_ms
            if retention_ms is not None:
                retired, retires = ends_after(fields.create_ts, retention_ms)
                retires &= (fields.flags & HAS_CREATE) != 0
                ends, are_open = np.where(retires, np.minimum(ends, retired), ends), are_open & ~retires
        shown = ((fields.flags & TOMBSTONE) == 0) & self._is_shown(starts, ends, are_open)
        if shown.any():
            yield sources, rows[shown], starts[shown], ends[shown], are_open[shown]

    def _closings(
        self, sources: Sequence[RowColumns], rows: NDArray[np.int64], starts: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return when each version gives way to a newer one, and which is the newest of its key."""
        heads = new_key_mask(sources, rows)
        heads[0] = key_at(sources, int(rows[0])) != self._key
        closings = np.append(np.int64(_OPEN if heads[0] else self._closing), starts[:-1])
        closings[heads] = _OPEN
        for at in np.flatnonzero(~heads & (starts > closings)).tolist():  # rare: newer, and yet of an earlier time
            after = at + 1
            while after < len(rows) and not heads[after] and closings[after] > closings[after - 1]:
                closings[after] = closings[after - 1]
                after += 1
        self._key = key_at(sources, int(rows[-1]))
        self._closing = int(min(closings[-1], starts[-1]))
        return closings, heads

    def _is_shown(
        self, starts: NDArray[np.int64], ends: NDArray[np.int64], are_open: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        lasts = are_open | (starts < ends)
        floor_ms = self._settings.floor_ms
        return lasts if floor_ms is None else lasts & (are_open | (ends > floor_ms))

    # --- merge operands: each makes a new row of what lies below it ---------------------------------------------------

    def _one_by_one(
        self,
        sources: Sequence[RowColumns],
        rows: NDArray[np.int64],
        closings: NDArray[np.int64],
        heads: NDArray[np.bool_],
    ) -> Iterator[Intervals]:
        made: list[tuple[Row, int, int]] = []
        for packed, closing, head in zip(rows.tolist(), closings.tolist(), heads.tolist(), strict=True):
            if head:
                made += self._resolve(None)
                closing = _NEVER
            row = row_at(sources, packed)
            if row.kind is RowKind.MERGE:
                self._operands.append((row, closing))
            else:
                made += self._resolve(row)
                if row.kind is RowKind.PUT:
                    made += self._states([row], _start_of(row), closing)
        yield from self._as_intervals(made)

    def flush(self) -> Iterator[Intervals]:
        """Yield the rows of the last key's operands, which have no base."""
        yield from self._as_intervals(self._resolve(None))

    def _resolve(self, base: Row | None) -> list[tuple[Row, int, int]]:
        """Return the rows that the waiting operands and their base make, newest first."""
        _check_order([*(row for row, _ in self._operands), *([] if base is None else [base])])
        below = [base] if base is not None and base.kind is RowKind.PUT else []
        states: list[list[tuple[Row, int, int]]] = []
        for operand, closing in reversed(self._operands):
            start = _start_of(operand)
            below = [row for row in (operand, *below) if self._expiry_of(row) > start]  # no later one folds onto others
            states.append(self._states(below, start, closing))
            if below and all(row.expire_ts_ms is None for row in below):
                below = [fold_rows(below, self._fold)]  # it stands for all of them from here on
        self._operands = []
        return [state for made in reversed(states) for state in made]

    def _states(self, versions: list[Row], start: int, end: int) -> list[tuple[Row, int, int]]:
        """Return the rows that versions of a key, newest to oldest, make from `start` on; one that expires parts it."""
        expires = self._expiry_of
        edges = sorted({start, end, *(expires(row) for row in versions if start < expires(row) < end)})
        found: list[tuple[Row, int, int]] = []
        for low, high in pairwise(edges if start < end else []):
            live = [row for row in versions if expires(row) > low]
            if not live:
                continue
            row = live[0] if live[0].kind is RowKind.PUT else fold_rows(live, self._fold)
            stop = min(high, self._retirement_of(row))
            if low < stop:
                found.append((row, low, stop))
        return found[::-1]

    def _expiry_of(self, row: Row) -> int:
        return row.expire_ts_ms if self._settings.ends_by_expiry and row.expire_ts_ms is not None else _NEVER

    def _retirement_of(self, row: Row) -> int:
        retention_ms = self._settings.retention_ms if self._settings.ends_by_expiry else None
        if retention_ms is None or row.create_ts_ms is None:
            return _NEVER
        return min(row.create_ts_ms + retention_ms, _NEVER)

    def _as_intervals(self, made: list[tuple[Row, int, int]]) -> Iterator[Intervals]:
        floor_ms = self._settings.floor_ms
        kept = [state for state in made if floor_ms is None or state[2] > floor_ms]
        if kept:
            starts = np.array([start for _, start, _ in kept], np.int64)
            ends = np.array([min(end, _OPEN) for _, _, end in kept], np.int64)
            are_open = np.array([end == _NEVER for _, _, end in kept])
            rows = np.arange(len(kept), dtype=np.int64)
            yield [rows_to_columns([row for row, _, _ in kept])], rows, starts, ends, are_open


def _start_of(row: Row) -> int:
    return _ALWAYS if row.create_ts_ms is None else row.create_ts_ms


def _check_order(rows: Sequence[Row]) -> None:
    """Refuse operands that are older than their base: their row has no single beginning."""
    for newer, older in pairwise(rows):
        if _start_of(newer) < _start_of(older):
            raise UnsupportedFormatError(
                f"Key {newer.key.hex()} holds a merge operand, seq {newer.seq}, that is older by its time than the "
                f"version below it, seq {older.seq}.",
                why="Such rows have no definite interval.",
                todo="Use readVersions=all, or read as of the instants that you need.",
            )
