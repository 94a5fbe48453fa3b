"""Filters that Spark pushes down, as slatespark's comparisons; the rest stays with Spark."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from slatespark.encoding.predicates import Comparison, Literal, bind_filter, operators
from slatespark.encoding.predicates import literals as kinds
from slatespark.errors import OptionError

_DOES: Final[dict[type[Filter], str]] = {
    EqualTo: operators.EQ,
    EqualNullSafe: operators.NULL_SAFE_EQ,
    GreaterThan: operators.GT,
    GreaterThanOrEqual: operators.GE,
    LessThan: operators.LT,
    LessThanOrEqual: operators.LE,
    In: operators.IN,
    IsNull: operators.IS_NULL,
    IsNotNull: operators.IS_NOT_NULL,
    StringStartsWith: operators.STARTS_WITH,
}
_NEGATED: Final = {  # true where the other is false, so never for null; `<=>` is false for null and has no negation
    operators.EQ: operators.NE,
    operators.GT: operators.LE,
    operators.GE: operators.LT,
    operators.LT: operators.GE,
    operators.LE: operators.GT,
    operators.IN: operators.NOT_IN,
    operators.IS_NULL: operators.IS_NOT_NULL,
    operators.IS_NOT_NULL: operators.IS_NULL,
}
# PySpark rounds literals to 28 digits, and Spark hands dates and times over by way of the calendar of old Java classes,
# which differs from slatespark's before 1900. So such literals may not be those of the query.
_EXACT_DIGITS: Final = 27
_EXACT_SINCE: Final = datetime.date(1900, 1, 2)  # a day later, since those classes have local times
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_US: Final = datetime.timedelta(microseconds=1)


def split_filters(filters: Sequence[Filter], schema: pa.Schema) -> tuple[list[Comparison], list[Filter]]:
    """Return the comparisons that a read evaluates exactly, and the filters that Spark must evaluate.

    Parameters
    ----------
    filters : joined by AND
    schema : the columns of the read
    """
    taken: list[Comparison] = []
    left: list[Filter] = []
    for item in filters:
        comparison = _comparison(item)
        if comparison is not None and _fits(comparison, schema):
            taken.append(comparison)
        else:
            left.append(item)
    return taken, left


def _fits(comparison: Comparison, schema: pa.Schema) -> bool:
    try:
        bind_filter([comparison], schema)
    except OptionError:
        return False
    return True


def _comparison(item: Filter) -> Comparison | None:
    if isinstance(item, Not):
        positive = _comparison(item.child)
        negated = _NEGATED.get(positive.operator) if positive is not None else None
        return None if positive is None or negated is None else Comparison(positive.column, negated, positive.literals)
    word = _DOES.get(type(item))
    path: tuple[str, ...] = getattr(item, "attribute", ())
    if word is None or len(path) != 1:  # a longer path is a field of a struct
        return None
    values = list(item.value) if isinstance(item, In) else [item.value] if hasattr(item, "value") else []
    found = [_literal(value) for value in values]
    literals = [literal for literal in found if literal is not None]
    return Comparison(path[0], word, tuple(literals)) if len(literals) == len(found) else None


def _literal(value: Any) -> Literal | None:
    """Return a Python value from Spark as a literal.

    None for types without literals, such as arrays, and for values that Spark may have changed.
    """
    if isinstance(value, Decimal) and len(value.as_tuple().digits) > _EXACT_DIGITS:
        return None
    if isinstance(value, datetime.date) and value.timetuple()[:3] < _EXACT_SINCE.timetuple()[:3]:
        return None
    for kind, cls, convert in _LITERALS:
        if isinstance(value, cls):
            return Literal(kind, convert(value))
    return None


def _micros(value: datetime.datetime) -> int:
    aware = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)  # a TIMESTAMP_NTZ
    return (aware - _EPOCH) // _US


def _days(value: datetime.date) -> int:
    return value.toordinal() - _EPOCH.toordinal()


_LITERALS: Final[tuple[tuple[str, type[Any], Callable[[Any], Any]], ...]] = (  # bool is an int, datetime is a date
    (kinds.NULL, type(None), lambda value: value),
    (kinds.BOOLEAN, bool, bool),
    (kinds.NUMBER, int, Fraction),
    (kinds.NUMBER, Decimal, Fraction),
    (kinds.DOUBLE, float, float),
    (kinds.STRING, str, str),
    (kinds.BINARY, bytes, bytes),
    (kinds.BINARY, bytearray, bytes),
    (kinds.TIMESTAMP, datetime.datetime, _micros),
    (kinds.DATE, datetime.date, _days),
)
