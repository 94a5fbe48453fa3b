"""Avro values of rows to columns, compiled. Steps: `slatespark.kernels.avro_program`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import InternalError
from slatespark.kernels._avro_skip import NODE_BYTES, STACK_BYTES, skip_bytes, skip_value
from slatespark.kernels._compile import Kernel, called, inlined
from slatespark.kernels._floats import float32_bits, float64_bits, widened_bits
from slatespark.kernels._native import (
    SLACK,
    copy_wide,
    load8,
    load16,
    load32,
    load64,
    store8,
    store16,
    store32,
    store64,
    store_word,
)
from slatespark.kernels._sources import (
    FLAGS,
    VALUES_END,
    address_of,
    line_of,
    position_of,
    source_table,
)
from slatespark.kernels._utf8 import copy_text
from slatespark.kernels._varint import read_long, skip_long
from slatespark.kernels.avro_program import (
    FINE,
    FIXED_BYTES,
    HEAD_BYTES,
    INT,
    INT_TO_FLOAT32,
    INT_TO_FLOAT64,
    MALFORMED,
    MARKER,
    NOT_NULLABLE,
    SKIP_BYTES,
    SKIP_FIXED,
    SKIP_NESTED,
    SKIP_VARINT,
    SKIPS,
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
    TAKES,
    UNKNOWN_FINGERPRINT,
    WIDEN_FLOAT,
    AvroStep,
    DecodeProgram,
    flattened,
)
from slatespark.kernels.columns import TOMBSTONE, RowColumns
from slatespark.kernels.flat import ITEM_BYTES, FlatColumn
from slatespark.kernels.gather import VALUE, measured_bytes, value_of

# Byte offsets in the line of a column: bytes of an item, 0 for BYTES; addresses.
_WIDTH: Final = 0
_DATA: Final = 8
_OFFSETS: Final = 16
_VALID: Final = 24
_COLUMN_BYTES: Final = 32

# Byte offsets in the line of a step. `_COLUMN` is the address of the column's line, 0 if skipped; `_LOW`, `_HIGH` are
# the range, or the words of the largest magnitude, low word first; `_DETAIL` is a node, or how many bytes to skip.
_TAKE: Final = 0
_NULL_BRANCH: Final = 8
_COLUMN: Final = 16
_LOW: Final = 24
_HIGH: Final = 32
_DETAIL: Final = 40
_STEP_BYTES: Final = 48

# Byte offsets in the line of a writer: fingerprint, addresses of its steps, whether a row ends with the last of them.
_FINGERPRINT: Final = 0
_STEPS: Final = 8
_STEPS_END: Final = 16
_WHOLE: Final = 24
_MISSING: Final = 32  # addresses of the columns' lines
_MISSING_COUNT: Final = 40
_WRITER_BYTES: Final = 48

_MARKER: Final = int.from_bytes(MARKER, "little")
_MAX_ARROW_BYTES: Final = 2**31 - 1
_MASK: Final = 2**64 - 1


def decode_avro(
    sources: Sequence[RowColumns], rows: NDArray[np.int64], program: DecodeProgram
) -> tuple[list[FlatColumn], NDArray[np.uint8]]:
    """See `slatespark.kernels.decode_avro`."""
    rows = np.ascontiguousarray(rows, np.int64)
    total, count = measured_bytes(sources, rows, VALUE), len(rows)
    columns = [_new_column(kind, count, total) for kind in program.kinds]
    column_lines = np.array([_column_line(column) for column in columns], np.int64).reshape(-1)
    writers, *_kept = _writer_lines(program, address_of(column_lines))
    table, status, stack = source_table(sources), np.empty(count, np.uint8), np.empty(STACK_BYTES, np.uint8)
    named = address_of(table), len(sources), address_of(rows), count
    told = address_of(writers), len(program.writers), address_of(column_lines), len(columns)
    _decode(*named, *told, address_of(stack), address_of(status))
    return [_give_back(column) for column in columns], status


def _new_column(kind: int, count: int, total: int) -> FlatColumn:
    """Return a column with room for all values, none of them null yet. Pages that are not touched cost nothing."""
    valid = np.ones(count, np.uint8)
    width = ITEM_BYTES.get(kind)
    if width is not None:
        return FlatColumn(kind, np.empty(count * width + SLACK, np.uint8)[: count * width], valid=valid)
    if total > _MAX_ARROW_BYTES:
        raise InternalError(f"{total} bytes do not fit into one Arrow array, at most {_MAX_ARROW_BYTES} do.")
    offsets = np.empty(count + 1, np.int32)
    offsets[0] = 0
    return FlatColumn(kind, np.empty(total + SLACK, np.uint8), offsets, valid)


def _column_line(column: FlatColumn) -> tuple[int, ...]:
    offsets = 0 if column.offsets is None else address_of(column.offsets)
    valid = 0 if column.valid is None else address_of(column.valid)
    return ITEM_BYTES.get(column.kind, 0), address_of(column.data), offsets, valid


def _give_back(column: FlatColumn) -> FlatColumn:
    """Return the column without the room that its bytes did not need; that stays where it is and copies nothing."""
    if column.offsets is not None:
        column.data.resize(int(column.offsets[-1]), refcheck=False)
    return column


def _writer_lines(program: DecodeProgram, columns: int) -> list[NDArray[np.int64]]:
    """Return the lines of the writers, and further arrays that must be kept alive while they are used."""
    # The step itself looks at the union.
    nodes = list(
        flattened(step.node._replace(null_branch=NOT_NULLABLE) for writer in program.writers for step in writer.steps)
    )
    node_lines = np.empty((len(nodes), NODE_BYTES // 8), np.int64)
    for number, (node, child) in enumerate(nodes):
        children = address_of(node_lines) + child * NODE_BYTES
        node_lines[number] = node.wire, node.null_branch, children, len(node.children)
    steps = [
        _step_line(step, program.kinds, columns, address_of(node_lines) + number * NODE_BYTES)
        for number, step in enumerate(step for writer in program.writers for step in writer.steps)
    ]
    step_lines = np.array(steps, np.int64).reshape(-1)
    missing_lines = np.array(
        [columns + number * _COLUMN_BYTES for writer in program.writers for number in writer.missing], np.int64
    )
    step, missing = address_of(step_lines), address_of(missing_lines)
    lines = []
    for writer in program.writers:
        end = step + len(writer.steps) * _STEP_BYTES
        lines.append((_signed(writer.fingerprint), step, end, int(writer.whole), missing, len(writer.missing)))
        step, missing = end, missing + len(writer.missing) * 8
    return [np.array(lines, np.int64).reshape(-1), step_lines, node_lines, missing_lines]


def _step_line(step: AvroStep, kinds: tuple[int, ...], columns: int, node: int) -> tuple[int, ...]:
    wire = step.node.wire
    if step.column < 0:
        return SKIPS[wire], step.node.null_branch, 0, 0, 0, FIXED_BYTES.get(wire, node)
    take, low, high = TAKES[wire, kinds[step.column]], step.low, step.high
    if take == TAKE_DECIMAL:
        low, high = _signed(high & _MASK), high >> 64
    elif wire == INT:
        low, high = max(low, -(2**31)), min(high, 2**31 - 1)
    return take, step.node.null_branch, columns + step.column * _COLUMN_BYTES, low, high, node


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


@inlined
def _set_null(column: int, number: int) -> None:
    """Make item `number` of a column null; a string of no bytes, a number of zeros."""
    store8(load64(column + _VALID) + number, 0)
    width = load64(column + _WIDTH)
    if width == 0:
        offset = load64(column + _OFFSETS) + 4 * number
        store32(offset + 4, load32(offset))
    elif width == 1:
        store8(load64(column + _DATA) + number, 0)
    elif width == 2:
        store16(load64(column + _DATA) + 2 * number, 0)
    elif width == 4:
        store32(load64(column + _DATA) + 4 * number, 0)
    else:
        item = load64(column + _DATA) + width * number
        store64(item, 0)
        if width == 16:
            store64(item + 8, 0)


@called
def _set_nulls(columns: int, count: int, number: int) -> None:
    for column in range(count):
        _set_null(columns + column * _COLUMN_BYTES, number)


@called
def _find_writer(writers: int, count: int, fingerprint: int) -> int:
    for number in range(count):
        if load64(writers + number * _WRITER_BYTES + _FINGERPRINT) == fingerprint:
            return writers + number * _WRITER_BYTES
    return 0


@called
def _take_decimal(target: int, at: int, size: int, limit_low: int, limit_high: int) -> bool:
    """Store `size` bytes, 1 or more, as 16 little-endian ones; tell whether the magnitude is in the limit."""
    filler = 0xFF if load8(at) & 0x80 else 0
    while size > 16:  # more bytes than needed: only the sign may be in front
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
    if (np.int64(other) < 0) != (filler != 0):  # of exactly 16 bytes left after a filler that was not their sign
        return False
    if filler != 0:
        word = ~word + np.uint64(1)
        other = ~other + np.uint64(1 if word == np.uint64(0) else 0)
    high = np.uint64(limit_high)
    return bool(other < high or (other == high and word <= np.uint64(limit_low)))


@inlined
def _take_bytes(step: int, number: int, at: int, end: int, values_end: int, take: int) -> int:
    """Copy bytes with their length in front to the step's column; return where they end, or 0."""
    size, at = read_long(at, end, values_end)
    if at == 0 or size < 0 or size > end - at:
        return 0
    column = load64(step + _COLUMN)
    offset = load64(column + _OFFSETS) + 4 * number
    start = load32(offset)
    target = load64(column + _DATA) + start
    if take == TAKE_TEXT:
        if not copy_text(target, at, size, values_end):
            return 0
    else:
        copy_wide(target, at, size, values_end)
    store32(offset + 4, start + size)
    return at + size


