"""Vectorized codec of the index section. Tables and layout: `slatespark.kernels.reference.index`.

Uses numpy only: indexes are read during planning, where loading numba would cost more than it saves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels.index_checks import check_index, damaged_index

_BLOCK_META = np.dtype([("vtable", "<i4"), ("first_key", "<u4"), ("offset", "<u8")])


def decode_index(
    data: NDArray[np.uint8],
) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """See `slatespark.kernels.decode_index`."""
    buffer = _Buffer(np.ascontiguousarray(data, np.uint8))
    root = _Tables(buffer, buffer.follow(np.zeros(1, np.int64)))
    vector = buffer.follow(root.required(0))
    count = int(buffer.numbers(vector, "<u4")[0])
    buffer.need(vector, 4 + 4 * count)
    metas = _Tables(buffer, buffer.follow(vector + 4 + 4 * np.arange(count)))
    offsets, encoded_bytes = metas.numbers(0, "<u8"), metas.numbers(2, "<u4").astype(np.int64)
    key_at = buffer.follow(metas.required(1))
    lengths = buffer.numbers(key_at, "<u4").astype(np.int64)
    buffer.need(key_at, 4 + lengths)
    if lengths.sum() > len(buffer.raw):  # before allocation: entries may share bytes
        raise damaged_index("its first keys have more bytes than the section", int(vector[0]))
    raw = buffer.raw.tobytes()
    keys = [raw[start:end] for start, end in zip((key_at + 4).tolist(), (key_at + 4 + lengths).tolist(), strict=True)]
    check_index(offsets, keys)
    key_bytes = np.frombuffer(b"".join(keys), np.uint8)
    return offsets.astype(np.int64), key_bytes, _running_total(lengths), encoded_bytes


def encode_index(offsets: NDArray[np.int64], key_bytes: NDArray[np.uint8], key_offsets: NDArray[np.int64]) -> bytes:
    """See `slatespark.kernels.encode_index`."""
    count = len(offsets)
    lengths = np.diff(key_offsets)
    metas_at = (24 + 4 * count + 7) // 8 * 8 + 8
    keys_at = metas_at + 16 * count + _running_total(4 + (lengths + 3) // 4 * 4)
    section = np.zeros(int(keys_at[-1]), np.uint8)
    section[:20].view("<u2")[:] = (12, 0, 6, 8, 4, 0, 8, 0, 4, 0)
    words = section[: metas_at - 8].view("<u4")
    words[5] = count
    meta_at = metas_at + 16 * np.arange(count)
    words[6 : 6 + count] = meta_at - (24 + 4 * np.arange(count))
    section[metas_at - 8 : metas_at].view("<u2")[:] = (8, 16, 8, 4)
    metas = section[metas_at : metas_at + 16 * count].view(_BLOCK_META)
    metas["vtable"], metas["first_key"], metas["offset"] = meta_at - (metas_at - 8), keys_at[:-1] - meta_at - 4, offsets
    section[metas_at:].view("<u4")[(keys_at[:-1] - metas_at) // 4] = lengths
    shifts = np.repeat(keys_at[:-1] + 4 - key_offsets[:-1], lengths)
    section[np.arange(key_offsets[0], key_offsets[-1]) + shifts] = key_bytes[key_offsets[0] : key_offsets[-1]]
    return section.tobytes()


def _running_total(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


class _Buffer:
    """Flatbuffer bytes; every access is checked."""

    def __init__(self, raw: NDArray[np.uint8]) -> None:
        self.raw = raw

    def need(self, at: NDArray[np.int64], count: NDArray[np.int64] | int) -> None:
        outside = (at < 0) | (at + count > len(self.raw))
        if outside.any():
            worst = int(np.argmax(outside))
            wanted = int(np.broadcast_to(count, at.shape)[worst])
            raise damaged_index(f"it needs {wanted} bytes at {at[worst]}, but has {len(self.raw)}", int(at[worst]))

    def numbers(self, at: NDArray[np.int64], kind: str) -> NDArray[Any]:
        """Return the little-endian numbers at the given positions."""
        dtype = np.dtype(kind)
        self.need(at, dtype.itemsize)
        found: NDArray[Any] = self.raw[at[:, None] + np.arange(dtype.itemsize)].view(dtype).reshape(len(at))
        return found

    def follow(self, at: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the targets of the relative offsets at the given positions."""
        followed: NDArray[np.int64] = at + self.numbers(at, "<u4")
        return followed


class _Tables:
    """Flatbuffer tables and their vtables."""

    def __init__(self, buffer: _Buffer, starts: NDArray[np.int64]) -> None:
        self.buffer, self.starts = buffer, starts
        self.vtables = starts - buffer.numbers(starts, "<i4")
        self.vtable_sizes = buffer.numbers(self.vtables, "<u2").astype(np.int64)
        self.sizes = buffer.numbers(self.vtables + 2, "<u2").astype(np.int64)
        buffer.need(self.vtables, self.vtable_sizes)
        buffer.need(starts, self.sizes)

    def fields(self, number: int, width: int) -> NDArray[np.int64]:
        """Return the position of field `number` in each table, -1 if it is absent."""
        slot = 4 + 2 * number
        stored = self.vtable_sizes >= slot + 2
        offsets = np.zeros(len(self.starts), np.int64)
        offsets[stored] = self.buffer.numbers(self.vtables[stored] + slot, "<u2")
        outside = (offsets > 0) & (offsets + width > self.sizes)
        if outside.any():
            table = int(self.starts[np.argmax(outside)])
            raise damaged_index(f"field {number} of a table lies outside it", table)
        return np.where(offsets > 0, self.starts + offsets, -1)

    def numbers(self, number: int, kind: str) -> NDArray[Any]:
        """Return the numbers in field `number`, 0 where it is absent."""
        dtype = np.dtype(kind)
        at = self.fields(number, dtype.itemsize)
        found = np.zeros(len(at), dtype)
        found[at >= 0] = self.buffer.numbers(at[at >= 0], kind)
        return found

    def required(self, number: int) -> NDArray[np.int64]:
        """Return the position of the required offset field `number` in each table."""
        at = self.fields(number, 4)
        if (at < 0).any():
            raise damaged_index(f"a table lacks its field {number}", int(self.starts[np.argmax(at < 0)]))
        return at
