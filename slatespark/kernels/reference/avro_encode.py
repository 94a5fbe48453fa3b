"""Encoder of columns to Avro values of rows. Layout: `slatespark.kernels.reference.avro_decode`."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import InternalError
from slatespark.kernels.avro_program import (
    DATA,
    DECIMAL,
    INT,
    LONG,
    MARKER,
    NOT_NULLABLE,
    TAKES,
    TEXT,
    WRITTEN,
    AvroNode,
    EncodeProgram,
    text_error,
)
from slatespark.kernels.flat import ITEM_BYTES, FlatColumn, check_offsets


def encode_avro(
    columns: Sequence[FlatColumn], program: EncodeProgram, count: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """See `slatespark.kernels.encode_avro`."""
    for column, node in zip(columns, program.nodes, strict=True):
        _check(column, node, count)
    head = b"" if program.fingerprint is None else MARKER + struct.pack("<Q", program.fingerprint)
    values = [
        head + b"".join(_field(column, node, row) for column, node in zip(columns, program.nodes, strict=True))
        for row in range(count)
    ]
    return np.frombuffer(b"".join(values), np.uint8), np.cumsum([0, *map(len, values)], dtype=np.int64)


def _check(column: FlatColumn, node: AvroNode, count: int) -> None:
    if len(column) < count:
        raise InternalError(f"A column has {len(column)} items, expected {count}.")
    check_offsets(column)
    if TAKES.get((node.wire, column.kind)) not in WRITTEN:
        raise InternalError(f"A column of kind {column.kind} cannot be encoded as Avro type {node.wire}.")
    if column.valid is not None and node.null_branch == NOT_NULLABLE:
        raise InternalError("A column with nulls cannot be encoded as an Avro type without null.")


def _field(column: FlatColumn, node: AvroNode, row: int) -> bytes:
    if node.null_branch == NOT_NULLABLE:
        return _value(column, node.wire, row)
    if column.valid is not None and not column.valid[row]:
        return _long(node.null_branch)
    return _long(1 - node.null_branch) + _value(column, node.wire, row)


def _value(column: FlatColumn, wire: int, row: int) -> bytes:
    if column.offsets is not None:
        item = column.data[column.offsets[row] : column.offsets[row + 1]].tobytes()
        if wire == TEXT and not is_text(item):
            raise text_error()
        return _long(len(item)) + item if wire in (DATA, TEXT) else item
    width = ITEM_BYTES[column.kind]
    item = column.data[row * width : (row + 1) * width].tobytes()
    if wire in (INT, LONG):
        return _long(int.from_bytes(item, "little", signed=True))
    if wire == DECIMAL:
        number = int.from_bytes(item, "little", signed=True)
        size = (number if number >= 0 else ~number).bit_length() // 8 + 1  # includes a sign bit
        return _long(size) + number.to_bytes(size, "big", signed=True)
    return item


def is_text(data: bytes) -> bool:
    """Tell whether bytes are UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _long(number: int) -> bytes:
    word = (number << 1) ^ (number >> 63)
    data = bytearray()
    while word >= 0x80:
        data.append(word & 0x7F | 0x80)
        word >>= 7
    data.append(word)
    return bytes(data)
