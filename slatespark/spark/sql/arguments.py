"""`args` of a statement: `:name` and `?` replaced by literals that mean the same in every session of Spark.

Spark takes arguments for a whole statement, but here parts of a statement become expressions of DataFrames.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypeAlias

from slatespark.encoding.predicates.source_span import filter_error
from slatespark.encoding.predicates.tokens import NAME, Token
from slatespark.errors import OptionError
from slatespark.spark.expressions.stored_values import sql_string
from slatespark.spark.local_times import with_zone

Arguments: TypeAlias = dict[str, Any] | list[Any]


def with_literals(statement: str, tokens: Sequence[Token], args: Arguments) -> str:
    """Return a statement with a literal for each of its parameters.

    Parameters
    ----------
    tokens : those of `find_tokens`
    args : values by name, or a list of them

    Raises
    ------
    OptionError
        When a parameter has no argument, there are arguments left, or one cannot be a literal.
    """
    if not isinstance(args, dict | list):
        raise OptionError(f"sql: args is of the type {type(args).__name__}.", todo="Give a dict, or a list.")
    given = args.items() if isinstance(args, dict) else enumerate(args)
    literals: dict[str | int, str] = {name: _literal(name, value) for name, value in given}
    pieces, at, used = list[str](), 0, 0
    for mark, end in _markers(tokens, named=isinstance(args, dict)):
        name: str | int = statement[mark.span.end : end] if isinstance(args, dict) else used
        if name not in literals:
            raise filter_error("this parameter has no argument", mark.span, todo="Give it in args.")
        pieces += [statement[at : mark.span.start], literals[name]]
        at, used = end, used + 1
    if not isinstance(args, dict) and used < len(literals):
        raise OptionError(
            f"sql: args has {len(literals)} values, but the statement has {used} parameters.", todo="Write ? for each."
        )
    return "".join([*pieces, statement[at:]])


def _markers(tokens: Sequence[Token], *, named: bool) -> Iterator[tuple[Token, int]]:
    """Yield the sign of each parameter and the end of it; what stands in a type, as in `STRUCT<a:INT>`, is none."""
    depth = 0
    defines = bool(tokens) and tokens[0].is_word("CREATE")
    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else None
        if token.is_sign("<") and (depth or _begins_type(tokens[max(0, index - 2) : index], defines=defines)):
            depth += 1
        elif token.is_sign(">") and depth:
            depth -= 1
        elif not named and token.is_sign("?"):
            yield token, token.span.end
        elif named and token.is_sign(":") and not depth and index + 1 < len(tokens):
            name = tokens[index + 1]
            is_cast = before is not None and before.is_sign(":") and before.span.end == token.span.start
            if name.kind == NAME and name.span.start == token.span.end and not is_cast:
                yield token, name.span.end


def _begins_type(before: Sequence[Token], *, defines: bool) -> bool:
    """Tell whether a `<` behind these two tokens begins the parts of a type: a column may be called `map`, too.

    Parameters
    ----------
    defines : whether the statement defines columns
    """
    if len(before) < 2 or not before[1].is_word("STRUCT", "ARRAY", "MAP"):
        return False
    return defines or before[0].is_word("AS") or before[0].is_sign(":")


def _literal(name: str | int, value: Any) -> str:
    """Return a value as SQL text that stands alone wherever a parameter may."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return sql_string(str.__str__(value))  # of a member of an enumeration its value, as for Spark
    if isinstance(value, bytes | bytearray):
        return f"X'{bytes(value).hex()}'"
    if isinstance(value, int):
        return f" {int(value)} "  # a sign before it would make a comment of a minus
    if isinstance(value, float):
        return f" {float(value)!r}D " if math.isfinite(value) else f"CAST('{value}' AS DOUBLE)"
    if isinstance(value, Decimal) and value.is_finite():
        return f" {value:f}BD "
    if isinstance(value, datetime):
        return f"TIMESTAMP '{with_zone(value).isoformat()}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    raise OptionError(
        f"sql: args[{name!r}] is of the type {type(value).__name__}.",
        todo="Give text, a number, bytes, a bool, a date, a datetime or None; or write it in the statement.",
    )
