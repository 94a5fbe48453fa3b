"""Shared parts of the decoders of both block versions: the progress record and common steps."""

from __future__ import annotations

from typing import Final

from slatespark.kernels._compile import called, inlined
from slatespark.kernels._native import compare, load8, store64, swapped16
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE
from slatespark.kernels.damage import Damage

# Byte offsets in the progress record, which kernels and caller read and write.
BLOCK, ROW, KEY_END, DAMAGED_AT, FOUND = 0, 8, 16, 24, 32
ROW_ROOM, KEY_ROOM, KEY_LIMIT = 40, 48, 56
KEYS, KEY_OFFSETS, SEQS, FLAGS, CREATE_TS, EXPIRE_TS, VALUE_STARTS, VALUE_LENGTHS = range(64, 128, 8)
FIRST_ROOM: Final = ROW_ROOM
RECORD_FIELDS: Final = 16

# Return values of a kernel besides 0 and a Damage.
MORE_ROWS: Final = -1
MORE_KEYS: Final = -2

# numba supports plain numbers, not enumerations.
TOO_SHORT, EMPTY, OFFSET_TABLE = int(Damage.TOO_SHORT), int(Damage.EMPTY), int(Damage.OFFSET_TABLE)
MISPLACED, TRUNCATED, VARINT = int(Damage.MISPLACED), int(Damage.TRUNCATED), int(Damage.VARINT)
RESTART_SHARES, SHARED, EXPANSION = int(Damage.RESTART_SHARES), int(Damage.SHARED), int(Damage.EXPANSION)
BAD_FLAGS, TOMBSTONE_VALUE = int(Damage.FLAGS), int(Damage.TOMBSTONE_VALUE)
ORDER, LEFTOVER = int(Damage.ORDER), int(Damage.LEFTOVER)

UNKNOWN_FLAGS: Final = 0xFF & ~(TOMBSTONE | HAS_EXPIRE | HAS_CREATE | MERGE)
BOTH_KINDS: Final = TOMBSTONE | MERGE
_MAX_U32: Final = 0xFFFF_FFFF


@called
def stop(record: int, block: int, offset: int, found: int, damage: int) -> int:
    """Record the damage and return it."""
    store64(record + BLOCK, block)
    store64(record + DAMAGED_AT, offset)
    store64(record + FOUND, found)
    return damage


@called
def pause(record: int, block: int, row: int, key_end: int, wanted: int) -> int:
    """Record where to continue and return `wanted`."""
    store64(record + BLOCK, block)
    store64(record + ROW, row)
    store64(record + KEY_END, key_end)
    return wanted


@called
def varint(at: int, limit: int) -> int:
    """Return the u32 LEB128 number at an address, with its length above bit 32; -1 if it is not before `limit`."""
    number = 0
    for count in range(5):
        if at + count >= limit:
            return -1
        byte = load8(at + count)
        number |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return number | (count + 1) << 32 if number <= _MAX_U32 else -1
    return -1


@inlined
def compare_after_prefix(key: int, size: int, previous: int, previous_size: int, equal: int) -> int:
    """Compare a key with the previous one; the first `equal` bytes are known to be equal."""
    if equal >= size or equal >= previous_size:
        return size - previous_size
    difference = load8(key + equal) - load8(previous + equal)
    if difference != 0:
        return difference
    return compare(key + equal, size - equal, previous + equal, previous_size - equal)


@called
def check_block(record: int, block: int, data: int, start: int, end: int) -> int:
    """Return 0 if the block at these addresses has rows and room for its offset table, else the damage."""
    if end - start < 2:
        return stop(record, block, start - data, end - start, TOO_SHORT)
    count = swapped16(end - 2)
    if count == 0:
        return stop(record, block, end - 2 - data, 0, EMPTY)
    if end - start <= 2 + 2 * count:
        return stop(record, block, end - 2 - data, count, OFFSET_TABLE)
    return 0


@inlined
def times_bytes(flags: int) -> int:
    """Return the size of the times stated by the flags."""
    return 8 * ((flags >> 1 & 1) + (flags >> 2 & 1))
