"""Handwritten rows, converted to columns and back, and to blocks of both versions."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, MERGE, ROW_BITS, TOMBSTONE, RowColumns


class Version(NamedTuple):
    """One row version."""

    key: bytes
    seq: int
    value: bytes = b""
    flags: int = 0
    create_ts: int = 0
    expire_ts: int = 0


def put(key: bytes, seq: int, value: bytes = b"v", **times: int) -> Version:
    return _version(key, seq, value, 0, **times)


def operand(key: bytes, seq: int, value: bytes = b"m", **times: int) -> Version:
    return _version(key, seq, value, MERGE, **times)


def delete(key: bytes, seq: int, **times: int) -> Version:
    return _version(key, seq, b"", TOMBSTONE, **times)


def _version(key: bytes, seq: int, value: bytes, flags: int, **times: int) -> Version:
    if "create_ts" in times:
        flags |= HAS_CREATE
    if "expire_ts" in times:
        flags |= HAS_EXPIRE
    return Version(key, seq, value, flags, **times)


def columns(*versions: Version) -> RowColumns:
    keys, values = [version.key for version in versions], [version.value for version in versions]
    value_ends = np.cumsum([0, *map(len, values)], dtype=np.int64)
    return RowColumns(
        key_bytes=np.frombuffer(b"".join(keys), np.uint8),
        key_offsets=np.cumsum([0, *map(len, keys)], dtype=np.int64),
        seqs=np.array([version.seq for version in versions], np.uint64),
        flags=np.array([version.flags for version in versions], np.uint8),
        create_ts=np.array([version.create_ts for version in versions], np.int64),
        expire_ts=np.array([version.expire_ts for version in versions], np.int64),
        value_bytes=np.frombuffer(b"".join(values), np.uint8),
        value_starts=value_ends[:-1],
        value_lengths=np.diff(value_ends),
    )


def versions(rows: RowColumns) -> list[Version]:
    return [
        Version(
            rows.key(i),
            int(rows.seqs[i]),
            rows.value(i),
            int(rows.flags[i]),
            int(rows.create_ts[i]),
            int(rows.expire_ts[i]),
        )
        for i in range(len(rows))
    ]


def packed(source: int, *positions: int) -> list[int]:
    return [source << ROW_BITS | position for position in positions]


def all_rows(sources: Sequence[RowColumns]) -> NDArray[np.int64]:
    return np.array([number for i, rows in enumerate(sources) for number in packed(i, *range(len(rows)))], np.int64)


def v2_entry(version: Version, shared: int = 0) -> bytes:
    """Encode a V2 row with lengths below 128; a tombstone keeps its value."""
    unshared = version.key[shared:]
    entry = bytes([shared, len(unshared), len(version.value)]) + unshared + version.value
    return entry + struct.pack(">QB", version.seq, version.flags) + _times(version)


def v1_entry(version: Version, shared: int = 0) -> bytes:
    unshared = version.key[shared:]
    entry = struct.pack(">HH", shared, len(unshared)) + unshared + struct.pack(">QB", version.seq, version.flags)
    entry += _times(version)
    return entry if version.flags & TOMBSTONE else entry + struct.pack(">I", len(version.value)) + version.value


def _times(version: Version) -> bytes:
    expire = struct.pack(">q", version.expire_ts) if version.flags & HAS_EXPIRE else b""
    return expire + (struct.pack(">q", version.create_ts) if version.flags & HAS_CREATE else b"")


def block(entries: bytes, *offsets: int) -> bytes:
    return entries + struct.pack(f">{len(offsets)}HH", *offsets, len(offsets))


def extents(*blocks: bytes) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Return the concatenated blocks, their starts and ends."""
    ends = np.cumsum([len(data) for data in blocks], dtype=np.int64)
    starts = ends - np.array([len(data) for data in blocks], np.int64)
    return np.frombuffer(b"".join(blocks), np.uint8), starts, ends


def same(left: Any, right: Any) -> bool:
    """Tell whether two kernel results are equal: arrays with their types, columns field by field."""
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and bool((left == right).all())
    if isinstance(left, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if hasattr(type(left), "__slots__") and not isinstance(left, bytes):
        return all(same(getattr(left, name), getattr(right, name)) for name in type(left).__slots__)
    return bool(left == right)
