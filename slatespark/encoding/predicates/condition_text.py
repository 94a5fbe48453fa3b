"""Conditions of other libraries as text of the option `filter`: comparisons of a column with constants.

Only what means the same there and here: whole numbers, strings, bytes and dates. None stands for what is not known.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as kinds

MIRRORED: Final = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

_MOST_LISTED: Final = 100_000
_BIGGEST: Final = 1 << 63


def compared(name: str, sign: str, value: object, schema: pa.Schema) -> str | None:
    """Return `column sign value` as text.

    Parameters
    ----------
    name, schema : the column, and those of the table
    sign : `=`, `<`, `<=`, `>` or `>=`
    """
    text = _text(value, _type(name, schema))
    return None if text is None else f"{_quoted(name)} {sign} {text}"


def listed(name: str, values: Sequence[object], schema: pa.Schema) -> str | None:
    """Return `column IN (values)` as text; none if a value is null, which other libraries may find in a list."""
    if len(values) > _MOST_LISTED:
        return None
    texts = [_text(value, _type(name, schema)) for value in values]
    known = [text for text in texts if text is not None]
    return f"{_quoted(name)} IN ({', '.join(known)})" if known and len(known) == len(texts) else None


def _text(value: Any, kind: pa.DataType | None) -> str | None:
    """Return a value as text; None if a column of this type is not compared with it."""
    if kind is None or isinstance(value, bool | dt.datetime):
        return None
    if kinds.is_integer(kind) and isinstance(value, int):
        return str(value) if -_BIGGEST <= value < _BIGGEST else None
    if kinds.is_string(kind) and isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"
    if kinds.is_binary(kind) and isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if kinds.is_date(kind) and isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    return None


def _type(name: str, schema: pa.Schema) -> pa.DataType | None:
    return schema.field(name).type if name in schema.names else None


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
