"""LayerCursor: the rows of one layer in key order, a bounded window of decoded blocks at a time.

If a window's last key may have more versions, that key gets a window of its own, marked as not whole. Every other
window is complete up to its bound. So a merge of several cursors needs state across windows only for such keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import CorruptDataError
from slatespark.kernels import key_span, lower_bound, lower_bound_in_each, take_rows
from slatespark.kernels.columns import RowColumns
from slatespark.ranges import KeyRange
from slatespark.table.read.block_rows import decoded_rows
from slatespark.table.read.merge.freed_memory import keep_freed_memory
from slatespark.table.read.merge.layer_reads import FileReads, Group, LayerReads
from slatespark.table.read.planning.plan import Layer, SstFile
from slatespark.table.read.planning.row_cuts import spans_within
from slatespark.table.stores import TableStores, object_context

# How far a window reaches: (key, 1) includes the key, (key, 0) ends before it, None is the end of the layer. As tuples
# they compare as positions in key order.
Bound: TypeAlias = tuple[bytes, int]
RowSpan: TypeAlias = tuple[RowColumns, int, int]  # rows [low, high) of a source

MAX_WINDOW_BYTES: Final = 3 << 20  # measured: smaller ones pay their fixed costs too often, larger ones miss the caches
MIN_WINDOW_BYTES: Final = 64 << 10
FILE_WINDOW_BYTES: Final = 4 << 20  # of a file that is read by itself, merged with no other
MAX_BYTES_AHEAD: Final = 24 << 20  # of a layer; a link of 200 MB/s carries 20 MB while an answer takes 100 ms


class LayerCursor:
    """A forward cursor over the row versions of one layer.

    Attributes
    ----------
    rows : the window; None before the first `load` and at the end
    low, high : rows [low, high) of the window are still to be consumed
    bound : how far the window reaches; None once nothing lies beyond it
    """

    def __init__(self, windows: Iterator[Window]) -> None:
        self._windows = windows
        self.rows: RowColumns | None = None
        self.low = self.high = 0
        self.bound: Bound | None = None

    def load(self) -> bool:
        """Make sure that there are rows to consume; False at the end of the layer."""
        while self.low == self.high:
            window = next(self._windows, None)
            if window is None:
                self.rows = None
                return False
            self.rows, self.low, self.high, self.bound = window.rows, window.low, window.high, window.bound
        return True

    def spans(self) -> Iterator[RowSpan]:
        """Consume all rows that are left, window by window."""
        while self.load() and self.rows is not None:
            yield self.rows, self.low, self.high
            self.low = self.high

    def end_of(self, key: bytes) -> int:
        """Return the row where the versions of a key end; the cursor must be loaded."""
        return self.high if self.rows is None else lower_bound(self.rows, key + b"\0", self.low, self.high)


@dataclass(frozen=True, slots=True)
class Window:
    """Rows [low, high) of `rows`, and how far they reach."""

    rows: RowColumns
    low: int
    high: int
    bound: Bound | None

    @property
    def indices(self) -> NDArray[np.int64]:
        """The numbers of the rows."""
        return np.arange(self.low, self.high, dtype=np.int64)


def rows_before(cursors: Sequence[LayerCursor], cut: Bound | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows [lows[i], highs[i]) of loaded cursors with keys within `cut`, all if it is None."""
    lows = np.array([cursor.low for cursor in cursors], np.int64)
    highs = np.array([cursor.high for cursor in cursors], np.int64)
    if cut is None:
        return lows, highs
    key, inclusive = cut
    sources = [cursor.rows for cursor in cursors if cursor.rows is not None]
    return lows, lower_bound_in_each(sources, key + b"\0" if inclusive else key, lows, highs)


