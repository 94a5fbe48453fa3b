"""Which keys a reap pass deletes by tombstones: those whose visible row is due."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels import new_key_mask, sort_rows, take_rows
from slatespark.kernels.columns import MERGE, RowColumns, Selection, Visibility, all_rows
from slatespark.ranges import KeyRange, key_after, point_range
from slatespark.table.read.planning.plan import FileSlice
from slatespark.table.read.points import key_cursors
from slatespark.table.read.scan import visible_windows
from slatespark.table.retention.due_windows import DueWindow, SearchStart, due_windows
from slatespark.table.retention.expiry_plan import FileOutline
from slatespark.table.retention.past_retention import (
    RetiredKeys,
    find_earliest_young,
    is_covered,
    live_and_due,
    retired_keys,
)
from slatespark.table.retention.plan import DueView
from slatespark.table.retention.reap_state import ReapState
from slatespark.table.stores import TableStores
from slatespark.units import MAX_MS

MAX_WAL_POINTS = 1000  # keys of the WAL that a plan treats individually


@dataclass(slots=True)
class TombstoneBatch:
    """The tombstones of a pass, and its progress.

    Attributes
    ----------
    max_rows, max_bytes : maximum number of keys, and of their bytes; at least one key
    rows, key_bytes, stored_bytes : number of keys, their bytes, and the size of their newest versions
    read_bytes : size of the blocks read
    reached : where the search goes on, by view
    is_last : nothing is left to search
    """

    max_rows: int
    max_bytes: int
    keys: list[RowColumns] = field(default_factory=list)
    rows: int = 0
    key_bytes: int = 0
    stored_bytes: int = 0
    read_bytes: int = 0
    reached: dict[FileSlice, SearchStart] = field(default_factory=dict)
    is_last: bool = False

    @property
    def is_full(self) -> bool:
        """Whether a bound is reached: of rows, or of bytes read."""
        return self.rows >= self.max_rows or self.read_bytes >= self.max_bytes

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
        """Return the tombstones in key order, each key once, without sequence numbers."""
        flat = take_rows(self.keys, all_rows(self.keys))
        order = sort_rows(flat)
        return take_rows([flat], order[new_key_mask([flat], order)])


@dataclass(slots=True)
class Stride:
    """Consecutive rows of a view that are searched together, since each lookup asks every other file.

    Attributes
    ----------
    behind : where the next stride begins
    alone : retired keys of which all versions are among these rows
    keys : keys of due rows that may have other versions elsewhere, ascending and distinct
    due_rows, read_bytes : number of due rows, and size of the blocks read to their end
    youngest_ms : smallest create_ts of rows that are not due
    """

    behind: SearchStart
    alone: list[RetiredKeys] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    due_rows: int = 0
    read_bytes: int = 0
    youngest_ms: int = MAX_MS


@dataclass(frozen=True, slots=True, eq=False)
class TombstoneSearch:
    """Finds retired keys in one snapshot.

    Attributes
    ----------
    buffer_bytes, window_bytes : read, and decoded, at a time by a lookup
    max_rows, max_bytes : limits of a stride, for due rows and blocks; one key or some blocks at least
    """

    stores: TableStores
    state: ReapState
    buffer_bytes: int
    window_bytes: int
    max_rows: int
    max_bytes: int

    def strides(
        self, view: DueView, outline: FileOutline, reads: Sequence[tuple[int, int]], start: SearchStart
    ) -> Iterator[Stride]:
        """Yield the due rows of a view, from `start` on; `reads` are the blocks that may hold some."""
        part, shared = view.stored.part, view.shared
        left = tuple((max(first, start.block), end) for first, end in reads if end > start.block)
        window_bytes = min(self.window_bytes, self.max_bytes)
        stride = Stride(start)
        for window in due_windows(
            self.stores, part, outline, left, self.state.retired_ms, window_bytes=window_bytes, start=start.key
        ):
            for piece in window.pieces(self.max_rows):
                if stride.due_rows and stride.due_rows + len(piece.due) > self.max_rows:
                    yield stride
                    stride = Stride(stride.behind)
                self._add(stride, piece, shared)
            stride.behind = SearchStart(window.end)
            stride.read_bytes += window.stored_bytes
            if stride.read_bytes >= self.max_bytes:
                yield stride
                stride = Stride(stride.behind)
        yield stride

    def _add(self, stride: Stride, piece: DueWindow, shared: Sequence[KeyRange]) -> None:
        rows, low, high = piece.rows, piece.low, piece.high
        stride.behind = piece.behind
        if low == high:
            return
        stride.due_rows += len(piece.due)
        young_ms = find_earliest_young(rows, low, high, self.state.retired_ms)
        stride.youngest_ms = min(stride.youngest_ms, MAX_MS if young_ms is None else young_ms)
        alone = np.zeros(len(rows), np.bool_)
        alone[low:high] = ~is_covered(rows, low, high, shared)
        for edge in piece.open_edges():
            alone[edge] = False
        positions = np.flatnonzero(alone)
        selection = Selection(positions, np.zeros(len(positions), np.uint8))
        stride.alone += retired_keys([([rows], selection)], self.state.now_ms, self.state.retired_ms)
        others = distinct_keys(rows, piece.due[~alone[piece.due]])
        stride.keys += others[1:] if others and stride.keys[-1:] == others[:1] else others

    def in_stride(self, stride: Stride) -> Iterator[RetiredKeys]:
        """Yield the retired keys of a stride."""
        yield from stride.alone
        yield from self._look_up(stride.keys)

    def in_wal(self) -> Iterator[RetiredKeys]:
        """Yield the retired keys among the due rows of the WAL."""
        if (wal := self.state.wal) is None:
            return
        keys = distinct_keys(wal, np.flatnonzero(live_and_due(wal, self.state.retired_ms)))
        for start in range(0, len(keys), self.max_rows):
            yield from self._look_up(keys[start : start + self.max_rows])

    def _look_up(self, keys: Sequence[bytes]) -> Iterator[RetiredKeys]:
        """Yield the retired ones of some keys, which are ascending and distinct; reads all of their versions."""
        state = self.state
        everything = Visibility(max_seq=state.snapshot.max_seq, now_ms=state.now_ms, all_versions=True)
        for cursors in key_cursors(
            self.stores,
            state.layers,
            keys,
            () if state.wal is None else (state.wal,),
            buffer_bytes=self.buffer_bytes,
            window_bytes=self.window_bytes,
        ):
            yield from retired_keys(visible_windows(cursors, everything, None), state.now_ms, state.retired_ms)


def distinct_keys(rows: RowColumns, positions: NDArray[np.int64]) -> list[bytes]:
    """Return the keys of rows at ascending positions, each once."""
    if not len(positions):
        return []
    return [rows.key(at) for at in positions[new_key_mask([rows], positions)].tolist()]


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
