"""The part of a Polars predicate that a read can use, as the option `filter`.

It may keep rows that the predicate drops, never the other way: Polars still decides. What is not known here is left
out, since Polars promises nothing about the form of its expressions.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from slatespark.encoding.predicates.condition_text import MIRRORED, compared, listed

_SIGNS: Final = {"Eq": "=", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_BETWEEN: Final = {"Both": (">=", "<="), "Left": (">=", "<"), "Right": (">", "<="), "None": (">", "<")}
_EPOCH: Final = dt.date(1970, 1, 1)


def find_filter(expression: str, schema: pa.Schema) -> str | None:
    """Return conditions that all rows fulfil for which an expression is true; None if none are known.

    Parameters
    ----------
    expression : expression as Polars writes it in JSON
    """
    try:
        return " AND ".join(_conditions(json.loads(expression), schema)) or None
    except RecursionError:  # a chain of hundreds of terms is as many levels deep
        return None


def _conditions(expression: Any, schema: pa.Schema) -> Iterator[str]:
    match expression:
        case {"BinaryExpr": {"left": left, "op": "And", "right": right}}:
            yield from _conditions(left, schema)
            yield from _conditions(right, schema)
        case {"BinaryExpr": {"left": {"Column": str(name)}, "op": str(op), "right": literal}} if op in _SIGNS:
            yield from _compared(name, _SIGNS[op], literal, schema)
        case {"BinaryExpr": {"left": literal, "op": str(op), "right": {"Column": str(name)}}} if op in _SIGNS:
            yield from _compared(name, MIRRORED[_SIGNS[op]], literal, schema)
        case {
            "Function": {
                "input": [{"Column": str(name)}, low, high],
                "function": {"Boolean": {"IsBetween": {"closed": str(closed)}}},
            }
        } if closed in _BETWEEN:
            for sign, literal in zip(_BETWEEN[closed], (low, high), strict=True):
                yield from _compared(name, sign, literal, schema)
        case {
            "Function": {
                "input": [{"Column": str(name)}, {"Literal": {"Scalar": {"List": list(stored)}}}],
                "function": {"Boolean": {"IsIn": {"nulls_equal": False}}},
            }
        }:
            yield from _listed(name, stored, schema)


def _compared(name: str, sign: str, literal: Any, schema: pa.Schema) -> Iterator[str]:
    value = _value(literal)
    text = None if value is None else compared(name, sign, value, schema)
    if text is not None:
        yield text


def _listed(name: str, stored: Sequence[int], schema: pa.Schema) -> Iterator[str]:
    """Yield the condition of `is_in`; the list is an Arrow stream of one column."""
    try:
        values = pa.ipc.open_stream(bytes(stored)).read_all().column(0).to_pylist()
    except (pa.ArrowException, ValueError, TypeError, IndexError):
        return
    text = listed(name, [value for value in values if value is not None], schema)  # null is in no list
    if text is not None:
        yield text


def _value(literal: Any) -> int | str | dt.date | None:
    """Return the value of a literal; None if it is of a kind that is not known."""
    match literal:
        case {"Literal": {"Dyn": {"Int": int(number)}}}:
            return number
        case {"Literal": {"Scalar": {"String": str(text)}}}:
            return text
        case {"Literal": {"Scalar": {"Date": int(days)}}}:
            try:
                return _EPOCH + dt.timedelta(days=days)
            except OverflowError:
                return None
        case {"Literal": {"Scalar": Mapping() as scalar}} if len(scalar) == 1:
            [(kind, number)] = scalar.items()
            is_whole = str(kind).startswith(("Int", "UInt")) and isinstance(number, int)
            return number if is_whole and not isinstance(number, bool) else None
    return None
