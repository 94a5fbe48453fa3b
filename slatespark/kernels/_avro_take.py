"""Steps of the Avro decoder, compiled: decode one field of one row into its column."""

from __future__ import annotations

from typing import Final

import numpy as np

from slatespark.kernels._avro_skip import skip_bytes, skip_value
from slatespark.kernels._compile import called, inlined
from slatespark.kernels._floats import float32_bits, float64_bits, widened_bits
from slatespark.kernels._native import (
    copy_wide,
    load8,
    load32,
    load64,
    store8,
    store16,
    store32,
    store64,
    store_word,
)
from slatespark.kernels._utf8 import copy_text
from slatespark.kernels._varint import read_long, skip_long
from slatespark.kernels.avro_program import (
    INT_TO_FLOAT32,
    INT_TO_FLOAT64,
    SKIP_BYTES,
    SKIP_FIXED,
    SKIP_NESTED,
    SKIP_VARINT,
    TAKE_4,
    TAKE_8,
    TAKE_BOOL,
    TAKE_BYTES,
    TAKE_DECIMAL,
    TAKE_INT8,
    TAKE_INT16,
    TAKE_INT32,
    TAKE_INT64,
    TAKE_TEXT,
    WIDEN_FLOAT,
)

# Byte offsets in the record of a column: bytes per item, 0 for BYTES; addresses.
WIDTH: Final = 0
DATA_AT: Final = 8
OFFSETS: Final = 16
VALID: Final = 24
COLUMN_BYTES: Final = 32

# Byte offsets in the record of a step. `COLUMN` is the address of the column's record, 0 if skipped; `LOW`, `HIGH` are
# the range, or the words of the largest magnitude, low word first; `DETAIL` is a node, or the bytes to skip.
TAKE: Final = 0
NULL_BRANCH: Final = 8
COLUMN: Final = 16
LOW: Final = 24
HIGH: Final = 32
DETAIL: Final = 40
STEP_BYTES: Final = 48


@inlined
def set_null(column: int, number: int) -> None:
    """Make item `number` of a column null: an empty string, or a zero number."""
    store8(load64(column + VALID) + number, 0)
    width = load64(column + WIDTH)
    if width == 0:
        offset = load64(column + OFFSETS) + 4 * number
        store32(offset + 4, load32(offset))
    elif width == 1:
        store8(load64(column + DATA_AT) + number, 0)
    elif width == 2:
        store16(load64(column + DATA_AT) + 2 * number, 0)
    elif width == 4:
        store32(load64(column + DATA_AT) + 4 * number, 0)
    else:
        item = load64(column + DATA_AT) + width * number
        store64(item, 0)
        if width == 16:
            store64(item + 8, 0)


@called
def _take_decimal(target: int, at: int, size: int, limit_low: int, limit_high: int) -> bool:
    """Store `size` >= 1 bytes as 16 little-endian bytes; tell whether the magnitude is within the limit."""
    filler = 0xFF if load8(at) & 0x80 else 0
    while size > 16:  # excess bytes may only repeat the sign
        if load8(at) != filler:
            return False
        at += 1
        size -= 1
    word, other = np.uint64(0), np.uint64(0)
    if filler != 0:
        word, other = ~word, ~other
    for number in range(size):
        other = other << np.uint64(8) | word >> np.uint64(56)
        word = word << np.uint64(8) | np.uint64(load8(at + number))
    store_word(target, word)
    store_word(target + 8, other)
    if (np.int64(other) < 0) != (filler != 0):  # the dropped filler was not the sign of the remaining 16 bytes
        return False
    if filler != 0:
        word = ~word + np.uint64(1)
        other = ~other + np.uint64(1 if word == np.uint64(0) else 0)
    high = np.uint64(limit_high)
    return bool(other < high or (other == high and word <= np.uint64(limit_low)))


