"""Lookups of many keys at once: bloom filters, then indexes, then the blocks that are left, one request a file.

Only rows with sought keys go into the merge. So the cost of a lookup grows with its keys, and other keys of the same
blocks need not be decodable, foldable or complete.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import CorruptDataError
from slatespark.fork_lock import fork_lock
from slatespark.kernels import gather_keys, hash_keys, match_keys, take_rows
from slatespark.kernels.columns import RowColumns, all_rows
from slatespark.ranges import ByteRange, point_range
from slatespark.storage import run_concurrently
from slatespark.storage.remote_store import MAX_GAP_BYTES
from slatespark.table.read.block_rows import decoded_rows, joined_ranges
from slatespark.table.read.fetch import fetch_filter, fetch_index, filter_sets, indexes
from slatespark.table.read.merge.cursor import LayerCursor, RowSpan, memory_windows, open_cursors, window_size
from slatespark.table.read.planning.plan import FileSlice, Layer, SstFile, cut_layers
from slatespark.table.stores import TableStores, object_context

CHUNK_KEYS: Final = 1 << 14  # whose blocks are found together, and read together if they fit the buffer
_DECODED: Final = 8  # buffers that the rows of a span may take: more only where blocks are compressed well


def key_cursors(
    stores: TableStores,
    layers: Sequence[Layer],
    keys: Sequence[bytes],
    tail: Sequence[RowColumns],
    *,
    buffer_bytes: int,
    window_bytes: int | None = None,
) -> Iterator[list[LayerCursor]]:
    """Yield cursors over layers, newest first, that have rows of some keys alone; a chunk of the keys at a time.

    Parameters
    ----------
    layers : newest first
    keys : ascending and distinct
    tail : rows in memory, in key order, newer than every layer; newer ones first
    buffer_bytes : bound of the stored bytes that a chunk reads, and an eighth of that of the decoded rows that it
        holds; a key whose versions exceed one of them is read in windows
    window_bytes : bytes that are decoded at a time; by default the share of each layer in the buffer

    Raises
    ------
    CorruptDataError, SnapshotExpiredError, UnavailableError
    """
    sought = SoughtKeys.of(keys)
    window_bytes = window_size(buffer_bytes, len(layers)) if window_bytes is None else window_bytes
    for start in range(0, len(sought), CHUNK_KEYS):
        end = min(start + CHUNK_KEYS, len(sought))
        blocks = _find_blocks(stores, layers, sought, start, end)
        gap_bytes = MAX_GAP_BYTES if stores.main.is_remote else 0
        spans = list(_fitting(blocks, start, end, buffer_bytes, gap_bytes))[::-1]
        while spans:
            (low, high), needed_bytes = spans.pop()
            room = _Room(_DECODED * buffer_bytes)
            if needed_bytes <= buffer_bytes:
                found = _fetch_layers(stores, blocks, sought, (low, high), window_bytes, room)
            if room.left < 0 and high - low > 1:
                middle = (low + high) // 2
                spans += [((middle, high), needed_bytes), ((low, middle), needed_bytes)]
                continue
            newest = [rows for held in tail for rows in _matching(held, sought.between(low, high))]
            if needed_bytes > buffer_bytes or room.left < 0:  # a single key
                cut = cut_layers(layers, point_range(sought.keys[low]))
                yield open_cursors(stores, cut, newest, window_bytes)
            else:
                yield [LayerCursor(memory_windows(rows)) for rows in (*newest, *found)]


def key_rows(
    stores: TableStores, layers: Sequence[Layer], keys: Sequence[bytes], *, buffer_bytes: int
) -> Iterator[RowSpan]:
    """Yield all versions of some keys that layers show, in no order; parameters and errors as for `key_cursors`."""
    for cursors in key_cursors(stores, layers, keys, (), buffer_bytes=buffer_bytes):
        for cursor in cursors:
            yield from cursor.spans()


def cached_blocks(
    stores: TableStores, part: FileSlice, sought: SoughtKeys, start: int, end: int
) -> list[ByteRange] | None:
    """Return where the blocks are that keys number start to end - 1 need of a file.

    Requests nothing: None if the filter or the index of the file would have to be fetched.
    """
    file, store = part.file, stores.at(part.file.root)
    if file.info.filter_range is not None:
        filters = filter_sets.peek(store, file.path)
        if filters is None:
            return None
        if not filters.probe(sought.hashes[start:end]).any():
            return []
    if indexes.peek(store, file.path) is None:
        return None
    found = _find_file_blocks(stores, part, sought, start, end)
    if not len(found.numbers):
        return []
    blocks = found.blocks()
    return block_spans(found.edges[blocks], found.edges[blocks + 1])


@dataclass(frozen=True, slots=True, eq=False)
class SoughtKeys:
    """The keys asked for, ascending: as they are, packed, and hashed."""

    keys: Sequence[bytes]
    packed: RowColumns
    hashes: NDArray[np.uint64]

    @classmethod
    def of(cls, keys: Sequence[bytes]) -> SoughtKeys:
        """Return some keys, which ascend, for a lookup."""
        offsets = np.cumsum([0, *map(len, keys)], dtype=np.int64)
        packed = RowColumns.of_keys(np.frombuffer(b"".join(keys), np.uint8), offsets)
        return cls(keys, packed, hash_keys([packed], np.arange(len(keys), dtype=np.int64)))

    def __len__(self) -> int:
        return len(self.keys)

    def between(self, start: int, end: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the keys number start to end - 1, packed."""
        return self.some(np.arange(start, end, dtype=np.int64))

    def some(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the keys with these numbers, packed."""
        offsets, data = gather_keys([self.packed], numbers)
        return data, offsets.astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class _FileBlocks:
    """Which sought keys a file may hold, and in which of its blocks.

    Attributes
    ----------
    numbers : (n,) of the keys, ascending
    first, end : (n,) blocks [first, end) for each of them
    edges, encoded_bytes : edges and encoded size of the blocks of the file, as in its index
    """

    file: SstFile
    numbers: NDArray[np.int64]
    first: NDArray[np.int64]
    end: NDArray[np.int64]
    edges: NDArray[np.int64]
    encoded_bytes: NDArray[np.int64]

    def within(self, start: int, end: int) -> _FileBlocks:
        """Return the same for the keys number start to end - 1."""
        some = slice(*np.searchsorted(self.numbers, (start, end)).tolist())
        return replace(self, numbers=self.numbers[some], first=self.first[some], end=self.end[some])

    def blocks(self) -> NDArray[np.int64]:
        """Return the blocks of all keys, ascending."""
        low = int(self.first[0])
        steps = np.zeros(int(self.end[-1]) - low + 1, np.int64)  # both ascend, as the keys do
        np.add.at(steps, self.first - low, 1)
        np.add.at(steps, self.end - low, -1)
        return low + np.flatnonzero(np.cumsum(steps) > 0)


# --- which blocks ---------------------------------------------------------------------------------------------------


def _find_blocks(
    stores: TableStores, layers: Sequence[Layer], sought: SoughtKeys, start: int, end: int
) -> list[list[_FileBlocks]]:
    """Return for each layer, file by file, where keys number start to end - 1 may be."""
    tasks = [
        (number, partial(_find_file_blocks, stores, part, sought, *span))
        for number, layer in enumerate(layers)
        for part in layer.slices
        if (span := _keys_within(part, sought.keys, start, end))[0] < span[1]
    ]
    answers = run_concurrently([task for _, task in tasks], is_remote=stores.main.is_remote)
    found: list[list[_FileBlocks]] = [[] for _ in layers]
    for (number, _), blocks in zip(tasks, answers, strict=True):
        if len(blocks.numbers):
            found[number].append(blocks)
    return found


def _keys_within(part: FileSlice, keys: Sequence[bytes], start: int, end: int) -> tuple[int, int]:
    low = bisect_left(keys, part.keys.start, start, end)
    return low, end if part.keys.end is None else bisect_left(keys, part.keys.end, low, end)


def _find_file_blocks(stores: TableStores, part: FileSlice, sought: SoughtKeys, start: int, end: int) -> _FileBlocks:
    numbers = np.arange(start, end, dtype=np.int64)
    filters = fetch_filter(stores, part.file)
    if filters is not None:
        numbers = numbers[filters.probe(sought.hashes[start:end])]
    if not len(numbers):
        return _FileBlocks(part.file, *[numbers] * 5)
    index = fetch_index(stores, part.file)
    first, stop = index.blocks_for_keys(*sought.some(numbers))
    held = first < stop
    edges = index.block_edges(part.file.info)
    return _FileBlocks(part.file, numbers[held], first[held], stop[held], edges, index.encoded_bytes)


def _fitting(
    layers: Sequence[Sequence[_FileBlocks]], start: int, end: int, buffer_bytes: int, gap_bytes: int
) -> Iterator[tuple[tuple[int, int], int]]:
    """Yield spans of keys whose blocks fit the buffer, or of one key, and at least the bytes that these blocks take.

    A block that several keys of a span need counts once: of a small file all keys need the same one. A gap of at most
    `gap_bytes` between two blocks counts too, as it is read with them.
    """
    alone, more = np.zeros(end - start, np.int64), np.zeros(end - start, np.int64)  # more: what a key adds to others
    held = np.zeros(end - start + 1, np.int64)  # at a key: what it and later keys share with earlier ones
    for blocks in (blocks for files in layers for blocks in files):
        edges, at = blocks.edges, blocks.numbers - start
        own = edges[blocks.end] - edges[blocks.first]
        alone[at] += own
        between = edges[blocks.first[1:]] - edges[blocks.end[:-1]]
        before = np.maximum(-between, 0)
        more[at] += own
        more[at[1:]] += np.where(between > gap_bytes, 0, between)  # negative where blocks are shared
        held[at[:-1] + 1] += before
        held[at[1:] + 1] -= before
    reach = np.append(np.zeros(1, np.int64), np.cumsum(more))
    held = np.cumsum(held)
    low = 0
    while low < len(alone):
        room = buffer_bytes - held[low]  # the earlier keys are not of this span
        high = int(np.searchsorted(reach, reach[low] + room, side="right")) - 1
        if high > low + 1:
            yield (start + low, start + high), int(reach[high] - reach[low] + held[low])
        else:
            high = low + 1
            yield (start + low, start + high), int(alone[low])
        low = high


# --- their rows -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Room:
    """The memory that is left for decoded rows; threads share it. Once it is negative, what they return is no use."""

    left: int
    lock: threading.Lock = field(default_factory=fork_lock)

    def take(self, rows: Sequence[RowColumns]) -> None:
        """Note that rows are held."""
        with self.lock:
            self.left -= sum(each.nbytes for each in rows)


def _fetch_layers(
    stores: TableStores,
    layers: Sequence[Sequence[_FileBlocks]],
    sought: SoughtKeys,
    span: tuple[int, int],
    window_bytes: int,
    room: _Room,
) -> list[RowColumns]:
    """Return the sought rows of each layer that has any of the keys of a span; some, or none, if there is no room."""
    tasks = [
        (number, cut.file, partial(_fetch_rows, stores, cut, sought, window_bytes, room))
        for number, files in enumerate(layers)
        for blocks in files
        if len((cut := blocks.within(*span)).numbers)
    ]
    answers = run_concurrently([task for *_, task in tasks], is_remote=stores.main.is_remote)
    if room.left < 0:
        return []
    pieces: dict[int, list[tuple[SstFile, RowColumns]]] = {}
    for (number, file, _), rows in zip(tasks, answers, strict=True):
        pieces.setdefault(number, []).extend((file, part) for part in rows)
    return [_joined(pieces[number]) for number in sorted(pieces) if pieces[number]]


def _fetch_rows(
    stores: TableStores, blocks: _FileBlocks, sought: SoughtKeys, window_bytes: int, room: _Room
) -> list[RowColumns]:
    """Return the sought rows of a file, or some of them if there is no room."""
    file, store = blocks.file, stores.at(blocks.file.root)
    numbers, keys = blocks.blocks(), sought.some(blocks.numbers)
    found: list[RowColumns] = []
    with object_context(store, file.path):
        spans = block_spans(blocks.edges[numbers], blocks.edges[numbers + 1])
        data, url = joined_ranges(store, file.path, spans), f"{store.url}/{file.path}"
        for _, rows in decoded_rows(
            file, url, numbers, data, blocks.edges, blocks.encoded_bytes, window_bytes=window_bytes
        ):
            matching = _matching(rows, keys)
            room.take(matching)
            found.extend(matching)
            if room.left < 0:
                break
    return found


def block_spans(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> list[ByteRange]:
    """Return where blocks are stored; neighbours are one range."""
    first = np.append(np.ones(1, np.bool_), starts[1:] != ends[:-1])
    last = np.append(first[1:], np.ones(1, np.bool_))
    return [ByteRange(*span) for span in zip(starts[first].tolist(), ends[last].tolist(), strict=True)]


def _matching(rows: RowColumns, keys: tuple[NDArray[np.uint8], NDArray[np.int64]]) -> list[RowColumns]:
    """Return a copy of the rows with these keys, if there are any."""
    positions = match_keys(rows, 0, len(rows), *keys)
    return [take_rows([rows], positions)] if len(positions) else []


def _joined(pieces: Sequence[tuple[SstFile, RowColumns]]) -> RowColumns:
    """Return the rows of a layer's files as one source; refuses an order in which the merge would lose rows."""
    for (_, before), (file, after) in pairwise(pieces):
        last, first = before.key(len(before) - 1), after.key(0)
        if first < last or (first == last and after.seqs[0] >= before.seqs[-1]):
            raise CorruptDataError(
                f"key {first.hex()} follows {last.hex()} of an earlier block or file.", path=file.path
            )
    if len(pieces) == 1:
        return pieces[0][1]
    sources = [rows for _, rows in pieces]
    return take_rows(sources, all_rows(sources))
