"""What a reaping reads and rewrites of single files: the rows of blocks that are due, and files without them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from slatespark.kernels import lower_bound
from slatespark.kernels.columns import RowColumns
from slatespark.options import WriteOptions
from slatespark.ranges import KeyRange, key_after
from slatespark.table.clock import Clock
from slatespark.table.read.cursor import LayerCursor, layer_windows
from slatespark.table.read.plan import FileSlice, Layer
from slatespark.table.retention.expiry_files import read_blocks
from slatespark.table.retention.expiry_plan import FileOutline
from slatespark.table.retention.plan import DueView
from slatespark.table.retention.retained_rows import bury_rows
from slatespark.table.retention.retired_rows import surviving_rows
from slatespark.table.rows.sorted_rows import SortedRows
from slatespark.table.rows.sst_upload import NewFile, upload_sorted
from slatespark.table.stores import TableStores

# --- rows that are due ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class DueWindow:
    """Rows [low, high) of consecutive blocks that hold due rows.

    Attributes
    ----------
    end : the number of the block behind them
    stored_bytes : of the blocks
    begins_inside, goes_on : whether versions of the first key may precede, and of the last one follow, elsewhere in
        the file
    """

    rows: RowColumns
    low: int
    high: int
    end: int
    stored_bytes: int
    begins_inside: bool
    goes_on: bool

    def open_edges(self) -> Iterator[slice]:
        """Yield the rows of keys that may have more versions elsewhere in the file."""
        if self.begins_inside:
            yield slice(0, lower_bound(self.rows, key_after(self.rows.key(0)), 0, len(self.rows)))
        if self.goes_on:
            yield slice(lower_bound(self.rows, self.rows.key(len(self.rows) - 1), 0, len(self.rows)), len(self.rows))


def due_windows(
    stores: TableStores,
    part: FileSlice,
    outline: FileOutline,
    reads: Sequence[tuple[int, int]],
    *,
    window_bytes: int,
) -> Iterator[DueWindow]:
    """Yield the rows that a view shows of blocks, some at a time; parameters as for `read_blocks`."""
    index, keys = outline.index, part.keys
    before: tuple[int, bytes] | None = None  # where the last window ended, and its last key
    for first, rows, first_rows in read_blocks(stores, part.file, outline, reads, window_bytes=window_bytes):
        end, opens, closes = first + len(first_rows), rows.key(0), rows.key(len(rows) - 1)
        follows = before is not None and before[0] == first
        begins_inside = before == (first, opens) if follows else index.spans_key(first, opens)
        low = lower_bound(rows, keys.start, 0, len(rows))
        high = len(rows) if keys.end is None else lower_bound(rows, keys.end, low, len(rows))
        yield DueWindow(
            rows=rows,
            low=low,
            high=high,
            end=end,
            stored_bytes=int(outline.edges[end] - outline.edges[first]),
            begins_inside=begins_inside and holds_several_versions(outline),
            goes_on=index.spans_key(end, closes) and holds_several_versions(outline),
        )
        before = end, closes


def holds_several_versions(outline: FileOutline) -> bool:
    """Tell whether a key may come more than once in a file."""
    properties = outline.properties
    return properties is None or properties.min_seq != properties.max_seq


def count_gone(
    stores: TableStores,
    view: DueView,
    outline: FileOutline,
    reads: Sequence[tuple[int, int]],
    retired_ms: int,
    *,
    window_bytes: int,
) -> int:
    """Return how many rows that are no tombstones a rewrite would take away, at least; parameters as for `read_blocks`.

    Keys with versions in other blocks count as if they stayed.
    """
    gone = 0
    for window in due_windows(stores, view.stored.part, outline, reads, window_bytes=window_bytes):
        low, high = window.low, window.high
        for edge in window.open_edges():
            low, high = (max(low, edge.stop), high) if edge.start == 0 else (low, min(high, edge.start))
        if low < high:
            gone += surviving_rows(window.rows, low, high, view.older, retired_ms).gone
    return gone


# --- rewriting ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Files that take the place of a view, and how many rows that were no tombstones are gone."""

    files: tuple[NewFile, ...]
    gone: int


@dataclass(slots=True)
class _Rest:
    """The rows that stay, window by window.

    Attributes
    ----------
    gone : how many rows that were no tombstones did not stay
    open_key : its versions come in several windows, and stay as they are
    """

    cursor: LayerCursor
    older: Sequence[KeyRange]
    retired_ms: int
    gone: int = 0
    open_key: bytes | None = None

    def pieces(self) -> Iterator[SortedRows]:
        while self.cursor.load():
            rows, low, high = self.cursor.rows, self.cursor.low, self.cursor.high
            assert rows is not None  # load() said so
            self.cursor.low = high
            start = self._end_of_open_key(rows, low, high)
            if start > low:
                yield SortedRows([rows], np.arange(low, start, dtype=np.int64))
            if start == high:
                continue
            left = surviving_rows(rows, start, high, self.older, self.retired_ms)
            bury_rows(rows, left.positions[left.buried])
            self.gone += left.gone
            if len(left.positions):
                yield SortedRows([rows], left.positions)

    def _end_of_open_key(self, rows: RowColumns, low: int, high: int) -> int:
        """Return where the rows end that belong to a key of several windows."""
        if self.cursor.bound is not None and self.cursor.bound[1] == 0:
            self.open_key = self.cursor.bound[0]
            return high
        return low if self.open_key is None else lower_bound(rows, key_after(self.open_key), low, high)


def rewrite_view(
    stores: TableStores,
    view: DueView,
    retired_ms: int,
    options: WriteOptions,
    clock: Clock,
    *,
    window_bytes: int,
) -> Rewrite:
    """Upload what is left of a view without its due rows.

    Requires: `view.may_be_rewritten`.
    """
    layer = Layer("rewritten", (view.stored.part,))
    rest = _Rest(LayerCursor(layer_windows(stores, layer, window_bytes)), view.older, retired_ms)
    files = upload_sorted(stores.main, rest.pieces(), options, clock, clock.now_ms())
    return Rewrite(files, rest.gone)
