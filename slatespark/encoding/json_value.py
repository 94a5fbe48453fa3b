"""Value columns of rows to JSON objects in UTF-8 and back, for tables that people or any program should read.

Null columns are omitted, unknown members ignored. Types that JSON lacks are text or numbers, see
docs/reference/value-encoding.md. All of it runs row by row in Python.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slatespark.encoding.json_types import JsonNumber, from_json, to_json
from slatespark.encoding.plain_values import VALUE_ERRORS, python_chunks
from slatespark.errors import InternalError, SchemaError
from slatespark.kernels import TOMBSTONE, RowColumns, gather_fields, gather_values
from slatespark.kernels.avro_program import FINE, MALFORMED

__all__ = ["decode_json_values", "encode_json_values"]


def encode_json_values(
    arrays: Sequence[pa.Array | pa.ChunkedArray], fields: Sequence[pa.Field], *, count: int | None = None
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return rows as JSON objects: bytes and (n + 1,) offsets.

    Parameters
    ----------
    arrays : the columns, of the types of `fields`
    fields : the value columns
    count : number of rows; optional if there is a column

    Raises
    ------
    SchemaError
        When a column holds a null though it is not nullable, invalid UTF-8, or a time that is not a whole microsecond.
    """
    if count is None:
        if not arrays:
            raise InternalError("Rows without value columns need a count.")
        count = len(arrays[0])
    rows: list[dict[str, Any]] = [{} for _ in range(count)]
    for array, item in zip(arrays, fields, strict=True):
        _add_members(rows, array, item)
    dump = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=False).encode
    values = [dump(row).encode() for row in rows]
    return np.frombuffer(b"".join(values), np.uint8), np.cumsum([0, *map(len, values)], dtype=np.int64)


def decode_json_values(
    sources: Sequence[RowColumns], rows: NDArray[np.int64], *, fields: Sequence[pa.Field], wanted: Sequence[str]
) -> tuple[dict[str, pa.Array], NDArray[np.uint8]]:
    """Return the wanted columns of packed rows, and (m,) FINE or MALFORMED.

    MALFORMED rows are null in all columns, and so are tombstones, which are FINE.
    """
    kinds = {item.name: item.type for item in fields}
    converts = [(name, from_json(kinds[name])) for name in wanted]
    deleted = (gather_fields(sources, rows).flags & TOMBSTONE) != 0
    offsets, data = gather_values(sources, rows)
    status = np.full(len(rows), FINE, np.uint8)
    columns: dict[str, list[Any]] = {name: [None] * len(rows) for name in wanted}
    for number in np.flatnonzero(~deleted).tolist():
        try:
            found = _object(data[offsets[number] : offsets[number + 1]].tobytes())
            items = [None if found.get(name) is None else convert(found[name]) for name, convert in converts]
        except VALUE_ERRORS:
            status[number] = MALFORMED
            continue
        for name, item in zip(wanted, items, strict=True):
            columns[name][number] = item
    return {name: pa.array(column, kinds[name]) for name, column in columns.items()}, status


def _add_members(rows: list[dict[str, Any]], array: pa.Array | pa.ChunkedArray, item: pa.Field) -> None:
    if array.null_count and not item.nullable:
        raise SchemaError(
            f"Column {item.name} is not nullable and has {array.null_count} nulls.",
            todo="Fill them, or drop the rows.",
        )
    convert = to_json(item.type)
    for start, values in python_chunks(array, item.name):
        for number, value in enumerate(values, start):
            if value is not None:
                try:
                    rows[number][item.name] = convert(value)
                except VALUE_ERRORS as exc:
                    raise SchemaError(f"Column {item.name} holds a value that cannot be stored: {exc}.") from exc


def _object(data: bytes) -> dict[str, Any]:
    found = json.loads(data.decode(), parse_float=JsonNumber, parse_constant=_refuse_constant)
    if not isinstance(found, dict):
        raise TypeError("not a JSON object")
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
