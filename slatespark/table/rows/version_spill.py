"""Versions of many keys on local disk, and their merge into one sequence, in memory that a buffer bounds.

A spill is an SST whose sequence numbers stand for times. So spills are merged by (key ascending, time descending), and
a key of more versions than memory holds is read where it lies, once to count them and once to number them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from slatespark.format.codecs import Compression
from slatespark.format.manifest import SstHandle
from slatespark.format.paths import sst_path
from slatespark.format.sst import SST_FORMAT_VERSION, SstBuilder
from slatespark.format.ulid import make_ulid
from slatespark.kernels import gather_fields, merge_all, new_key_mask, take_rows
from slatespark.kernels.columns import HAS_CREATE, RowColumns
from slatespark.storage import open_scratch
from slatespark.table.read.cursor import LayerCursor, Window, layer_windows, window_size
from slatespark.table.read.fold import Fold
from slatespark.table.read.merge_windows import version_windows
from slatespark.table.read.plan import FileSlice, Layer, SstFile
from slatespark.table.rows.sequence import Ranks, order_repeats
from slatespark.table.rows.sort_spill import ROW_OVERHEAD_BYTES
from slatespark.table.rows.sorted_rows import SortedRows, one_version_per_key
from slatespark.table.rows.spill_area import SPILL_BLOCK_BYTES
from slatespark.table.rows.versions import (
    Versions,
    joined,
    number_versions,
    seqs_of_times,
    times_of_seqs,
    whole,
)
from slatespark.table.stores import OWN_ROOT, TableStores

# Rows of a key and time, a later one in front; returns which come last, so that they win.
Decide = Callable[[list[RowColumns], NDArray[np.int64], NDArray[np.bool_]], NDArray[np.int64] | None]


class VersionSpill:
    """Sorted chunks of versions on local disk.

    Parameters
    ----------
    folder : of the disk
    """

    def __init__(self, folder: str) -> None:
        scratch = open_scratch(folder)
        self.stores = TableStores(main=scratch, wal=scratch)
        self._number = 0
        self._layers: list[Layer] = []
        self._ranked = False

    def add(self, versions: Versions) -> None:
        """Write one chunk; of rows of one key and time those of a later chunk win, unless ranks decide."""
        flat = take_rows(versions.sources, versions.rows)
        flat.seqs[:] = seqs_of_times(flat.create_ts)
        if versions.ranks is not None:  # the time is in the sequence number
            self._ranked = True
            flat.create_ts[:] = versions.ranks.order
            flat.flags[~versions.ranks.there] &= np.uint8(~HAS_CREATE & 0xFF)
        self._layers.append(Layer("spill", (self.put(flat),)))

    def put(self, rows: RowColumns) -> FileSlice:
        """Write rows as they are, and return where they lie."""
        self._number += 1
        builder = SstBuilder(
            block_size=SPILL_BLOCK_BYTES, compression=Compression.NONE, bloom_bits_per_key=0, created_ms=0
        )
        builder.add([rows], np.arange(len(rows), dtype=np.int64))
        built = builder.finish()
        handle = SstHandle(make_ulid(self._number, self._number), built.info, SST_FORMAT_VERSION)
        self.stores.main.put(sst_path(handle.id), built.parts)
        return FileSlice(SstFile(OWN_ROOT, handle.id, handle.info, handle.format_version), handle.key_range())

    def merge(
        self, first_seq: int, fold: Fold | None, buffer_bytes: int, below: tuple[TableStores, Layer] | None = None
    ) -> Iterator[SortedRows]:
        """Yield all rows in key order, newest first, numbered from `first_seq` up within each key.

        Parameters
        ----------
        below : rows that came before all chunks, and where they lie
        """
        window_bytes = window_size(buffer_bytes, len(self._layers) + (below is not None))
        cursors = [LayerCursor(layer_windows(self.stores, layer, window_bytes)) for layer in reversed(self._layers)]
        if below is not None:
            cursors.append(timed_cursor(*below, window_bytes))
        distinct = distinct_versions(cursors, fold, _decide_by_rank if self._ranked else None)
        yield from numbered(distinct, first_seq, self, buffer_bytes)


def timed_cursor(stores: TableStores, layer: Layer, window_bytes: int) -> LayerCursor:
    """Return a cursor over uploaded rows, whose sequence numbers stand for their times from now on."""

    def windows() -> Iterator[Window]:
        for window in layer_windows(stores, layer, window_bytes):
            window.rows.seqs[:] = seqs_of_times(window.rows.create_ts)
            yield window

    return LayerCursor(windows())


def distinct_versions(cursors: Sequence[LayerCursor], fold: Fold | None, decide: Decide | None) -> Iterator[RowColumns]:
    """Yield rows of all cursors by key ascending, newest first, one for each key and time.

    Parameters
    ----------
    cursors : of rows whose sequence numbers stand for their times; one in front is newer
    fold : joins operands of one key and time, None if not given
    decide : arranges rows of one key and time; None for those of the first cursor to win
    """
    for window in version_windows(cursors):
        sources = window.sources
        backward = merge_all(sources, window.lows, window.highs)[::-1]
        first = new_key_mask(sources, backward)
        seqs = gather_fields(sources, backward).seqs
        first[1:] |= seqs[1:] != seqs[:-1]
        arranged = None if decide is None else decide(sources, backward, first)
        kept, chosen = one_version_per_key(
            sources, backward if arranged is None else backward[arranged], fold, first=first
        )
        flat = take_rows(kept, chosen[::-1])
        flat.create_ts[:] = times_of_seqs(flat.seqs)
        flat.flags[:] |= HAS_CREATE
        yield flat


def _decide_by_rank(
    sources: list[RowColumns], rows: NDArray[np.int64], first: NDArray[np.bool_]
) -> NDArray[np.int64] | None:
    fields = gather_fields(sources, rows)
    return order_repeats(first, Ranks(fields.create_ts, (fields.flags & HAS_CREATE) != 0))


# --- numbers --------------------------------------------------------------------------------------------------------


def numbered(
    pieces: Iterator[RowColumns], first_seq: int, spill: VersionSpill, buffer_bytes: int
) -> Iterator[SortedRows]:
    """Yield rows with the numbers they are stored by; the last key of a piece may go on in the next one."""
    held = _HeldKey(spill, buffer_bytes)
    for rows in pieces:
        starts = np.flatnonzero(new_key_mask([rows], np.arange(len(rows), dtype=np.int64)))
        low = 0
        if held.key == rows.key(0):
            low = int(starts[1]) if len(starts) > 1 else len(rows)
            held.add(rows, 0, low)
            if low == len(rows):
                continue
        yield from held.drain(first_seq)
        high = int(starts[-1])
        if low < high:
            yield _numbered(take_rows([rows], np.arange(low, high, dtype=np.int64)), first_seq)
        held.add(rows, high, len(rows))
    yield from held.drain(first_seq)


def _numbered(rows: RowColumns, first_seq: int) -> SortedRows:
    versions = whole(rows)
    number_versions(versions, first_seq)
    return SortedRows(versions.sources, versions.rows)


class _HeldKey:
    """The versions of one key seen so far, newest first; beyond the buffer they are spilled once more."""

    def __init__(self, spill: VersionSpill, buffer_bytes: int) -> None:
        self._spill, self._buffer_bytes = spill, buffer_bytes
        self.key: bytes | None = None
        self._count = self._held_bytes = 0
        self._slices: list[FileSlice] = []
        self._rows: list[RowColumns] = []

    def add(self, rows: RowColumns, low: int, high: int) -> None:
        """Take rows [low, high), older than those taken so far."""
        part = take_rows([rows], np.arange(low, high, dtype=np.int64))
        self.key = part.key(0)
        self._count += len(part)
        self._rows.append(part)
        self._held_bytes += int(part.value_lengths.sum()) + len(part) * (ROW_OVERHEAD_BYTES + len(self.key))
        if self._held_bytes > self._buffer_bytes:
            self._slices.append(self._spill.put(joined(self._rows)))
            self._rows, self._held_bytes = [], 0

    def drain(self, first_seq: int) -> Iterator[SortedRows]:
        """Yield the rows, newest first, with their numbers; nothing is held then."""
        next_seq = first_seq + self._count
        slices, rows = self._slices, self._rows
        self.key, self._count, self._held_bytes, self._slices, self._rows = None, 0, 0, [], []
        window_bytes = window_size(self._buffer_bytes, 1)
        spilled = layer_windows(self._spill.stores, Layer("key", tuple(slices)), window_bytes)
        parts = (take_rows([window.rows], np.arange(window.low, window.high, dtype=np.int64)) for window in spilled)
        for part in chain(parts, rows):
            next_seq -= len(part)
            yield _numbered(part, next_seq)
