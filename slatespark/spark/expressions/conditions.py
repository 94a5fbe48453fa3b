"""SQL conditions of Spark that mean the same as the option `filter`, so that reads can skip what they exclude."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from slatespark.encoding.predicates import Literal, RowComparison, bind_filter, parse_filter
from slatespark.encoding.predicates.literals import MAX_DIGITS
from slatespark.errors import OptionError, SchemaError
from slatespark.spark.expressions.sql_text import without_qualifier

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UTC: Final = ("UTC", "ETC/UTC", "Z", "GMT", "+00:00")
_LEGACY_LITERALS: Final = {
    re.compile("''"): "spark.sql.legacy.consecutiveStringLiterals.enabled",
    re.compile(r"[\d.]e", re.IGNORECASE): "spark.sql.legacy.exponentLiteralAsDecimal.enabled",
}
_WHOLE_DIGITS: Final = {8: 3, 16: 5, 32: 10, 64: 20}  # of the decimal type that Spark casts an integer type to


def is_filter(condition: object, schema: pa.Schema, spark: SparkSession) -> bool:
    """Tell whether a condition is text that means the same as the option `filter`: it selects only rows that pass.

    The two differ by Spark's settings: a time zone other than UTC, no ANSI mode, variables, and other meanings of
    quotes, backslashes and exponents. They also differ for numbers that Spark rounds to compare them. And Spark takes
    some comparisons with numbers outside a column's range for true, even for null.

    Parameters
    ----------
    schema : the columns that may be named
    """
    if not isinstance(condition, str) or not is_on(spark, "spark.sql.ansi.enabled"):
        return False
    if '"' in condition or "\\" in condition or _has_legacy_meaning(condition, spark):
        return False
    try:
        comparisons = parse_filter(condition)
        columns = bind_filter(comparisons, schema).columns
    except (OptionError, SchemaError):
        return False
    types = {field.name.lower(): field.type for field in schema}
    for item in comparisons:
        # Spark compares rows only if their fields have the same names and types.
        if isinstance(item, RowComparison) or not _compares_exactly(item.literals, types[item.column.lower()]):
            return False
    return is_in_utc(spark) or not any(pa.types.is_temporal(schema.field(name).type) for name in columns)


def filter_text(condition: str, alias: str | None) -> str:
    """Return the text of a condition as the option `filter`, without the alias of the table before names.

    Raises
    ------
    OptionError
        When the filter does not take it.
    """
    plain = without_qualifier(condition, alias)
    try:
        parse_filter(plain)
    except OptionError as exc:
        todo = f"{exc.todo} Give any other condition as a Column: expr('...')."
        raise OptionError(exc.args[0], why=exc.why, todo=todo.strip()) from exc
    return plain


def is_in_utc(spark: SparkSession) -> bool:
    """Tell whether Spark reads times without an offset as UTC."""
    return str(spark.conf.get("spark.sql.session.timeZone")).upper() in _UTC


def _has_legacy_meaning(condition: str, spark: SparkSession) -> bool:
    """Tell whether Spark replaces variables in a text, or an old setting gives a literal in it another meaning."""
    if "${" in condition:
        return True
    return any(
        pattern.search(condition) and str(spark.conf.get(setting, "false")).lower() == "true"
        for pattern, setting in _LEGACY_LITERALS.items()
    )


def narrowing(condition: object, schema: pa.Schema, spark: SparkSession, alias: str | None) -> dict[str, str]:
    """Return the read option that excludes only rows for which a condition is not true; Spark still decides.

    Parameters
    ----------
    schema : the columns that may be named
    alias : the alias of the table, by which the condition may call its columns; None without one
    """
    if not isinstance(condition, str):
        return {}
    # Where case counts, a column may be called like the alias but for its case.
    plain = condition if is_case_sensitive(spark) else without_qualifier(condition, alias)
    return {"filter": plain} if is_filter(plain, schema, spark) else {}


def is_case_sensitive(spark: SparkSession) -> bool:
    """Tell whether Spark distinguishes names that differ only in case."""
    return is_on(spark, "spark.sql.caseSensitive")


def is_on(spark: SparkSession, setting: str) -> bool:
    """Tell whether a setting of the session, which every release has, is true."""
    return str(spark.conf.get(setting)).lower() == "true"


def _compares_exactly(literals: Sequence[Literal], kind: pa.DataType) -> bool:
    """Tell whether Spark compares a column with numbers unrounded, in a type that holds all of them."""
    if not (pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
        return True
    numbers = [literal.value for literal in literals if isinstance(literal.value, Fraction | float)]
    if pa.types.is_decimal(kind):
        whole, scale = kind.precision - kind.scale, kind.scale
    else:
        whole, scale = _WHOLE_DIGITS[kind.bit_width], 0
        limit = 1 << kind.bit_width - 1
        if not all(-limit <= number < limit for number in numbers):
            return False
    exact = [number for number in numbers if isinstance(number, Fraction)]
    whole = max([whole, *(len(str(abs(int(number)))) for number in exact)])
    return bool(whole + max([scale, *map(_scale, exact)]) <= MAX_DIGITS)


def _scale(number: Fraction) -> int:
    """Return how many decimal places a number has."""
    return next(digits for digits in range(MAX_DIGITS + 1) if 10**digits % number.denominator == 0)
