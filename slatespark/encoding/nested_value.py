"""Columns with parts (lists, maps, structs, VARIANT) as the Avro bytes of each row's value, and back.

Row by row in Python: fastavro reads, a few functions below write. Logical types are taken off first, so no value ever
becomes a `datetime`, which has a narrower range than the columns.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any, Final

import fastavro
import numpy as np
import pyarrow as pa
from fastavro.read import SchemaResolutionError
from numpy.typing import NDArray

from slatespark.encoding.avro_resolution import without_null
from slatespark.encoding.avro_schema import avro_name, avro_schema
from slatespark.errors import SchemaError
from slatespark.kernels.avro_program import NOT_NULLABLE
from slatespark.kernels.flat import BYTES, FlatColumn

Put = Callable[[bytearray, Any], None]
Take = Callable[[Any], Any]

# So many rows at a time exist as Python objects.
_CHUNK_ROWS: Final = 4096

_MICROS_PER_DAY: Final = 86_400_000_000
_NOT_A_VALUE: Final = (pa.ArrowException, ValueError, TypeError, OverflowError, ArithmeticError)


def encode_nested(array: pa.Array | pa.ChunkedArray, described: Any, name: str) -> FlatColumn:
    """Return each row's value as Avro bytes.

    Parameters
    ----------
    array : of lists, maps or structs
    described : what `avro_schema` gives for its type, null taken out of the union
    name : the column, for messages

    Raises
    ------
    SchemaError
        Naming the column: null where a part is not nullable, text that is no UTF-8, a map with a key twice.
    """
    put = _put_of(array.type, described)
    data, ends = bytearray(), [0]
    valid = np.ones(len(array), np.uint8)
    for start, values in _python_chunks(array, name):
        for number, value in enumerate(values, start):
            if value is None:
                valid[number] = 0
            else:
                try:
                    put(data, value)
                except _NOT_A_VALUE as exc:
                    raise SchemaError(f"Column {name} holds a value that cannot be stored: {exc}.") from exc
            ends.append(len(data))
    offsets = np.array(ends, np.int64)
    return FlatColumn(BYTES, np.frombuffer(bytes(data), np.uint8), offsets, valid if array.null_count else None)


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


# --- writing ----------------------------------------------------------------------------------------------------------


def _python_chunks(array: pa.Array | pa.ChunkedArray, name: str) -> Iterator[tuple[int, list[Any]]]:
    """Yield the array as Python values of plain types, and the number of the first row of each chunk."""
    start = 0
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as exc:
        raise SchemaError(f"Column {name} holds a value that cannot be stored: {exc}.") from exc
    plain = _plain_type(array.type)
    for piece in array.chunks if isinstance(array, pa.ChunkedArray) else [array]:
        for low in range(0, len(piece), _CHUNK_ROWS):
            chunk = piece.slice(low, _CHUNK_ROWS)
            yield start, chunk.cast(plain).to_pylist()
            start += len(chunk)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type with numbers in place of dates and times."""
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time64(kind):
        return pa.int64()
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain_type(kind.value_type)))
    if pa.types.is_map(kind):
        key, item = kind.key_field, kind.item_field
        return pa.map_(key.with_type(_plain_type(key.type)), item.with_type(_plain_type(item.type)))
    if pa.types.is_struct(kind):
        return pa.struct([part.with_type(_plain_type(part.type)) for part in kind])
    return kind


def _put_of(kind: pa.DataType, described: Any) -> Put:
    """Return what appends a value of a type to bytes."""
    described, null_branch = without_null(described)
    put = _put_present(kind, described)
    if null_branch == NOT_NULLABLE:
        return lambda out, value: put(out, _there(value))
    null, there = 2 * null_branch, 2 - 2 * null_branch

    def put_nullable(out: bytearray, value: Any) -> None:
        if value is None:
            out.append(null)
        else:
            out.append(there)
            put(out, value)

    return put_nullable


def _there(value: Any) -> Any:
    if value is None:
        raise ValueError("null in a part that is not nullable")
    return value


def _put_present(kind: pa.DataType, described: Any) -> Put:
    if pa.types.is_list(kind):
        return _put_blocks(_put_of(kind.value_type, described["items"]))
    if pa.types.is_map(kind):
        return _put_map(kind, described)
    if pa.types.is_struct(kind):
        parts = [
            (kind.field(number).name, _put_of(kind.field(number).type, part["type"]))
            for number, part in enumerate(described["fields"])
        ]

        def put_struct(out: bytearray, value: Any) -> None:
            for name, put in parts:
                put(out, value[name])

        return put_struct
    if pa.types.is_decimal128(kind):
        return lambda out, value: _put_decimal(out, value, kind.scale)
    if pa.types.is_time64(kind):
        return lambda out, value: _put_long(out, _whole_micros(value))
    return _PUTS.get(kind, _put_long)


