"""Encoder of FoundationDB's tuple layer, compiled. Layout: `slatespark.kernels.reference.tuple_encode`.

It interprets the program for each row, so one compiled function serves every schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels._compile import Kernel, inlined
from slatespark.kernels._native import (
    SLACK,
    leading_zeros,
    load8,
    load32,
    load64,
    load_part,
    load_word,
    store8,
    store16,
    store32,
    store64,
    store_word,
    swap_word,
    zero_bits,
)
from slatespark.kernels._sources import address_of, checked_address
from slatespark.kernels._utf8 import is_utf8
from slatespark.kernels.flat import BOOL, BYTES, FLOAT32, FLOAT64, INT8, INT16, INT32, INT64, INT128, FlatColumn
from slatespark.kernels.tuple_program import (
    BYTES_CODE,
    DOUBLE_CODE,
    ESCAPE,
    FALSE_CODE,
    FLOAT_CODE,
    LONG_NEGATIVE_CODE,
    LONG_POSITIVE_CODE,
    MAX_SHORT,
    NAN32,
    NAN64,
    STRUCT,
    STRUCT_CODE,
    TEXT,
    TEXT_CODE,
    ZERO_CODE,
    TupleStep,
    check_columns,
    item_error,
    read_program,
)

# Byte offsets in the record of a step.
KIND, PARTS, NULL_BYTES, DATA, DATA_END, OFFSETS, VALID, LIMIT_LOW, LIMIT_HIGH = range(0, 72, 8)
LINE_BYTES: Final = 72

_NO_NULL: Final = 0  # value of NULL_BYTES for a required item

LOW_BITS: Final = np.uint64(0x0101_0101_0101_0101)
HIGH_BITS: Final = np.uint64(0x8080_8080_8080_8080)
NONE: Final = np.uint64(0)
ALL: Final = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_NULL: Final = ESCAPE << 8  # stored little-endian: the zero comes first
_MAX_SHORT: Final = np.uint64(MAX_SHORT)
_SIGN64: Final = -(2**63)
_INFINITY32: Final = 0x7F80_0000
_INFINITY64: Final = 0x7FF0_0000_0000_0000
_MAX_I64: Final = 2**63 - 1

# Above this size, zeros are counted instead of reserving memory for the worst case.
_GUESSED_BYTES: Final = 64 << 20


def encode_tuples(
    columns: Sequence[FlatColumn], program: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """See `slatespark.kernels.encode_tuples`."""
    steps = read_program(program)
    count = check_columns(steps, columns)
    held = [None if step.column < 0 else columns[step.column] for step in steps]
    table = np.array([_line(step, column, count) for step, column in zip(steps, held, strict=True)], np.int64)
    room = count * sum(step.most_bytes for step in steps) + sum(map(_most_bytes, columns))
    keys, offsets = np.empty(room + SLACK, np.uint8), np.empty(count + 1, np.int64)
    total = _encode(address_of(table), len(steps), count, address_of(keys), address_of(offsets))
    if total < 0:
        row, number = divmod(-1 - total, len(steps))
        raise item_error(steps, number, row, columns)
    return keys[:total], offsets


def _most_bytes(column: FlatColumn) -> int:
    """Return an upper bound of the size of a column's strings with escaped zeros."""
    if column.offsets is None:
        return 0
    data = column.data[column.offsets[0] : column.offsets[-1]]
    return 2 * len(data) if len(data) < _GUESSED_BYTES else 2 * len(data) - int(np.count_nonzero(data))


def _line(step: TupleStep, column: FlatColumn | None, count: int) -> tuple[int, ...]:
    data, data_end, offsets, valid = 0, 0, 0, 0
    if column is not None:
        data = checked_address(column.data, np.uint8, 0)
        data_end = data + len(column.data)
        offsets = 0 if column.offsets is None else checked_address(column.offsets, np.int64, count + 1)
        valid = 0 if column.valid is None else checked_address(column.valid, np.uint8, count)
    null_bytes = _NO_NULL if step.required else step.null_bytes
    return (step.kind, step.parts, null_bytes, data, data_end, offsets, valid, *limit_words(step))


def limit_words(step: TupleStep) -> tuple[Any, Any]:
    """Return a step's largest number as two words."""
    return step.limit & _MAX_I64 | -(step.limit >> 63 & 1) << 63, step.limit >> 64


@inlined
def _put_magnitude(at: int, magnitude: np.uint64, sign: int) -> int:
    """Write an integer of up to 8 bytes; the sign is 0 or -1. Like all `_put` functions, returns its end."""
    size = (71 - leading_zeros(magnitude)) >> 3
    word = (magnitude ^ np.uint64(sign)) << np.uint64((64 - 8 * size) & 63)
    store8(at, ZERO_CODE + (size ^ sign) - sign)
    store_word(at + 1, swap_word(word))
    return at + 1 + size


@inlined
def _put_integer(at: int, number: int) -> int:
    sign = number >> 63
    return _put_magnitude(at, np.uint64((number ^ sign) - sign), sign)


