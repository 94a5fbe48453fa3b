"""Nested columns (lists, maps, structs, VARIANT) from the Avro bytes of each row's value.

Kernels decode them (`nested_parts`), if they were written as the type of the column and none is malformed. All others
fastavro decodes, without logical types, so no value becomes a `datetime`, whose range is narrower than a column's.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import fastavro
import numpy as np
import pyarrow as pa
from fastavro.read import SchemaResolutionError
from numpy.typing import NDArray

from slatespark.encoding.avro_resolution import without_null
from slatespark.encoding.avro_schema import avro_name, avro_schema
from slatespark.encoding.nested_encode import put_long
from slatespark.encoding.nested_parts import NestedParts
from slatespark.encoding.plain_values import CHUNK_ROWS, VALUE_ERRORS, decimal_of, nanos_of
from slatespark.errors import SchemaError
from slatespark.kernels.flat import BYTES, FlatColumn

_CHUNK_BYTES: Final = 1 << 20  # of values that are decoded together

Convert = Callable[[Any], Any]


def decode_nested(
    columns: Sequence[FlatColumn], avro_types: Sequence[Any], name: str, kind: pa.DataType, count: int
) -> tuple[pa.Array, NDArray[np.int64]]:
    """Return the decoded array, and the rows whose bytes are malformed, which are null.

    Parameters
    ----------
    columns : a column for each Avro type, of `count` rows; at most one of them has a value in each row
    avro_types : the types that the bytes were written as
    name, kind : the column and its type
    """
    if not columns:
        return pa.nulls(count, kind), np.zeros(0, np.int64)
    arrays, malformed = [], []
    for column, avro_type in zip(columns, avro_types, strict=True):
        array, rows = _decode_column(column, avro_type, name, kind)
        arrays.append(array)
        malformed.append(rows)
    if len(arrays) == 1:
        return arrays[0], malformed[0]
    chosen = np.arange(count)
    for number, column in enumerate(columns):
        if column.valid is not None:
            chosen[column.valid != 0] += number * count
    return pa.concat_arrays(arrays).take(pa.array(chosen)), np.concatenate(malformed)


def _decode_column(
    column: FlatColumn, avro_type: Any, name: str, kind: pa.DataType
) -> tuple[pa.Array, NDArray[np.int64]]:
    wanted, _ = without_null(avro_schema([pa.field(name, kind)])["fields"][0]["type"])
    writer, reader = _plain_schema(avro_type), _plain_schema(wanted)
    parts = NestedParts(wanted, kind) if writer == reader else None
    decode = _Decoder(writer, None if writer == reader else reader, kind, name)
    arrays, malformed = [], []
    for low, chunk in _chunks(column):
        array, rows = None if parts is None else parts.array(chunk), list[int]()
        if array is None:
            array, rows = decode.chunk(_values_of(chunk))
        arrays.append(array)
        malformed += [low + row for row in rows]
    array = pa.concat_arrays(arrays) if arrays else pa.nulls(0, kind)
    return array, np.array(malformed, np.int64)


def _chunks(column: FlatColumn) -> Iterator[tuple[int, FlatColumn]]:
    """Yield chunks of a column, each with its first row: what is made of them takes many times their bytes."""
    assert column.offsets is not None
    low = 0
    while low < len(column):
        reach = int(np.searchsorted(column.offsets, column.offsets[low] + _CHUNK_BYTES, side="right")) - 1
        high = min(max(reach, low + 1), low + CHUNK_ROWS, len(column))
        valid = None if column.valid is None else column.valid[low:high]
        yield low, FlatColumn(BYTES, column.data, column.offsets[low : high + 1], valid)
        low = high


def _values_of(column: FlatColumn) -> list[bytes | None]:
    assert column.offsets is not None
    valid = np.ones(len(column), np.uint8) if column.valid is None else column.valid
    spans = zip(column.offsets[:-1].tolist(), column.offsets[1:].tolist(), valid.tolist(), strict=True)
    return [column.data[start:end].tobytes() if present else None for start, end, present in spans]


class _Decoder:
    """Decodes Avro bytes of one writer's type to arrays of one type."""

    def __init__(self, writer: Any, reader: Any, kind: pa.DataType, name: str) -> None:
        self._writer = fastavro.parse_schema({"type": "array", "items": writer})
        self._reader = None if reader is None else fastavro.parse_schema({"type": "array", "items": reader})
        self._kind, self._name = kind, name
        self._convert = _converter(kind) or _identity

    def chunk(self, values: list[bytes | None]) -> tuple[pa.Array, list[int]]:
        """Return the values as an array, and the positions of malformed values, which are null."""
        try:
            return self._all(values), []
        except SchemaResolutionError as exc:
            raise SchemaError(
                f"Column {self._name} is {self._kind} now, but rows were written as another type: {exc}."
            ) from exc
        except VALUE_ERRORS:
            arrays, malformed = [], []
            for number, value in enumerate(values):
                try:
                    arrays.append(self._all([value]))
                except VALUE_ERRORS:
                    arrays.append(pa.nulls(1, self._kind))
                    malformed.append(number)
            return pa.concat_arrays(arrays), malformed

    def _all(self, values: list[bytes | None]) -> pa.Array:
        """Return the values as an array. Requires: kernels have checked their structure.

        They are decoded as one Avro array, so fastavro is called once for all of them.
        """
        data = bytearray()
        present = [value for value in values if value is not None]
        if present:
            put_long(data, len(present))
            for value in present:
                data += value
        data.append(0)
        items: Any = fastavro.schemaless_reader(io.BytesIO(bytes(data)), self._writer, self._reader)
        read = iter(items)
        converted = [None if value is None else self._convert(next(read)) for value in values]
        return pa.array(converted, self._kind)


