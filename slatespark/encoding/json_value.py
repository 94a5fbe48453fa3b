"""Value columns of rows as JSON objects in UTF-8, and back: for tables that are to be read by eye, or by anything.

A null column is left out, unknown members are passed over. What JSON has no type for is text or a number, see
docs/reference/value-encoding.md. Everything happens row by row in Python.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slatespark.encoding.json_types import Number, json_of, value_of
from slatespark.encoding.plain_values import NOT_A_VALUE, python_chunks
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
    count : rows; may be left out where there is a column

    Raises
    ------
    SchemaError
        Naming the column: null where it is not nullable, text that is no UTF-8, a time that is no whole microsecond.
    """
    if count is None:
        if not arrays:
            raise InternalError("Rows without value columns cannot be counted.")
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

    A row that is MALFORMED, and a tombstone, which is FINE, is null in all columns.
    """
    kinds = {item.name: item.type for item in fields}
    takes = [(name, value_of(kinds[name])) for name in wanted]
    deleted = (gather_fields(sources, rows).flags & TOMBSTONE) != 0
    offsets, data = gather_values(sources, rows)
    status = np.full(len(rows), FINE, np.uint8)
    columns: dict[str, list[Any]] = {name: [None] * len(rows) for name in wanted}
    for number in np.flatnonzero(~deleted).tolist():
        try:
            found = _object(data[offsets[number] : offsets[number + 1]].tobytes())
            items = [None if found.get(name) is None else take(found[name]) for name, take in takes]
        except NOT_A_VALUE:
            status[number] = MALFORMED
            continue
        for name, item in zip(wanted, items, strict=True):
            columns[name][number] = item
    return {name: pa.array(column, kinds[name]) for name, column in columns.items()}, status


def _add_members(rows: list[dict[str, Any]], array: pa.Array | pa.ChunkedArray, item: pa.Field) -> None:
    if array.null_count and not item.nullable:
        raise SchemaError(
            f"Column {item.name} is not nullable and has {array.null_count} nulls.",
            todo="Fill them, or leave out the rows.",
        )
    write = json_of(item.type)
    for start, values in python_chunks(array, item.name):
        for number, value in enumerate(values, start):
            if value is not None:
                try:
                    rows[number][item.name] = write(value)
                except NOT_A_VALUE as exc:
                    raise SchemaError(f"Column {item.name} holds a value that cannot be stored: {exc}.") from exc


def _object(data: bytes) -> dict[str, Any]:
    found = json.loads(data.decode(), parse_float=Number, parse_constant=_no_number)
    if not isinstance(found, dict):
        raise TypeError("no JSON object")
    return found


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
