"""Decoder of data blocks, row by row.

V2: entries || restart offset u16 * n || n u16, an entry being

    varint shared (with the previous key) | varint unshared | varint value_len | key | value | u64 seq | u8 flags
    | i64 expire_ts if flagged | i64 create_ts if flagged

V1: entries || row offset u16 * n || n u16, an entry being

    u16 shared (with the block's first key) | u16 unshared | key | u64 seq | u8 flags | i64 expire_ts if flagged
    | i64 create_ts if flagged | u32 value_len | value             (a tombstone ends before value_len)

All integers are big-endian. Source: `docs/reference/format/block.md`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE, RowColumns
from slatespark.kernels.damage import MIN_ROW_BYTES, Damage, check_extents, damaged_block, key_bytes_limit

_KNOWN_FLAGS = TOMBSTONE | HAS_EXPIRE | HAS_CREATE | MERGE
_MAX_U32 = 0xFFFF_FFFF


def decode_blocks(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    *,
    version: int,
    ordered: bool = True,
) -> RowColumns:
    """See `slatespark.kernels.decode_blocks`."""
    check_extents(data, starts, ends, version=version)
    rows = _Rows(ordered, key_bytes_limit(starts, ends))
    decode = _decode_v1 if version == 1 else _decode_v2
    for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        decode(_Block(data[start:end].tobytes(), start, number), rows)
    return rows.columns(data)


@dataclass(slots=True)
class _Block:
    """One block: its bytes, their offset in the data, and its number."""

    raw: bytes
    start: int
    number: int
    limit: int = 0  # where the entries end
    offsets: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        size = len(self.raw)
        if size < 2:
            self.fail(Damage.TOO_SHORT, 0, size)
        (count,) = struct.unpack_from(">H", self.raw, size - 2)
        if count == 0:
            self.fail(Damage.EMPTY, size - 2)
        self.limit = size - 2 - 2 * count
        if self.limit <= 0:
            self.fail(Damage.OFFSET_TABLE, size - 2, count)
        self.offsets = struct.unpack_from(f">{count}H", self.raw, self.limit)

    def fail(self, damage: Damage, at: int, found: int = 0) -> None:
        raise damaged_block(damage, block=self.number, offset=self.start + at, found=found)

    def need(self, at: int, end: int) -> None:
        """Raise for the row at `at` if it needs bytes up to `end`, beyond the entries."""
        if end > self.limit:
            self.fail(Damage.TRUNCATED, at)

    def varint(self, row_at: int, at: int) -> tuple[int, int]:
        """Return the u32 LEB128 number at `at`, and its end."""
        value = 0
        for count in range(5):
            if at + count >= self.limit:
                break
            byte = self.raw[at + count]
            value |= (byte & 0x7F) << (7 * count)
            if byte < 0x80:
                if value > _MAX_U32:
                    break
                return value, at + count + 1
        self.fail(Damage.VARINT, row_at)
        raise AssertionError

    def seq_and_flags(self, row_at: int, at: int) -> tuple[int, int]:
        """Return seq and flags; checks the flags."""
        seq, flags = struct.unpack_from(">QB", self.raw, at)
        if flags & ~_KNOWN_FLAGS or (flags & TOMBSTONE and flags & MERGE):
            self.fail(Damage.FLAGS, row_at, flags)
        return seq, flags

    def times(self, row_at: int, at: int, flags: int) -> tuple[int, int, int]:
        """Return expire_ts and create_ts, 0 if absent, and their end."""
        expire_ts = create_ts = 0
        self.need(row_at, at + 8 * (bool(flags & HAS_EXPIRE)) + 8 * (bool(flags & HAS_CREATE)))
        if flags & HAS_EXPIRE:
            (expire_ts,) = struct.unpack_from(">q", self.raw, at)
            at += 8
        if flags & HAS_CREATE:
            (create_ts,) = struct.unpack_from(">q", self.raw, at)
            at += 8
        return expire_ts, create_ts, at


@dataclass(slots=True)
class _Rows:
    """The rows decoded so far."""

    ordered: bool
    key_limit: int
    keys: list[bytes] = field(default_factory=list)
    key_total: int = 0
    seqs: list[int] = field(default_factory=list)
    flags: list[int] = field(default_factory=list)
    create_ts: list[int] = field(default_factory=list)
    expire_ts: list[int] = field(default_factory=list)
    value_starts: list[int] = field(default_factory=list)
    value_lengths: list[int] = field(default_factory=list)

    def make_room(self, block: _Block, at: int, key_bytes: int) -> None:
        """Check the total key size before the next key is built."""
        self.key_total += key_bytes
        if self.key_total > self.key_limit:
            block.fail(Damage.EXPANSION, at, self.key_limit)

    def add(self, block: _Block, at: int, row: tuple[bytes, int, int, int, int, int, int]) -> None:
        key, seq, flags, create_ts, expire_ts, value_start, value_length = row
        if self.ordered and self.keys and not (self.keys[-1] < key or (self.keys[-1] == key and self.seqs[-1] > seq)):
            block.fail(Damage.ORDER, at)
        if flags & TOMBSTONE:  # never expires; the client ignores the time, too
            flags, expire_ts = flags & ~HAS_EXPIRE, 0
        self.keys.append(key)
        self.seqs.append(seq)
        self.flags.append(flags)
        self.create_ts.append(create_ts)
        self.expire_ts.append(expire_ts)
        self.value_starts.append(block.start + value_start)
        self.value_lengths.append(value_length)

    def columns(self, data: NDArray[np.uint8]) -> RowColumns:
        return RowColumns(
            key_bytes=np.frombuffer(b"".join(self.keys), np.uint8),
            key_offsets=np.cumsum([0, *map(len, self.keys)], dtype=np.int64),
            seqs=np.array(self.seqs, np.uint64),
            flags=np.array(self.flags, np.uint8),
            create_ts=np.array(self.create_ts, np.int64),
            expire_ts=np.array(self.expire_ts, np.int64),
            value_bytes=data,
            value_starts=np.array(self.value_starts, np.int64),
            value_lengths=np.array(self.value_lengths, np.int64),
        )


def _decode_v2(block: _Block, rows: _Rows) -> None:
    at, previous, restarts = 0, b"", 0
    while at < block.limit:
        block.need(at, at + MIN_ROW_BYTES[2])
        shared, key_at = block.varint(at, at)
        unshared, key_at = block.varint(at, key_at)
        value_length, key_at = block.varint(at, key_at)
        if restarts < len(block.offsets) and at == block.offsets[restarts]:
            restarts += 1
            if shared:
                block.fail(Damage.RESTART_SHARES, at, shared)
        if shared > len(previous):
            block.fail(Damage.SHARED, at, shared)
        value_at = key_at + unshared
        seq_at = value_at + value_length
        block.need(at, seq_at + 9)
        rows.make_room(block, at, shared + unshared)
        key = previous[:shared] + block.raw[key_at:value_at]
        seq, flags = block.seq_and_flags(at, seq_at)
        expire_ts, create_ts, end = block.times(at, seq_at + 9, flags)
        if flags & TOMBSTONE and value_length:
            block.fail(Damage.TOMBSTONE_VALUE, at, value_length)
        rows.add(block, at, (key, seq, flags, create_ts, expire_ts, value_at, value_length))
        at, previous = end, key
    if restarts < len(block.offsets):
        block.fail(Damage.MISPLACED, block.limit + 2 * restarts, block.offsets[restarts])


def _decode_v1(block: _Block, rows: _Rows) -> None:
    at, first = 0, b""
    for number, offset in enumerate(block.offsets):
        if offset != at:
            block.fail(Damage.MISPLACED, block.limit + 2 * number, offset)
        block.need(at, at + MIN_ROW_BYTES[1])
        shared, unshared = struct.unpack_from(">HH", block.raw, at)
        if shared > len(first):
            block.fail(Damage.SHARED, at, shared)
        seq_at = at + 4 + unshared
        block.need(at, seq_at + 9)
        rows.make_room(block, at, shared + unshared)
        key = first[:shared] + block.raw[at + 4 : seq_at]
        seq, flags = block.seq_and_flags(at, seq_at)
        expire_ts, create_ts, value_at = block.times(at, seq_at + 9, flags)
        value_length = 0
        if not flags & TOMBSTONE:
            block.need(at, value_at + 4)
            (value_length,) = struct.unpack_from(">I", block.raw, value_at)
            value_at += 4
            block.need(at, value_at + value_length)
        rows.add(block, at, (key, seq, flags, create_ts, expire_ts, value_at, value_length))
        at = value_at + value_length
        if number == 0:
            first = key
    if at != block.limit:
        block.fail(Damage.LEFTOVER, at, block.limit - at)