def _put_blocks(put: Put) -> Put:
    def put_blocks(out: bytearray, items: Any) -> None:
        if items:
            _put_long(out, len(items))
            for item in items:
                put(out, item)
        out.append(0)

    return put_blocks


def _put_map(kind: pa.DataType, described: Any) -> Put:
    if described["type"] == "map":
        put_key: Put = _put_text
        put_item = _put_of(kind.item_type, described["values"])
    else:
        key, item = described["items"]["fields"]
        put_key, put_item = _put_of(kind.key_type, key["type"]), _put_of(kind.item_type, item["type"])

    def put_pair(out: bytearray, pair: tuple[Any, Any]) -> None:
        put_key(out, pair[0])
        put_item(out, pair[1])

    put_pairs = _put_blocks(put_pair)
    if described["type"] != "map":
        return put_pairs

    def put_map(out: bytearray, pairs: Any) -> None:
        if len(dict(pairs)) != len(pairs):
            raise ValueError("a map with a key twice")
        put_pairs(out, pairs)

    return put_map


def _put_long(out: bytearray, number: int) -> None:
    word = (number << 1) ^ (number >> 63)
    while word >= 0x80:
        out.append(word & 0x7F | 0x80)
        word >>= 7
    out.append(word)


def _put_bytes(out: bytearray, data: bytes) -> None:
    _put_long(out, len(data))
    out += data


def _put_text(out: bytearray, text: str) -> None:
    _put_bytes(out, text.encode())


def _put_decimal(out: bytearray, value: Decimal, scale: int) -> None:
    number = _unscaled(value, scale)
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1  # with a bit for the sign
    _put_bytes(out, number.to_bytes(size, "big", signed=True))


def _unscaled(value: Decimal, scale: int) -> int:
    sign, digits, exponent = value.as_tuple()
    number: int = int("".join(map(str, digits)) or "0") * 10 ** (int(exponent) + scale)
    return -number if sign else number


def _whole_micros(nanos: int) -> int:
    micros, rest = divmod(nanos, 1000)
    if rest:
        raise ValueError("a time that is no whole microsecond")
    return micros


_PUTS: Final[dict[pa.DataType, Put]] = {
    pa.bool_(): lambda out, value: out.append(value),
    pa.float32(): lambda out, value: out.extend(struct.pack("<f", value)),
    pa.float64(): lambda out, value: out.extend(struct.pack("<d", value)),
    pa.string(): _put_text,
    pa.binary(): _put_bytes,
}


# --- reading ----------------------------------------------------------------------------------------------------------


def _decode_way(column: FlatColumn, described: Any, name: str, kind: pa.DataType) -> tuple[pa.Array, NDArray[np.int64]]:
    wanted, _ = without_null(avro_schema([pa.field(name, kind)])["fields"][0]["type"])
    writer, reader = _plain_schema(described), _plain_schema(wanted)
    decode = _Decoder(writer, None if writer == reader else reader, kind, name)
    assert column.offsets is not None
    arrays, bad = [], []
    for low in range(0, len(column), _CHUNK_ROWS):
        high = min(low + _CHUNK_ROWS, len(column))
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
        except _NOT_A_VALUE:
            arrays, bad = [], []
            for number, value in enumerate(values):
                try:
                    arrays.append(self._all([value]))
                except _NOT_A_VALUE:
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
            _put_long(data, len(present))
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
        return lambda record: {name: _taken(take, record[escaped]) for name, escaped, take in parts}
    if pa.types.is_decimal128(kind):
        return lambda data: _decimal(data, kind)
    if pa.types.is_time64(kind):
        return _nanos
    return None


def _taken(take: Take | None, value: Any) -> Any:
    return value if take is None or value is None else take(value)


def _decimal(data: bytes, kind: pa.DataType) -> Decimal:
    number = int.from_bytes(data, "big", signed=True)
    if not data or abs(number) >= 10**kind.precision:
        raise ValueError("out of the range of its type")
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -kind.scale))


def _nanos(micros: int) -> int:
    if not 0 <= micros < _MICROS_PER_DAY:
        raise ValueError("out of the range of its type")
    return micros * 1000
