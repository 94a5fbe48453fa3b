"""When rows end: by their own expiry, or by the retention of their table. One rule for rows, blocks and files.

A row has ended if it has the time that a flag stands for, and that time is not after a limit. For its own expiry that
is `expire_ts` and the instant of the question; for retention it is `create_ts` and that instant less the retention.

The same rule answers for many rows by their bounds: with `all_flags` and the largest time, whether all of them have
ended; with `any_flags` and the smallest time, whether any may have. `_lifetimes` is the compiled twin.
"""

from __future__ import annotations

from typing import Protocol, overload

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, TOMBSTONE
from slatespark.units import MAX_MS


class TimedRows(Protocol):
    """Flags and times of rows, as `RowColumns` and `Fields` have them."""

    @property
    def flags(self) -> NDArray[np.uint8]:
        """Row flags."""

    @property
    def create_ts(self) -> NDArray[np.int64]:
        """Creation times in ms."""

    @property
    def expire_ts(self) -> NDArray[np.int64]:
        """Expiry times in ms."""


@overload
def reached(flags: int, flag: int, times: int | None, limit_ms: int) -> bool: ...
@overload
def reached(flags: NDArray[np.uint8], flag: int, times: NDArray[np.int64], limit_ms: int) -> NDArray[np.bool_]: ...
def reached(
    flags: int | NDArray[np.uint8], flag: int, times: int | NDArray[np.int64] | None, limit_ms: int
) -> bool | NDArray[np.bool_]:
    """Tell whether rows have a time, and have it at or before a limit.

    Parameters
    ----------
    flags : of a row, or of bounds (see the head of this module); one or many
    flag : HAS_CREATE or HAS_EXPIRE
    times : the times that the flag stands for; None for bounds without one
    """
    if times is None:
        return False
    return ((flags & flag) != 0) & (times <= limit_ms)


def expired(rows: TimedRows, now_ms: int) -> NDArray[np.bool_]:
    """Return which rows have expired."""
    return reached(rows.flags, HAS_EXPIRE, rows.expire_ts, now_ms)


def retired(rows: TimedRows, retired_ms: int) -> NDArray[np.bool_]:
    """Return which rows were created at or before `retired_ms`, so that they are past retention."""
    return reached(rows.flags, HAS_CREATE, rows.create_ts, retired_ms)


def is_live(rows: TimedRows) -> NDArray[np.bool_]:
    """Return which rows are no tombstones."""
    live: NDArray[np.bool_] = (rows.flags & TOMBSTONE) == 0
    return live


def retired_groups(
    counted: NDArray[np.bool_], is_retired: NDArray[np.bool_], starts: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which groups of rows are past retention: a group is as young as its youngest row.

    Parameters
    ----------
    counted : (n,) which rows count: those that show, and have a create_ts
    is_retired : (n,) which of these are past retention
    starts : (g,) where each group begins

    Returns
    -------
    (g,) False also for a group without a row that counts.
    """
    old: NDArray[np.bool_] = np.logical_or.reduceat(is_retired, starts)
    return old & ~np.logical_or.reduceat(counted & ~is_retired, starts)


def ends_after(times: NDArray[np.int64], duration_ms: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return when a duration from each time on is over, and whether it ever is: 64 bits do not hold every sum."""
    latest_ms = MAX_MS - duration_ms
    return np.minimum(times, latest_ms) + np.int64(duration_ms), times <= latest_ms