def window_size(buffer_bytes: int, layers: int) -> int:
    """Return the bytes of one window when `layers` cursors, each one window ahead, share a buffer."""
    return max(MIN_WINDOW_BYTES, min(MAX_WINDOW_BYTES, buffer_bytes // max(1, 2 * layers)))


def bytes_ahead(buffer_bytes: int, layers: int) -> int:
    """Return the stored bytes that each of `layers` cursors may fetch ahead: its share of a buffer less two windows.

    Those are the window in use, and the one that takes its place.
    """
    return max(0, min(MAX_BYTES_AHEAD, buffer_bytes // max(1, layers) - 2 * window_size(buffer_bytes, layers)))


def memory_windows(rows: RowColumns) -> Iterator[Window]:
    """Return rows held in memory as a single window."""
    yield Window(rows, 0, len(rows), None)


def layer_windows(
    stores: TableStores, layer: Layer, window_bytes: int, *, ahead_bytes: int | None = None
) -> Iterator[Window]:
    """Return the windows of a layer; from a store with latency the first read starts at once.

    Parameters
    ----------
    stores : where the files are
    layer : slices in key order
    window_bytes : target size of the blocks of one window, stored and decompressed; one block is the least
    ahead_bytes : stored bytes to fetch ahead of the window, but one range at least; by default two windows

    Raises
    ------
    CorruptDataError
        When bytes are damaged or keys are out of order, within a file or from file to file.
    """
    keep_freed_memory()
    # Not in the generator below: the first reads of several layers go together.
    return _windows(stores, layer, LayerReads.begin(stores, layer, window_bytes, ahead_bytes), window_bytes)


def open_cursors(
    stores: TableStores,
    layers: Sequence[Layer],
    tail: Sequence[RowColumns],
    window_bytes: int,
    *,
    windows: Callable[[TableStores, Layer, int], Iterator[Window]] = layer_windows,
) -> list[LayerCursor]:
    """Return cursors over all rows of some layers, newest first.

    Parameters
    ----------
    layers : newest first
    tail : rows of the WAL, newer than every layer but those of own writes
    window_bytes : as for `layer_windows`
    windows : yields the windows of a layer
    """
    own, stored = (
        [LayerCursor(windows(stores, layer, window_bytes)) for layer in layers if layer.is_above_wal is above]
        for above in (True, False)
    )
    return [*own, *(LayerCursor(memory_windows(rows)) for rows in tail), *stored]


def _windows(stores: TableStores, layer: Layer, reads: LayerReads, window_bytes: int) -> Iterator[Window]:
    last: Window | None = None
    done = 0
    for find in reads.files:
        found = find()
        done += len(found.slices)
        goes_on_at = layer.slices[done].keys.start if done < len(layer.slices) else None
        for window in _file_windows(stores, found, goes_on_at, reads.buffers, window_bytes):
            if last is not None:
                _check_order(last, window, found.file)
            yield window
            last = window


def _check_order(last: Window, window: Window, file: SstFile) -> None:
    """Refuse descending keys: the index, or the views of a run, would hide rows."""
    before, after = last.rows.key(last.high - 1), window.rows.key(window.low)
    whole = last.bound is not None and last.bound[1] == 1
    if after < before or (whole and after == before):
        raise CorruptDataError(f"key {after.hex()} follows {before.hex()} of an earlier block or file.", path=file.path)


def _file_windows(
    stores: TableStores,
    found: FileReads,
    goes_on_at: bytes | None,
    buffers: Iterator[NDArray[np.uint8]],
    window_bytes: int,
) -> Iterator[Window]:
    """Yield the windows of the slices of a file; `goes_on_at` is where the next file starts."""
    ranges = [part.keys for part in found.slices]
    end = found.groups[-1][-1][1] if found.groups else 0
    for group in found.groups:
        for block, decoded in _decoded_chunks(stores, found, group, buffers, window_bytes):
            rows, low, high = _within(decoded, ranges)
            if low == high:
                continue
            last_key = rows.key(high - 1)
            goes_on = found.index.spans_key(block, last_key) if block < end else goes_on_at == last_key
            if not goes_on:
                yield Window(rows, low, high, (last_key, 1))
                continue
            split = lower_bound(rows, last_key, low, high)
            if split > low:
                yield Window(rows, low, split, (rows.key(split - 1), 1))
            yield Window(rows, split, high, (last_key, 0))


def _within(rows: RowColumns, ranges: Sequence[KeyRange]) -> RowSpan:
    """Return the rows with keys in some ranges: as they are if they follow each other, else a copy."""
    if len(ranges) == 1:
        return (rows, *key_span(rows, ranges[0]))
    spans = list(spans_within(rows, 0, len(rows), ranges))
    if len(spans) < 2:
        return (rows, *spans[0]) if spans else (rows, 0, 0)
    found = take_rows([rows], np.concatenate([np.arange(*span, dtype=np.int64) for span in spans]))
    return found, 0, len(found)


def _decoded_chunks(
    stores: TableStores, reads: FileReads, group: Group, buffers: Iterator[NDArray[np.uint8]], window_bytes: int
) -> Iterator[tuple[int, RowColumns]]:
    """Yield (number of the block after them, rows) of the blocks of a group."""
    file, edges = reads.file, reads.edges
    store = stores.at(file.root)
    numbers = np.concatenate([np.arange(*span, dtype=np.int64) for span in group])
    with object_context(store, file.path, int(edges[group[0][0]])):
        data = next(buffers)
        url = f"{store.url}/{file.path}"
        yield from decoded_rows(file, url, numbers, data, edges, reads.index.encoded_bytes, window_bytes=window_bytes)
