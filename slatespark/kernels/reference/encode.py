"""Encoder of V2 data blocks, row by row. Layout: `slatespark.kernels.reference.decode`.

Block boundaries: `docs/reference/format/sst.md`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels.blocks import CHECKSUM_BYTES, check_block_size, flags_error, length_error
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE, RowColumns
from slatespark.kernels.reference.gather import unpacked
from slatespark.kernels.results import EncodedBlocks

_MAX_U32 = 0xFFFF_FFFF


def encode_blocks(
    sources: Sequence[RowColumns], rows: NDArray[np.int64], *, block_size: int, restart_interval: int = 16
) -> EncodedBlocks:
    """See `slatespark.kernels.encode_blocks`."""
    check_block_size(block_size, restart_interval)
    blocks: list[bytes] = []
    first_rows: list[int] = []
    block = _Block(block_size, restart_interval)
    for number, (source, row) in enumerate(unpacked(sources, rows)):
        if not block.add(source, row):
            blocks.append(block.finish())
            block = _Block(block_size, restart_interval)
            block.add(source, row)
        if block.rows == 1:
            first_rows.append(number)
    if block.rows:
        blocks.append(block.finish())
    ends = np.cumsum([len(data) + CHECKSUM_BYTES for data in blocks], dtype=np.int64) - CHECKSUM_BYTES
    return EncodedBlocks(
        data=np.frombuffer(b"".join(data + bytes(CHECKSUM_BYTES) for data in blocks), np.uint8),
        starts=ends - np.array([len(data) for data in blocks], np.int64),
        ends=ends,
        first_rows=np.array(first_rows, np.int64),
    )


@dataclass(slots=True)
class _Block:
    """A block being filled."""

    block_size: int
    restart_interval: int
    rows: int = 0
    previous: bytes = b""
    entries: bytearray = field(default_factory=bytearray)
    restarts: list[int] = field(default_factory=list)

    def add(self, source: RowColumns, row: int) -> bool:
        """Append the row and return True, or return False if it does not fit. An empty block accepts any row."""
        key = source.key(row)
        restart = self.rows % self.restart_interval == 0
        shared = 0 if restart else _common_prefix(self.previous, key)
        entry = _encode_row(source, row, key, shared)
        size = len(self.entries) + 2 * len(self.restarts) + 2 + len(entry) + 2 * restart
        if self.rows and size > self.block_size:
            return False
        if restart:
            self.restarts.append(len(self.entries))
        self.entries += entry
        self.previous = key
        self.rows += 1
        return True

    def finish(self) -> bytes:
        count = len(self.restarts)
        return bytes(self.entries) + struct.pack(f">{count}HH", *self.restarts, count)


def _encode_row(source: RowColumns, row: int, key: bytes, shared: int) -> bytes:
    flags = int(source.flags[row])
    if flags > 0x0F or (flags & TOMBSTONE and flags & MERGE):
        raise flags_error(flags)
    value = source.value(row)
    if flags & TOMBSTONE:  # no value, and it never expires
        flags, value = flags & ~HAS_EXPIRE, b""
    if max(len(key), len(value)) > _MAX_U32:
        raise length_error(max(len(key), len(value)))
    entry = _varint(shared) + _varint(len(key) - shared) + _varint(len(value)) + key[shared:] + value
    entry += struct.pack(">QB", int(source.seqs[row]), flags)
    if flags & HAS_EXPIRE:
        entry += struct.pack(">q", int(source.expire_ts[row]))
    if flags & HAS_CREATE:
        entry += struct.pack(">q", int(source.create_ts[row]))
    return entry


def _common_prefix(left: bytes, right: bytes) -> int:
    shared = 0
    while shared < min(len(left), len(right)) and left[shared] == right[shared]:
        shared += 1
    return shared


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