@inlined
def _put_decimal(at: int, source: int, line: int) -> int:
    """Write a number of 16 bytes; return -1 if it has too many digits."""
    low, high, sign = load_word(source), load_word(source + 8), load64(source + 8) >> 63
    if sign != 0:
        low, high = ~low + np.uint64(1), ~high
        if low == NONE:
            high += np.uint64(1)
    limit = load_word(line + LIMIT_HIGH)
    if high > limit or (high == limit and low > load_word(line + LIMIT_LOW)):
        return -1
    if high == NONE and low <= _MAX_SHORT:
        return _put_magnitude(at, low, sign)
    above = (71 - leading_zeros(high)) >> 3
    store8(at, LONG_POSITIVE_CODE if sign == 0 else LONG_NEGATIVE_CODE)
    store8(at + 1, (8 + above) ^ sign)
    store_word(at + 2, swap_word((high ^ np.uint64(sign)) << np.uint64((64 - 8 * above) & 63)))
    store_word(at + 2 + above, swap_word(low ^ np.uint64(sign)))
    return at + 10 + above


@inlined
def _put_double(at: int, bits: int) -> int:
    if bits & _MAX_I64 > _INFINITY64:
        bits = NAN64
    elif bits == _SIGN64:
        bits = 0
    store8(at, DOUBLE_CODE)
    store_word(at + 1, swap_word(np.uint64(bits ^ (bits >> 63 | _SIGN64))))
    return at + 9


@inlined
def _put_float(at: int, bits: int) -> int:
    if bits & 0x7FFF_FFFF > _INFINITY32:
        bits = NAN32
    elif bits == 0x8000_0000:
        bits = 0
    bits ^= 0xFFFF_FFFF if bits & 0x8000_0000 else 0x8000_0000
    store8(at, FLOAT_CODE)
    store32(at + 1, int(np.int64(swap_word(np.uint64(bits)) >> np.uint64(32))))
    return at + 5


@inlined
def first_zero(word: np.uint64) -> np.uint64:
    """Return a word whose lowest set bit is in the first zero byte, or 0 without zero bytes."""
    return (word - LOW_BITS) & ~word & HIGH_BITS


@inlined
def _put_bytes(at: int, source: int, size: int, source_end: int) -> tuple[int, np.uint64]:
    """Write a string with escaped zeros and its terminator; also returns a word with a high bit if any byte has one."""
    end, seen = source + size, NONE
    while source < end:
        rest = end - source
        word = load_word(source) if source + 8 <= source_end else load_part(source, rest)
        store_word(at, word)
        zero = first_zero(word)
        taken = zero_bits(zero) >> 3 if zero != NONE else 8
        if taken >= rest:  # ignore bytes after the string
            at += rest
            seen |= word & ALL >> np.uint64(64 - 8 * min(rest, 8))
            break
        seen |= word
        at += taken
        source += taken
        if taken < 8:
            store16(at, _NULL)
            at += 2
            source += 1
    store8(at, 0)
    return at + 1, seen


@inlined
def _put_item(at: int, kind: int, line: int, row: int) -> int:  # noqa: C901
    """Write an item that is not null, or the start or end of a struct; return -1 if it is invalid."""
    data = load64(line + DATA)
    if kind == INT64:
        return _put_integer(at, load64(data + 8 * row))
    elif BYTES <= kind <= TEXT:
        offset_at = load64(line + OFFSETS) + 8 * row
        start = load64(offset_at)
        size = load64(offset_at + 8) - start
        store8(at, TEXT_CODE if kind == TEXT else BYTES_CODE)
        next_at, seen = _put_bytes(at + 1, data + start, size, load64(line + DATA_END))
        if kind == TEXT and seen & HIGH_BITS != NONE and not is_utf8(data + start, size):
            return -1
        return next_at
    elif kind == INT32:
        return _put_integer(at, (load32(data + 4 * row) ^ 0x8000_0000) - 0x8000_0000)
    elif kind == FLOAT64:
        return _put_double(at, load64(data + 8 * row))
    elif kind == BOOL:
        store8(at, FALSE_CODE + (load8(data + row) != 0))
        return at + 1
    elif kind == INT16:
        return _put_integer(at, ((load8(data + 2 * row) | load8(data + 2 * row + 1) << 8) ^ 0x8000) - 0x8000)
    elif kind == INT8:
        return _put_integer(at, (load8(data + row) ^ 0x80) - 0x80)
    elif kind == FLOAT32:
        return _put_float(at, load32(data + 4 * row))
    elif kind == INT128:
        return _put_decimal(at, data + 16 * row, line)
    store8(at, STRUCT_CODE if kind == STRUCT else 0)
    return at + 1


@Kernel
def _encode(table: int, steps: int, count: int, keys: int, offsets: int) -> int:
    """Write the keys and their offsets; return the total size, or `-1 - row * steps - step` of an invalid item."""
    at = keys
    for row in range(count):
        store64(offsets + 8 * row, at - keys)
        step = 0
        while step < steps:
            line = table + step * LINE_BYTES
            valid = load64(line + VALID)
            if valid != 0 and load8(valid + row) == 0:
                null_bytes = load64(line + NULL_BYTES)
                if null_bytes == _NO_NULL:
                    return -1 - row * steps - step
                store16(at, _NULL)
                at += null_bytes
                step += load64(line + PARTS)
            else:
                at = _put_item(at, load64(line + KIND), line, row)
                if at < 0:
                    return -1 - row * steps - step
            step += 1
    store64(offsets + 8 * count, at - keys)
    return at - keys
