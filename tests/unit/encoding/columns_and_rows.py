"""Values as rows of a source, and plain values of every type in Avro without logical types."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slatespark.encoding.avro_schema import avro_name
from slatespark.kernels.columns import RowColumns
from tests.unit.kernels.rows import columns, put


def rows_of(values: list[bytes]) -> tuple[list[RowColumns], NDArray[np.int64]]:
    """Return values as one source, with all its rows."""
    return [columns(*(put(b"%06d" % number, 1, value) for number, value in enumerate(values)))], np.arange(len(values))


def cut(encoded: tuple[NDArray[np.uint8], NDArray[np.int64]]) -> list[bytes]:
    """Return encoded values, one bytes object for each row."""
    data, offsets = encoded
    return [data[start:end].tobytes() for start, end in zip(offsets.tolist(), offsets[1:].tolist(), strict=False)]


def plain_schema(described: Any) -> Any:
    """Return an Avro schema without logical types and other attributes."""
    if isinstance(described, list):
        return [plain_schema(branch) for branch in described]
    if not isinstance(described, dict):
        return described
    if described["type"] not in ("record", "array", "map"):
        return described["type"]
    kept = {key: value for key, value in described.items() if key in ("type", "name", "namespace")}
    for part in ("items", "values"):
        if part in described:
            kept[part] = plain_schema(described[part])
    if "fields" in described:
        kept["fields"] = [{**field, "type": plain_schema(field["type"])} for field in described["fields"]]
    return kept


def read_with_fastavro(value: bytes, schema: Any) -> Any:
    """Return the decoded object of a value. All of its bytes must be used."""
    stream = io.BytesIO(value[10:])
    found = fastavro.schemaless_reader(stream, plain_schema(schema), None)
    assert stream.read() == b""
    return found


def written_by_fastavro(datum: Any, schema: Any) -> bytes:
    """Return the body of a value."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(plain_schema(schema)), datum)
    return stream.getvalue()


def datum_of(kind: pa.DataType, value: Any) -> Any:
    """Return a plain value (numbers for dates and times, pairs for maps) as Avro without logical types."""
    if value is None:
        return None
    if pa.types.is_list(kind):
        return [datum_of(kind.value_type, item) for item in value]
    if pa.types.is_map(kind):
        pairs = [(datum_of(kind.key_type, key), datum_of(kind.item_type, item)) for key, item in value]
        return dict(pairs) if kind.key_type == pa.string() else [{"key": key, "value": item} for key, item in pairs]
    if pa.types.is_struct(kind):
        return {avro_name(part.name): datum_of(part.type, value[part.name]) for part in kind}
    if pa.types.is_decimal128(kind):
        return decimal_bytes(value, kind.scale)
    return value // 1000 if pa.types.is_time64(kind) else value


def decimal_bytes(value: Decimal, scale: int) -> bytes:
    sign, digits, exponent = value.as_tuple()
    number: int = int("".join(map(str, digits))) * 10 ** (int(exponent) + scale) * (-1 if sign else 1)
    size = next(size for size in range(1, 20) if -(1 << 8 * size - 1) <= number < 1 << 8 * size - 1)
    return number.to_bytes(size, "big", signed=True)
