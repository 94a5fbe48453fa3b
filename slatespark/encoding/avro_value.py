"""Value columns of rows as Avro, and back, whatever schema of the table they were written with.

A value is an Avro object in single-object encoding: MARKER, the fingerprint of the writer's schema in 8 bytes
little-endian, the record. docs/reference/value-encoding.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slatespark.encoding.arrow_columns import arrow_array, flat_column, flat_kind
from slatespark.encoding.avro_resolution import Resolution, avro_node, resolve, without_null
from slatespark.encoding.avro_schema import fingerprint
from slatespark.encoding.nested_decode import decode_nested
from slatespark.encoding.nested_encode import encode_nested
from slatespark.encoding.plain_values import MICROS_PER_DAY, check_text
from slatespark.errors import InternalError, InvalidRequestError, SchemaError
from slatespark.kernels import RowColumns, decode_avro, encode_avro
from slatespark.kernels.avro_program import FINE, MALFORMED, MARKER, UNKNOWN_FINGERPRINT, EncodeProgram
from slatespark.kernels.flat import FlatColumn

__all__ = ["FINE", "MALFORMED", "MARKER", "UNKNOWN_FINGERPRINT", "decode_avro_values", "encode_avro_values"]

_NANOS_PER_MICRO: Final = 1000
_TIME: Final = pa.time64("ns")


def encode_avro_values(
    arrays: Sequence[pa.Array | pa.ChunkedArray],
    fields: Sequence[pa.Field],
    schema: Mapping[str, Any],
    *,
    count: int | None = None,
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return rows as values: bytes and (n + 1,) offsets.

    Parameters
    ----------
    arrays : the columns, of the types of `fields`
    fields : the value columns
    schema : `avro_schema(fields)`
    count : rows; may be left out where there is a column

    Raises
    ------
    SchemaError
        Naming the column: null where it is not nullable, text that is no UTF-8, a number with too many digits, a time
        that is no whole microsecond or in no day.
    """
    if count is None:
        if not arrays:
            raise InternalError("Rows without value columns cannot be counted.")
        count = len(arrays[0])
    described = [field["type"] for field in schema["fields"]]
    nodes = tuple(avro_node(kind) for kind in described)
    columns = [_column(array, item, kind) for array, item, kind in zip(arrays, fields, described, strict=True)]
    try:
        return encode_avro(columns, EncodeProgram(fingerprint(schema), nodes), count)
    except InvalidRequestError:
        for array, item in zip(arrays, fields, strict=True):
            if item.type == pa.string():
                check_text(item.name, array)
        raise


def decode_avro_values(
    sources: Sequence[RowColumns],
    rows: NDArray[np.int64],
    *,
    writers: Mapping[int, Mapping[str, Any]],
    fields: Sequence[pa.Field],
    wanted: Sequence[str],
) -> tuple[dict[str, pa.Array], NDArray[np.uint8]]:
    """Return the wanted columns of packed rows, and (m,) FINE, UNKNOWN_FINGERPRINT or MALFORMED.

    Columns that a row's writer did not have are null, columns that are no more are skipped, narrower numbers become
    wider ones. A row that is not FINE has nulls or what of it is readable; a tombstone is FINE, and null.

    Parameters
    ----------
    writers : the schemas rows may have been written with, by fingerprint
    fields : the value columns as they are now
    wanted : names of those to decode; others are skipped, and behind the last wanted one nothing is read

    Raises
    ------
    SchemaError
        When a column was written as a type from which there is no way to its type now.
    """
    resolution = _resolution(_Writers(writers), tuple(fields), tuple(wanted))
    columns, status = decode_avro(sources, rows, resolution.program)
    kinds = {item.name: item.type for item in fields}
    decoded: dict[str, pa.Array] = {}
    for name, (start, ways) in zip(wanted, resolution.places, strict=True):
        kind = kinds[name]
        if flat_kind(kind) is not None:
            decoded[name] = _array(columns[start], kind)
        else:
            decoded[name], bad = decode_nested(columns[start : start + len(ways)], ways, name, kind, len(rows))
            status[bad] = MALFORMED
    return decoded, status


class _Writers:
    """Known schemas as part of a key of the cache: the same mapping with the same fingerprints."""

    __slots__ = ("schemas",)

    def __init__(self, schemas: Mapping[int, Mapping[str, Any]]) -> None:
        self.schemas = schemas

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Writers) and self.schemas is other.schemas

    def __hash__(self) -> int:
        return hash(tuple(self.schemas))


@lru_cache(maxsize=64)
def _resolution(writers: _Writers, fields: tuple[pa.Field, ...], wanted: tuple[str, ...]) -> Resolution:
    return resolve(writers.schemas, fields, wanted)


def _column(array: pa.Array | pa.ChunkedArray, item: pa.Field, described: Any) -> FlatColumn:
    """Return an array as the column that the kernel writes; of a type with parts, the bytes of each row's value."""
    if array.null_count and not item.nullable:
        raise SchemaError(
            f"Column {item.name} is not nullable and has {array.null_count} nulls.",
            todo="Fill them, or leave out the rows.",
        )
    kind, _ = without_null(described)
    if flat_kind(item.type) is None:
        return encode_nested(array, kind, item.name)
    if pa.types.is_decimal128(item.type):
        _check_digits(array, item)
    return _micros(flat_column(array), item.name) if item.type == _TIME else flat_column(array)


def _check_digits(array: pa.Array | pa.ChunkedArray, item: pa.Field) -> None:
    """Refuse what Arrow lets into a decimal: it could never be read again."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as exc:
        raise SchemaError(
            f"Column {item.name} holds a number with more digits than its type.", why=f"{exc}.", todo="Cast it."
        ) from exc


def _micros(column: FlatColumn, name: str) -> FlatColumn:
    nanos = np.frombuffer(column.data, np.int64)
    micros = nanos // _NANOS_PER_MICRO
    valid = np.True_ if column.valid is None else column.valid != 0
    if ((micros * _NANOS_PER_MICRO != nanos) & valid).any():
        raise SchemaError(f"Column {name} holds a time that is no whole microsecond.", todo="Round it.")
    if (((micros < 0) | (micros >= MICROS_PER_DAY)) & valid).any():
        raise SchemaError(f"Column {name} holds a time that is in no day.", todo="Filter such rows out.")
    return FlatColumn(column.kind, micros.view(np.uint8), valid=column.valid)


def _array(column: FlatColumn, kind: pa.DataType) -> pa.Array:
    if kind == _TIME:
        nanos = column.data.view(np.int64) * _NANOS_PER_MICRO
        column = FlatColumn(column.kind, nanos.view(np.uint8), valid=column.valid)
    return arrow_array(column, kind)
