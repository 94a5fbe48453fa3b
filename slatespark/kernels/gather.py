"""Copies of packed rows, compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import InternalError
from slatespark.kernels._compile import Kernel, inlined
from slatespark.kernels._native import (
    SLACK,
    common_prefix,
    copy_wide,
    load8,
    load64,
    prefetch,
    store8,
    store32,
    store64,
)
from slatespark.kernels._sources import (
    CREATE_TS,
    EXPIRE_TS,
    FLAGS,
    KEY_OFFSETS,
    KEYS,
    KEYS_END,
    SEQS,
    VALUE_LENGTHS,
    VALUE_STARTS,
    VALUES,
    VALUES_END,
    address_of,
    cut_to,
    line_of,
    position_of,
    row_error,
    source_table,
)
from slatespark.kernels.columns import RowColumns
from slatespark.kernels.results import Fields

# Columns of byte strings.
KEY: Final = 0
VALUE: Final = 1

_MAX_ARROW_BYTES: Final = 2**31 - 1
_FEW_ROWS: Final = 1024
_MOST_SPARE_BYTES: Final = 16 << 20  # of a buffer before it is cut to what was copied
_AHEAD: Final = 12  # rows whose bytes are fetched before they are copied


def gather_keys(sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """See `slatespark.kernels.gather_keys`."""
    return _gathered(sources, rows, KEY, np.int32)


def gather_values(
    sources: Sequence[RowColumns], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """See `slatespark.kernels.gather_values`."""
    return _gathered(sources, rows, VALUE, np.int32)


def key_lengths(sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """See `slatespark.kernels.key_lengths`."""
    return _lengths(sources, rows, KEY)


def value_lengths(sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """See `slatespark.kernels.value_lengths`."""
    return _lengths(sources, rows, VALUE)


def gather_fields(sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> Fields:
    """See `slatespark.kernels.gather_fields`."""
    rows = np.ascontiguousarray(rows, np.int64)
    table, count = source_table(sources), len(rows)
    seqs, flags = np.empty(count, np.uint64), np.empty(count, np.uint8)
    create_ts, expire_ts = np.empty(count, np.int64), np.empty(count, np.int64)
    outputs = address_of(seqs), address_of(flags), address_of(create_ts), address_of(expire_ts)
    check_row(_copy_fields(address_of(table), len(sources), address_of(rows), count, *outputs), sources, rows)
    return Fields(seqs, flags, create_ts, expire_ts)


def take_rows(sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> RowColumns:
    """See `slatespark.kernels.take_rows`."""
    fields = gather_fields(sources, rows)
    key_offsets, key_bytes = _gathered(sources, rows, KEY, np.int64)
    value_offsets, value_bytes = _gathered(sources, rows, VALUE, np.int64)
    return RowColumns(
        key_bytes=key_bytes,
        key_offsets=key_offsets,
        seqs=fields.seqs,
        flags=fields.flags,
        create_ts=fields.create_ts,
        expire_ts=fields.expire_ts,
        value_bytes=value_bytes,
        value_starts=value_offsets[:-1],
        value_lengths=np.diff(value_offsets),
    )


def new_key_mask(sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """See `slatespark.kernels.new_key_mask`."""
    rows = np.ascontiguousarray(rows, np.int64)
    table, mask = source_table(sources), np.empty(len(rows), np.bool_)
    bad = _mark_new_keys(address_of(table), len(sources), address_of(rows), len(rows), address_of(mask))
    check_row(bad, sources, rows)
    return mask


def _gathered(sources: Sequence[RowColumns], rows: NDArray[np.int64], column: int, dtype: Any) -> tuple[Any, Any]:
    """Return offsets of type `dtype`, and the bytes."""
    rows = np.ascontiguousarray(rows, np.int64)
    room, count = room_for(sources, rows, column), len(rows)
    if dtype is np.int32 and room > _MAX_ARROW_BYTES:
        raise InternalError(f"{room} bytes do not fit into one Arrow array, at most {_MAX_ARROW_BYTES} do.")
    offsets, gathered = np.empty(count + 1, dtype), np.empty(room + SLACK, np.uint8)
    table = source_table(sources)
    outputs = address_of(offsets), offsets.itemsize, address_of(gathered), room
    total = _copy(address_of(table), len(sources), address_of(rows), count, column, *outputs)
    check_row(total, sources, rows)
    return offsets, cut_to(gathered, total)


def room_for(sources: Sequence[RowColumns], rows: NDArray[np.int64], column: int) -> int:
    """Return a bound of the total length: by the longest of all rows if that is little, else measured."""
    if len(rows) >= _FEW_ROWS:  # measuring few rows costs less than finding the longest of all
        room = len(rows) * max((source.longest[column] for source in sources), default=0)
        if room <= _MOST_SPARE_BYTES:
            return room
    return measure_bytes(sources, rows, column)


def measure_bytes(sources: Sequence[RowColumns], rows: NDArray[np.int64], column: int) -> int:
    """Return the total length; also verifies that all rows exist and lie within their buffers."""
    table = source_table(sources)
    total = _measure(address_of(table), len(sources), address_of(rows), len(rows), column, 0)
    check_row(total, sources, rows)
    return total


def _lengths(sources: Sequence[RowColumns], rows: NDArray[np.int64], column: int) -> NDArray[np.int64]:
    rows = np.ascontiguousarray(rows, np.int64)
    table, lengths = source_table(sources), np.empty(len(rows), np.int64)
    total = _measure(address_of(table), len(sources), address_of(rows), len(rows), column, address_of(lengths))
    check_row(total, sources, rows)
    return lengths


def check_row(result: int, sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> None:
    """Raise `InternalError` if a kernel returned `-1 - i`: row i is invalid."""
    if result < 0:
        raise row_error(int(rows[-1 - result]), sources)


@inlined
def key_of(line: int, position: int) -> tuple[int, int]:
    """Return address and length of a key."""
    offset_at = load64(line + KEY_OFFSETS) + 8 * position
    offset = load64(offset_at)
    return load64(line + KEYS) + offset, load64(offset_at + 8) - offset


@inlined
def value_of(line: int, position: int) -> tuple[int, int]:
    """Return address and length of a value."""
    size = load64(load64(line + VALUE_LENGTHS) + 8 * position)
    return load64(line + VALUES) + load64(load64(line + VALUE_STARTS) + 8 * position), size


@inlined
def span_of(line: int, position: int, column: int) -> tuple[int, int, int]:
    """Return address and length of a key or value, and the end of its buffer; the length is -1 if it lies outside."""
    if column == KEY:
        start, size = key_of(line, position)
        low, high = load64(line + KEYS), load64(line + KEYS_END)
    else:
        start, size = value_of(line, position)
        low, high = load64(line + VALUES), load64(line + VALUES_END)
    if start < low or size < 0 or size > high - start:
        size = -1
    return start, size, high


@Kernel
def _measure(table: int, sources: int, rows: int, count: int, column: int, lengths: int) -> int:
    """Return the total length and write the lengths, unless `lengths` is 0; `-1 - i` if row i is invalid."""
    total = 0
    for number in range(count):
        packed = load64(rows + 8 * number)
        line = line_of(table, sources, packed)
        if line == 0:
            return -1 - number
        _, size, _ = span_of(line, position_of(packed), column)
        if size < 0:
            return -1 - number
        total += size
        if lengths != 0:
            store64(lengths + 8 * number, size)
    return total


@Kernel
def _copy(
    table: int,
    sources: int,
    rows: int,
    count: int,
    column: int,
    offsets: int,
    offset_bytes: int,
    gathered: int,
    room: int,
) -> int:
    """Concatenate keys or values, write their offsets, and return the total; `-1 - i` if row i is invalid."""
    end = 0
    for number in range(count):
        if offset_bytes == 4:
            store32(offsets + 4 * number, end)
        else:
            store64(offsets + 8 * number, end)
        if number + _AHEAD < count:
            ahead = load64(rows + 8 * (number + _AHEAD))
            line = line_of(table, sources, ahead)
            if line == 0:
                return -1 - (number + _AHEAD)
            start, size = key_of(line, position_of(ahead)) if column == KEY else value_of(line, position_of(ahead))
            prefetch(start)
            prefetch(start + 64)
        packed = load64(rows + 8 * number)
        line = line_of(table, sources, packed)
        if line == 0:
            return -1 - number
        start, size, high = span_of(line, position_of(packed), column)
        if size < 0 or size > room - end:
            return -1 - number
        copy_wide(gathered + end, start, size, high)
        end += size
    if offset_bytes == 4:
        store32(offsets + 4 * count, end)
    else:
        store64(offsets + 8 * count, end)
    return end


@Kernel
def _copy_fields(
    table: int, sources: int, rows: int, count: int, seqs: int, flags: int, create_ts: int, expire_ts: int
) -> int:
    """Copy the fixed-width fields; return `-1 - i` if row i is invalid."""
    for number in range(count):
        packed = load64(rows + 8 * number)
        line = line_of(table, sources, packed)
        if line == 0:
            return -1 - number
        position = position_of(packed)
        store64(seqs + 8 * number, load64(load64(line + SEQS) + 8 * position))
        store8(flags + number, load8(load64(line + FLAGS) + position))
        store64(create_ts + 8 * number, load64(load64(line + CREATE_TS) + 8 * position))
        store64(expire_ts + 8 * number, load64(load64(line + EXPIRE_TS) + 8 * position))
    return 0


@Kernel
def _mark_new_keys(table: int, sources: int, rows: int, count: int, mask: int) -> int:
    """Write 1 for each key that differs from the previous one; return `-1 - i` if row i is invalid."""
    previous, previous_size = 0, -1
    for number in range(count):
        packed = load64(rows + 8 * number)
        line = line_of(table, sources, packed)
        if line == 0:
            return -1 - number
        key, size = key_of(line, position_of(packed))
        same = size == previous_size and common_prefix(key, previous, size) == size
        store8(mask + number, 0 if same else 1)
        previous, previous_size = key, size
    return 0
