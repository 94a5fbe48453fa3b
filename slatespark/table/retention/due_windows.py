"""The rows of blocks that may hold rows past retention, some at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels import key_span, lower_bound
from slatespark.kernels.columns import RowColumns
from slatespark.ranges import KeyRange, key_after
from slatespark.table.read.planning.plan import FileSlice
from slatespark.table.retention.expiry_files import read_blocks
from slatespark.table.retention.expiry_plan import FileOutline
from slatespark.table.retention.past_retention import live_and_due
from slatespark.table.stores import TableStores


class SearchStart(NamedTuple):
    """Where the search of a view goes on: at a key, which is in this block or in a later one."""

    block: int = 0
    key: bytes = b""


@dataclass(frozen=True, slots=True, eq=False)
class DueWindow:
    """Rows [low, high) of consecutive blocks that may hold due rows.

    Attributes
    ----------
    first, end : number of their first block, and of the block behind them
    stored_bytes : size of the blocks
    begins_inside, goes_on : earlier blocks may hold versions of the first key, later blocks of the last key
    due : positions of due rows other than tombstones
    """

    rows: RowColumns
    low: int
    high: int
    first: int
    end: int
    stored_bytes: int
    begins_inside: bool
    goes_on: bool
    due: NDArray[np.int64]

    @property
    def behind(self) -> SearchStart:
        """Where the next row is."""
        if self.high == len(self.rows):
            return SearchStart(self.end)
        return SearchStart(self.first, self.rows.key(self.high))

    def pieces(self, max_rows: int) -> Iterator[DueWindow]:
        """Yield the window in parts of whole keys, each with at most `max_rows` due rows; one key at least."""
        low, first = self.low, 0  # of the next part: its first row, and its first due row
        while len(self.due) - first > max_rows:
            opening = self.rows.key(int(self.due[first + max_rows]))
            cut = lower_bound(self.rows, opening, low, self.high)
            if cut <= self.due[first]:  # the versions of one key
                cut = lower_bound(self.rows, key_after(opening), low, self.high)
            end = int(np.searchsorted(self.due, cut))
            yield replace(self, low=low, high=cut, due=self.due[first:end])
            low, first = cut, end
        yield replace(self, low=low, due=self.due[first:])

    def open_edges(self) -> Iterator[slice]:
        """Yield the rows of keys that may have versions in other blocks."""
        if self.begins_inside:
            yield slice(0, lower_bound(self.rows, key_after(self.rows.key(0)), 0, len(self.rows)))
        if self.goes_on:
            yield slice(lower_bound(self.rows, self.rows.key(len(self.rows) - 1), 0, len(self.rows)), len(self.rows))


def due_windows(
    stores: TableStores,
    part: FileSlice,
    outline: FileOutline,
    reads: Sequence[tuple[int, int]],
    retired_ms: int,
    *,
    window_bytes: int,
    start: bytes = b"",
) -> Iterator[DueWindow]:
    """Yield the rows of blocks within a view, some at a time; other parameters as for `read_blocks`.

    Parameters
    ----------
    retired_ms : rows created at or before it are due
    start : rows of smaller keys are left out
    """
    index, keys = outline.index, part.keys.intersect(KeyRange(start, None))
    before: tuple[int, bytes] | None = None  # end and last key of the previous window
    for first, rows, first_rows in read_blocks(stores, part.file, outline, reads, window_bytes=window_bytes):
        end, opens, closes = first + len(first_rows), rows.key(0), rows.key(len(rows) - 1)
        follows = before is not None and before[0] == first
        begins_inside = before == (first, opens) if follows else index.spans_key(first, opens)
        low, high = key_span(rows, keys)
        yield DueWindow(
            rows=rows,
            low=low,
            high=high,
            first=first,
            end=end,
            stored_bytes=int(outline.edges[end] - outline.edges[first]),
            begins_inside=begins_inside and holds_several_versions(outline),
            goes_on=index.spans_key(end, closes) and holds_several_versions(outline),
            due=low + np.flatnonzero(live_and_due(rows, retired_ms)[low:high]),
        )
        before = end, closes


def holds_several_versions(outline: FileOutline) -> bool:
    """Tell whether a file may hold several versions of a key."""
    properties = outline.properties
    return properties is None or properties.min_seq != properties.max_seq
