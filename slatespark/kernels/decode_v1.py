"""Decoder of V1 data blocks, compiled. Layout and steps: `slatespark.kernels.reference.decode`."""

from __future__ import annotations

from slatespark.kernels._compile import Kernel
from slatespark.kernels._decoding import (
    BAD_FLAGS,
    BLOCK,
    BOTH_KINDS,
    CREATE_TS,
    EXPANSION,
    EXPIRE_TS,
    FLAGS,
    KEY_END,
    KEY_LIMIT,
    KEY_OFFSETS,
    KEY_ROOM,
    KEYS,
    LEFTOVER,
    MISPLACED,
    MORE_KEYS,
    MORE_ROWS,
    ORDER,
    ROW,
    ROW_ROOM,
    SEQS,
    SHARED,
    TRUNCATED,
    UNKNOWN_FLAGS,
    VALUE_LENGTHS,
    VALUE_STARTS,
    check_block,
    compare_after_prefix,
    pause,
    stop,
    times_bytes,
)
from slatespark.kernels._native import (
    SLACK,
    copy_wide,
    load8,
    load64,
    load_word,
    store8,
    store64,
    store_word,
    swap_word,
    swapped16,
    swapped32,
    swapped64,
)
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, TOMBSTONE
from slatespark.kernels.damage import MIN_ROW_BYTES

_MIN_BYTES = MIN_ROW_BYTES[1]


@Kernel
def decode_v1(data: int, data_end: int, starts: int, ends: int, blocks: int, ordered: int, record: int) -> int:  # noqa: C901
    """Decode blocks from `record.block` on into the columns of the record."""
    keys, key_offsets, seqs = load64(record + KEYS), load64(record + KEY_OFFSETS), load64(record + SEQS)
    flags_out, create_out, expire_out = load64(record + FLAGS), load64(record + CREATE_TS), load64(record + EXPIRE_TS)
    value_starts, value_lengths = load64(record + VALUE_STARTS), load64(record + VALUE_LENGTHS)
    row_room, key_room = load64(record + ROW_ROOM), load64(record + KEY_ROOM)
    row, key_end, keys_end = load64(record + ROW), load64(record + KEY_END), keys + key_room + SLACK
    for block in range(load64(record + BLOCK), blocks):
        start, end = data + load64(starts + 8 * block), data + load64(ends + 8 * block)
        damage = check_block(record, block, data, start, end)
        if damage != 0:
            return damage
        limit = end - 2 - 2 * swapped16(end - 2)
        first_row, first_key_end = row, key_end
        previous_size = key_end - load64(key_offsets + 8 * (row - 1)) if row else 0
        previous_shared = 0  # bytes that the previous key of this block shares with the block's first key
        shareable = 0
        at = start
        for offset_at in range(limit, end - 2, 2):
            if row == row_room:
                return pause(record, block, first_row, first_key_end, MORE_ROWS)
            if start + swapped16(offset_at) != at:
                return stop(record, block, offset_at - data, swapped16(offset_at), MISPLACED)
            if at + _MIN_BYTES > limit:
                return stop(record, block, at - data, 0, TRUNCATED)
            shared, unshared = swapped16(at), swapped16(at + 2)
            if shared > shareable:
                return stop(record, block, at - data, shared, SHARED)
            seq_at = at + 4 + unshared
            if seq_at + 9 > limit:
                return stop(record, block, at - data, 0, TRUNCATED)
            key_size = shared + unshared
            if key_end + key_size > key_room:
                if key_end + key_size > load64(record + KEY_LIMIT):
                    return stop(record, block, at - data, load64(record + KEY_LIMIT), EXPANSION)
                return pause(record, block, first_row, first_key_end, MORE_KEYS)
            key = keys + key_end
            copy_wide(key, keys + first_key_end, shared, keys_end)
            copy_wide(key + shared, at + 4, unshared, data_end)
            seq = swap_word(load_word(seq_at))
            flags = load8(seq_at + 8)
            if flags & UNKNOWN_FLAGS != 0 or flags & BOTH_KINDS == BOTH_KINDS:
                return stop(record, block, at - data, flags, BAD_FLAGS)
            time_at, value_at = seq_at + 9, seq_at + 9 + times_bytes(flags)
            if value_at > limit:
                return stop(record, block, at - data, 0, TRUNCATED)
            expire_ts = create_ts = 0
            if flags & HAS_EXPIRE:
                expire_ts = swapped64(time_at)
                time_at += 8
            if flags & HAS_CREATE:
                create_ts = swapped64(time_at)
            value_size = 0
            if flags & TOMBSTONE:
                flags, expire_ts = flags & ~HAS_EXPIRE, 0
            else:
                if value_at + 4 > limit:
                    return stop(record, block, at - data, 0, TRUNCATED)
                value_size = swapped32(value_at)
                value_at += 4
                if value_at + value_size > limit:
                    return stop(record, block, at - data, 0, TRUNCATED)
            if ordered and row:
                equal = min(shared, previous_shared)
                difference = compare_after_prefix(key, key_size, key - previous_size, previous_size, equal)
                if difference < 0 or (difference == 0 and load_word(seqs + 8 * (row - 1)) <= seq):
                    return stop(record, block, at - data, 0, ORDER)
            store64(key_offsets + 8 * row, key_end)
            store_word(seqs + 8 * row, seq)
            store8(flags_out + row, flags)
            store64(create_out + 8 * row, create_ts)
            store64(expire_out + 8 * row, expire_ts)
            store64(value_starts + 8 * row, value_at - data)
            store64(value_lengths + 8 * row, value_size)
            if row == first_row:
                shareable = shared = key_size
            row += 1
            key_end += key_size
            previous_size, previous_shared = key_size, shared
            at = value_at + value_size
        if at != limit:
            return stop(record, block, at - data, limit - at, LEFTOVER)
        store64(key_offsets + 8 * row, key_end)
    return pause(record, blocks, row, key_end, 0)
