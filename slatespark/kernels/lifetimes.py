"""The end of rows: by their expiry, or by the retention of their table. One rule for rows, blocks and files.

A row has ended if a flag is set and the time of that flag is not after a limit. For expiry, these are `expire_ts` and
the current time; for retention, `create_ts` and the current time minus the retention.

The same rule works on bounds of many rows: `all_flags` and the largest time tell whether all of them have ended,
`any_flags` and the smallest time whether any may have. `_lifetimes` is the compiled twin.
"""

from __future__ import annotations

from typing import Protocol, overload

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, TOMBSTONE
from slatespark.units import MAX_MS


class TimedRows(Protocol):
    """Flags and times of rows, as in `RowColumns` and `Fields`."""

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
    """Tell whether rows have a time at or before a limit.

    Parameters
    ----------
    flags : flags of rows or of bounds (see the module); one or many
    flag : HAS_CREATE or HAS_EXPIRE
    times : the times of the flag; None for bounds without a time
    """
    if times is None:
        return False
    return ((flags & flag) != 0) & (times <= limit_ms)


def expired(rows: TimedRows, now_ms: int) -> NDArray[np.bool_]:
    """Return a mask of the expired rows."""
    return reached(rows.flags, HAS_EXPIRE, rows.expire_ts, now_ms)


def retired(rows: TimedRows, retired_ms: int) -> NDArray[np.bool_]:
    """Return a mask of the rows past retention: created at or before `retired_ms`."""
    return reached(rows.flags, HAS_CREATE, rows.create_ts, retired_ms)


def is_live(rows: TimedRows) -> NDArray[np.bool_]:
    """Return a mask of the rows that are not tombstones."""
    live: NDArray[np.bool_] = (rows.flags & TOMBSTONE) == 0
    return live


def retired_groups(
    counted: NDArray[np.bool_], is_retired: NDArray[np.bool_], starts: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which groups of rows are past retention; the newest row of a group decides.

    Parameters
    ----------
    counted : (n,) rows that count: visible ones with a create_ts
    is_retired : (n,) rows of these that are past retention
    starts : (g,) first row of each group

    Returns
    -------
    (g,) False for groups without a counted row.
    """
    old: NDArray[np.bool_] = np.logical_or.reduceat(is_retired, starts)
    return old & ~np.logical_or.reduceat(counted & ~is_retired, starts)


def key_sizes(first: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the number of versions of each key.

    Parameters
    ----------
    first : (n,) True where a new key begins; the first version is always one
    """
    return np.diff(np.flatnonzero(first), append=len(first))


def below_group(first: NDArray[np.bool_], goes_on: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which versions lie below the first version of their key at which a read stops.

    Parameters
    ----------
    first : (n,) True where a new key begins; the first version is always one
    goes_on : (n,) True at versions below which a read goes on, such as merge operands
    """
    ends = ~goes_on
    before: NDArray[np.int64] = np.cumsum(ends) - ends
    hidden: NDArray[np.bool_] = before > np.repeat(before[first], key_sizes(first))
    return hidden


def ends_after(times: NDArray[np.int64], duration_ms: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the end of a duration from each time on, and whether the sum fits 64 bits."""
    latest_ms = MAX_MS - duration_ms
    return np.minimum(times, latest_ms) + np.int64(duration_ms), times <= latest_ms
