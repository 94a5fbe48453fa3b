"""Arrow values as Python values of plain types: numbers for dates and times, whose Python types have less range."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from slatespark.errors import SchemaError
from slatespark.units import DAY_US

CHUNK_ROWS: Final = 4096  # rows that exist as Python objects at a time


# Raised by Python and pyarrow for a value that does not fit its type.
VALUE_ERRORS: Final = (pa.ArrowException, ValueError, TypeError, OverflowError, ArithmeticError, RecursionError)


def python_chunks(array: pa.Array | pa.ChunkedArray, name: str) -> Iterator[tuple[int, list[Any]]]:
    """Yield chunks of the array as Python values of plain types, each with the number of its first row."""
    start = 0
    for chunk in valid_chunks(array, name):
        yield start, python_values(chunk)
        start += len(chunk)


def valid_chunks(array: pa.Array | pa.ChunkedArray, name: str) -> Iterator[pa.Array]:
    """Yield chunks of the array; raises `SchemaError` if Arrow says that it is not valid."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as exc:
        raise SchemaError(f"Column {name} holds a value that cannot be stored: {exc}.") from exc
    for piece in array.chunks if isinstance(array, pa.ChunkedArray) else [array]:
        for low in range(0, len(piece), CHUNK_ROWS):
            yield piece.slice(low, CHUNK_ROWS)


def python_values(array: pa.Array) -> list[Any]:
    """Return an array as Python values of plain types."""
    values: list[Any] = array.cast(plain_type(array.type)).to_pylist()
    return values


def require_utf8(name: str, column: pa.Array | pa.ChunkedArray) -> None:
    """Raise `SchemaError` for invalid UTF-8. Arrow and Spark allow it in strings, but it could not be decoded."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as exc:
        raise SchemaError(
            f"Column {name} holds text that is not valid UTF-8.",
            why=f"{exc}.",
            todo="Make it BINARY, or repair the text.",
        ) from exc


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type with integers instead of dates and times, and with parts that may be null.

    Spark leaves parts null below a struct that is null, and Arrow casts no null to a part that takes none.
    """
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time64(kind):
        return pa.int64()
    if pa.types.is_list(kind):
        return pa.list_(_plain_part(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), _plain_part(kind.item_field))
    if pa.types.is_struct(kind):
        return pa.struct([_plain_part(part) for part in kind])
    return kind


def _plain_part(part: pa.Field) -> pa.Field:
    return part.with_type(plain_type(part.type)).with_nullable(True)


def unscaled(value: Decimal, scale: int) -> int:
    """Return the unscaled value of a decimal. Requires: it has at most `scale` decimals."""
    sign, digits, exponent = value.as_tuple()
    number: int = int("".join(map(str, digits)) or "0") * 10 ** (int(exponent) + scale)
    return -number if sign else number


def whole_micros(nanos: int) -> int:
    """Return a time of day in microseconds; raises `ValueError` if they are not whole or not within a day."""
    micros, rest = divmod(nanos, 1000)
    if rest:
        raise ValueError("a time is not a whole microsecond")
    if not 0 <= micros < DAY_US:
        raise ValueError("a time is not within a day")
    return micros


def decimal_of(number: int, kind: pa.DataType) -> Decimal:
    """Return a decimal of a type from its unscaled value; raises `ValueError` for too many digits."""
    if abs(number) >= 10**kind.precision:
        raise ValueError("out of the range of its type")
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -kind.scale))


def nanos_of(micros: int) -> int:
    """Return a time of day in nanoseconds; raises `ValueError` if it is not within a day."""
    if not 0 <= micros < DAY_US:
        raise ValueError("out of the range of its type")
    return micros * 1000


def first_value(column: pa.Array) -> Any:
    """Return the first value as a Python value; one beyond date or datetime stays a number, of days or microseconds."""
    try:
        if pa.types.is_timestamp(column.type) and column.type.tz == "UTC":  # pyarrow would import pandas
            moment = column[:1].view(pa.timestamp(column.type.unit))[0].as_py()
            return None if moment is None else moment.replace(tzinfo=UTC)
        return column[0].as_py()
    except (OverflowError, ValueError):
        return column.cast(plain_type(column.type))[0].as_py()
