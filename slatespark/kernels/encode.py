"""Encoder of V2 data blocks, compiled. Layout: `slatespark.kernels.reference.decode`.

Block boundaries: `docs/reference/format/sst.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels._compile import Kernel, called, inlined
from slatespark.kernels._decoding import BOTH_KINDS, UNKNOWN_FLAGS, times_bytes
from slatespark.kernels._native import (
    SLACK,
    common_prefix,
    copy_exact,
    copy_wide,
    load8,
    load64,
    load_word,
    store8,
    store32,
    store64,
    store_word,
    swap_word,
)
from slatespark.kernels._sources import (
    CREATE_TS,
    EXPIRE_TS,
    FLAGS,
    KEYS_END,
    SEQS,
    VALUES_END,
    address_of,
    line_of,
    position_of,
    source_table,
)
from slatespark.kernels.blocks import CHECKSUM_BYTES, MAX_BLOCK_BYTES, check_block_size, flags_error, length_error
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, TOMBSTONE, RowColumns
from slatespark.kernels.damage import MIN_ROW_BYTES
from slatespark.kernels.gather import KEY, VALUE, key_of, measure_bytes, value_of
from slatespark.kernels.results import EncodedBlocks

# A row without key and value: three varints, seq, flags, times; and, at worst, a block of its own with one restart.
_ROW_BYTES: Final = 3 * 5 + 9 + 16 + 4 + CHECKSUM_BYTES
_RESTARTS_BYTES: Final = 2 * (MAX_BLOCK_BYTES // MIN_ROW_BYTES[2] + 1)
_MAX_U32: Final = 0xFFFF_FFFF

# Return values of the kernel instead of a number of blocks.
_BAD_FLAGS: Final = -1
_TOO_LONG: Final = -2


def encode_blocks(
    sources: Sequence[RowColumns], rows: NDArray[np.int64], *, block_size: int, restart_interval: int = 16
) -> EncodedBlocks:
    """See `slatespark.kernels.encode_blocks`."""
    check_block_size(block_size, restart_interval)
    rows = np.ascontiguousarray(rows, np.int64)
    count = len(rows)
    payload = measure_bytes(sources, rows, KEY) + measure_bytes(sources, rows, VALUE)
    table = source_table(sources)
    data = np.empty(payload + count * _ROW_BYTES + SLACK, np.uint8)
    starts, ends, first_rows = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
    restarts, found = np.empty(_RESTARTS_BYTES, np.uint8), np.zeros(1, np.int64)
    named = address_of(table), len(sources), address_of(rows), count
    outputs = address_of(data), address_of(starts), address_of(ends), address_of(first_rows)
    blocks = _encode(*named, block_size, restart_interval, address_of(restarts), *outputs, address_of(found))
    if blocks < 0:
        raise flags_error(int(found[0])) if blocks == _BAD_FLAGS else length_error(int(found[0]))
    used = int(ends[blocks - 1]) + CHECKSUM_BYTES if blocks else 0
    return EncodedBlocks(data[:used], starts[:blocks].copy(), ends[:blocks].copy(), first_rows[:blocks].copy())


@called
def _put_long_varint(at: int, number: int) -> int:
    """Write a number of 128 or more and return its end."""
    while number >= 0x80:
        store8(at, number & 0x7F | 0x80)
        number >>= 7
        at += 1
    store8(at, number)
    return at + 1


@inlined
def _put_varint(at: int, number: int) -> int:
    """Write a number and return its end."""
    if number < 0x80:
        store8(at, number)
        return at + 1
    return _put_long_varint(at, number)


@inlined
def _varint_bytes(number: int) -> int:
    if number < 1 << 7:
        return 1
    if number < 1 << 14:
        return 2
    if number < 1 << 21:
        return 3
    return 4 if number < 1 << 28 else 5


@inlined
def _put_swapped16(at: int, number: int) -> None:
    store8(at, number >> 8)
    store8(at + 1, number)


@called
def _finish(at: int, restarts: int, restart_count: int) -> int:
    """Write the restart offsets after the entries, and a zero checksum; return the end of the block."""
    copy_exact(at, restarts, 2 * restart_count)
    _put_swapped16(at + 2 * restart_count, restart_count)
    end = at + 2 * restart_count + 2
    store32(end, 0)
    return end


@Kernel
def _encode(  # noqa: C901
    table: int,
    sources: int,
    rows: int,
    count: int,
    block_size: int,
    restart_interval: int,
    restarts: int,
    data: int,
    starts: int,
    ends: int,
    first_rows: int,
    found: int,
) -> int:
    """Write all blocks and return their number. Requires: the rows were measured, and `data` has room for them."""
    blocks, start, at = 0, data, data
    rows_in_block, restart_count, until_restart = 0, 0, 0
    previous, previous_size = data, 0
    for number in range(count):
        packed = load64(rows + 8 * number)
        line, position = line_of(table, sources, packed), position_of(packed)
        key, key_size = key_of(line, position)
        value, value_size = value_of(line, position)
        flags = load8(load64(line + FLAGS) + position)
        if flags & UNKNOWN_FLAGS or flags & BOTH_KINDS == BOTH_KINDS:
            store64(found, flags)
            return _BAD_FLAGS
        if flags & TOMBSTONE:  # no value, and it never expires
            flags, value_size = flags & ~HAS_EXPIRE, 0
        if key_size > _MAX_U32 or value_size > _MAX_U32:
            store64(found, max(key_size, value_size))
            return _TOO_LONG
        fixed_size = _varint_bytes(value_size) + value_size + 9 + times_bytes(flags)
        shared = 0
        if until_restart > 0:
            shared = common_prefix(previous, key, min(previous_size, key_size))
        size = _varint_bytes(shared) + _varint_bytes(key_size - shared) + key_size - shared + fixed_size
        trailer_size = 2 * restart_count + 2 + (2 if until_restart == 0 else 0)
        if rows_in_block > 0 and at - start + size + trailer_size > block_size:
            store64(starts + 8 * blocks, start - data)
            at = _finish(at, restarts, restart_count)
            store64(ends + 8 * blocks, at - data)
            blocks += 1
            at += CHECKSUM_BYTES
            start, shared = at, 0
            rows_in_block, restart_count, until_restart = 0, 0, 0
        if rows_in_block == 0:
            store64(first_rows + 8 * blocks, number)
        if until_restart == 0:
            _put_swapped16(restarts + 2 * restart_count, at - start)
            restart_count += 1
            until_restart = restart_interval
        until_restart -= 1
        rows_in_block += 1
        at = _put_varint(at, shared)
        at = _put_varint(at, key_size - shared)
        at = _put_varint(at, value_size)
        copy_wide(at, key + shared, key_size - shared, load64(line + KEYS_END))
        at += key_size - shared
        copy_wide(at, value, value_size, load64(line + VALUES_END))
        at += value_size
        store_word(at, swap_word(load_word(load64(line + SEQS) + 8 * position)))
        store8(at + 8, flags)
        at += 9
        if flags & HAS_EXPIRE:
            store_word(at, swap_word(load_word(load64(line + EXPIRE_TS) + 8 * position)))
            at += 8
        if flags & HAS_CREATE:
            store_word(at, swap_word(load_word(load64(line + CREATE_TS) + 8 * position)))
            at += 8
        previous, previous_size = key, key_size
    if rows_in_block > 0:
        store64(starts + 8 * blocks, start - data)
        store64(ends + 8 * blocks, _finish(at, restarts, restart_count) - data)
        blocks += 1
    return blocks
