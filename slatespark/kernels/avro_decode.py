"""Decoder of Avro values of rows to columns, compiled. Steps: `slatespark.kernels.avro_program`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import InternalError
from slatespark.kernels._avro_skip import NODE_BYTES, STACK_BYTES
from slatespark.kernels._avro_take import (
    COLUMN,
    COLUMN_BYTES,
    NULL_BRANCH,
    STEP_BYTES,
    TAKE,
    do_step,
    set_null,
)
from slatespark.kernels._compile import Kernel, called, inlined
from slatespark.kernels._native import (
    SLACK,
    load8,
    load16,
    load64,
    store8,
)
from slatespark.kernels._sources import (
    FLAGS,
    address_of,
    address_of_spans,
    cut_to,
    line_of,
    position_of,
    source_table,
)
from slatespark.kernels.avro_program import (
    FINE,
    FIXED_BYTES,
    HEAD_BYTES,
    INT,
    MALFORMED,
    MARKER,
    NOT_NULLABLE,
    SKIPS,
    TAKE_DECIMAL,
    TAKES,
    UNKNOWN_FINGERPRINT,
    AvroStep,
    DecodeProgram,
    flatten_nodes,
)
from slatespark.kernels.columns import TOMBSTONE, RowColumns
from slatespark.kernels.flat import ITEM_BYTES, FlatColumn
from slatespark.kernels.gather import VALUE, check_row, room_for, span_of

# Byte offsets in the record of a writer: fingerprint, addresses of its steps, whether a row ends after the last step.
_FINGERPRINT: Final = 0
_STEPS: Final = 8
_STEPS_END: Final = 16
_WHOLE: Final = 24
_MISSING: Final = 32  # addresses of column records
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
    room, count = room_for(sources, rows, VALUE), len(rows)
    columns = [_new_column(kind, count, room) for kind in program.kinds]
    column_lines = np.array([_column_line(column) for column in columns], np.int64).reshape(-1)
    writers, *_kept = _writer_lines(program, address_of(column_lines))
    table, status, stack = source_table(sources), np.empty(count, np.uint8), np.empty(STACK_BYTES, np.uint8)
    named = address_of(table), len(sources), address_of(rows), count
    told = address_of(writers), len(program.writers), address_of(column_lines), len(columns)
    check_row(_decode(*named, *told, address_of(stack), address_of(status), room), sources, rows)
    return [_trimmed(column) for column in columns], status


def decode_avro_parts(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    valid: NDArray[np.uint8] | None,
    program: DecodeProgram,
) -> tuple[list[FlatColumn], NDArray[np.uint8]]:
    """See `slatespark.kernels.decode_avro_parts`."""
    spans = address_of_spans(data, starts, ends, valid)
    count = len(starts)
    room = int((ends - starts).sum())
    columns = [_new_column(kind, count, room) for kind in program.kinds]
    column_lines = np.array([_column_line(column) for column in columns], np.int64).reshape(-1)
    writers, *_kept = _writer_lines(program, address_of(column_lines))
    status, stack = np.empty(count, np.uint8), np.empty(STACK_BYTES, np.uint8)
    told = address_of(writers), address_of(column_lines), len(columns)
    _decode_parts(*spans, count, *told, address_of(stack), address_of(status))
    return [_trimmed(column) for column in columns], status


def _new_column(kind: int, count: int, room: int) -> FlatColumn:
    """Return a column with room for all values, none of them null. Untouched pages cost nothing."""
    valid = np.ones(count, np.uint8)
    width = ITEM_BYTES.get(kind)
    if width is not None:
        return FlatColumn(kind, np.empty(count * width + SLACK, np.uint8)[: count * width], valid=valid)
    if room > _MAX_ARROW_BYTES:
        raise InternalError(f"Values have {room} bytes, expected at most {_MAX_ARROW_BYTES} for one Arrow array.")
    offsets = np.empty(count + 1, np.int32)
    offsets[0] = 0
    return FlatColumn(kind, np.empty(room + SLACK, np.uint8), offsets, valid)


def _column_line(column: FlatColumn) -> tuple[int, ...]:
    offsets = 0 if column.offsets is None else address_of(column.offsets)
    valid = 0 if column.valid is None else address_of(column.valid)
    return ITEM_BYTES.get(column.kind, 0), address_of(column.data), offsets, valid


def _trimmed(column: FlatColumn) -> FlatColumn:
    """Return the column without unused room."""
    if column.offsets is None:
        return column
    return FlatColumn(column.kind, cut_to(column.data, int(column.offsets[-1])), column.offsets, column.valid)


def _writer_lines(program: DecodeProgram, columns: int) -> list[NDArray[np.int64]]:
    """Return the records of the writers, and further arrays that must be kept alive while they are used."""
    # The step itself decodes the union.
    nodes = list(
        flatten_nodes(
            step.node._replace(null_branch=NOT_NULLABLE) for writer in program.writers for step in writer.steps
        )
    )
    node_lines = np.empty((len(nodes), NODE_BYTES // 8), np.int64)
    first_node = address_of(node_lines)
    for number, (node, child) in enumerate(nodes):
        node_lines[number] = node.wire, node.null_branch, first_node + child * NODE_BYTES, len(node.children)
    steps = [
        _step_line(step, program.kinds, columns, first_node + number * NODE_BYTES)
        for number, step in enumerate(step for writer in program.writers for step in writer.steps)
    ]
    step_lines = np.array(steps, np.int64).reshape(-1)
    missing_lines = np.array(
        [columns + number * COLUMN_BYTES for writer in program.writers for number in writer.missing], np.int64
    )
    step, missing = address_of(step_lines), address_of(missing_lines)
    lines = []
    for writer in program.writers:
        end = step + len(writer.steps) * STEP_BYTES
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
    return take, step.node.null_branch, columns + step.column * COLUMN_BYTES, low, high, node


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


@called
def _set_nulls(columns: int, count: int, number: int) -> None:
    for column in range(count):
        set_null(columns + column * COLUMN_BYTES, number)


@called
def _find_writer(writers: int, count: int, fingerprint: int) -> int:
    for number in range(count):
        if load64(writers + number * _WRITER_BYTES + _FINGERPRINT) == fingerprint:
            return writers + number * _WRITER_BYTES
    return 0


@inlined
def _decode_row(writer: int, number: int, at: int, end: int, values_end: int, stack: int) -> bool:
    """Run the steps of a writer on one row; returns whether the row is valid."""
    step, steps_end = load64(writer + _STEPS), load64(writer + _STEPS_END)
    while step < steps_end:
        null_branch = load64(step + NULL_BRANCH)
        if null_branch >= 0:
            if at >= end:
                return False
            branch = load8(at)
            at += 1
            if branch >> 1 == null_branch and branch & 1 == 0:
                column = load64(step + COLUMN)
                if column != 0:
                    set_null(column, number)
                step += STEP_BYTES
                continue
            if branch != 2 - 2 * null_branch:
                return False
        at = do_step(step, number, at, end, values_end, load64(step + TAKE), stack)
        if at == 0:
            return False
        step += STEP_BYTES
    missing = load64(writer + _MISSING)
    for count in range(load64(writer + _MISSING_COUNT)):
        set_null(load64(missing + 8 * count), number)
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
    room: int,
) -> int:
    """Decode all rows; `-1 - i` if row i is invalid, or all columns have no room for the values up to it."""
    writer = writers
    for number in range(count):
        packed = load64(rows + 8 * number)
        line, position = line_of(table, sources, packed), position_of(packed)
        if line == 0:
            return -1 - number
        at, size, values_end = span_of(line, position, VALUE)
        room -= size
        if size < 0 or room < 0:
            return -1 - number
        status = FINE
        if load8(load64(line + FLAGS) + position) & TOMBSTONE:
            _set_nulls(columns, column_count, number)
        else:
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


@Kernel
def _decode_parts(
    data: int,
    size: int,
    starts: int,
    ends: int,
    valid: int,
    count: int,
    writer: int,
    columns: int,
    column_count: int,
    stack: int,
    statuses: int,
) -> int:
    """Decode all records; `valid` is 0 if none is null."""
    for number in range(count):
        status = FINE
        if valid != 0 and load8(valid + number) == 0:
            _set_nulls(columns, column_count, number)
        else:
            at, end = data + load64(starts + 8 * number), data + load64(ends + 8 * number)
            if not _decode_row(writer, number, at, end, data + size, stack):
                status = MALFORMED
                _set_nulls(columns, column_count, number)
        store8(statuses + number, status)
    return 0
