"""Decoder of V2 data blocks, compiled. Layout and steps: `slatespark.kernels.reference.decode`."""

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
    MISPLACED,
    MORE_KEYS,
    MORE_ROWS,
    ORDER,
    RESTART_SHARES,
    ROW,
    ROW_ROOM,
    SEQS,
    SHARED,
    TOMBSTONE_VALUE,
    TRUNCATED,
    UNKNOWN_FLAGS,
    VALUE_LENGTHS,
    VALUE_STARTS,
    VARINT,
    check_block,
    compare_after_prefix,
    pause,
    stop,
    times_bytes,
    varint,
)
from slatespark.kernels._native import (
    SLACK,
    copy_wide,
    load8,
    load32,
    load64,
    load_word,
    store8,
    store64,
    store_word,
    swap_word,
    swapped16,
    swapped64,
)
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, TOMBSTONE
from slatespark.kernels.damage import MIN_ROW_BYTES

_MIN_BYTES = MIN_ROW_BYTES[2]
_MAX_U32 = 0xFFFF_FFFF
_LONG_LENGTHS = 0x808080  # set in the first three bytes of a row unless all its lengths are below 128


@Kernel
def decode_v2(data: int, data_end: int, starts: int, ends: int, blocks: int, ordered: int, record: int) -> int:  # noqa: C901
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
        restart_at = end - 2 - 2 * swapped16(end - 2)
        limit = restart_at
        next_restart = start + swapped16(restart_at)
        first_row, first_key_end = row, key_end
        previous_size = key_end - load64(key_offsets + 8 * (row - 1)) if row else 0
        shareable = 0  # bytes of the previous key of this block
        at = start
        while at < limit:
            if row == row_room:
                return pause(record, block, first_row, first_key_end, MORE_ROWS)
            if at + _MIN_BYTES > limit:
                return stop(record, block, at - data, 0, TRUNCATED)
            lengths = load32(at)
            if lengths & _LONG_LENGTHS == 0:
                shared, unshared, value_size = lengths & 0x7F, lengths >> 8 & 0x7F, lengths >> 16 & 0x7F
                key_at = at + 3
            else:
                number = varint(at, limit)
                if number < 0:
                    return stop(record, block, at - data, 0, VARINT)
                shared, key_at = number & _MAX_U32, at + (number >> 32)
                number = varint(key_at, limit)
                if number < 0:
                    return stop(record, block, at - data, 0, VARINT)
                unshared, key_at = number & _MAX_U32, key_at + (number >> 32)
                number = varint(key_at, limit)
                if number < 0:
                    return stop(record, block, at - data, 0, VARINT)
                value_size, key_at = number & _MAX_U32, key_at + (number >> 32)
            if at == next_restart:
                if shared != 0:
                    return stop(record, block, at - data, shared, RESTART_SHARES)
                restart_at += 2
                next_restart = start + swapped16(restart_at) if restart_at < end - 2 else 0
            if shared > shareable:
                return stop(record, block, at - data, shared, SHARED)
            value_at = key_at + unshared
            seq_at = value_at + value_size
            if seq_at + 9 > limit:
                return stop(record, block, at - data, 0, TRUNCATED)
            key_size = shared + unshared
            if key_end + key_size > key_room:
                if key_end + key_size > load64(record + KEY_LIMIT):
                    return stop(record, block, at - data, load64(record + KEY_LIMIT), EXPANSION)
                return pause(record, block, first_row, first_key_end, MORE_KEYS)
            key = keys + key_end
            copy_wide(key, key - previous_size, shared, keys_end)
            copy_wide(key + shared, key_at, unshared, data_end)
            seq = swap_word(load_word(seq_at))
            flags = load8(seq_at + 8)
            if flags & UNKNOWN_FLAGS != 0 or flags & BOTH_KINDS == BOTH_KINDS:
                return stop(record, block, at - data, flags, BAD_FLAGS)
            time_at, following = seq_at + 9, seq_at + 9 + times_bytes(flags)
            if following > limit:
                return stop(record, block, at - data, 0, TRUNCATED)
            expire_ts = create_ts = 0
            if flags & HAS_EXPIRE:
                expire_ts = swapped64(time_at)
                time_at += 8
            if flags & HAS_CREATE:
                create_ts = swapped64(time_at)
            if flags & TOMBSTONE:
                if value_size != 0:
                    return stop(record, block, at - data, value_size, TOMBSTONE_VALUE)
                flags, expire_ts = flags & ~HAS_EXPIRE, 0
            if ordered and row:
                difference = compare_after_prefix(key, key_size, key - previous_size, previous_size, shared)
                if difference < 0 or (difference == 0 and load_word(seqs + 8 * (row - 1)) <= seq):
                    return stop(record, block, at - data, 0, ORDER)
            store64(key_offsets + 8 * row, key_end)
            store_word(seqs + 8 * row, seq)
            store8(flags_out + row, flags)
            store64(create_out + 8 * row, create_ts)
            store64(expire_out + 8 * row, expire_ts)
            store64(value_starts + 8 * row, value_at - data)
            store64(value_lengths + 8 * row, value_size)
            row += 1
            key_end += key_size
            previous_size = shareable = key_size
            at = following
        if restart_at < end - 2:
            return stop(record, block, restart_at - data, swapped16(restart_at), MISPLACED)
        store64(key_offsets + 8 * row, key_end)
    return pause(record, blocks, row, key_end, 0)
