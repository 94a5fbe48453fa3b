"""Comparison of literals with columns: the ordinals of a column that equal a literal by Spark's ANSI rules.

| column | literal | compared as |
| --- | --- | --- |
| integer, decimal | integer, decimal | exact numbers |
| integer, decimal | double, float | DOUBLE |
| integer | string | BIGINT |
| decimal | string | DOUBLE |
| float, double | any number, string | DOUBLE |
| boolean, date, timestamp, binary | string | the column's type |
| string | binary | BINARY |
| date, timestamp | date, timestamp | TIMESTAMP in UTC |
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final

import pyarrow as pa

from slatespark.encoding.predicates.datetimes import BLANKS, parse_date, parse_timestamp
from slatespark.encoding.predicates.intervals import Interval
from slatespark.encoding.predicates.literals import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    EXAMPLES,
    NULL,
    NUMBER,
    STRING,
    TIME,
    TIMESTAMP,
    Literal,
    describe_literal,
)
from slatespark.encoding.predicates.ordering import (
    first_double_at_least,
    float_ordinal,
    has_bytes,
    is_float32,
    universe,
)
from slatespark.encoding.predicates.source_span import filter_error
from slatespark.encoding.type_names import sql_type
from slatespark.errors import OptionError
from slatespark.units import DAY_US

_INTEGER: Final = re.compile(r"[+-]?\d{1,40}", re.ASCII)
_DOUBLE: Final = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf|infinity)|nan", re.ASCII | re.IGNORECASE)
_TRUE: Final = ("t", "true", "y", "yes", "1")
_FALSE: Final = ("f", "false", "n", "no", "0")


def compares_as_double(literals: Sequence[Literal], field: pa.Field) -> bool:
    """Tell whether the literals of a list are compared as DOUBLE: Spark gives all of them one type.

    Raises
    ------
    OptionError
        When a list mixes strings with other literals: the common type would change the meaning of the strings.
    """
    known = [literal for literal in literals if literal.kind != NULL]
    strings = [literal for literal in known if literal.kind == STRING]
    if strings and len(strings) < len(known) and not has_bytes(field.type):
        raise filter_error(
            "the list mixes strings and other literals", strings[0].span, todo="Use literals of one type."
        )
    return any(literal.kind == DOUBLE for literal in known)


def equal_ordinals(literal: Literal, field: pa.Field, *, as_double: bool = False) -> Interval:
    """Return the interval of ordinals of a column that equal a literal.

    Parameters
    ----------
    literal : a literal other than NULL
    field : the column
    as_double : whether the list of the literal is compared as DOUBLE

    Returns
    -------
    `[start, end)`. If no value equals the literal, it is empty and lies between the smaller and the larger values.

    Raises
    ------
    OptionError
        When the two cannot be compared, or the literal is not a value of the column's type.
    """
    kind = field.type
    if has_bytes(kind):
        return _equal_bytes(literal, field)
    if pa.types.is_boolean(kind):
        value = _boolean(literal, field)
        return int(value), value + 1
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_floating(kind):
        return _equal_numbers(literal, field, as_double=as_double)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _equal_instants(literal, field)
    if pa.types.is_time(kind):
        return _equal_times(literal, field)
    raise filter_error(
        f"column {field.name} is {sql_type(field)}, which cannot be compared with literals",
        literal.span,
        todo="Use IS NULL or IS NOT NULL, or filter after the read.",
    )


# --- bytes, booleans --------------------------------------------------------------------------------------------------


def _equal_bytes(literal: Literal, field: pa.Field) -> Interval:
    if literal.kind not in (STRING, BINARY):
        raise _cannot_compare(literal, field, "Write the literal in quotes.")
    data = literal.value.encode() if literal.kind == STRING else literal.value
    return data, data + b"\0"


def _boolean(literal: Literal, field: pa.Field) -> bool:
    if literal.kind == BOOLEAN:
        return bool(literal.value)
    if literal.kind != STRING:
        raise _cannot_compare(literal, field, "Write true or false.")
    text = literal.value.strip(BLANKS).lower()
    if text not in (*_TRUE, *_FALSE):
        raise _invalid_value(literal, field, "Write true or false.")
    return text in _TRUE


# --- numbers ----------------------------------------------------------------------------------------------------------


def _equal_numbers(literal: Literal, field: pa.Field, *, as_double: bool) -> Interval:
    value: Any = literal.value
    if literal.kind == STRING:
        value = _integer(literal, field) if pa.types.is_integer(field.type) else _double(literal, field)
    elif literal.kind not in (NUMBER, DOUBLE):
        raise _cannot_compare(literal, field, "Compare it with a number.")
    if isinstance(value, float) or as_double or pa.types.is_floating(field.type):
        return _equal_as_double(float(value), field.type)
    return _equal_exactly(value, field.type)


def _equal_exactly(value: Fraction, kind: pa.DataType) -> Interval:
    """Return the ordinals equal to a number among integers or decimals, clipped to the range of the type."""
    unscaled = value * 10**kind.scale if pa.types.is_decimal(kind) else value
    return _clip(math.ceil(unscaled), math.floor(unscaled) + 1, kind)


def _equal_as_double(value: float, kind: pa.DataType) -> Interval:
    if pa.types.is_float64(kind) or (pa.types.is_float32(kind) and is_float32(value)):
        ordinal = float_ordinal(value, kind)
        return ordinal, ordinal + 1
    return first_double_at_least(value, kind), first_double_at_least(value, kind, above=True)


def _clip(start: int, end: int, kind: pa.DataType) -> Interval:
    low, high = universe(kind)
    return min(max(start, low), high), max(min(end, high), low)


def _integer(literal: Literal, field: pa.Field) -> Fraction:
    text = literal.value.strip(BLANKS)
    if _INTEGER.fullmatch(text) is None or not -(2**63) <= int(text) < 2**63:
        raise _invalid_value(literal, field, "Write a whole number.")
    return Fraction(int(text))


def _double(literal: Literal, field: pa.Field) -> float:
    text = literal.value.strip(BLANKS)
    if _DOUBLE.fullmatch(text) is None:
        raise _invalid_value(literal, field, "Write a number, 'NaN' or 'Infinity'.")
    return float(text)


# --- times ------------------------------------------------------------------------------------------------------------


def _equal_instants(literal: Literal, field: pa.Field) -> Interval:
    is_date = pa.types.is_date(field.type)
    if literal.kind == STRING:
        kind = DATE if is_date else TIMESTAMP
        text = literal.value
        with_offset = field.type.tz is not None if not is_date else True
        value = parse_date(text) if is_date else parse_timestamp(text, with_offset=with_offset)
        if value is None:
            raise _invalid_value(literal, field, EXAMPLES[kind])
        return value, value + 1
    if literal.kind not in (DATE, TIMESTAMP):
        raise _cannot_compare(literal, field, "Write it as a string.")
    if is_date:
        if literal.kind == DATE:
            return literal.value, literal.value + 1
        return _clip(-(-literal.value // DAY_US), literal.value // DAY_US + 1, field.type)
    us = literal.value if literal.kind == TIMESTAMP else literal.value * DAY_US
    return _clip(us, us + 1, field.type)


def _equal_times(literal: Literal, field: pa.Field) -> Interval:
    if literal.kind != TIME:  # Spark does not cast strings to TIME
        raise _cannot_compare(literal, field, "Write it like TIME '12:30:00'.")
    return literal.value, literal.value + 1


# --- errors -----------------------------------------------------------------------------------------------------------


def _cannot_compare(literal: Literal, field: pa.Field, todo: str) -> OptionError:
    what = f"column {field.name} is {sql_type(field)} and cannot be compared with {describe_literal(literal)}"
    return filter_error(what, literal.span, todo=todo)


def _invalid_value(literal: Literal, field: pa.Field, todo: str) -> OptionError:
    return filter_error(
        f"{literal.value!r} is not a valid {sql_type(field)} for column {field.name}", literal.span, todo=todo
    )