@inlined
def _take_integer(step: int, number: int, at: int, end: int, values_end: int, take: int) -> int:
    """Store a number in the step's column; return where it ends, or 0."""
    value, at = read_long(at, end, values_end)
    if value < load64(step + _LOW) or value > load64(step + _HIGH):
        return 0
    data = load64(load64(step + _COLUMN) + _DATA)
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
    """Do a step that is rarely wanted: promotions, decimals, and what has parts; return where its field ends, or 0."""
    if take == SKIP_NESTED:  # which has no column
        return skip_value(at, end, values_end, load64(step + _DETAIL), stack, False)
    column = load64(step + _COLUMN)
    data = load64(column + _DATA)
    if take in (INT_TO_FLOAT32, INT_TO_FLOAT64):
        value, at = read_long(at, end, values_end)
        if at == 0 or value < load64(step + _LOW) or value > load64(step + _HIGH):
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
        inside = _take_decimal(data + 16 * number, at, size, load64(step + _LOW), load64(step + _HIGH))
        return at + size if inside else 0
    after = skip_value(at, end, values_end, load64(step + _DETAIL), stack, True)
    if after != 0:
        offset = load64(column + _OFFSETS) + 4 * number
        start = load32(offset)
        copy_wide(data + start, at, after - at, values_end)
        store32(offset + 4, start + after - at)
    return after