def _identity(value: Any) -> Any:
    return value


def _plain_schema(avro_type: Any) -> Any:
    """Return a type without logical types."""
    if isinstance(avro_type, list):
        return [_plain_schema(branch) for branch in avro_type]
    if not isinstance(avro_type, dict):
        return avro_type
    if avro_type["type"] == "array":
        return {"type": "array", "items": _plain_schema(avro_type["items"])}
    if avro_type["type"] == "map":
        return {"type": "map", "values": _plain_schema(avro_type["values"])}
    if avro_type["type"] == "record":
        fields = [{**field, "type": _plain_schema(field["type"])} for field in avro_type["fields"]]
        return {"type": "record", "name": avro_type["name"], "fields": fields}
    return avro_type["type"]


def _converter(kind: pa.DataType) -> Convert | None:
    """Return the conversion of a value from fastavro to one for pyarrow; None if there is nothing to convert."""
    if pa.types.is_list(kind):
        convert = _converter(kind.value_type)
        return None if convert is None else lambda items: [_converted(convert, item) for item in items]
    if pa.types.is_map(kind):
        key, item = _converter(kind.key_type), _converter(kind.item_type)
        if kind.key_type == pa.string():
            return lambda pairs: [(name, _converted(item, value)) for name, value in pairs.items()]
        return lambda pairs: [(_converted(key, pair["key"]), _converted(item, pair["value"])) for pair in pairs]
    if pa.types.is_struct(kind):
        parts = [(part.name, avro_name(part.name), _converter(part.type)) for part in kind]
        if all(name == escaped and convert is None for name, escaped, convert in parts):
            return None
        return lambda record: {name: _converted(convert, record[escaped]) for name, escaped, convert in parts}
    if pa.types.is_decimal128(kind):
        return lambda data: _decimal(data, kind)
    if pa.types.is_time64(kind):
        return nanos_of
    return None


def _converted(convert: Convert | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)


def _decimal(data: bytes, kind: pa.DataType) -> Any:
    if not data:
        raise ValueError("a decimal has no bytes")
    return decimal_of(int.from_bytes(data, "big", signed=True), kind)
