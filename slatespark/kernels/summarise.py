"""Summaries of encoded blocks, compiled: what index, statistics and properties say of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels._compile import Kernel
from slatespark.kernels._native import load8, load64, load_word, store8, store16, store64, store_word
from slatespark.kernels._sources import (
    CREATE_TS,
    EXPIRE_TS,
    FLAGS,
    KEY_OFFSETS,
    SEQS,
    VALUE_LENGTHS,
    address_of,
    line_of,
    position_of,
    source_table,
)
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE, RowColumns
from slatespark.kernels.gather import check_row
from slatespark.kernels.results import BlockSummaries
from slatespark.kernels.row_ranges import check_first_rows

_NO_MIN: Final = (1 << 63) - 1
_NO_MAX: Final = -(1 << 63)
# Byte offsets in the record of totals.
_KEY_BYTES, _VALUE_BYTES, _MIN_SEQ, _MAX_SEQ = range(0, 32, 8)


def summarise_blocks(
    sources: Sequence[RowColumns], rows: NDArray[np.int64], first_rows: NDArray[np.int64]
) -> BlockSummaries:
    """See `slatespark.kernels.summarise_blocks`."""
    rows, first_rows = np.ascontiguousarray(rows, np.int64), np.ascontiguousarray(first_rows, np.int64)
    check_first_rows(first_rows, len(rows))
    blocks, table = len(first_rows), source_table(sources)
    counts, times = np.empty((blocks, 3), np.uint16), np.empty((4, blocks), np.int64)
    flags, totals = np.empty((2, blocks), np.uint8), np.empty(4, np.int64)
    named = address_of(table), len(sources), address_of(rows), len(rows)
    outputs = address_of(counts), address_of(times), address_of(flags), address_of(totals)
    check_row(_summarise(*named, address_of(first_rows), blocks, *outputs), sources, rows)
    min_seq, max_seq = totals[2:].view(np.uint64).tolist()
    return BlockSummaries(
        counts=counts,
        min_create_ts=times[0],
        max_create_ts=times[1],
        min_expire_ts=times[2],
        max_expire_ts=times[3],
        any_flags=flags[0],
        all_flags=flags[1],
        key_bytes=int(totals[0]),
        value_bytes=int(totals[1]),
        min_seq=min_seq,
        max_seq=max_seq,
    )


@Kernel
def _summarise(
    table: int,
    sources: int,
    rows: int,
    count: int,
    first_rows: int,
    blocks: int,
    counts: int,
    times: int,
    flags_out: int,
    totals: int,
) -> int:
    """Write the summaries; `-1 - i` if row i does not exist."""
    key_bytes, value_bytes, min_seq, max_seq = 0, 0, np.uint64(0xFFFF_FFFF_FFFF_FFFF), np.uint64(0)
    for block in range(blocks):
        end = load64(first_rows + 8 * block + 8) if block + 1 < blocks else count
        puts, deletes, merges = 0, 0, 0
        min_create, max_create, min_expire, max_expire = _NO_MIN, _NO_MAX, _NO_MIN, _NO_MAX
        any_flags, all_flags = 0, 0xFF
        for number in range(load64(first_rows + 8 * block), end):
            packed = load64(rows + 8 * number)
            line, position = line_of(table, sources, packed), position_of(packed)
            if line == 0:
                return -1 - number
            seq = load_word(load64(line + SEQS) + 8 * position)
            min_seq, max_seq = min(min_seq, seq), max(max_seq, seq)
            key_at = load64(line + KEY_OFFSETS) + 8 * position
            key_bytes += load64(key_at + 8) - load64(key_at)
            flags = load8(load64(line + FLAGS) + position)
            if flags & TOMBSTONE:
                flags &= ~HAS_EXPIRE  # a tombstone is always written without it
                deletes += 1
            else:
                value_bytes += load64(load64(line + VALUE_LENGTHS) + 8 * position)
            if flags & MERGE:
                merges += 1
            if flags & (TOMBSTONE | MERGE) == 0:
                puts += 1
            if flags & HAS_CREATE:
                created = load64(load64(line + CREATE_TS) + 8 * position)
                min_create, max_create = min(min_create, created), max(max_create, created)
            if flags & HAS_EXPIRE:
                expires = load64(load64(line + EXPIRE_TS) + 8 * position)
                min_expire, max_expire = min(min_expire, expires), max(max_expire, expires)
            any_flags |= flags
            all_flags &= flags
        store16(counts + 6 * block, puts)
        store16(counts + 6 * block + 2, deletes)
        store16(counts + 6 * block + 4, merges)
        store64(times + 8 * block, min_create)
        store64(times + 8 * (blocks + block), max_create)
        store64(times + 8 * (2 * blocks + block), min_expire)
        store64(times + 8 * (3 * blocks + block), max_expire)
        store8(flags_out + block, any_flags)
        store8(flags_out + blocks + block, all_flags)
    store64(totals + _KEY_BYTES, key_bytes)
    store64(totals + _VALUE_BYTES, value_bytes)
    store_word(totals + _MIN_SEQ, min_seq)
    store_word(totals + _MAX_SEQ, max_seq)
    return 0
