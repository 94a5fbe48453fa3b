"""Encoder of columns to Avro values of rows, compiled. Types: `slatespark.kernels.avro_program`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import InternalError
from slatespark.kernels._compile import Kernel, called, inlined
from slatespark.kernels._native import (
    SLACK,
    copy_wide,
    load8,
    load16,
    load32,
    load64,
    load_word,
    store8,
    store32,
    store64,
)
from slatespark.kernels._sources import address_of, checked_address, cut_to
from slatespark.kernels._utf8 import copy_text
from slatespark.kernels._varint import leading_zeros, write_long
from slatespark.kernels.avro_program import (
    ARRAY,
    DECIMAL,
    DOUBLE,
    FLOAT,
    HEAD_BYTES,
    MAP,
    MARKER,
    MAX_VARINT_BYTES,
    NOT_NULLABLE,
    RECORD,
    TAKE_4,
    TAKE_8,
    TAKE_BOOL,
    TAKE_BYTES,
    TAKE_INT8,
    TAKE_INT16,
    TAKE_INT32,
    TAKE_INT64,
    TAKE_NESTED,
    TAKE_TEXT,
    TAKES,
    WRITTEN,
    AvroNode,
    EncodeProgram,
    text_error,
)
from slatespark.kernels.flat import ITEM_BYTES, FlatColumn, check_offsets

# Byte offsets in the record of a column: the step; the branch bytes of a value (negative if the type is not a union)
# and of null; addresses (valid is 0 if no item is null); the end of the data.
_TAKE: Final = 0
_BRANCH: Final = 8
_NULL_BRANCH: Final = 16
_DATA: Final = 24
_OFFSETS: Final = 32
_VALID: Final = 40
_DATA_END: Final = 48
_COLUMN_BYTES: Final = 56

_NO_BRANCH: Final = -1
_MARKER: Final = int.from_bytes(MARKER, "little")

# Largest size of a value with its union's branch, without the bytes of strings.
_MOST_BYTES: Final = {FLOAT: 5, DOUBLE: 9, DECIMAL: 18, RECORD: 1, ARRAY: 1, MAP: 1}


def encode_avro(
    columns: Sequence[FlatColumn], program: EncodeProgram, count: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """See `slatespark.kernels.encode_avro`."""
    lines = np.array(
        [_column_line(column, node, count) for column, node in zip(columns, program.nodes, strict=True)], np.int64
    ).reshape(-1)
    room = count * (HEAD_BYTES + sum(_MOST_BYTES.get(node.wire, 1 + MAX_VARINT_BYTES) for node in program.nodes))
    room += sum(int(column.offsets[-1] - column.offsets[0]) for column in columns if column.offsets is not None)
    values, offsets = np.empty(room + SLACK, np.uint8), np.empty(count + 1, np.int64)
    number = program.fingerprint or 0
    head = 0 if program.fingerprint is None else HEAD_BYTES
    told = address_of(lines), len(columns), head, number - (number >> 63 << 64), count
    used = _encode(*told, address_of(values), address_of(offsets))
    if used < 0:
        raise text_error()
    return cut_to(values, used), offsets


def _column_line(column: FlatColumn, node: AvroNode, count: int) -> tuple[int, ...]:
    if len(column) < count:
        raise InternalError(f"A column has {len(column)} items, expected {count}.")
    check_offsets(column)
    take = TAKES.get((node.wire, column.kind))
    if take not in WRITTEN:
        raise InternalError(f"A column of kind {column.kind} cannot be encoded as Avro type {node.wire}.")
    data = checked_address(column.data, np.uint8, count * ITEM_BYTES.get(column.kind, 0))
    offsets = 0 if column.offsets is None else checked_address(column.offsets, np.int64, count + 1)
    valid = 0 if column.valid is None else checked_address(column.valid, np.uint8, count)
    null_branch = max(node.null_branch, 0)
    branch = _NO_BRANCH if node.null_branch == NOT_NULLABLE else 1 - null_branch
    if valid and branch == _NO_BRANCH:
        raise InternalError("A column with nulls cannot be encoded as an Avro type without null.")
    return take, 2 * branch, 2 * null_branch, data, offsets, valid, data + len(column.data)


@inlined
def _put_bytes(at: int, column: int, number: int, take: int) -> int:
    """Write bytes, length-prefixed unless they are a nested value; return their end.

    Returns 0 for text that is not UTF-8.
    """
    offset_at = load64(column + _OFFSETS) + 8 * number
    offset = load64(offset_at)
    size = load64(offset_at + 8) - offset
    if take != TAKE_NESTED:
        at = write_long(at, size)
    source = load64(column + _DATA) + offset
    if take == TAKE_TEXT:
        return at + size if copy_text(at, source, size, load64(column + _DATA_END)) else 0
    copy_wide(at, source, size, load64(column + _DATA_END))
    return at + size


@called
def _put_decimal(at: int, item: int) -> int:
    """Write 16 little-endian bytes as the fewest big-endian bytes, length-prefixed; return their end."""
    low, high = load_word(item), load_word(item + 8)
    sign = np.uint64(0) - (high >> np.uint64(63))
    if high ^ sign != np.uint64(0):
        bits = 128 - leading_zeros(high ^ sign)
    elif low ^ sign != np.uint64(0):
        bits = 64 - leading_zeros(low ^ sign)
    else:
        bits = 0
    size = bits // 8 + 1  # includes a sign bit
    store8(at, size << 1)
    for number in range(size):
        store8(at + size - number, load8(item + number))
    return at + 1 + size


@inlined
def _put(at: int, column: int, number: int) -> int:
    """Write one value that is not null; return its end, or 0 if it is invalid."""
    take = load64(column + _TAKE)
    if take in (TAKE_TEXT, TAKE_BYTES, TAKE_NESTED):
        return _put_bytes(at, column, number, take)
    data = load64(column + _DATA)
    if take == TAKE_INT64:
        return write_long(at, load64(data + 8 * number))
    if take == TAKE_INT32:
        return write_long(at, int(np.int32(load32(data + 4 * number))))
    if take == TAKE_8:
        store64(at, load64(data + 8 * number))
        return at + 8
    if take == TAKE_BOOL:
        store8(at, load8(data + number))
        return at + 1
    if take == TAKE_4:
        store32(at, load32(data + 4 * number))
        return at + 4
    if take == TAKE_INT16:
        return write_long(at, int(np.int16(load16(data + 2 * number))))
    if take == TAKE_INT8:
        return write_long(at, int(np.int8(load8(data + number))))
    return _put_decimal(at, data + 16 * number)


@Kernel
def _encode(columns: int, column_count: int, head: int, fingerprint: int, count: int, values: int, offsets: int) -> int:
    """Write all rows and their offsets; return the total size, or -1 for invalid text. `head` is 0 or HEAD_BYTES.

    Requires: `values` has room for all rows and SLACK bytes.
    """
    at = values
    columns_end = columns + column_count * _COLUMN_BYTES
    for number in range(count):
        store64(offsets + 8 * number, at - values)
        if head != 0:
            store32(at, _MARKER)
            store64(at + 2, fingerprint)
            at += head
        column = columns
        while column < columns_end:
            branch = load64(column + _BRANCH)
            if branch >= 0:
                valid = load64(column + _VALID)
                if valid != 0 and load8(valid + number) == 0:
                    store8(at, load64(column + _NULL_BRANCH))
                    at += 1
                    column += _COLUMN_BYTES
                    continue
                store8(at, branch)
                at += 1
            at = _put(at, column, number)
            if at == 0:
                return -1
            column += _COLUMN_BYTES
    store64(offsets + 8 * count, at - values)
    return at - values
