"""Spill: sorted chunks of one task on local disk, and their merge into one sequence, in memory that a buffer bounds.

A spill file is an SST whose sequence numbers are times (`versions.seqs_of_times`). So chunks merge by (key ascending,
time descending), and of rows of one key and time those of the later chunk come first. The place of the time holds what
decides between them, or what their times lost (`lost_versions`). Rows without times of their own all have the time of
the write. A key with more versions than memory holds is spilled once more while it is counted.

A merge has a window of each chunk, and looks at all of them whenever one ends. So the chunks of a large task are merged
in passes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, count, takewhile
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slatespark.format.codecs import Compression
from slatespark.format.paths import sst_path
from slatespark.format.references import SstHandle
from slatespark.format.sst import SST_FORMAT_VERSION, SstBuilder
from slatespark.format.ulid import make_ulid
from slatespark.kernels import gather_fields, merge_all, new_key_mask, take_rows
from slatespark.kernels.columns import HAS_CREATE, RowColumns
from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.storage import open_scratch
from slatespark.table.read.fetch import sample_index
from slatespark.table.read.merge.cursor import LayerCursor, Window, layer_windows, window_size
from slatespark.table.read.merge.merge_function import MergeFunction
from slatespark.table.read.merge.windows import MergeWindow, version_windows
from slatespark.table.read.planning.plan import FileSlice, Layer, SstFile, cut_layers, ranges_of
from slatespark.table.rows.batches import ROW_OVERHEAD_BYTES
from slatespark.table.rows.lost_versions import UNKNOWN, DistinctTimes
from slatespark.table.rows.sequence import Ranks, order_repeats
from slatespark.table.rows.sorted_rows import SortedRows, one_version_per_key
from slatespark.table.rows.versions import (
    Versions,
    joined,
    number_versions,
    seqs_of_times,
    times_of_seqs,
    whole,
)
from slatespark.table.stores import TableStores
from slatespark.table.tasks import ThreadRunner
from slatespark.units import MAX_MS

SPILL_BLOCK_BYTES = 65536
PART_BYTES: Final = 16 << 20  # a smaller range is not worth a thread
POINTS_PER_FILE: Final = 32  # at which ranges may be cut
MOST_MERGED: Final = 64  # chunks at a time: more would share the buffer in ever smaller windows

# Sources, packed rows, later ones behind earlier ones, and True where another key or time begins -> the order in which
# the winner of each key and time comes last.
TieBreak: TypeAlias = Callable[[list[RowColumns], NDArray[np.int64], NDArray[np.bool_]], NDArray[np.int64]]


class Spill:
    """Sorted chunks of rows on local disk.

    Parameters
    ----------
    folder : of the disk
    by_time : whether rows have times of their own; else all have one time, and each key one version
    """

    def __init__(self, folder: str, *, by_time: bool) -> None:
        scratch = open_scratch(folder)
        self.stores = TableStores(main=scratch, wal=scratch)
        self._by_time = by_time
        self._numbers = count(1)  # of files
        self._chunks: dict[int, Layer] = {}
        self._ranked = False

    def add(self, number: int, versions: Versions) -> None:
        """Write a chunk. Threads may add several at a time.

        Parameters
        ----------
        number : of rows of one key and time those of the chunk with the highest number win, unless ranks decide
        """
        flat = take_rows(versions.sources, versions.rows)
        flat.seqs[:] = seqs_of_times(flat.create_ts)
        if versions.ranks is not None:  # the time is in the sequence number
            self._ranked = True
            flat.create_ts[:] = versions.ranks.order
            flat.flags[~versions.ranks.there] &= np.uint8(~HAS_CREATE & 0xFF)
        else:
            flat.create_ts[:] = versions.known_remainders()
        self._chunks[number] = Layer("spill", (self.put(flat),))

    def put(self, rows: RowColumns) -> FileSlice:
        """Write rows as they are, and return where they lie."""
        [part] = self._put_all([rows], MAX_MS)
        return part

    def _put_all(self, pieces: Iterable[RowColumns], file_bytes: int) -> Iterator[FileSlice]:
        """Write rows as they are, in files of about a size, and yield where they lie."""
        builder = None
        for rows in pieces:
            builder = builder or SstBuilder(
                block_size=SPILL_BLOCK_BYTES, compression=Compression.NONE, bloom_bits_per_key=0, created_ms=0
            )
            builder.add([rows], np.arange(len(rows), dtype=np.int64))
            if builder.reaches(file_bytes):
                yield self._store(builder)
                builder = None
        if builder is not None:
            yield self._store(builder)

    def _store(self, builder: SstBuilder) -> FileSlice:
        number, built = next(self._numbers), builder.finish()
        handle = SstHandle(make_ulid(number, number), built.info, SST_FORMAT_VERSION)
        self.stores.main.put(sst_path(handle.id), built.parts)
        return SstFile.of(handle).whole()

    def join_chunks(
        self, fold: MergeFunction | None, buffer_bytes: int, check: DistinctTimes | None, threads: ThreadRunner
    ) -> None:
        """Merge chunks with each other until one merge can take all of them; parameters as for `merge`.

        No more is merged than that takes.

        Parameters
        ----------
        threads : merge a group of chunks each
        """
        while (excess := len(self._chunks) - MOST_MERGED) > 0:
            numbers, groups = sorted(self._chunks), []
            while excess > 0 and len(numbers) > 1:
                group = numbers[: min(MOST_MERGED, excess + 1)]  # neighbours, so that later ones stay later
                numbers = numbers[len(group) :]
                groups.append(group)
                excess -= len(group) - 1
            stopped = threading.Event()
            join = partial(self._join, fold, buffer_bytes, check, stopped)
            for _ in threads(join, groups, end=stopped.set):
                pass

    def _join(
        self,
        fold: MergeFunction | None,
        buffer_bytes: int,
        check: DistinctTimes | None,
        stopped: threading.Event,
        numbers: Sequence[int],
    ) -> None:
        """Merge some chunks to one, in the place of the first; only a part of them once that is of no use any more."""
        layers = [self._chunks.pop(number) for number in reversed(numbers)]
        window_bytes = window_size(buffer_bytes, len(layers))
        cursors = [LayerCursor(layer_windows(self.stores, layer, window_bytes)) for layer in layers]
        pieces = distinct_versions(version_windows(cursors), fold, self._tie_break(check), by_time=self._by_time)
        pieces = takewhile(lambda _: not stopped.is_set(), pieces)
        self._chunks[numbers[0]] = Layer("spill", tuple(self._put_all(pieces, buffer_bytes)))
        self.stores.main.delete_many([part.file.path for layer in layers for part in layer.slices])

    def _tie_break(self, check: DistinctTimes | None) -> TieBreak | None:
        return _break_by_rank if self._ranked else tie_check(check)

    def parts(self, most: int) -> list[KeyRange]:
        """Return key ranges, ascending, that `merge` can take at a time: a few that are worth a thread each."""
        files = [part.file for layer in self._chunks.values() for part in layer.slices]
        stored_bytes = sum(file.data_bytes for file in files)
        if most < 2 or stored_bytes <= PART_BYTES:
            return [ALL_KEYS]
        points = chain.from_iterable(
            sample_index(self.stores, file, max(1, file.data_bytes // POINTS_PER_FILE)) for file in files
        )
        return ranges_of(points, ALL_KEYS, max(PART_BYTES, -(-stored_bytes // most)))

    def merge(
        self,
        first_seq: int,
        fold: MergeFunction | None,
        buffer_bytes: int,
        below: tuple[TableStores, Sequence[Layer]] | None = None,
        check: DistinctTimes | None = None,
        keys: KeyRange = ALL_KEYS,
    ) -> Iterator[SortedRows]:
        """Yield rows in file order, numbered from `first_seq` up within each key.

        Parameters
        ----------
        below : rows older than all chunks, newest first, and where they lie
        check : of rows of one key and time; None if no time has lost anything
        keys : of the rows. Threads may merge several ranges at a time
        """
        stores, older = (self.stores, ()) if below is None else below
        chunks = cut_layers([layer for _, layer in sorted(self._chunks.items(), reverse=True)], keys)
        older = cut_layers(older, keys)
        window_bytes = window_size(buffer_bytes, len(chunks) + len(older))
        cursors = [LayerCursor(layer_windows(self.stores, layer, window_bytes)) for layer in chunks]
        cursors += [timed_cursor(stores, layer, window_bytes) for layer in older]
        pieces = distinct_versions(version_windows(cursors), fold, self._tie_break(check), by_time=self._by_time)
        timed = map(restore_times, pieces)
        if self._by_time:
            yield from numbered(timed, first_seq, self, buffer_bytes)
            return
        for rows in timed:
            rows.seqs[:] = first_seq
            yield SortedRows.whole(rows)


def timed_cursor(stores: TableStores, layer: Layer, window_bytes: int) -> LayerCursor:
    """Return a cursor over uploaded rows, with their times as sequence numbers, and unknown remainders."""

    def windows() -> Iterator[Window]:
        for window in layer_windows(stores, layer, window_bytes):
            rows, part = window.rows, slice(window.low, window.high)  # the rest belongs to another window
            rows.seqs[part] = seqs_of_times(rows.create_ts[part])
            rows.create_ts[part] = UNKNOWN
            yield window

    return LayerCursor(windows())


def distinct_versions(
    windows: Iterable[MergeWindow], fold: MergeFunction | None, tie_break: TieBreak | None, *, by_time: bool
) -> Iterator[RowColumns]:
    """Yield merged rows, newest first, one for each key and time.

    Parameters
    ----------
    windows : in merged order; of rows of one key and time the first is the newest, and all are in one window
    fold : joins operands of one key and time, None if not given
    tie_break : decides between rows of one key and time; None for the newest to win
    by_time : whether sequence numbers are times; else a key has one version
    """
    for window in windows:
        sources = window.sources
        backward = merge_all(sources, window.lows, window.highs)[::-1]
        first = new_key_mask(sources, backward)
        if by_time:
            seqs = gather_fields(sources, backward).seqs
            first[1:] |= seqs[1:] != seqs[:-1]
        if tie_break is not None and not first.all():
            backward = backward[tie_break(sources, backward, first)]
        kept, chosen = one_version_per_key(sources, backward, fold, first=first)
        yield take_rows(kept, chosen[::-1])


def restore_times(rows: RowColumns) -> RowColumns:
    """Give rows, in place, the times that their sequence numbers stand for."""
    rows.create_ts[:] = times_of_seqs(rows.seqs)
    rows.flags[:] |= HAS_CREATE
    return rows


def _break_by_rank(sources: list[RowColumns], rows: NDArray[np.int64], first: NDArray[np.bool_]) -> NDArray[np.int64]:
    fields = gather_fields(sources, rows)
    return order_repeats(first, Ranks(fields.create_ts, (fields.flags & HAS_CREATE) != 0))


def tie_check(check: DistinctTimes | None) -> TieBreak | None:
    """Return a function that leaves rows in order, and refuses those of which one would be lost; None without a check.

    Their sequence numbers are times, their times are remainders.
    """
    if check is None:
        return None

    def check_ties(sources: list[RowColumns], rows: NDArray[np.int64], first: NDArray[np.bool_]) -> NDArray[np.int64]:
        repeated = np.flatnonzero(~first | np.append(~first[1:], False))
        suspects = rows[repeated]
        fields = gather_fields(sources, suspects)
        remainders = fields.create_ts
        unknown = np.flatnonzero(remainders == UNKNOWN)
        remainders[unknown] = check.stored_remainders(sources, suspects[unknown])
        check.check(sources, suspects, ~first[repeated], times_of_seqs(fields.seqs), remainders)
        return np.arange(len(rows), dtype=np.int64)

    return check_ties


# --- numbers --------------------------------------------------------------------------------------------------------


def numbered(pieces: Iterator[RowColumns], first_seq: int, spill: Spill, buffer_bytes: int) -> Iterator[SortedRows]:
    """Yield rows with their sequence numbers; the last key of a piece may continue in the next one."""
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

    def __init__(self, spill: Spill, buffer_bytes: int) -> None:
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
        parts = (take_rows([window.rows], window.indices) for window in spilled)
        for part in chain(parts, rows):
            next_seq -= len(part)
            yield _numbered(part, next_seq)
