"""Vectorized codec of the index section. Tables and layout: `slatespark.kernels.reference.index`.

Uses numpy only: indexes are read during planning, where loading numba would cost more than it saves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import CorruptDataError
from slatespark.kernels.index_checks import check_indexes, damaged_index

_BLOCK_META = np.dtype([("vtable", "<i4"), ("first_key", "<u4"), ("offset", "<u8")])


def decode_indexes(
    data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """See `slatespark.kernels.decode_indexes`."""
    sections = _Sections(np.ascontiguousarray(data, np.uint8), starts, ends)
    numbers = np.arange(len(starts), dtype=np.int64)
    root = _Tables(sections, sections.follow(_Positions(starts, numbers)))
    vector = sections.follow(root.required(0))
    counts = sections.numbers(vector, "<u4").astype(np.int64)
    sections.need(vector, 4 + 4 * counts)
    metas = _Tables(sections, sections.follow(_elements(vector, counts)))
    offsets, encoded_bytes = metas.numbers(0, "<u8"), metas.numbers(2, "<u4").astype(np.int64)
    key = sections.follow(metas.required(1))
    lengths = sections.numbers(key, "<u4").astype(np.int64)
    sections.need(key, 4 + lengths)
    totals = np.bincount(key.section, weights=lengths, minlength=len(starts))
    if (totals > ends - starts).any():  # before allocation: entries may share bytes
        raise damaged_index("its first keys have more bytes than the section", int((vector.at - starts).max()))
    raw = sections.raw.tobytes()
    keys = [raw[start:end] for start, end in zip((key.at + 4).tolist(), (key.at + 4 + lengths).tolist(), strict=True)]
    check_indexes(offsets, keys, counts)
    key_bytes = np.frombuffer(b"".join(keys), np.uint8)
    return counts, offsets.astype(np.int64), key_bytes, _running_total(lengths), encoded_bytes


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


@dataclass(frozen=True, slots=True)
class _Positions:
    """Positions in some sections.

    Attributes
    ----------
    at : (m,) int64
    section : (m,) int64, number of the section that each must lie in
    """

    at: NDArray[np.int64]
    section: NDArray[np.int64]

    def __add__(self, distance: NDArray[np.int64] | int) -> _Positions:
        return _Positions(self.at + distance, self.section)

    def __getitem__(self, chosen: NDArray[np.bool_]) -> _Positions:
        return _Positions(self.at[chosen], self.section[chosen])


def _elements(vector: _Positions, counts: NDArray[np.int64]) -> _Positions:
    """Return where the 4-byte elements of vectors lie."""
    numbers = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return _Positions(np.repeat(vector.at, counts) + 4 + 4 * numbers, np.repeat(vector.section, counts))


class _Sections:
    """Flatbuffers one after another; every access is checked to stay in its own."""

    def __init__(self, raw: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        self.raw, self.starts, self.ends = raw, starts, ends

    def need(self, places: _Positions, count: NDArray[np.int64] | int) -> None:
        starts, ends = self.starts[places.section], self.ends[places.section]
        outside = (places.at < starts) | (places.at + count > ends)
        if outside.any():
            worst = int(np.argmax(outside))
            wanted, at = int(np.broadcast_to(count, outside.shape)[worst]), int(places.at[worst] - starts[worst])
            raise damaged_index(f"it needs {wanted} bytes at {at}, but has {ends[worst] - starts[worst]}", at)

    def numbers(self, places: _Positions, kind: str) -> NDArray[Any]:
        """Return the little-endian numbers at the given positions."""
        dtype = np.dtype(kind)
        self.need(places, dtype.itemsize)
        found: NDArray[Any] = self.raw[places.at[:, None] + np.arange(dtype.itemsize)].view(dtype)
        return found.reshape(len(places.at))

    def follow(self, places: _Positions) -> _Positions:
        """Return the targets of the relative offsets at the given positions."""
        return places + self.numbers(places, "<u4")

    def damaged(self, what: str, places: _Positions, faulty: NDArray[np.bool_]) -> CorruptDataError:
        """Return the error for the first faulty position."""
        first = int(np.argmax(faulty))
        return damaged_index(what, int(places.at[first] - self.starts[places.section[first]]))


class _Tables:
    """Flatbuffer tables and their vtables."""

    def __init__(self, sections: _Sections, starts: _Positions) -> None:
        self.sections, self.starts = sections, starts
        self.vtables = starts + -sections.numbers(starts, "<i4").astype(np.int64)
        self.vtable_sizes = sections.numbers(self.vtables, "<u2").astype(np.int64)
        self.sizes = sections.numbers(self.vtables + 2, "<u2").astype(np.int64)
        sections.need(self.vtables, self.vtable_sizes)
        sections.need(starts, self.sizes)

    def fields(self, number: int, width: int) -> NDArray[np.int64]:
        """Return the offset of field `number` in each table, 0 if it is absent."""
        slot = 4 + 2 * number
        stored = self.vtable_sizes >= slot + 2
        offsets = np.zeros(len(stored), np.int64)
        offsets[stored] = self.sections.numbers(self.vtables[stored] + slot, "<u2")
        outside = (offsets > 0) & (offsets + width > self.sizes)
        if outside.any():
            raise self.sections.damaged(f"field {number} of a table lies outside it", self.starts, outside)
        return offsets

    def numbers(self, number: int, kind: str) -> NDArray[Any]:
        """Return the numbers in field `number`, 0 where it is absent."""
        dtype = np.dtype(kind)
        offsets = self.fields(number, dtype.itemsize)
        present = offsets > 0
        found = np.zeros(len(offsets), dtype)
        found[present] = self.sections.numbers((self.starts + offsets)[present], kind)
        return found

    def required(self, number: int) -> _Positions:
        """Return the position of the required offset field `number` in each table."""
        offsets = self.fields(number, 4)
        if (offsets == 0).any():
            raise self.sections.damaged(f"a table lacks its field {number}", self.starts, offsets == 0)
        return self.starts + offsets
