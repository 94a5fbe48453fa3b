"""Decoder of FoundationDB's tuple layer, compiled. Layout: `slatespark.kernels.reference.tuple_encode`.

Keys are not trusted: no byte after a key's end is read, and keys that are not in canonical form are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels._compile import Kernel, called, inlined
from slatespark.kernels._native import (
    SLACK,
    load8,
    load32,
    load64,
    load_part,
    load_word,
    prefix_word,
    store8,
    store16,
    store32,
    store64,
    store_word,
    swap_word,
    swapped32,
    zero_bits,
)
from slatespark.kernels._sources import address_of, cut_to, line_of, position_of, source_table
from slatespark.kernels._utf8 import is_utf8
from slatespark.kernels.columns import RowColumns
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
from slatespark.kernels.gather import KEY, check_row, room_for, span_of
from slatespark.kernels.tuple_encode import ALL, HIGH_BITS, NONE, first_zero, limit_words
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
    STRUCT,
    STRUCT_CODE,
    TEXT,
    TEXT_CODE,
    TRUE_CODE,
    ZERO_CODE,
    KeyStatus,
    TupleStep,
    check_total,
    check_wanted,
    read_program,
)

# Byte offsets in the record of a step. An address is 0 if the column is not wanted. The bytes of strings are always
# written, because they are unescaped before they are checked.
_KIND, _PARTS, _NULL, _DATA, _OFFSETS, _VALID, _HAS_NULLS, _LIMIT_LOW, _LIMIT_HIGH = range(0, 72, 8)
_LINE_BYTES: Final = 72
_NO_NULL: Final = 0  # value of _NULL for a required item; otherwise the size of a null

# numba supports plain numbers, not enumerations. A position in a key is positive, so a status is returned negated.
_WRONG_TYPE, _CUT_SHORT = -int(KeyStatus.WRONG_TYPE), -int(KeyStatus.CUT_SHORT)
_OUT_OF_RANGE, _NOT_CANONICAL = -int(KeyStatus.OUT_OF_RANGE), -int(KeyStatus.NOT_CANONICAL)
_BAD_TEXT, _TRAILING = -int(KeyStatus.BAD_TEXT), -int(KeyStatus.TRAILING)

_MAX_SHORT: Final = np.uint64(MAX_SHORT)
_MAX_I64: Final = 2**63 - 1
_SIGN64: Final = -(2**63)


def decode_tuples(
    sources: Sequence[RowColumns], rows: NDArray[np.int64], program: NDArray[np.int64], wanted: NDArray[np.bool_]
) -> tuple[list[FlatColumn | None], NDArray[np.uint8]]:
    """See `slatespark.kernels.decode_tuples`."""
    steps, rows = read_program(program), np.ascontiguousarray(rows, np.int64)
    check_wanted(steps, wanted)
    room, count = room_for(sources, rows, KEY), len(rows)
    check_total(room)
    outputs = [_output(step, count, room) if step.kind != END and wanted[step.column] else None for step in steps]
    scratch = np.empty(room + SLACK, np.uint8)
    lines = [_line(step, output, scratch) for step, output in zip(steps, outputs, strict=True)]
    table, named, status = np.array(lines, np.int64), source_table(sources), np.empty(count, np.uint8)
    keys = address_of(named), len(sources), address_of(rows), count
    check_row(_decode(address_of(table), len(steps), *keys, address_of(status), room), sources, rows)
    has_nulls = table[:, _HAS_NULLS // 8].tolist()
    columns = [
        None if output is None else _finished(step, output, bool(some))
        for step, output, some in zip(steps, outputs, has_nulls, strict=True)
        if step.kind != END
    ]
    return columns, status


def _output(step: TupleStep, count: int, room: int) -> FlatColumn:
    """Return a column with room for all strings; untouched memory costs nothing."""
    valid = np.ones(count, np.uint8)
    if step.column_kind == BYTES:
        return FlatColumn(BYTES, np.empty(room + SLACK, np.uint8), np.zeros(count + 1, np.int32), valid)
    if step.kind == STRUCT:
        return FlatColumn(BOOL, valid, valid=valid)
    return FlatColumn(step.kind, np.empty(count * ITEM_BYTES[step.kind], np.uint8), valid=valid)


def _line(step: TupleStep, output: FlatColumn | None, scratch: NDArray[np.uint8]) -> tuple[int, ...]:
    data, offsets, valid = 0, 0, 0
    if output is not None and output.valid is not None:
        data = 0 if step.kind == STRUCT else address_of(output.data)
        offsets = 0 if output.offsets is None else address_of(output.offsets)
        valid = address_of(output.valid)
    elif step.kind != END and step.column_kind == BYTES:
        data = address_of(scratch)
    null = _NO_NULL if step.required else step.null_bytes
    return (step.kind, step.parts, null, data, offsets, valid, 0, *limit_words(step))


def _finished(step: TupleStep, output: FlatColumn, has_nulls: bool) -> FlatColumn:
    valid = output.valid if has_nulls else None
    if output.offsets is None:
        return FlatColumn(output.kind, output.data, valid=valid)
    return FlatColumn(step.column_kind, cut_to(output.data, int(output.offsets[-1])), output.offsets, valid)


@inlined
def _take_word(at: int, size: int, keys_end: int) -> np.uint64:
    """Return up to 8 bytes as a big-endian number."""
    half = np.uint64(32 - 4 * size)  # in two steps, because a shift by 64 is undefined
    word = swap_word(load_word(at)) if at + 8 <= keys_end else prefix_word(at, size)
    return word >> half >> half


@inlined
def _low_bytes(size: int) -> np.uint64:
    """Return a mask of the lowest `size` bytes."""
    half = np.uint64(32 - 4 * size)
    return ALL >> half >> half


@inlined
def _store_integer(data: int, kind: int, row: int, number: int, sign: int) -> None:
    if kind == INT64:
        store64(data + 8 * row, number)
    elif kind == INT32:
        store32(data + 4 * row, number)
    elif kind == INT16:
        store16(data + 2 * row, number)
    elif kind == INT8:
        store8(data + row, number)
    else:
        store64(data + 16 * row, number)
        store64(data + 16 * row + 8, sign)


@inlined
def _take_integer(line: int, kind: int, row: int, at: int, end: int, keys_end: int) -> int:
    """Read an integer of up to 8 bytes. Like all `_take` functions, returns its end or a negative status."""
    difference = load8(at) - ZERO_CODE
    size, sign = abs(difference), difference >> 63
    if size > 8:
        return _OUT_OF_RANGE if size == 9 else _WRONG_TYPE
    if at + 1 + size > end:
        return _CUT_SHORT
    magnitude = _take_word(at + 1, size, keys_end) ^ (np.uint64(sign) & _low_bytes(size))
    if (size > 0 and magnitude <= _low_bytes(size - 1)) or magnitude > _MAX_SHORT:
        return _NOT_CANONICAL
    below = 0 if kind == INT128 else -sign  # two's complement: one more negative number
    if magnitude > load_word(line + _LIMIT_LOW) + np.uint64(below) and load64(line + _LIMIT_HIGH) == 0:
        return _OUT_OF_RANGE
    if load64(line + _DATA) != 0:
        number = (int(np.int64(magnitude)) ^ sign) - sign
        _store_integer(load64(line + _DATA), kind, row, number, sign)
    return at + 1 + size


@called
def _take_long(line: int, row: int, at: int, end: int, keys_end: int) -> int:  # noqa: C901
    """Read a decimal of more than 8 bytes."""
    if at + 2 > end:
        return _CUT_SHORT
    negative = load8(at) == LONG_NEGATIVE_CODE
    size = load8(at + 1) ^ (0xFF if negative else 0)
    if size < 8:
        return _NOT_CANONICAL
    if size > 16:
        return _OUT_OF_RANGE
    if at + 2 + size > end:
        return _CUT_SHORT
    above = size - 8
    high, low = _take_word(at + 2, above, keys_end), _take_word(at + 2 + above, 8, keys_end)
    if negative:
        high, low = high ^ _low_bytes(above), ~low
    if (above > 0 and high >> np.uint64(8 * above - 8) == NONE) or (above == 0 and low <= _MAX_SHORT):
        return _NOT_CANONICAL
    limit = load_word(line + _LIMIT_HIGH)
    if high > limit or (high == limit and low > load_word(line + _LIMIT_LOW)):
        return _OUT_OF_RANGE
    if negative:
        high, low = ~high, ~low + np.uint64(1)
        if low == NONE:
            high += np.uint64(1)
    data = load64(line + _DATA)
    if data != 0:
        store_word(data + 16 * row, low)
        store_word(data + 16 * row + 8, high)
    return at + 2 + size


@inlined
def _take_double(line: int, row: int, at: int, end: int) -> int:
    if load8(at) != DOUBLE_CODE:
        return _WRONG_TYPE
    if at + 9 > end:
        return _CUT_SHORT
    bits = int(np.int64(swap_word(load_word(at + 1))))
    bits ^= ~(bits >> 63) | _SIGN64
    if (bits & _MAX_I64 > 0x7FF0_0000_0000_0000 and bits != NAN64) or bits == _SIGN64:
        return _NOT_CANONICAL
    if load64(line + _DATA) != 0:
        store64(load64(line + _DATA) + 8 * row, bits)
    return at + 9


@inlined
def _take_float(line: int, row: int, at: int, end: int) -> int:
    if load8(at) != FLOAT_CODE:
        return _WRONG_TYPE
    if at + 5 > end:
        return _CUT_SHORT
    bits = swapped32(at + 1)
    bits ^= 0x8000_0000 if bits & 0x8000_0000 else 0xFFFF_FFFF
    if (bits & 0x7FFF_FFFF > 0x7F80_0000 and bits != NAN32) or bits == 0x8000_0000:
        return _NOT_CANONICAL
    if load64(line + _DATA) != 0:
        store32(load64(line + _DATA) + 4 * row, bits)
    return at + 5


@inlined
def _take_string(line: int, kind: int, row: int, at: int, end: int, keys_end: int) -> int:
    """Read a string with its terminator, and unescape zeros."""
    if load8(at) != (TEXT_CODE if kind == TEXT else BYTES_CODE):
        return _WRONG_TYPE
    data, offsets = load64(line + _DATA), load64(line + _OFFSETS)
    start = data + load32(offsets + 4 * row) if offsets != 0 else data
    out, seen = start, NONE
    at += 1
    while True:
        rest = end - at
        if rest <= 0:
            return _CUT_SHORT
        word = load_word(at) if at + 8 <= keys_end else load_part(at, rest)
        store_word(out, word)
        zero = first_zero(word)
        if zero == NONE:
            seen |= word
            at += 8
            out += 8
            continue
        size = zero_bits(zero) >> 3
        if size >= rest:
            return _CUT_SHORT
        seen |= word & ~(ALL << np.uint64(8 * size))
        at += size + 1
        out += size
        if at >= end or load8(at) != ESCAPE:
            break
        at += 1
        out += 1
    if kind == TEXT and seen & HIGH_BITS != NONE and not is_utf8(start, out - start):
        return _BAD_TEXT
    if offsets != 0:
        store32(offsets + 4 * row + 4, out - data)
    return at


@inlined
def _take_item(line: int, kind: int, row: int, at: int, end: int, keys_end: int) -> int:
    """Read an item that is not null, or the start of a struct."""
    if BYTES <= kind <= TEXT:
        return _take_string(line, kind, row, at, end, keys_end)
    elif kind == FLOAT64:
        return _take_double(line, row, at, end)
    elif kind == BOOL:
        code = load8(at)
        if code != FALSE_CODE and code != TRUE_CODE:
            return _WRONG_TYPE
        if load64(line + _DATA) != 0:
            store8(load64(line + _DATA) + row, code - FALSE_CODE)
        return at + 1
    elif kind == FLOAT32:
        return _take_float(line, row, at, end)
    elif kind == STRUCT:
        return at + 1 if load8(at) == STRUCT_CODE else _WRONG_TYPE
    elif kind == INT128 and (load8(at) == LONG_NEGATIVE_CODE or load8(at) == LONG_POSITIVE_CODE):
        return _take_long(line, row, at, end, keys_end)
    return _take_integer(line, kind, row, at, end, keys_end)


@called
def _put_null(line: int, row: int) -> None:
    """Store a null in a column."""
    if load64(line + _VALID) == 0:
        return
    store64(line + _HAS_NULLS, 1)
    store8(load64(line + _VALID) + row, 0)
    kind, data = load64(line + _KIND), load64(line + _DATA)
    if BYTES <= kind <= TEXT:
        offset_at = load64(line + _OFFSETS) + 4 * row
        store32(offset_at + 4, load32(offset_at))
    elif kind == FLOAT64:
        store64(data + 8 * row, 0)
    elif kind == FLOAT32:
        store32(data + 4 * row, 0)
    elif kind == BOOL:
        store8(data + row, 0)
    elif kind != STRUCT:
        _store_integer(data, kind, row, 0, 0)


@inlined
def _take_key(table: int, steps: int, row: int, at: int, end: int, keys_end: int) -> int:  # noqa: C901
    """Read the items of a key; return 0 or a negative status."""
    step = 0
    while step < steps:
        line = table + step * _LINE_BYTES
        step += 1
        if at >= end:
            return _CUT_SHORT
        kind = load64(line + _KIND)
        if load8(at) != 0:
            at = _take_item(line, kind, row, at, end, keys_end) if kind != END else _WRONG_TYPE
            if at < 0:
                return at
            continue
        at += 1
        if kind == END:
            continue
        null = load64(line + _NULL)
        if null == _NO_NULL:
            return _WRONG_TYPE
        if null > 1:
            if at >= end:
                return _CUT_SHORT
            if load8(at) != ESCAPE:
                return _WRONG_TYPE
            at += 1
        parts = load64(line + _PARTS)
        for nested in range(line, line + (parts + 1) * _LINE_BYTES, _LINE_BYTES):
            _put_null(nested, row)
        step += parts
    return 0 if at == end else _TRAILING


@Kernel
def _decode(table: int, steps: int, named: int, sources: int, rows: int, count: int, status: int, room: int) -> int:
    """Read all keys; `-1 - i` if row i is invalid, or all outputs have no room for the keys up to it."""
    for row in range(count):
        packed = load64(rows + 8 * row)
        source = line_of(named, sources, packed)
        if source == 0:
            return -1 - row
        key, size, keys_end = span_of(source, position_of(packed), KEY)
        room -= size
        if size < 0 or room < 0:
            return -1 - row
        found = _take_key(table, steps, row, key, key + size, keys_end)
        store8(status + row, -found)
        if found != 0:
            for line in range(table, table + steps * _LINE_BYTES, _LINE_BYTES):
                _put_null(line, row)
    return 0
