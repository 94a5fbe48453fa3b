"""Python values of columns, converted exactly or not at all.

pyarrow alone would turn 1.5 into 1, a datetime into a date, and 1e300 as a FLOAT into infinity. A lookup would then
find a different row than requested, and an update store another value than given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from operator import index
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from slatespark.encoding.column_types import is_variant

_Conversion: TypeAlias = Callable[[Any, pa.DataType], Any]

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001, without a time zone on purpose
_MICROSECOND: Final = timedelta(microseconds=1)
_MAX_FLOAT32: Final = float(np.finfo(np.float32).max)
_MAX_FLOAT64: Final = float(np.finfo(np.float64).max)


def exact_value(value: Any, kind: pa.DataType, *, fills: bool = False) -> Any:
    """Return a value in the form that pyarrow accepts for a canonical type; that of a variant as it is.

    Parameters
    ----------
    fills : fields that a struct lacks are null, where they may be

    Raises
    ------
    TypeError, ValueError
        When it has another type or cannot be converted exactly.
    """
    if value is None:
        return None
    if isinstance(value, np.datetime64 | np.timedelta64):
        return _of_numpy(value, kind)
    if kinds.is_nested(kind) and not is_variant(kind):
        return _nested(value, kind, partial(exact_value, fills=fills), fills=fills)
    return next((convert for fits, convert in _CONVERSIONS if fits(kind)), _whole)(value, kind)


def _instance(value: Any, expected: type | tuple[type, ...]) -> Any:
    if not isinstance(value, expected):
        raise TypeError(f"its type is {type(value).__name__}")
    return value


def _integer(value: Any) -> int:
    if isinstance(value, bool | np.bool_):
        raise TypeError("its type is bool")
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"its type is {type(value).__name__}") from None


def _whole(value: Any, kind: pa.DataType) -> int:
    number, limit = _integer(value), 1 << (kind.bit_width - 1)
    if not -limit <= number < limit:
        raise ValueError("it is out of range")
    return number


def _decimal(value: Any, kind: pa.DataType) -> Decimal:
    sign, digits, exponent = (value if isinstance(value, Decimal) else Decimal(_integer(value))).as_tuple()
    if not isinstance(exponent, int):
        raise ValueError("it is not a number")  # noqa: TRY004
    number, shift = int("".join(map(str, digits))), exponent + kind.scale
    if number == 0:
        return Decimal(0)
    if len(digits) + shift > kind.precision:
        raise ValueError(f"it has more than {kind.precision - kind.scale} digits before the point")
    if -shift >= len(digits) or number % 10 ** max(-shift, 0):
        raise ValueError(f"it has more than {kind.scale} digits after the point")
    number = number * 10**shift if shift > 0 else number // 10**-shift
    return Decimal((sign, tuple(map(int, str(number))), -kind.scale))


def _date(value: Any, kind: pa.DataType) -> date | int:
    if isinstance(value, datetime):
        raise TypeError("it is a datetime, not a date")
    return value if isinstance(value, date) else _whole(value, kind)


def _float(value: Any, kind: pa.DataType) -> float:
    if not isinstance(value, float | np.floating):
        number, narrow = _integer(value), np.float32 if kinds.is_float32(kind) else float
        if abs(number) > _largest(kind) or int(narrow(number)) != number:
            raise ValueError("a floating-point number cannot hold it exactly")
        return float(number)
    wide = float(value)
    if math.isfinite(wide) and abs(wide) > _largest(kind):
        raise ValueError("it is too large for a FLOAT")
    return wide


def _largest(kind: pa.DataType) -> float:
    return _MAX_FLOAT32 if kinds.is_float32(kind) else _MAX_FLOAT64


def _timestamp(value: Any, kind: pa.DataType) -> int:
    if not isinstance(value, datetime):
        return _whole(value, kind)
    _require_microseconds(getattr(value, "nanosecond", 0))
    if value.tzinfo is not None:
        if kind.tz is None:
            raise TypeError("it has a time zone, the column has none")
        value = value.astimezone(UTC).replace(tzinfo=None)
    microseconds: int = (value - _EPOCH) // _MICROSECOND
    return microseconds


def _duration(value: Any, kind: pa.DataType) -> timedelta | int:
    if not isinstance(value, timedelta):
        return _whole(value, kind)
    _require_microseconds(getattr(value, "nanoseconds", 0))
    return value


def _require_microseconds(nanoseconds: int) -> None:
    """Refuse what pandas counts beyond Python's microseconds."""
    if nanoseconds:
        raise ValueError("it is not a whole number of microseconds")


