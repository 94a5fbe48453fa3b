"""Key columns to keys of FoundationDB's tuple layer, and back. Layout: `slatespark.kernels.reference.tuple_encode`.

The byte order of keys is the order of their columns from left to right, so leading columns give key ranges.

    type                      encoding
    BYTE to LONG              integer
    DATE                      integer, days since 1970-01-01
    TIMESTAMP, TIMESTAMP_NTZ  integer, microseconds since 1970-01-01T00:00
    DECIMAL(p,s)              integer, the unscaled value
    STRUCT                    nested tuple
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds
from numpy.typing import NDArray

from slatespark.encoding.arrow_columns import arrow_array, combine_chunks, flat_column, flat_kind
from slatespark.encoding.column_types import is_variant
from slatespark.encoding.exact_values import exact_value
from slatespark.encoding.type_names import sql_type
from slatespark.encoding.without_pandas import array_of
from slatespark.errors import InvalidRequestError, SchemaError
from slatespark.kernels import RowColumns, decode_tuples, encode_tuples
from slatespark.kernels.flat import BOOL, FlatColumn
from slatespark.kernels.reference.tuple_encode import encode_tuples as encode_few_tuples
from slatespark.kernels.tuple_program import END, STRUCT, TEXT, KeyStatus, program_entry
from slatespark.texts import plural

_ALTERNATIVES: Final = (
    (kinds.is_duration, "Use a BIGINT of microseconds."),
    (kinds.is_time, "Use a BIGINT of microseconds, or a STRING such as 08:15:00."),
    (is_variant, "Take out the part that identifies the row, with variant_get."),
    (kinds.is_map, "Use a STRUCT with a field for each entry, or a STRING."),
    (kinds.is_list, "Use a STRUCT with a field for each element, or a STRING."),
    (kinds.is_struct, "Give the STRUCT a field."),
)

_REASONS: Final = {
    KeyStatus.WRONG_TYPE: "the type of an element differs from its column",
    KeyStatus.CUT_SHORT: "it ends too early",
    KeyStatus.OUT_OF_RANGE: "a number does not fit its column",
    KeyStatus.NOT_CANONICAL: "a number is not in the canonical form of slatespark",
    KeyStatus.BAD_TEXT: "a string is not valid UTF-8",
    KeyStatus.TRAILING: "bytes follow the last element",
}


def require_key_type(field: pa.Field) -> None:
    """Raise an error for a column that cannot be part of a key.

    Raises
    ------
    SchemaError
        With the column, its type, and an alternative.
    """
    _require_type(field, field.name)


def _require_type(field: pa.Field, where: str) -> None:
    kind = field.type
    alternative = next((todo for fits, todo in _ALTERNATIVES if fits(kind)), "Cast it to a type that a key can hold.")
    if kinds.is_struct(kind) and not is_variant(kind) and kind.num_fields:
        for part in kind:
            _require_type(part, f"{where}.{part.name}")
    elif flat_kind(kind) is None or kinds.is_duration(kind) or kinds.is_time(kind):
        raise SchemaError(
            f"Key column {where} is {sql_type(field)}, which a key cannot hold.",
            todo=alternative,
        )


def encode_tuple_keys(
    arrays: Sequence[pa.Array | pa.ChunkedArray],
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the keys of rows: bytes and (n + 1,) offsets.

    Parameters
    ----------
    arrays : an array for each key column, of types that `require_key_type` accepts

    Raises
    ------
    SchemaError
        When a string is not valid UTF-8, a decimal has more digits than its type, or a field is null though it is
        not nullable.
    InvalidRequestError
        When a column holds 2 GiB or more.
    """
    return encode_tuples(key_columns(arrays), key_program(tuple(array.type for array in arrays)))


