"""Columns with parts (lists, maps, structs, VARIANT) from the Avro bytes of each row's value.

fastavro reads them, without logical types: so no value becomes a `datetime`, which has a narrower range than columns.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
from fastavro.read import SchemaResolutionError
from numpy.typing import NDArray

from slatespark.encoding.avro_resolution import without_null
from slatespark.encoding.avro_schema import avro_name, avro_schema
from slatespark.encoding.nested_encode import put_long
from slatespark.encoding.plain_values import CHUNK_ROWS, NOT_A_VALUE, decimal_of, nanos_of
from slatespark.errors import SchemaError
from slatespark.kernels.flat import FlatColumn

Take = Callable[[Any], Any]


def decode_nested(
    columns: Sequence[FlatColumn], ways: Sequence[Any], name: str, kind: pa.DataType, count: int
) -> tuple[pa.Array, NDArray[np.int64]]:
    """Return an array of what Avro bytes mean, and the rows whose bytes mean nothing, which are null.

    Parameters
    ----------
    columns : one for each way, of `count` items, of which at most one is there in each row
    ways : the Avro types that the bytes were written as
    name, kind : the column and its type
    """
    if not columns:
        return pa.nulls(count, kind), np.zeros(0, np.int64)
    parts, bad = [], []
    for column, described in zip(columns, ways, strict=True):
        array, rows = _decode_way(column, described, name, kind)
        parts.append(array)
        bad.append(rows)
    if len(parts) == 1:
        return parts[0], bad[0]
    chosen = np.arange(count)
    for number, column in enumerate(columns):
        if column.valid is not None:
            chosen[column.valid != 0] += number * count
    return pa.concat_arrays(parts).take(pa.array(chosen)), np.concatenate(bad)


def _decode_way(column: FlatColumn, described: Any, name: str, kind: pa.DataType) -> tuple[pa.Array, NDArray[np.int64]]:
    wanted, _ = without_null(avro_schema([pa.field(name, kind)])["fields"][0]["type"])
    writer, reader = _plain_schema(described), _plain_schema(wanted)
    decode = _Decoder(writer, None if writer == reader else reader, kind, name)
    assert column.offsets is not None
    arrays, bad = [], []
    for low in range(0, len(column), CHUNK_ROWS):
        high = min(low + CHUNK_ROWS, len(column))
        valid = np.ones(high - low, np.bool_) if column.valid is None else column.valid[low:high] != 0
        offsets = column.offsets[low : high + 1]
        values = [
            column.data[start:end].tobytes() if there else None
            for start, end, there in zip(offsets.tolist(), offsets[1:].tolist(), valid.tolist(), strict=False)
        ]
        array, rows = decode.chunk(values)
        arrays.append(array)
        bad += [low + row for row in rows]
    array = pa.concat_arrays(arrays) if arrays else pa.nulls(0, kind)
    return array, np.array(bad, np.int64)


class _Decoder:
    """Avro bytes of one writer's type as arrays of one type."""

    def __init__(self, writer: Any, reader: Any, kind: pa.DataType, name: str) -> None:
        self._writer = fastavro.parse_schema({"type": "array", "items": writer})
        self._reader = None if reader is None else fastavro.parse_schema({"type": "array", "items": reader})
        self._kind, self._name = kind, name
        self._take = _take_of(kind) or _itself

    def chunk(self, values: list[bytes | None]) -> tuple[pa.Array, list[int]]:
        """Return the values as an array, and the positions of those that are none, which are null."""
        try:
            return self._all(values), []
        except SchemaResolutionError as exc:
            raise SchemaError(f"Column {self._name} is {self._kind} now, rows were written otherwise: {exc}.") from exc
        except NOT_A_VALUE:
            arrays, bad = [], []
            for number, value in enumerate(values):
                try:
                    arrays.append(self._all([value]))
                except NOT_A_VALUE:
                    arrays.append(pa.nulls(1, self._kind))
                    bad.append(number)
            return pa.concat_arrays(arrays), bad

    def _all(self, values: list[bytes | None]) -> pa.Array:
        """Return the values as an array. Requires: kernels found their structure sound.

        They are read as one Avro array, so that Python is left once for all of them.
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
        taken = [None if value is None else self._take(next(read)) for value in values]
        return pa.array(taken, self._kind)


def _itself(value: Any) -> Any:
    return value


def _plain_schema(described: Any) -> Any:
    """Return a type without logical types."""
    if isinstance(described, list):
        return [_plain_schema(branch) for branch in described]
    if not isinstance(described, dict):
        return described
    if described["type"] == "array":
        return {"type": "array", "items": _plain_schema(described["items"])}
    if described["type"] == "map":
        return {"type": "map", "values": _plain_schema(described["values"])}
    if described["type"] == "record":
        fields = [{**field, "type": _plain_schema(field["type"])} for field in described["fields"]]
        return {"type": "record", "name": described["name"], "fields": fields}
    return described["type"]


def _take_of(kind: pa.DataType) -> Take | None:
    """Return what makes a value that fastavro read one that pyarrow takes for a type; None if it is one already."""
    if pa.types.is_list(kind):
        take = _take_of(kind.value_type)
        return None if take is None else lambda items: [_taken(take, item) for item in items]
    if pa.types.is_map(kind):
        key, item = _take_of(kind.key_type), _take_of(kind.item_type)
        if kind.key_type == pa.string():
            return lambda pairs: [(name, _taken(item, value)) for name, value in pairs.items()]
        return lambda pairs: [(_taken(key, pair["key"]), _taken(item, pair["value"])) for pair in pairs]
    if pa.types.is_struct(kind):
        parts = [(part.name, avro_name(part.name), _take_of(part.type)) for part in kind]
        if all(name == escaped and take is None for name, escaped, take in parts):
            return None
        return lambda record: {name: _taken(take, record[escaped]) for name, escaped, take in parts}
    if pa.types.is_decimal128(kind):
        return lambda data: _decimal(data, kind)
    if pa.types.is_time64(kind):
        return nanos_of
    return None


def _taken(take: Take | None, value: Any) -> Any:
    return value if take is None or value is None else take(value)


def _decimal(data: bytes, kind: pa.DataType) -> Any:
    if not data:
        raise ValueError("a decimal without bytes")
    return decimal_of(int.from_bytes(data, "big", signed=True), kind)
