"""Which keys a reap pass deletes by tombstones: those whose visible row is due."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels import new_key_mask, sort_rows, take_rows
from slatespark.kernels.columns import MERGE, ROW_BITS, RowColumns, Selection, Visibility
from slatespark.ranges import KeyRange, key_after, point_range
from slatespark.table.read.plan import FileSlice, Layer
from slatespark.table.read.points import key_cursors
from slatespark.table.read.scan import visible_windows
from slatespark.table.retention.past_retention import RetiredKeys, is_covered, live_and_due, retired_keys
from slatespark.table.retention.reap_files import DueWindow
from slatespark.table.stores import TableStores

MAX_WAL_POINTS = 1000  # keys of the WAL that a plan treats individually


@dataclass(slots=True)
class TombstoneBatch:
    """The tombstones of a pass, and its progress.

    Attributes
    ----------
    max_rows, max_bytes : maximum number of keys, and of their bytes; at least one key
    rows, key_bytes, stored_bytes : number of keys, their bytes, and the size of their newest versions
    read_bytes : of the blocks read
    reached : number of the first block not read, by view
    """

    max_rows: int
    max_bytes: int
    keys: list[RowColumns] = field(default_factory=list)
    rows: int = 0
    key_bytes: int = 0
    stored_bytes: int = 0
    read_bytes: int = 0
    reached: dict[FileSlice, int] = field(default_factory=dict)

    def add(self, found: RetiredKeys) -> bool:
        """Add keys, in any order, duplicates allowed; False if not all of them fit."""
        count, ends = len(found.rows), found.rows.key_offsets[1:]
        fits = int(np.searchsorted(ends, self.max_bytes - self.key_bytes, side="right"))
        room = min(self.max_rows - self.rows, fits if self.keys else max(1, fits))
        rows = found.rows if count <= room else take_rows([found.rows], np.arange(room, dtype=np.int64))
        if len(rows):
            self.keys.append(rows)
            self.rows += len(rows)
            self.key_bytes += int(ends[len(rows) - 1])
            self.stored_bytes += found.stored_bytes * len(rows) // count
        return count <= room

    def tombstones(self) -> RowColumns:
        """Return the tombstones in key order, each key once, without sequence numbers and times."""
        numbers = [(np.int64(at) << ROW_BITS) + np.arange(len(rows)) for at, rows in enumerate(self.keys)]
        flat = take_rows(self.keys, np.concatenate(numbers))
        order = sort_rows(flat)
        return take_rows([flat], order[new_key_mask([flat], order)])


@dataclass(frozen=True, slots=True, eq=False)
class TombstoneSearch:
    """Finds retired keys in one snapshot.

    Attributes
    ----------
    layers : of the trees, newest first
    wal : rows of the WAL that are not in the trees; None without any
    max_seq, now_ms : of the snapshot, and the instant at which expiry is judged
    retired_ms : rows created at or before it are due
    buffer_bytes, window_bytes : read, and decoded, at a time by a look-up
    """

    stores: TableStores
    layers: Sequence[Layer]
    wal: RowColumns | None
    max_seq: int
    now_ms: int
    retired_ms: int
    buffer_bytes: int
    window_bytes: int

    def in_window(self, window: DueWindow, shared: Sequence[KeyRange]) -> Iterator[RetiredKeys]:
        """Yield the retired keys in a window of a view; `shared` are keys that other views may hold."""
        rows, low, high = window.rows, window.low, window.high
        if low == high:
            return
        alone = np.zeros(len(rows), np.bool_)
        alone[low:high] = ~is_covered(rows, low, high, shared)
        for edge in window.open_edges():
            alone[edge] = False
        positions = np.flatnonzero(alone)
        selection = Selection(positions, np.zeros(len(positions), np.uint8))
        yield from retired_keys([([rows], selection)], self.now_ms, self.retired_ms)
        others = live_and_due(rows, self.retired_ms) & ~alone
        others[:low] = others[high:] = False
        yield from self._look_up(rows, np.flatnonzero(others))

    def in_wal(self, limit: int) -> Iterator[RetiredKeys]:
        """Yield the retired keys among the due rows of the WAL; looks up `limit` rows at a time."""
        if self.wal is None:
            return
        due = np.flatnonzero(live_and_due(self.wal, self.retired_ms))
        distinct = due[new_key_mask([self.wal], due)]
        for start in range(0, len(distinct), limit):
            yield from self._look_up(self.wal, distinct[start : start + limit])

    def _look_up(self, rows: RowColumns, positions: NDArray[np.int64]) -> Iterator[RetiredKeys]:
        """Yield the retired keys among those of some rows; looks up all of their versions."""
        if not len(positions):
            return
        distinct = positions[new_key_mask([rows], positions)]
        keys = tuple(rows.key(at) for at in distinct.tolist())
        everything = Visibility(max_seq=self.max_seq, now_ms=self.now_ms, all_versions=True)
        for cursors in key_cursors(
            self.stores,
            self.layers,
            keys,
            self.wal,
            buffer_bytes=self.buffer_bytes,
            window_bytes=self.window_bytes,
        ):
            yield from retired_keys(visible_windows(cursors, everything, None), self.now_ms, self.retired_ms)


def wal_keys(rows: RowColumns | None) -> tuple[list[KeyRange], list[KeyRange]]:
    """Return the keys of the WAL, and those with operands; if there are many, one range that contains them."""
    if rows is None:
        return [], []
    everything = np.arange(len(rows), dtype=np.int64)
    return _key_ranges(rows, everything), _key_ranges(rows, np.flatnonzero((rows.flags & MERGE) != 0))


def _key_ranges(rows: RowColumns, positions: NDArray[np.int64]) -> list[KeyRange]:
    if not len(positions):
        return []
    if len(positions) > MAX_WAL_POINTS:
        return [KeyRange(rows.key(int(positions[0])), key_after(rows.key(int(positions[-1]))))]
    return [point_range(rows.key(at)) for at in positions.tolist()]
