"""Common types of all kernels: row versions as columns, and packed row numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

# Row flags; on disk, do not change. Source: `docs/reference/format/block.md`.
TOMBSTONE: Final = 0x01
HAS_EXPIRE: Final = 0x02
HAS_CREATE: Final = 0x04
MERGE: Final = 0x08

# A row of one of several sources is one int64: source << ROW_BITS | position.
ROW_BITS: Final = 40
ROW_MASK: Final = (1 << ROW_BITS) - 1  # of the position


@dataclass(frozen=True, slots=True, eq=False)
class RowColumns:
    """`n` row versions as columns. Times and flags may be changed, arrays may not be replaced.

    Values are not copied on decoding: `value_bytes` is the backing buffer, possibly a memory map, and `value_starts`,
    `value_lengths` point into it. So a value is copied only once, after merging and filtering.

    Attributes
    ----------
    key_bytes : (>= key_offsets[n],) uint8, the concatenated keys
    key_offsets : (n + 1,) int64, ascending
    seqs : (n,) uint64
    flags : (n,) uint8, the bits above
    create_ts, expire_ts : (n,) int64 ms, 0 if the flag is not set
    value_bytes : (any,) uint8
    value_starts, value_lengths : (n,) int64
    """

    key_bytes: NDArray[np.uint8]
    key_offsets: NDArray[np.int64]
    seqs: NDArray[np.uint64]
    flags: NDArray[np.uint8]
    create_ts: NDArray[np.int64]
    expire_ts: NDArray[np.int64]
    value_bytes: NDArray[np.uint8]
    value_starts: NDArray[np.int64]
    value_lengths: NDArray[np.int64]
    # Addresses for compiled kernels, cached by the first call (`_sources`): a window passes through six kernels.
    lines: list[bytes] = field(default_factory=list, init=False, repr=False)
    _longest: list[tuple[int, int]] = field(default_factory=list, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.seqs)

    def __reduce__(self) -> tuple[type[RowColumns], tuple[NDArray[Any], ...]]:
        # Addresses are invalid in another process and for a copy.
        return RowColumns, tuple(getattr(self, item.name) for item in fields(self) if item.init)

    @classmethod
    def of_keys(cls, key_bytes: NDArray[np.uint8], key_offsets: NDArray[np.int64], *, flags: int = 0) -> RowColumns:
        """Return rows that have keys alone: seq 0, no times, and an empty value."""
        count = len(key_offsets) - 1
        return cls(
            key_bytes=key_bytes,
            key_offsets=key_offsets,
            seqs=np.zeros(count, np.uint64),
            flags=np.full(count, flags, np.uint8),
            create_ts=np.zeros(count, np.int64),
            expire_ts=np.zeros(count, np.int64),
            value_bytes=np.zeros(0, np.uint8),
            value_starts=np.zeros(count, np.int64),
            value_lengths=np.zeros(count, np.int64),
        )

    def key(self, row: int) -> bytes:
        """Return the key of row `row`."""
        return self.key_bytes[self.key_offsets[row] : self.key_offsets[row + 1]].tobytes()

    @property
    def nbytes(self) -> int:
        """What the rows take in memory, with the whole buffer behind their values."""
        return sum(getattr(self, item.name).nbytes for item in fields(self) if item.init)

    @property
    def longest(self) -> tuple[int, int]:
        """The lengths of the longest key and of the longest value, 0 without rows."""
        if not self._longest:
            keys = np.diff(self.key_offsets[: len(self) + 1])
            self._longest.append((int(keys.max(initial=0)), int(self.value_lengths.max(initial=0))))
        return self._longest[0]

    def value(self, row: int) -> bytes:
        """Return the value of row `row`; empty for a tombstone."""
        start = self.value_starts[row]
        return self.value_bytes[start : start + self.value_lengths[row]].tobytes()


def key_at(sources: Sequence[RowColumns], packed: int) -> bytes:
    """Return the key of one packed row."""
    return sources[packed >> ROW_BITS].key(packed & ROW_MASK)


def packed_rows(source: int, count: int) -> NDArray[np.int64]:
    """Return the packed numbers of the first `count` rows of a source."""
    return (np.int64(source) << ROW_BITS) + np.arange(count, dtype=np.int64)


def all_rows(sources: Sequence[RowColumns]) -> NDArray[np.int64]:
    """Return the packed numbers of all rows of sources, one source behind the other."""
    found = [packed_rows(number, len(rows)) for number, rows in enumerate(sources)]
    return np.concatenate(found) if found else np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Visibility:
    """The versions visible to a read. Source: `docs/reference/format/rows.md`.

    Attributes
    ----------
    max_seq : versions above it are invisible
    now_ms : a version with expire_ts <= now_ms is expired
    include_expired : expired versions count as live, as the client reads them
    include_deleted : return the tombstone of a key whose newest version is one
    all_versions : return every version within the bounds, including tombstones and expired versions
    max_create_ts_ms : versions created later are ignored, regardless of their seq; those without a create_ts never.
        None is unbounded
    """

    max_seq: int
    now_ms: int
    include_expired: bool = False
    include_deleted: bool = False
    all_versions: bool = False
    max_create_ts_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Retention:
    """The versions that a compaction keeps. Source: `docs/explanation/what-a-compaction-keeps.md`.

    Attributes
    ----------
    min_seq : versions above it are protected: kept regardless of newer versions, and never folded
    now_ms : versions with expire_ts <= now_ms are expired; None expires nothing
    floor_ms : versions created after it are protected, too; they do not expire and are not dropped as tombstones. None
        sets no floor
    retired_ms : versions created at or before it are past retention; None retires nothing
    drops_tombstones : no older versions lie below
    """

    min_seq: int
    now_ms: int | None = None
    floor_ms: int | None = None
    retired_ms: int | None = None
    drops_tombstones: bool = False


# Marks of a selection.
PLAIN: Final = 0  # the row is unchanged
GROUP_HEAD: Final = 1  # newest live operand of a key: starts a group to fold
GROUP_REST: Final = 2  # further rows of that group, newest to oldest; the base put, if any, is the last
TO_TOMBSTONE: Final = 3  # compaction only: the row becomes a tombstone
DROPPED: Final = 4  # compaction only: the row is dropped


@dataclass(slots=True)
class Selection:
    """Rows selected by a merge, keys ascending.

    Attributes
    ----------
    rows : (m,) int64 packed rows
    marks : (m,) uint8, PLAIN, GROUP_HEAD or GROUP_REST
    """

    rows: NDArray[np.int64]
    marks: NDArray[np.uint8]
