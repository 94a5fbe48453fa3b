"""Arrow arrays of flat types to columns for kernels, and back; buffers are shared where the layouts agree."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slatespark.errors import InternalError, InvalidRequestError
from slatespark.kernels.flat import (
    BOOL,
    BYTES,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    INT128,
    ITEM_BYTES,
    FlatColumn,
)

_KINDS: Final = {
    pa.int8(): INT8,
    pa.int16(): INT16,
    pa.int32(): INT32,
    pa.int64(): INT64,
    pa.float32(): FLOAT32,
    pa.float64(): FLOAT64,
    pa.date32(): INT32,
    pa.bool_(): BOOL,
    pa.string(): BYTES,
    pa.binary(): BYTES,
}


_NANOS_PER_MICRO: Final = 1000


def flat_kind(kind: pa.DataType) -> int | None:
    """Return the column kind of a table's type; None for a nested type (list, map, struct)."""
    if kind in _KINDS:
        return _KINDS[kind]
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time64(kind):
        return INT64
    return INT128 if pa.types.is_decimal128(kind) else None


def flat_column(array: pa.Array | pa.ChunkedArray) -> FlatColumn:
    """Return an array of a flat type as a column.

    Raises
    ------
    InvalidRequestError
        When the array holds 2 GiB or more of bytes.
    """
    whole = combine_chunks(array)
    kind = flat_kind(whole.type)
    if kind is None:
        raise InternalError(f"{whole.type} is not a flat type.")
    valid = None
    if whole.null_count:
        valid = _unpacked(whole.buffers()[0], whole.offset, len(whole))
    if kind == BOOL:
        return FlatColumn(BOOL, _unpacked(whole.buffers()[1], whole.offset, len(whole)), valid=valid)
    if kind == BYTES:
        return FlatColumn(BYTES, *_bytes_of(whole), valid=valid)
    width = ITEM_BYTES[kind]
    data = _buffer(whole.buffers()[1])[whole.offset * width : (whole.offset + len(whole)) * width]
    return FlatColumn(kind, data, valid=valid)


def arrow_array(column: FlatColumn, kind: pa.DataType) -> pa.Array:
    """Return a column as an array of a flat type. Requires: the type has the kind of the column."""
    rows = len(column)
    validity = None
    nulls = 0
    if column.valid is not None:
        nulls = rows - int(np.count_nonzero(column.valid))
        if nulls:
            validity = pa.py_buffer(np.packbits(column.valid, bitorder="little"))
    if column.offsets is not None:
        offsets = np.ascontiguousarray(column.offsets, np.int32)
        buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(column.data)]
    elif column.kind == BOOL:
        buffers = [validity, pa.py_buffer(np.packbits(column.data, bitorder="little"))]
    else:
        buffers = [validity, pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind, rows, buffers, null_count=nulls)


def array_of_micros(column: FlatColumn, kind: pa.DataType) -> pa.Array:
    """Return a column as `arrow_array`, but of times of day in microseconds, which Avro has."""
    if pa.types.is_time64(kind):
        nanos = column.data.view(np.int64) * _NANOS_PER_MICRO
        column = FlatColumn(column.kind, nanos.view(np.uint8), valid=column.valid)
    return arrow_array(column, kind)


def combine_chunks(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array; raises `InvalidRequestError` if it does not fit."""
    if not isinstance(array, pa.ChunkedArray):
        return array
    if array.num_chunks == 1:
        return array.chunk(0)
    try:
        whole = array.combine_chunks()
    except pa.ArrowInvalid as exc:
        raise InvalidRequestError(
            f"The chunks of a column cannot be combined: {exc}.", todo="Lower writeBuffer."
        ) from exc
    if isinstance(whole, pa.ChunkedArray):  # the bytes exceed the offsets of one array
        raise InvalidRequestError("A column holds more than 2 GiB in one batch.", todo="Lower writeBuffer.")
    return whole


def _bytes_of(array: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    _, offsets, data = array.buffers()
    if offsets is None or not len(array):
        return np.zeros(0, np.uint8), np.zeros(len(array) + 1, np.int64)
    bounds = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    return _buffer(data), bounds


def _buffer(buffer: Any) -> NDArray[np.uint8]:
    return np.zeros(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)


def _unpacked(buffer: Any, start: int, count: int) -> NDArray[np.uint8]:
    """Return the bits [start, start + count) as bytes."""
    first = start // 8
    bits = np.unpackbits(_buffer(buffer)[first : (start + count + 7) // 8], bitorder="little")
    return bits[start - first * 8 : start - first * 8 + count]
