"""Nested columns (lists, maps, structs, VARIANT) to the Avro bytes of each row's value.

Kernels encode them (`nested_assembly`), a chunk at a time. Python encodes a chunk with a value that is not allowed, and
names it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from slatespark.encoding.avro_resolution import without_null
from slatespark.encoding.nested_assembly import assembled
from slatespark.encoding.plain_values import VALUE_ERRORS, python_values, unscaled, valid_chunks, whole_micros
from slatespark.encoding.without_pandas import numpy_of
from slatespark.errors import SchemaError
from slatespark.kernels.avro_program import NOT_NULLABLE
from slatespark.kernels.flat import BYTES, FlatColumn

Put = Callable[[bytearray, Any], None]


def encode_nested(array: pa.Array | pa.ChunkedArray, avro_type: Any, name: str) -> FlatColumn:
    """Return each row's value as Avro bytes.

    Parameters
    ----------
    array : array of lists, maps or structs
    avro_type : type of the column in `avro_schema`, without the null of the union
    name : the column, for messages

    Raises
    ------
    SchemaError
        When a part holds a null though it is not nullable, text is invalid UTF-8, or a map repeats a key.
    """
    put = _putter(array.type, avro_type)
    columns = []
    for chunk in valid_chunks(array, name):
        column = assembled(chunk, avro_type)
        columns.append(_put_all(chunk, put, name) if column is None else column)
    return _joined(columns, has_nulls=array.null_count > 0)


def _put_all(chunk: pa.Array, put: Put, name: str) -> FlatColumn:
    """Return the values of a chunk as Avro bytes, one after the other."""
    data, ends = bytearray(), [0]
    for value in python_values(chunk):
        if value is not None:
            try:
                put(data, value)
            except VALUE_ERRORS as exc:
                raise SchemaError(f"Column {name} holds a value that cannot be stored: {exc}.") from exc
        ends.append(len(data))
    valid = numpy_of(chunk.is_valid()).astype(np.uint8)
    return FlatColumn(BYTES, np.frombuffer(bytes(data), np.uint8), np.array(ends, np.int64), valid)


def _joined(columns: list[FlatColumn], *, has_nulls: bool) -> FlatColumn:
    lengths = [np.diff(column.offsets) for column in columns if column.offsets is not None]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate([np.zeros(0, np.int64), *lengths]))])
    data = np.concatenate([np.zeros(0, np.uint8), *(column.data for column in columns)])
    if not has_nulls:
        return FlatColumn(BYTES, data, offsets)
    valid = [np.ones(len(column), np.uint8) if column.valid is None else column.valid for column in columns]
    return FlatColumn(BYTES, data, offsets, np.concatenate(valid))


def _putter(kind: pa.DataType, avro_type: Any) -> Put:
    """Return the function that appends a value of a type to bytes."""
    avro_type, null_branch = without_null(avro_type)
    put = _put_present(kind, avro_type)
    if null_branch == NOT_NULLABLE:
        return lambda out, value: put(out, _require_present(value))
    null, present = 2 * null_branch, 2 - 2 * null_branch  # numbers of the branches, zigzag-encoded

    def put_nullable(out: bytearray, value: Any) -> None:
        if value is None:
            out.append(null)
        else:
            out.append(present)
            put(out, value)

    return put_nullable


def _require_present(value: Any) -> Any:
    if value is None:
        raise ValueError("null in a part that is not nullable")
    return value


def _put_present(kind: pa.DataType, avro_type: Any) -> Put:
    if pa.types.is_list(kind):
        return _put_blocks(_putter(kind.value_type, avro_type["items"]))
    if pa.types.is_map(kind):
        return _put_map(kind, avro_type)
    if pa.types.is_struct(kind):
        parts = [
            (kind.field(number).name, _putter(kind.field(number).type, part["type"]))
            for number, part in enumerate(avro_type["fields"])
        ]

        def put_struct(out: bytearray, value: Any) -> None:
            for name, put in parts:
                put(out, value[name])

        return put_struct
    if pa.types.is_decimal128(kind):
        return lambda out, value: _put_decimal(out, value, kind.scale)
    if pa.types.is_time64(kind):
        return lambda out, value: put_long(out, whole_micros(value))
    return _PUTS.get(kind, put_long)


def _put_blocks(put: Put) -> Put:
    def put_blocks(out: bytearray, items: Any) -> None:
        if items:
            put_long(out, len(items))
            for item in items:
                put(out, item)
        out.append(0)

    return put_blocks


def _put_map(kind: pa.DataType, avro_type: Any) -> Put:
    if avro_type["type"] == "map":
        put_key: Put = _put_text
        put_item = _putter(kind.item_type, avro_type["values"])
    else:
        key, item = avro_type["items"]["fields"]
        put_key, put_item = _putter(kind.key_type, key["type"]), _putter(kind.item_type, item["type"])

    def put_pair(out: bytearray, pair: tuple[Any, Any]) -> None:
        put_key(out, pair[0])
        put_item(out, pair[1])

    put_pairs = _put_blocks(put_pair)
    if avro_type["type"] != "map":
        return put_pairs

    def put_map(out: bytearray, pairs: Any) -> None:
        if len(dict(pairs)) != len(pairs):
            raise ValueError("a map repeats a key")
        put_pairs(out, pairs)

    return put_map


def put_long(out: bytearray, number: int) -> None:
    """Append a number in the variable-length encoding of Avro."""
    word = (number << 1) ^ (number >> 63)
    while word >= 0x80:
        out.append(word & 0x7F | 0x80)
        word >>= 7
    out.append(word)


def _put_bytes(out: bytearray, data: bytes) -> None:
    put_long(out, len(data))
    out += data


def _put_text(out: bytearray, text: str) -> None:
    _put_bytes(out, text.encode())


def _put_decimal(out: bytearray, value: Decimal, scale: int) -> None:
    number = unscaled(value, scale)
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1  # one more bit for the sign
    _put_bytes(out, number.to_bytes(size, "big", signed=True))


_PUTS: Final[dict[pa.DataType, Put]] = {
    pa.bool_(): lambda out, value: out.append(value),
    pa.float32(): lambda out, value: out.extend(struct.pack("<f", value)),
    pa.float64(): lambda out, value: out.extend(struct.pack("<d", value)),
    pa.string(): _put_text,
    pa.binary(): _put_bytes,
}
