"""Conversions between values of each type and JSON. On disk: do not change the written form."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, Final

import numpy as np
import pyarrow as pa

from slatespark.encoding.plain_values import whole_micros
from slatespark.units import DAY_US

Convert = Callable[[Any], Any]

_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_INTEGER_BITS: Final = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64, pa.duration("us"): 64}

_DATE: Final = re.compile(r"(-?\d{4,7})-\d\d-\d\d", re.ASCII)
_CLOCK: Final = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?", re.ASCII)
_OFFSET: Final = re.compile(r"(?:Z|([+-])(\d\d):([0-5]\d))\Z", re.ASCII)
_INT64_MIN: Final = -(2**63)


class JsonNumber(str):
    """A JSON number with a point or an exponent as text, so that a decimal loses no digit."""

    __slots__ = ()


def to_json(kind: pa.DataType) -> Convert:
    """Return the conversion of a plain value (`plain_values`) of a type, not None, to a JSON value."""
    if pa.types.is_list(kind):
        item = _of_part(to_json, kind.value_field)
        return lambda items: [item(value) for value in items]
    if pa.types.is_map(kind):
        key, item = to_json(kind.key_type), _of_part(to_json, kind.item_field)
        if kind.key_type == pa.string():
            return lambda pairs: _require_unique({name: item(value) for name, value in pairs}, len(pairs))
        return lambda pairs: [{"key": key(name), "value": item(value)} for name, value in pairs]
    if pa.types.is_struct(kind):
        parts = [(part.name, to_json(part.type)) for part in kind]
        return lambda record: {
            name: convert(record[name]) for name, convert in parts if _is_present(record[name], kind.field(name))
        }
    if pa.types.is_decimal128(kind):
        return lambda value: format(value, "f")
    return _TO_JSON.get(kind, _identity)


def from_json(kind: pa.DataType) -> Convert:
    """Return the conversion of a JSON value, not None, to one for pyarrow; it raises one of `VALUE_ERRORS`."""
    if pa.types.is_list(kind):
        item = _of_part(from_json, kind.value_field)
        return lambda items: [item(value) for value in _require_type(list, items)]
    if pa.types.is_map(kind):
        key, item = from_json(kind.key_type), _of_part(from_json, kind.item_field)
        if kind.key_type == pa.string():
            return lambda members: [(_text(name), item(value)) for name, value in _require_type(dict, members).items()]
        return lambda pairs: [
            (key(_require_type(dict, pair).get("key")), item(pair.get("value"))) for pair in _require_type(list, pairs)
        ]
    if pa.types.is_struct(kind):
        parts = [(part.name, _of_part(from_json, part)) for part in kind]
        return lambda members: {name: convert(_require_type(dict, members).get(name)) for name, convert in parts}
    if pa.types.is_decimal128(kind):
        return lambda value: _decimal(value, kind)
    if kind in _INTEGER_BITS:
        largest = 2 ** (_INTEGER_BITS[kind] - 1) - 1
        return lambda value: _integer(value, largest)
    return _FROM_JSON[kind]


def _identity(value: Any) -> Any:
    return value


def _of_part(conversion: Callable[[pa.DataType], Convert], part: pa.Field) -> Convert:
    """Return the conversion of a part of a list, map or struct, which may be null if its field says so."""
    convert = conversion(part.type)
    if part.nullable:
        return lambda value: None if value is None else convert(value)
    return lambda value: convert(value) if _is_present(value, part) else None


def _is_present(value: Any, part: pa.Field) -> bool:
    if value is None and not part.nullable:
        raise ValueError(f"null in {part.name}, which is not nullable")
    return value is not None


def _require_unique(members: dict[str, Any], count: int) -> dict[str, Any]:
    if len(members) != count:
        raise ValueError("a map repeats a key")
    return members


def _require_type(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(f"not a {kind.__name__}")
    return value


# --- writing ----------------------------------------------------------------------------------------------------------


def _float(value: float) -> Any:
    return value if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _date(days: int) -> str:
    return _long_year(str(np.datetime64(days, "D")))


def _date_time(micros: int) -> str:
    if micros == _INT64_MIN:
        raise ValueError("a time is out of range")
    return _long_year(str(np.datetime64(micros, "us")))


def _long_year(text: str) -> str:
    """Return a date with at least four digits of the year; numpy writes three for years before 0."""
    if not text.startswith("-"):
        return text
    year, rest = text[1:].split("-", 1)
    return f"-{year.zfill(4)}-{rest}"


def _clock(nanos: int) -> str:
    micros = whole_micros(nanos)
    if not 0 <= micros < DAY_US:
        raise ValueError("out of the range of its type")
    return str(np.datetime64(micros, "us"))[11:]


_TO_JSON: Final[dict[pa.DataType, Convert]] = {
    pa.float32(): lambda value: _float(float(str(np.float32(value)))),
    pa.float64(): _float,
    pa.binary(): lambda data: base64.b64encode(data).decode(),
    pa.date32(): _date,
    pa.timestamp("us"): _date_time,
    pa.timestamp("us", "UTC"): lambda micros: _date_time(micros) + "Z",
    pa.time64("ns"): _clock,
}


# --- reading ----------------------------------------------------------------------------------------------------------


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("not a boolean")
    return value


def _integer(value: Any, largest: int) -> int:
    if type(value) is not int or not ~largest <= value <= largest:
        raise ValueError("not an integer of its type")
    return value


def _double(value: Any) -> float:
    if type(value) is str:
        return _NOT_FINITE[value] if value in _NOT_FINITE else _refuse("a number")
    if type(value) is not int and type(value) is not JsonNumber:
        raise TypeError("not a number")
    number = float(value)
    return number if math.isfinite(number) else _refuse("a number in range")


def _single(value: Any) -> float:
    number = _double(value)
    with np.errstate(over="ignore"):
        single = float(np.float32(number))
    return single if math.isfinite(single) or not math.isfinite(number) else _refuse("a number in range")


def _decimal(value: Any, kind: pa.DataType) -> Decimal:
    if type(value) not in (int, str, JsonNumber):
        raise TypeError("not a decimal")
    context = Context(prec=kind.precision, traps=[Inexact, InvalidOperation])
    number = Decimal(value)
    if not number.is_finite():
        raise ValueError("not a decimal")
    return number.quantize(Decimal((0, (1,), -kind.scale)), context=context)


def _text(value: Any) -> str:
    text: str = _require_type(str, value)
    text.encode()  # raises for half of a surrogate pair
    return text


def _bytes(value: Any) -> bytes:
    return base64.b64decode(_require_type(str, value), validate=True)


def _days(value: Any) -> int:
    found = _DATE.fullmatch(_require_type(str, value))
    if found is None:
        raise ValueError("not a date")
    days = int(np.datetime64(value, "D").astype(np.int64))
    return days if -(2**31) <= days < 2**31 else _refuse("a date in range")


def _micros_of_day(text: str) -> int:
    found = _CLOCK.fullmatch(text)
    if found is None:
        raise ValueError("not a time of day")
    hours, minutes, seconds = (int(found[number]) for number in (1, 2, 3))
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError("not a time of day")
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + int((found[4] or "0").ljust(6, "0"))


def _local_micros(value: Any) -> int:
    date, separator, clock = _require_type(str, value).partition("T")
    if not separator:
        raise ValueError("not a time")
    return _require_range(_days(date) * DAY_US + _micros_of_day(clock))


def _micros(value: Any) -> int:
    found = _OFFSET.search(_require_type(str, value))
    if found is None:
        raise ValueError("not a time with an offset")
    minutes = (int(found[2]) * 60 + int(found[3])) * (1 if found[1] == "+" else -1) if found[1] else 0
    return _require_range(_local_micros(value[: found.start()]) - minutes * 60_000_000)


def _require_range(micros: int) -> int:
    return micros if _INT64_MIN < micros < 2**63 else _refuse("a time in range")


def _refuse(what: str) -> Any:
    raise ValueError(f"not {what}")


_FROM_JSON: Final[dict[pa.DataType, Convert]] = {
    pa.bool_(): _boolean,
    pa.float32(): _single,
    pa.float64(): _double,
    pa.string(): _text,
    pa.binary(): _bytes,
    pa.date32(): _days,
    pa.timestamp("us"): _local_micros,
    pa.timestamp("us", "UTC"): _micros,
    pa.time64("ns"): lambda value: _micros_of_day(_require_type(str, value)) * 1000,
}
