"""Encoder of FoundationDB's tuple layer. Source: FoundationDB, design/tuple.md.

A key is the concatenation of its items. Keys compare like their columns, from left to right, nulls first::

    null         00                      inside a struct 00 FF
    binary       01 bytes 00             zero bytes as 00 FF
    string       02 UTF-8 bytes 00       zero bytes as 00 FF
    struct       05 items 00
    integer 0    14
    integer > 0  14+n, n bytes           1 to 8, big-endian, without leading zeros
    integer < 0  14-n, n bytes           of the number + 256^n - 1
    decimal      as the integer of its digits; from 2^64 - 1 on: 1D n and n bytes, negative ones: 0B n^FF and n bytes
    float        20, 4 bytes             big-endian; if negative all bits flipped, else the sign bit; -0.0 as 0.0
    double       21, 8 bytes             likewise
    boolean      26 false, 27 true
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels.flat import BOOL, BYTES, FLOAT32, FLOAT64, INT8, INT16, INT32, INT64, INT128, FlatColumn
from slatespark.kernels.tuple_program import (
    BYTES_CODE,
    DOUBLE_CODE,
    END,
    ESCAPE,
    FALSE_CODE,
    FLOAT_CODE,
    LONG_NEGATIVE_CODE,
    LONG_POSITIVE_CODE,
    MAX_SHORT,
    NAN32,
    NAN64,
    NULL_CODE,
    STRUCT,
    STRUCT_CODE,
    TEXT,
    TEXT_CODE,
    TRUE_CODE,
    ZERO_CODE,
    TupleStep,
    check_columns,
    item_error,
    read_program,
)

FORMATS = {BOOL: "?", INT8: "b", INT16: "<h", INT32: "<i", INT64: "<q", FLOAT32: "<f", FLOAT64: "<d"}


def encode_tuples(
    columns: Sequence[FlatColumn], program: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """See `slatespark.kernels.encode_tuples`."""
    steps = read_program(program)
    keys = [_key(steps, columns, row) for row in range(check_columns(steps, columns))]
    return np.frombuffer(b"".join(keys), np.uint8), np.cumsum([0, *map(len, keys)], dtype=np.int64)


def _key(steps: Sequence[TupleStep], columns: Sequence[FlatColumn], row: int) -> bytes:
    key, number = b"", 0
    while number < len(steps):
        step = steps[number]
        if step.kind == END:
            key += b"\0"
        elif is_null(columns[step.column], row):
            if step.required:
                raise item_error(steps, number, row, columns)
            key += bytes([NULL_CODE, ESCAPE]) if step.nested else bytes([NULL_CODE])
            number += step.parts
        elif step.kind == STRUCT:
            key += bytes([STRUCT_CODE])
        else:
            item = item_of(columns[step.column], row)
            encoded = None if item is None else encode_item(step, item)
            if encoded is None:
                raise item_error(steps, number, row, columns)
            key += encoded
        number += 1
    return key


def is_null(column: FlatColumn, row: int) -> bool:
    """Tell whether an item is null."""
    return column.valid is not None and not column.valid[row]


def item_of(column: FlatColumn, row: int) -> Any:
    """Return an item, bytes or a number."""
    if column.offsets is not None:
        start, end = column.offsets[row : row + 2].tolist()
        return column.data[start:end].tobytes()
    data = column.data.tobytes()
    if column.kind == INT128:
        return int.from_bytes(data[16 * row : 16 * row + 16], "little", signed=True)
    layout = FORMATS[column.kind]
    return struct.unpack_from(layout, data, row * struct.calcsize(layout))[0]


def encode_item(step: TupleStep, item: Any) -> bytes | None:
    """Encode an item that is not null; None if it is invalid."""
    if step.kind in (TEXT, BYTES):
        if step.kind == TEXT and not is_text(item):
            return None
        code = TEXT_CODE if step.kind == TEXT else BYTES_CODE
        escaped: bytes = item.replace(b"\0", bytes([NULL_CODE, ESCAPE]))
        return bytes([code]) + escaped + b"\0"
    if step.kind == BOOL:
        return bytes([TRUE_CODE if item else FALSE_CODE])
    if step.kind == FLOAT32:
        bits = NAN32 if item != item else int.from_bytes(struct.pack(">f", item + 0.0), "big")
        return bytes([FLOAT_CODE]) + _ordered(bits, 32)
    if step.kind == FLOAT64:
        bits = NAN64 if item != item else int.from_bytes(struct.pack(">d", item + 0.0), "big")  # -0.0 + 0.0 is 0.0
        return bytes([DOUBLE_CODE]) + _ordered(bits, 64)
    if abs(item) > step.limit + (step.kind != INT128 and item < 0):
        return None
    return encode_integer(item)


def is_text(data: bytes) -> bool:
    """Tell whether bytes are UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _ordered(bits: int, size: int) -> bytes:
    """Return the bits of a float in the order of its values."""
    negative = bits >> (size - 1)
    return (bits ^ ((1 << size) - 1 if negative else 1 << (size - 1))).to_bytes(size // 8, "big")


def encode_integer(number: int) -> bytes:
    """Encode an integer of up to 255 bytes."""
    magnitude = abs(number)
    size = (magnitude.bit_length() + 7) // 8
    data = (number if number >= 0 else number + (1 << 8 * size) - 1).to_bytes(size, "big")
    if magnitude <= MAX_SHORT:
        return bytes([ZERO_CODE + size if number >= 0 else ZERO_CODE - size]) + data
    return (bytes([LONG_POSITIVE_CODE, size]) if number > 0 else bytes([LONG_NEGATIVE_CODE, size ^ 0xFF])) + data
