"""Column lists as SQL writes them: `tenant STRING, id BIGINT NOT NULL, tags ARRAY<STRING>` -> an Arrow schema.

The inverse of `type_names.sql_type`, for callers without Spark; Spark parses its own DDL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from slatespark.encoding.column_types import VARIANT, list_of, map_of
from slatespark.encoding.type_names import TYPE_NAMES, flat_type
from slatespark.errors import SchemaError

_NESTED: Final = ("ARRAY<type>", "MAP<type,type>", "STRUCT<name: type>", "VARIANT")
_NAME: Final = re.compile(r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>[^\s`:,<>()]+))\s*(?P<colon>:?)")
_NOT_NULL: Final = re.compile(r"\s+NOT\s+NULL\s*\Z", re.IGNORECASE)
_OPEN, _CLOSE = "<(", ">)"


def parse_columns(text: str) -> pa.Schema:
    """Return the columns of a comma list; a name with other letters is quoted with backticks.

    Raises
    ------
    SchemaError
        When a column has no type, or one that does not exist, or the text is not valid Unicode.
    """
    try:
        text.encode()  # a command line may bring any bytes
    except UnicodeEncodeError as exc:
        raise SchemaError(f"{text!r} is not valid Unicode.", todo="Write the columns in UTF-8.") from exc
    try:
        return pa.schema([_column(part) for part in _parts(text)])
    except RecursionError as exc:
        raise SchemaError(f"The types in {text[:40]!r}... are nested too deeply.") from exc


def _column(text: str) -> pa.Field:
    name, rest = _name_and_type(text)
    kind = _NOT_NULL.sub("", rest)
    return pa.field(name, _type(kind, name), nullable=kind == rest)


def _name_and_type(text: str) -> tuple[str, str]:
    found = _NAME.match(text)
    if found is None or not text[found.end() :].strip():
        raise SchemaError(f"{text.strip()!r} is not a column.", todo="Write it like: id BIGINT NOT NULL.")
    quoted = found["quoted"]
    return found["plain"] if quoted is None else quoted.replace("``", "`"), text[found.end() :]


def _type(text: str, column: str) -> pa.DataType:
    """Return the type of a column, or of a part of it."""
    plain = text.strip()
    head, bracket, tail = plain.partition("<")
    if not bracket:
        kind = VARIANT if plain.upper() == "VARIANT" else flat_type(plain)
        if kind is None:
            raise _unknown_type(plain, column)
        return kind
    if not tail.endswith(">"):
        raise _unknown_type(plain, column)
    parts = list(_parts(tail[:-1]))
    match head.strip().upper(), len(parts):
        case "ARRAY", 1:
            return list_of(_type(parts[0], column))
        case "MAP", 2:
            return map_of(_type(parts[0], column), _type(parts[1], column))
        case "STRUCT", _:
            fields = (_name_and_type(part) for part in parts)
            return pa.struct([pa.field(name, _type(kind, f"{column}.{name}")) for name, kind in fields])
        case _:
            raise _unknown_type(plain, column)


def _parts(text: str) -> Iterator[str]:
    """Yield the parts between commas that are in no brackets and no quotes."""
    depth = start = 0
    is_quoted = False
    for at, letter in enumerate(text):
        is_quoted ^= letter == "`"
        if is_quoted:
            continue
        depth += (letter in _OPEN) - (letter in _CLOSE)
        if letter == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    yield text[start:]


def _unknown_type(text: str, column: str) -> SchemaError:
    return SchemaError(
        f"Column {column}: there is no type {text!r}.", todo=f"Choose from {', '.join((*TYPE_NAMES, *_NESTED))}."
    )