@inlined
def _do_step(step: int, number: int, at: int, end: int, values_end: int, take: int, stack: int) -> int:  # noqa: C901
    """Take or skip one value that is there; return where it ends, or 0."""
    if take in (TAKE_TEXT, TAKE_BYTES):
        return _take_bytes(step, number, at, end, values_end, take)
    if take >= TAKE_INT8 and take <= TAKE_INT64:
        return _take_integer(step, number, at, end, values_end, take)
    if take == TAKE_8:
        if end - at < 8:
            return 0
        store64(load64(load64(step + _COLUMN) + _DATA) + 8 * number, load64(at))
        return at + 8
    if take == SKIP_VARINT:
        return skip_long(at, end, values_end)
    if take == SKIP_BYTES:
        return skip_bytes(at, end, values_end, False)
    if take == SKIP_FIXED:
        size = load64(step + _DETAIL)
        return at + size if size <= end - at else 0
    if take == TAKE_BOOL:
        if at >= end or load8(at) > 1:
            return 0
        store8(load64(load64(step + _COLUMN) + _DATA) + number, load8(at))
        return at + 1
    if take == TAKE_4:
        if end - at < 4:
            return 0
        store32(load64(load64(step + _COLUMN) + _DATA) + 4 * number, load32(at))
        return at + 4
    return _take_rare(step, number, at, end, values_end, take, stack)


@inlined
def _decode_row(writer: int, number: int, at: int, end: int, values_end: int, stack: int) -> bool:
    """Do the steps of a writer on one row; tell whether all went well."""
    step, steps_end = load64(writer + _STEPS), load64(writer + _STEPS_END)
    while step < steps_end:
        null_branch = load64(step + _NULL_BRANCH)
        if null_branch >= 0:
            if at >= end:
                return False
            branch = load8(at)
            at += 1
            if branch >> 1 == null_branch and branch & 1 == 0:
                column = load64(step + _COLUMN)
                if column != 0:
                    _set_null(column, number)
                step += _STEP_BYTES
                continue
            if branch != 2 - 2 * null_branch:
                return False
        at = _do_step(step, number, at, end, values_end, load64(step + _TAKE), stack)
        if at == 0:
            return False
        step += _STEP_BYTES
    missing = load64(writer + _MISSING)
    for count in range(load64(writer + _MISSING_COUNT)):
        _set_null(load64(missing + 8 * count), number)
    return at == end or load64(writer + _WHOLE) == 0


@Kernel
def _decode(
    table: int,
    sources: int,
    rows: int,
    count: int,
    writers: int,
    writer_count: int,
    columns: int,
    column_count: int,
    stack: int,
    statuses: int,
) -> int:
    """Decode all rows. Requires: the rows were measured, and the columns have room for all."""
    writer = writers
    for number in range(count):
        packed = load64(rows + 8 * number)
        line, position = line_of(table, sources, packed), position_of(packed)
        status = FINE
        if load8(load64(line + FLAGS) + position) & TOMBSTONE:
            _set_nulls(columns, column_count, number)
        else:
            at, size = value_of(line, position)
            values_end = load64(line + VALUES_END)
            if size < HEAD_BYTES or load16(at) != _MARKER:
                status = UNKNOWN_FINGERPRINT
            else:
                fingerprint = load64(at + 2)
                if writer_count == 0 or load64(writer + _FINGERPRINT) != fingerprint:
                    found = _find_writer(writers, writer_count, fingerprint)
                    if found == 0:
                        status = UNKNOWN_FINGERPRINT
                    else:
                        writer = found
                if status == FINE and not _decode_row(writer, number, at + HEAD_BYTES, at + size, values_end, stack):
                    status = MALFORMED
            if status != FINE:
                _set_nulls(columns, column_count, number)
        store8(statuses + number, status)
    return 0