def _time(value: Any, kind: pa.DataType) -> time | int:
    if not isinstance(value, time):
        return _whole(value, kind)
    if value.tzinfo is not None:
        raise TypeError("it has a time zone")
    return value


def _of_numpy(value: np.datetime64 | np.timedelta64, kind: pa.DataType) -> int:
    """Return a time of numpy as the number that its column holds; pyarrow would cast it to any type, text included."""
    unit = next((unit for fits, scalar, unit in _NUMPY_UNITS if fits(kind) and isinstance(value, scalar)), None)
    if unit is None:
        raise TypeError(f"its type is {type(value).__name__}")
    given, _ = np.datetime_data(value.dtype)
    if np.isnat(value) or given == "generic":
        raise ValueError("it is not a time" if np.isnat(value) else "it has no unit")
    if isinstance(value, np.timedelta64) and given in ("Y", "M"):
        raise ValueError("months have no fixed length")
    try:
        number = value.astype(unit)
        is_exact = bool(number.astype(value.dtype) == value)  # else cut off; or, in numpy 2.4, wrapped around
    except OverflowError:
        is_exact = False
    if not is_exact:
        raise ValueError("the column does not hold it exactly")
    return _whole(int(number.astype(np.int64)), kind)


_NUMPY_UNITS: Final[tuple[tuple[Callable[[pa.DataType], bool], type[np.generic], str], ...]] = (
    (kinds.is_timestamp, np.datetime64, "datetime64[us]"),
    (kinds.is_date32, np.datetime64, "datetime64[D]"),
    (kinds.is_duration, np.timedelta64, "timedelta64[us]"),
)

_CONVERSIONS: Final[tuple[tuple[Callable[[pa.DataType], bool], _Conversion], ...]] = (
    (kinds.is_boolean, lambda value, _: _instance(value, (bool, np.bool_))),
    (kinds.is_string, lambda value, _: _instance(value, str)),
    (kinds.is_binary, lambda value, _: bytes(_instance(value, (bytes, bytearray, memoryview)))),
    (kinds.is_floating, _float),
    (kinds.is_decimal, _decimal),
    (kinds.is_date, _date),
    (kinds.is_timestamp, _timestamp),
    (kinds.is_duration, _duration),
    (kinds.is_time, _time),
    (is_variant, lambda value, _: value),
)


def _nested(value: Any, kind: pa.DataType, convert: _Conversion, *, fills: bool) -> Any:
    if kinds.is_struct(kind):
        return _struct(value, kind, convert, fills=fills)
    if kinds.is_map(kind):
        pairs = value.items() if isinstance(value, Mapping) else value
        return [(convert(key, kind.key_type), convert(item, kind.item_type)) for key, item in pairs]
    if isinstance(value, str | bytes | bytearray | memoryview | Mapping) or not isinstance(value, Iterable):
        raise TypeError(f"its type is {type(value).__name__}")
    return [convert(element, kind.value_type) for element in value]


def _struct(value: Any, kind: pa.DataType, convert: _Conversion, *, fills: bool) -> dict[str, Any]:
    names = [part.name for part in kind]
    if isinstance(value, Mapping):
        lacking = {part.name for part in kind if part.nullable} - set(value) if fills else set()
        if {*value, *lacking} != set(names):
            raise ValueError(f"its fields are {list(value)}, expected {names}")
        parts = [value.get(name) for name in names]
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview):
        if len(value) != len(names):
            raise ValueError(f"it has {len(value)} fields, expected {names}")
        parts = list(value)
    else:
        raise TypeError(f"its type is {type(value).__name__}")
    return {part.name: convert(each, part.type) for part, each in zip(kind, parts, strict=True)}
