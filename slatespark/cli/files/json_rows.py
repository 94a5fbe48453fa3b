"""JSON objects -> record batches with the columns of a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, BinaryIO, Final, TypeAlias

import pyarrow as pa

from slatespark.cli.files.input_values import array_of_json
from slatespark.cli.files.target_columns import TargetColumns
from slatespark.encoding.plain_values import VALUE_ERRORS
from slatespark.errors import InvalidRequestError, SchemaError

CHUNK_ROWS: Final = 8192
CHUNK_BYTES: Final = 8 << 20
MAX_LINE_BYTES: Final = 256 << 20  # memory is several times this

NumberedObject: TypeAlias = tuple[int, dict[str, Any]]


def read_chunks(stream: BinaryIO, where: str, parse_float: Callable[[str], Any]) -> Iterator[list[NumberedObject]]:
    """Yield the JSON objects of a stream, one per line, in chunks of bounded size; empty lines are skipped.

    Parameters
    ----------
    where : the file, for messages
    parse_float : converts numbers with fractions

    Raises
    ------
    InvalidRequestError
        Naming the line that is too long, or is not an object.
    """
    chunk: list[NumberedObject] = []
    chunk_bytes = number = 0
    while line := stream.readline(MAX_LINE_BYTES):
        number += 1
        if len(line) == MAX_LINE_BYTES:
            raise InvalidRequestError(
                f"{where}: line {number} is longer than {MAX_LINE_BYTES:,} bytes.", todo="Use Parquet for such rows."
            )
        if line.strip():
            chunk.append((number, parse_object(line, f"{where}: line {number}", parse_float)))
            chunk_bytes += len(line)
        if len(chunk) == CHUNK_ROWS or chunk_bytes >= CHUNK_BYTES:
            yield chunk
            chunk, chunk_bytes = [], 0
    if chunk:
        yield chunk


def parse_object(text: str | bytes, where: str, parse_float: Callable[[str], Any] = Decimal) -> dict[str, Any]:
    """Return the JSON object in a text.

    Raises
    ------
    InvalidRequestError
        When it is not a JSON object.
    """
    try:
        item = json.loads(text, parse_float=parse_float, parse_constant=Decimal)
    except (ValueError, RecursionError) as exc:
        raise InvalidRequestError(f"{where} is not JSON: {exc}.") from exc
    except ArithmeticError as exc:  # of `Decimal`
        raise InvalidRequestError(f"{where} has a number with too large an exponent.") from exc
    if not isinstance(item, dict):
        raise InvalidRequestError(f"{where} is not a JSON object.", todo="Write one object per line.")
    return item


def as_table_spells(rows: Sequence[NumberedObject], target: TargetColumns, where: str) -> list[NumberedObject]:
    """Return numbered objects with the names of their members as the table spells them; case does not matter.

    Parameters
    ----------
    where : prefix of the number in messages

    Raises
    ------
    SchemaError
        When two members of an object are one column.
    """
    known = () if target.schema is None else target.schema.names
    exact, by_lower = frozenset(known), {name.lower(): name for name in known}
    return [
        (number, item if item.keys() <= exact else _spelled(item, by_lower, f"{where}{number}"))
        for number, item in rows
    ]


def _spelled(item: Mapping[str, Any], by_lower: Mapping[str, str], where: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for given, value in item.items():
        name = by_lower.get(given.lower(), given)
        if name in found:
            raise SchemaError(f"{where} has column {name} twice.", todo="Give it once, in any case.")
        found[name] = value
    return found


def has_decimals(schema: pa.Schema, types: Mapping[str, pa.DataType]) -> bool:
    """Tell whether numbers with fractions must keep all their digits."""
    return any("decimal" in str(kind) for kind in (*schema.types, *types.values()))


def schema_of_objects(items: Sequence[Mapping[str, Any]], target: TargetColumns) -> pa.Schema:
    """Return the columns of objects: those of the table, then further members in order of appearance.

    Raises
    ------
    SchemaError
        When a member is not a column of the table, or its values have no common type.
    """
    names: dict[str, None] = dict.fromkeys(target.schema.names if target.schema is not None else ())
    for item in items:
        names.update(dict.fromkeys(item))
    return pa.schema([pa.field(name, target.type_of(name) or _infer_type(items, name)) for name in names])


def _infer_type(items: Sequence[Mapping[str, Any]], name: str) -> pa.DataType:
    try:
        kind = pa.infer_type([_with_floats(item.get(name)) for item in items])
    except VALUE_ERRORS as exc:
        raise SchemaError(f"Column {name}: its type cannot be inferred: {exc}.", todo="Give it with --type.") from exc
    return pa.string() if pa.types.is_null(kind) else kind


def _with_floats(value: Any) -> Any:
    """Return a value with `Decimal` replaced by float, for type inference."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, list):
        return [_with_floats(item) for item in value]
    return {name: _with_floats(item) for name, item in value.items()} if isinstance(value, dict) else value


def batch_of_objects(
    rows: Sequence[tuple[int, Mapping[str, Any]]], schema: pa.Schema, target: TargetColumns, where: str
) -> pa.RecordBatch:
    """Return numbered objects as a batch.

    Parameters
    ----------
    where : prefix of the number in messages

    Raises
    ------
    SchemaError
        When an object has an unknown member, lacks a required one, or a value does not fit.
    """
    keys = {name for name in schema.names if name.lower() in target.keys}
    may_lack = target.schema is None or target.adds_columns or target.deletes
    required = keys if may_lack else set(schema.names)
    for number, item in rows:
        if unknown := item.keys() - set(schema.names):
            target.type_of(min(unknown))
            raise SchemaError(
                f"{where}{number} has a member {min(unknown)!r} that no earlier object had.",
                todo="Give one of the first objects this member.",
            )
        if missing := required - item.keys():
            raise SchemaError(
                f"{where}{number} has no member {min(missing)!r}.",
                why="It is part of the key." if min(missing) in keys else "The whole row would be replaced.",
                todo="Add it." if min(missing) in keys else "Add it, or use --merge-schema to store null.",
            )
    first = rows[0][0] if rows else 1
    arrays = [
        array_of_json([row.get(item.name) for _, row in rows], item, as_text=target.as_text, first_row=first)
        for item in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