def encode_tuple(values: Sequence[Any], types: Sequence[pa.DataType], names: Sequence[str] = ()) -> bytes:
    """Return one key from Python values.

    Fewer values than types give the prefix of all keys with these values. A struct is a mapping or a sequence. A
    timestamp is a datetime (a naive one is UTC for TIMESTAMP) or a number of microseconds, a date is a date or a number
    of days. Uses no compiled kernels, since planning needs none; `encode_tuple_keys` is faster for many keys.

    Parameters
    ----------
    names : names of the columns, for messages

    Raises
    ------
    InvalidRequestError
        When a value does not fit its type, or there are too many values.
    """
    if len(values) > len(types):
        raise InvalidRequestError(f"The key has {plural(len(types), 'column')}, got {plural(len(values), 'value')}.")
    if not values:
        return b""
    arrays = []
    for number, (value, kind) in enumerate(zip(values, types, strict=False)):
        try:
            arrays.append(array_of([exact_value(value, kind)], kind))
        except (TypeError, ValueError, ArithmeticError) as exc:
            column = f"Key column {names[number]}" if names else f"Value {number + 1} of the key"
            raise InvalidRequestError(
                f"{column} is {sql_type(pa.field('', kind))} and cannot be {value!r}: {exc}."
            ) from exc
    key, _ = encode_few_tuples(key_columns(arrays), key_program(tuple(types[: len(values)])))
    return key.tobytes()


def decode_tuple_keys(
    sources: Sequence[RowColumns], rows: NDArray[np.int64], types: Sequence[pa.DataType], wanted: Sequence[bool]
) -> tuple[list[pa.Array | None], NDArray[np.uint8]]:
    """Return the wanted key columns of packed rows, and a `KeyStatus` for each row.

    If the status is not 0, the key is not a tuple of these types and all columns are null. The status does not depend
    on the wanted columns, since the whole key is checked.
    """
    shape = [is_wanted for kind, is_wanted in zip(types, wanted, strict=True) for _ in range(_count_columns(kind))]
    columns, status = decode_tuples(sources, rows, key_program(tuple(types)), np.array(shape, np.bool_))
    remaining = iter(columns)
    return [_next_array(remaining, kind, len(rows)) for kind in types], status


def key_damage(status: int) -> str:
    """Return the reason why a key is malformed, for messages."""
    return _REASONS[KeyStatus(status)]


@cache
def key_program(types: tuple[pa.DataType, ...]) -> NDArray[np.int64]:
    """Return the program for keys with columns of these types. It is shared and therefore read-only."""
    program = np.array([entry for kind in types for entry in _entries(pa.field("", kind))], np.int64)
    program.flags.writeable = False
    return program


def _entries(field: pa.Field) -> list[int]:
    kind, required = field.type, not field.nullable
    if kinds.is_struct(kind):
        parts = [entry for part in kind for entry in _entries(part)]
        return [program_entry(STRUCT, required=required), *parts, program_entry(END)]
    if kinds.is_string(kind):
        return [program_entry(TEXT, required=required)]
    flat = flat_kind(kind)
    if flat is None:
        require_key_type(field)
        raise AssertionError(kind)
    precision = kind.precision if kinds.is_decimal(kind) else 0
    return [program_entry(flat, precision=precision, required=required)]


def key_columns(arrays: Sequence[pa.Array | pa.ChunkedArray]) -> list[FlatColumn]:
    """Return key columns in the form of their program."""
    columns: list[FlatColumn] = []
    for array in arrays:
        _append_columns(columns, combine_chunks(array))
    return columns


def _count_columns(kind: pa.DataType) -> int:
    return 1 + sum(_count_columns(part.type) for part in kind) if kinds.is_struct(kind) else 1


def _append_columns(columns: list[FlatColumn], array: pa.Array) -> None:
    """Append the column of an array; for a struct, a column of its validity and the columns of its parts."""
    if not kinds.is_struct(array.type):
        columns.append(flat_column(array))
        return
    present = flat_column(array.is_valid()).data
    columns.append(FlatColumn(BOOL, present, valid=present if array.null_count else None))
    for number in range(array.type.num_fields):
        _append_columns(columns, array.field(number))


def _next_array(columns: Iterator[FlatColumn | None], kind: pa.DataType, count: int) -> pa.Array | None:
    """Return the next column as an array, a struct with its parts; None if it is not wanted."""
    column = next(columns)
    if not kinds.is_struct(kind):
        return None if column is None else arrow_array(column, kind)
    parts = [_next_array(columns, part.type, count) for part in kind]
    if column is None:
        return None
    validity = None if column.valid is None else pa.py_buffer(np.packbits(column.valid, bitorder="little"))
    return pa.Array.from_buffers(kind, count, [validity], children=parts)
