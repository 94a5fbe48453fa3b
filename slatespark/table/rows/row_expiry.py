"""Row expiry from a column: the options `ttlColumn` and `expireAtColumn`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds
from numpy.typing import NDArray

from slatespark.encoding import arrow_compute as pc
from slatespark.encoding.instants import to_ms
from slatespark.encoding.type_names import sql_type
from slatespark.errors import SchemaError
from slatespark.kernels.lifetimes import ends_after
from slatespark.options.values import MAX_TTL_MS
from slatespark.units import MAX_CALENDAR_MS, MAX_MS

_NEVER: Final = "Give null for rows that never expire, and ttl=none."


@dataclass(frozen=True, slots=True)
class Expiries:
    """The instants at which rows expire.

    Attributes
    ----------
    expire_ts : (n,) int64 ms, 0 for a row that does not expire
    expires : (n,) bool
    """

    expire_ts: NDArray[np.int64]
    expires: NDArray[np.bool_]

    def no_later_than(self, latest_ms: int | None) -> Expiries:
        """Return the same with every row expiring at an instant at the latest; None changes nothing."""
        if latest_ms is None:
            return self
        limited = np.where(self.expires, np.minimum(self.expire_ts, latest_ms), latest_ms)
        return Expiries(limited, np.ones(len(limited), np.bool_))


def check_ttl_type(field: pa.Field) -> None:
    """Refuse a column type that holds no durations for `ttlColumn`; raises `SchemaError`."""
    kind = field.type
    if not (kinds.is_integer(kind) or kinds.is_duration(kind) or kinds.is_null(kind)):
        raise SchemaError(
            f"ttlColumn: {field.name} is {sql_type(field)}.",
            todo="Give whole numbers of milliseconds, or day-time intervals.",
        )


def check_expire_at_type(field: pa.Field) -> None:
    """Refuse a column type that holds no instants for `expireAtColumn`; raises `SchemaError`."""
    if not (kinds.is_timestamp(field.type) or kinds.is_null(field.type)):
        raise SchemaError(
            f"expireAtColumn: {field.name} is {sql_type(field)}, expected TIMESTAMP.",
            todo="Convert it, ms since 1970 with timestamp_millis.",
        )


def same_expiry(count: int, expire_ts_ms: int | None) -> Expiries:
    """Return one instant for all rows; None for rows that do not expire."""
    expire_ts = np.full(count, 0 if expire_ts_ms is None else expire_ts_ms, np.int64)
    return Expiries(expire_ts, np.full(count, expire_ts_ms is not None))


def expire_each(times: NDArray[np.int64], ttl_ms: int | None) -> Expiries:
    """Return when rows with a time each expire by one TTL; never, where 64 bits do not hold the end."""
    if ttl_ms is None:
        return same_expiry(len(times), None)
    ends_ms, expires = ends_after(times, ttl_ms)
    return Expiries(np.where(expires, ends_ms, 0), expires)


def expire_after(
    ttls: pa.ChunkedArray,
    name: str,
    *,
    created_ms: int | NDArray[np.int64],
    default: Expiries,
    live: NDArray[np.bool_],
    refuses_far: bool,
) -> Expiries:
    """Return when rows expire by a TTL each.

    Parameters
    ----------
    ttls : of a type that `check_ttl_type` accepts; parts of a millisecond are cut off
    name : of the column, for the message
    created_ms : the start of TTLs; a row whose end 64 bits do not hold never expires, as in the SlateDB client
    default : the expiry of rows without a TTL
    live : (n,) False for rows of which the TTL does not matter
    refuses_far : refuse a TTL above 1,000 years, as the option `ttl` does: such rows are meant never to expire

    Raises
    ------
    SchemaError
        When a TTL is negative, or too long.
    """
    numbers, there = _numbers(ttls)
    ttl_ms, finite = to_ms(numbers, ttls.type)
    column, given = f"ttlColumn: {name}", live & there
    if refuses_far:
        _refuse(ttls, given & (~finite | (ttl_ms > MAX_TTL_MS)), column, "more than 1,000 years", todo=_NEVER)
    _refuse(
        ttls,
        given & (numbers < 0),
        column,
        "a negative time to live",
        todo="Give 0 for a row that expires at once, null for the ttl of the write.",
    )
    finite &= ttl_ms <= MAX_MS - np.maximum(created_ms, 0)
    counted = np.where(given & finite, ttl_ms, 0) + np.asarray(created_ms, np.int64)
    return _or_default(counted, there, finite, default)


def expire_at(
    instants: pa.ChunkedArray, name: str, *, default: Expiries, live: NDArray[np.bool_], refuses_far: bool
) -> Expiries:
    """Return when rows expire by an instant each.

    Parameters
    ----------
    instants : of a type that `check_expire_at_type` accepts; parts of a millisecond are cut off, without a time zone
        they are UTC. One beyond 64 bits of milliseconds counts as never, or as always past.
    name : of the column, for the message
    default : the expiry of rows without one
    live : (n,) False for rows of which the expiry does not matter
    refuses_far : refuse an expiry beyond the year 9999, where the calendars of most programs end

    Raises
    ------
    SchemaError
        When an expiry is too far.
    """
    numbers, there = _numbers(instants)
    at_ms, finite = to_ms(numbers, instants.type)
    if refuses_far:
        bad = live & there & (~finite | (at_ms > MAX_CALENDAR_MS))
        _refuse(instants, bad, f"expireAtColumn: {name}", "beyond the year 9999", todo=_NEVER)
    return _or_default(at_ms, there, finite, default)


def _refuse(column: pa.ChunkedArray, bad: NDArray[np.bool_], name: str, what: str, *, todo: str) -> None:
    """Raise a `SchemaError` that shows the first bad row of a column, if there is one."""
    rows = np.flatnonzero(bad)
    if len(rows):
        raise SchemaError(f"{name} is {_shown(column, int(rows[0]))} in some row, {what}.", todo=todo)


def _or_default(
    at_ms: NDArray[np.int64], there: NDArray[np.bool_], finite: NDArray[np.bool_], default: Expiries
) -> Expiries:
    expires = np.where(there, finite, default.expires)
    return Expiries(np.where(expires, np.where(there, at_ms, default.expire_ts), 0), expires)


def _numbers(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the numbers that make up a column, and where there are any."""
    there: NDArray[np.bool_] = pc.is_valid(column).to_numpy()
    if kinds.is_null(column.type):
        return np.zeros(len(column), np.int64), there
    if kinds.is_uint64(column.type):
        column = pc.min_element_wise(column, pa.scalar(MAX_MS, pa.uint64()), skip_nulls=False)
    numbers: NDArray[np.int64] = pc.fill_null(column.cast(pa.int64()), 0).to_numpy()
    return numbers, there


def _shown(column: pa.ChunkedArray, row: int) -> Any:
    value, kind = column[row], column.type
    return f"{value.value} {kind.unit}" if kinds.is_duration(kind) or kinds.is_timestamp(kind) else value.as_py()
