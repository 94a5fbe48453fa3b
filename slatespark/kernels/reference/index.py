"""Codec of the index section, field by field.

Flatbuffer tables: SsTableIndex { block_meta: [BlockMeta] (required) },
BlockMeta { offset: u64; first_key: [u8] (required); encoded_len: u32 }. Source: `docs/reference/format/flatbuffers.md`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels.index_checks import check_indexes, damaged_index


def decode_index(
    data: NDArray[np.uint8],
) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Decode one section; the result is that of `slatespark.kernels.decode_indexes` without the count."""
    buffer = _Buffer(data.tobytes())
    vector = buffer.follow(_Table.at(buffer, buffer.follow(0)).required(0))
    count = buffer.u32(vector)
    buffer.need(vector, 4 + 4 * count)
    offsets, encoded_bytes, keys, key_total = [], [], [], 0
    for number in range(count):
        table = _Table.at(buffer, buffer.follow(vector + 4 + 4 * number))
        offset_at = table.field(0, 8)
        offsets.append(buffer.u64(offset_at) if offset_at is not None else 0)
        encoded_at = table.field(2, 4)
        encoded_bytes.append(buffer.u32(encoded_at) if encoded_at is not None else 0)
        key_at = buffer.follow(table.required(1))
        length = buffer.u32(key_at)
        buffer.need(key_at, 4 + length)
        key_total += length
        if key_total > len(buffer.raw):  # before allocation: entries may share bytes
            raise damaged_index("its first keys have more bytes than the section", vector)
        keys.append(buffer.raw[key_at + 4 : key_at + 4 + length])
    check_indexes(np.array(offsets, np.uint64), keys, np.array([count], np.int64))
    key_offsets = np.cumsum([0, *map(len, keys)], dtype=np.int64)
    key_bytes = np.frombuffer(b"".join(keys), np.uint8)
    return np.array(offsets, np.int64), key_bytes, key_offsets, np.array(encoded_bytes, np.int64)


def decode_indexes(
    data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """See `slatespark.kernels.decode_indexes`."""
    indexes = [decode_index(data[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    offsets, key_bytes, key_offsets, encoded_bytes = zip(*indexes, strict=True)
    lengths = np.concatenate([np.diff(each) for each in key_offsets])
    counts = np.array([len(each) for each in offsets], np.int64)
    joined = np.concatenate(offsets), np.concatenate(key_bytes), np.append(np.int64(0), np.cumsum(lengths))
    return counts, *joined, np.concatenate(encoded_bytes)


def encode_index(offsets: NDArray[np.int64], key_bytes: NDArray[np.uint8], key_offsets: NDArray[np.int64]) -> bytes:
    """See `slatespark.kernels.encode_index`.

    Layout: root offset, root vtable, root table, vector of table offsets, vtable of all BlockMeta, the BlockMeta, then
    the keys as vectors, each padded to 4 bytes.
    """
    count = len(offsets)
    vtable_at = _aligned(24 + 4 * count, 8)
    tables_at = vtable_at + 8
    keys_at = tables_at + 16 * count
    head = struct.pack("<IHHHHiII", 12, 6, 8, 4, 0, 8, 4, count)
    head += b"".join(struct.pack("<I", tables_at + 16 * i - (24 + 4 * i)) for i in range(count))
    head = head.ljust(vtable_at, b"\0") + struct.pack("<HHHH", 8, 16, 8, 4)
    tables, keys = bytearray(), bytearray()
    for number, offset in enumerate(offsets.tolist()):
        at = tables_at + 16 * number
        key = key_bytes[key_offsets[number] : key_offsets[number + 1]].tobytes()
        tables += struct.pack("<iIQ", at - vtable_at, keys_at + len(keys) - (at + 4), offset)
        keys += struct.pack("<I", len(key)) + key.ljust(_aligned(len(key), 4), b"\0")
    return head + bytes(tables) + bytes(keys)


def _aligned(size: int, to: int) -> int:
    return (size + to - 1) // to * to


@dataclass(frozen=True, slots=True)
class _Buffer:
    """Flatbuffer bytes; every access is checked."""

    raw: bytes

    def need(self, at: int, count: int) -> None:
        if at < 0 or at + count > len(self.raw):
            raise damaged_index(f"it needs {count} bytes at {at}, but has {len(self.raw)}", at)

    def u16(self, at: int) -> int:
        self.need(at, 2)
        return int.from_bytes(self.raw[at : at + 2], "little")

    def u32(self, at: int) -> int:
        self.need(at, 4)
        return int.from_bytes(self.raw[at : at + 4], "little")

    def i32(self, at: int) -> int:
        self.need(at, 4)
        return int.from_bytes(self.raw[at : at + 4], "little", signed=True)

    def u64(self, at: int) -> int:
        self.need(at, 8)
        return int.from_bytes(self.raw[at : at + 8], "little")

    def follow(self, at: int) -> int:
        """Return the target of the relative offset at `at`."""
        return at + self.u32(at)


@dataclass(frozen=True, slots=True)
class _Table:
    """A flatbuffer table and its vtable."""

    buffer: _Buffer
    start: int
    size: int
    vtable: int
    vtable_size: int

    @classmethod
    def at(cls, buffer: _Buffer, start: int) -> _Table:
        vtable = start - buffer.i32(start)
        vtable_size, size = buffer.u16(vtable), buffer.u16(vtable + 2)
        buffer.need(vtable, vtable_size)
        buffer.need(start, size)
        return cls(buffer, start, size, vtable, vtable_size)

    def field(self, number: int, width: int) -> int | None:
        """Return the position of field `number`, or None if it is absent."""
        slot = 4 + 2 * number
        offset = self.buffer.u16(self.vtable + slot) if slot + 2 <= self.vtable_size else 0
        if offset and offset + width > self.size:
            raise damaged_index(f"field {number} of a table lies outside it", self.start)
        return self.start + offset if offset else None

    def required(self, number: int) -> int:
        """Return the position of the required offset field `number`."""
        at = self.field(number, 4)
        if at is None:
            raise damaged_index(f"a table lacks its field {number}", self.start)
        return at
