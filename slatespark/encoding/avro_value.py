"""Value columns of rows to Avro and back, for any schema that the table has had.

A value has Avro's single-object encoding: MARKER, the fingerprint of the writer's schema as 8 bytes little-endian, the
record. See docs/reference/value-encoding.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slatespark.encoding.arrow_columns import array_of_micros, flat_column, flat_kind
from slatespark.encoding.avro_resolution import DecodePlan, avro_node, plan_decode, without_null
from slatespark.encoding.avro_schema import fingerprint
from slatespark.encoding.nested_decode import decode_nested
from slatespark.encoding.nested_encode import encode_nested
from slatespark.encoding.plain_values import require_utf8
from slatespark.errors import InternalError, InvalidRequestError, SchemaError
from slatespark.kernels import RowColumns, decode_avro, encode_avro
from slatespark.kernels.avro_program import FINE, MALFORMED, MARKER, UNKNOWN_FINGERPRINT, EncodeProgram
from slatespark.kernels.flat import FlatColumn
from slatespark.units import DAY_US

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
    count : number of rows; optional if there is a column

    Raises
    ------
    SchemaError
        When a column holds a null though it is not nullable, invalid UTF-8, a number with too many digits, or a time
        that is not a whole microsecond or not within a day.
    """
    if count is None:
        if not arrays:
            raise InternalError("Rows without value columns need a count.")
        count = len(arrays[0])
    described = [field["type"] for field in schema["fields"]]
    nodes = tuple(avro_node(kind) for kind in described)
    columns = [_column(array, item, kind) for array, item, kind in zip(arrays, fields, described, strict=True)]
    try:
        return encode_avro(columns, EncodeProgram(fingerprint(schema), nodes), count)
    except InvalidRequestError:
        for array, item in zip(arrays, fields, strict=True):
            if item.type == pa.string():
                require_utf8(item.name, array)
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

    Columns that a row's writer lacked are null, dropped columns are skipped, and narrower numbers are widened. A row
    that is not FINE has nulls or its readable values. A tombstone is FINE, and null.

    Parameters
    ----------
    writers : the schemas that rows may have been written with, by fingerprint
    fields : the current value columns
    wanted : names of the columns to decode; others are skipped, and nothing is read after the last one

    Raises
    ------
    SchemaError
        When a column was written as a type that cannot be read as its current type.
    """
    plan = _decode_plan(_Writers(writers), tuple(fields), tuple(wanted))
    decoded_columns, status = decode_avro(sources, rows, plan.program)
    kinds = {item.name: item.type for item in fields}
    decoded: dict[str, pa.Array] = {}
    for name, column in zip(wanted, plan.columns, strict=True):
        kind = kinds[name]
        if flat_kind(kind) is not None:
            decoded[name] = array_of_micros(decoded_columns[column.first], kind)
        else:
            parts = decoded_columns[column.first : column.first + len(column.avro_types)]
            decoded[name], malformed = decode_nested(parts, column.avro_types, name, kind, len(rows))
            status[malformed] = MALFORMED
    return decoded, status


class _Writers:
    """The known schemas as part of a cache key; equal if they are the same mapping with the same fingerprints."""

    __slots__ = ("schemas",)

    def __init__(self, schemas: Mapping[int, Mapping[str, Any]]) -> None:
        self.schemas = schemas

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Writers) and self.schemas is other.schemas

    def __hash__(self) -> int:
        return hash(tuple(self.schemas))


@lru_cache(maxsize=64)
def _decode_plan(writers: _Writers, fields: tuple[pa.Field, ...], wanted: tuple[str, ...]) -> DecodePlan:
    return plan_decode(writers.schemas, fields, wanted)


def _column(array: pa.Array | pa.ChunkedArray, item: pa.Field, described: Any) -> FlatColumn:
    """Return an array as a column for the kernel; for a nested type, the encoded bytes of each row's value."""
    if array.null_count and not item.nullable:
        raise SchemaError(
            f"Column {item.name} is not nullable and has {array.null_count} nulls.",
            todo="Fill them, or drop the rows.",
        )
    kind, _ = without_null(described)
    if flat_kind(item.type) is None:
        return encode_nested(array, kind, item.name)
    if pa.types.is_decimal128(item.type):
        _require_digits(array, item)
    return _micros(flat_column(array), item.name) if item.type == _TIME else flat_column(array)


def _require_digits(array: pa.Array | pa.ChunkedArray, item: pa.Field) -> None:
    """Raise `SchemaError` for decimals with too many digits. Arrow allows them, but they could not be decoded."""
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
        raise SchemaError(f"Column {name} holds a time that is not a whole microsecond.", todo="Round it.")
    if (((micros < 0) | (micros >= DAY_US)) & valid).any():
        raise SchemaError(f"Column {name} holds a time that is not within a day.", todo="Filter such rows out.")
    return FlatColumn(column.kind, micros.view(np.uint8), valid=column.valid)
