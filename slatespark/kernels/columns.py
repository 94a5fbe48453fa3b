"""What every kernel takes and gives: row versions as columns, and rows named by packed numbers."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

# Row flags; on disk, do not change. Source: spec section 2.4.
TOMBSTONE: Final = 0x01
HAS_EXPIRE: Final = 0x02
HAS_CREATE: Final = 0x04
MERGE: Final = 0x08

# A row of one of several sources is one int64: source << ROW_BITS | position.
ROW_BITS: Final = 40


@dataclass(frozen=True, slots=True, eq=False)
class RowColumns:
    """`n` row versions as columns. Contents of an array may be changed; the arrays themselves stay.

    Values stay where they were decoded from: `value_bytes` is the backing buffer, possibly a memory map, and
    `value_starts`, `value_lengths` point into it. So a value is copied once, after merging and filtering.

    Attributes
    ----------
    key_bytes : (>= key_offsets[n],) uint8, the keys one behind the other
    key_offsets : (n + 1,) int64, ascending
    seqs : (n,) uint64
    flags : (n,) uint8, the bits above
    create_ts, expire_ts : (n,) int64 ms, 0 where the flag says absent
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
    # What compiled kernels need of the arrays, made at the first call (`_sources`): a window goes through half a dozen.
    addresses: list[tuple[int, ...]] = field(default_factory=list, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.seqs)

    def __reduce__(self) -> tuple[type[RowColumns], tuple[NDArray[Any], ...]]:
        # Addresses mean nothing in another process, or to a copy.
        return RowColumns, tuple(getattr(self, item.name) for item in fields(self) if item.init)

    def key(self, row: int) -> bytes:
        """Return the key of row `row`."""
        return self.key_bytes[self.key_offsets[row] : self.key_offsets[row + 1]].tobytes()

    def value(self, row: int) -> bytes:
        """Return the value of row `row`; empty for a tombstone."""
        start = self.value_starts[row]
        return self.value_bytes[start : start + self.value_lengths[row]].tobytes()


@dataclass(frozen=True, slots=True)
class Visibility:
    """Which versions a read shows; design section 3.

    Attributes
    ----------
    max_seq : versions above it are invisible
    now_ms : a version with expire_ts <= now_ms is expired
    include_expired : expired versions count as live (the real client's own view)
    include_deleted : a key whose newest version is a tombstone shows that tombstone
    all_versions : every version that the bounds admit, tombstones and expired ones included
    max_create_ts_ms : versions created later do not exist for the read, whatever their seq; those without a create_ts
        always do. None sets no bound
    """

    max_seq: int
    now_ms: int
    include_expired: bool = False
    include_deleted: bool = False
    all_versions: bool = False
    max_create_ts_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Retention:
    """Which versions a compaction keeps; spec 7.4, design sections 7 and 8.

    Attributes
    ----------
    min_seq : versions above it are needed: they stay whatever is newer, and fold with nothing
    now_ms : a version with expire_ts <= now_ms is expired; None if nothing is
    floor_ms : versions created after it are needed too, and neither expire nor go as tombstones; None sets no floor
    retired_ms : versions created at or before it are past retention; None if nothing is
    drops_tombstones : nothing older lies below
    """

    min_seq: int
    now_ms: int | None = None
    floor_ms: int | None = None
    retired_ms: int | None = None
    drops_tombstones: bool = False


# Marks of a selection.
PLAIN: Final = 0  # the row is shown as it is
GROUP_HEAD: Final = 1  # newest live operand of a key: a group to fold starts here
GROUP_REST: Final = 2  # further rows of that group, newest to oldest; the base put, if any, is the last
BURIED: Final = 3  # of a compaction: the row becomes a tombstone
GONE: Final = 4  # of a compaction: the row goes


@dataclass(slots=True)
class Selection:
    """Rows chosen by a merge, keys ascending.

    Attributes
    ----------
    rows : (m,) int64 packed rows
    marks : (m,) uint8, PLAIN, GROUP_HEAD or GROUP_REST
    """

    rows: NDArray[np.int64]
    marks: NDArray[np.uint8]
