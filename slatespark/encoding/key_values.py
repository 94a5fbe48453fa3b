"""Python values of key columns, taken exactly or not at all.

pyarrow alone would make 1 of 1.5, a date of a datetime, and infinity of 1e300 as a FLOAT: a look-up would then find
another row than the one asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from operator import index
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001, without a time zone on purpose
_MICROSECOND: Final = timedelta(microseconds=1)
_MAX_FLOAT32: Final = float(np.finfo(np.float32).max)


def exact_value(value: Any, kind: pa.DataType) -> Any:
    """Return a value as pyarrow takes it for a key type.

    Raises
    ------
    TypeError, ValueError
        When it is of another type, or would have to be changed. What does not fit in length is left to pyarrow.
    """
    if value is None:
        return None
    if kinds.is_struct(kind):
        return _struct(value, kind)
    if kinds.is_floating(kind):
        return _float(value, kind)
    if kinds.is_timestamp(kind):
        return _timestamp(value, kind)
    return next((take for fits, take in _PLAIN if fits(kind)), _integer)(value)


def _instance(value: Any, expected: type | tuple[type, ...]) -> Any:
    if not isinstance(value, expected):
        raise TypeError(f"it is a {type(value).__name__}")
    return value


def _integer(value: Any) -> int:
    if isinstance(value, bool | np.bool_):
        raise TypeError("it is a bool")
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"it is a {type(value).__name__}") from None


def _decimal(value: Any) -> Decimal:
    return value if isinstance(value, Decimal) else Decimal(_integer(value))


def _date(value: Any) -> date | int:
    if isinstance(value, datetime):
        raise TypeError("it is a datetime, not a date")
    return value if isinstance(value, date) else _integer(value)


_PLAIN: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], Any]], ...]] = (
    (kinds.is_boolean, lambda value: _instance(value, (bool, np.bool_))),
    (kinds.is_string, lambda value: _instance(value, str)),
    (kinds.is_binary, lambda value: bytes(_instance(value, (bytes, bytearray, memoryview)))),
    (kinds.is_decimal, _decimal),
    (kinds.is_date, _date),
)


def _float(value: Any, kind: pa.DataType) -> float:
    if not isinstance(value, float | np.floating):
        number = _integer(value)
        if int(float(number)) != number:
            raise ValueError("a floating-point number cannot hold it exactly")
        return float(number)
    wide = float(value)
    if kinds.is_float32(kind) and math.isfinite(wide) and abs(wide) > _MAX_FLOAT32:
        raise ValueError("it is too large for a FLOAT")
    return wide


def _timestamp(value: Any, kind: pa.DataType) -> int:
    if not isinstance(value, datetime):
        return _integer(value)
    if value.tzinfo is not None:
        if kind.tz is None:
            raise TypeError("it has a time zone, the column has none")
        value = value.astimezone(UTC).replace(tzinfo=None)
    microseconds: int = (value - _EPOCH) // _MICROSECOND
    return microseconds


def _struct(value: Any, kind: pa.DataType) -> dict[str, Any]:
    names = [part.name for part in kind]
    if isinstance(value, Mapping):
        if set(value) != set(names):
            raise ValueError(f"its fields are {list(value)}, expected {names}")
        parts = [value[name] for name in names]
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview):
        if len(value) != len(names):
            raise ValueError(f"it has {len(value)} fields, expected {names}")
        parts = list(value)
    else:
        raise TypeError(f"it is a {type(value).__name__}")
    return {name: exact_value(part, kind.field(name).type) for name, part in zip(names, parts, strict=True)}