@inlined
def _take_bytes(step: int, number: int, at: int, end: int, values_end: int, take: int) -> int:
    """Copy length-prefixed bytes to the step's column; return their end, or 0."""
    size, at = read_long(at, end, values_end)
    if at == 0 or size < 0 or size > end - at:
        return 0
    column = load64(step + COLUMN)
    offset = load64(column + OFFSETS) + 4 * number
    start = load32(offset)
    target = load64(column + DATA_AT) + start
    if take == TAKE_TEXT:
        if not copy_text(target, at, size, values_end):
            return 0
    else:
        copy_wide(target, at, size, values_end)
    store32(offset + 4, start + size)
    return at + size


@inlined
def _take_integer(step: int, number: int, at: int, end: int, values_end: int, take: int) -> int:
    """Store a number in the step's column; return its end, or 0."""
    value, at = read_long(at, end, values_end)
    if value < load64(step + LOW) or value > load64(step + HIGH):
        return 0
    data = load64(load64(step + COLUMN) + DATA_AT)
    if take == TAKE_INT64:
        store64(data + 8 * number, value)
    elif take == TAKE_INT32:
        store32(data + 4 * number, value)
    elif take == TAKE_INT16:
        store16(data + 2 * number, value)
    else:
        store8(data + number, value)
    return at


@called
def _take_rare(step: int, number: int, at: int, end: int, values_end: int, take: int, stack: int) -> int:
    """Run a rare step: promotions, decimals and nested values; return the end of its field, or 0."""
    if take == SKIP_NESTED:  # has no column
        return skip_value(at, end, values_end, load64(step + DETAIL), stack, False)
    column = load64(step + COLUMN)
    data = load64(column + DATA_AT)
    if take in (INT_TO_FLOAT32, INT_TO_FLOAT64):
        value, at = read_long(at, end, values_end)
        if at == 0 or value < load64(step + LOW) or value > load64(step + HIGH):
            return 0
        if take == INT_TO_FLOAT32:
            store32(data + 4 * number, float32_bits(value))
        else:
            store64(data + 8 * number, float64_bits(value))
        return at
    if take == WIDEN_FLOAT:
        if end - at < 4:
            return 0
        store64(data + 8 * number, widened_bits(load32(at)))
        return at + 4
    if take == TAKE_DECIMAL:
        size, at = read_long(at, end, values_end)
        if at == 0 or size <= 0 or size > end - at:
            return 0
        inside = _take_decimal(data + 16 * number, at, size, load64(step + LOW), load64(step + HIGH))
        return at + size if inside else 0
    after = skip_value(at, end, values_end, load64(step + DETAIL), stack, True)
    if after != 0:
        offset = load64(column + OFFSETS) + 4 * number
        start = load32(offset)
        copy_wide(data + start, at, after - at, values_end)
        store32(offset + 4, start + after - at)
    return after


@inlined
def do_step(step: int, number: int, at: int, end: int, values_end: int, take: int, stack: int) -> int:  # noqa: C901
    """Decode or skip one value that is not null; return its end, or 0."""
    if take in (TAKE_TEXT, TAKE_BYTES):
        return _take_bytes(step, number, at, end, values_end, take)
    if take >= TAKE_INT8 and take <= TAKE_INT64:
        return _take_integer(step, number, at, end, values_end, take)
    if take == TAKE_8:
        if end - at < 8:
            return 0
        store64(load64(load64(step + COLUMN) + DATA_AT) + 8 * number, load64(at))
        return at + 8
    if take == SKIP_VARINT:
        return skip_long(at, end, values_end)
    if take == SKIP_BYTES:
        return skip_bytes(at, end, values_end, False)
    if take == SKIP_FIXED:
        size = load64(step + DETAIL)
        return at + size if size <= end - at else 0
    if take == TAKE_BOOL:
        if at >= end or load8(at) > 1:
            return 0
        store8(load64(load64(step + COLUMN) + DATA_AT) + number, load8(at))
        return at + 1
    if take == TAKE_4:
        if end - at < 4:
            return 0
        store32(load64(load64(step + COLUMN) + DATA_AT) + 4 * number, load32(at))
        return at + 4
    return _take_rare(step, number, at, end, values_end, take, stack)
