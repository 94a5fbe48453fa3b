"""The reads of a layer: which blocks go together, and their bytes, fetched ahead from one file into the next.

The first read starts when the layer is opened. So a merge of many layers waits for all of them at the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import chain, groupby, islice
from typing import Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import SlateError
from slatespark.format.index import SstIndex
from slatespark.ranges import ByteRange
from slatespark.storage import Begun, begin_in_order, may_read_ahead, run_ahead, run_in_order
from slatespark.table.read.block_rows import joined_ranges
from slatespark.table.read.fetch import fetch_index
from slatespark.table.read.planning.plan import FileSlice, Layer, SstFile
from slatespark.table.stores import TableStores

MAX_READS_AHEAD: Final = 16  # of a layer, where its ranges are small; large ones are bounded by their bytes
MAX_GAP_BYTES: Final = 64 << 10  # read needlessly between two blocks to save a request
INDEX_BYTES_AHEAD: Final = 1 << 20  # of the indexes of the next files, as they are stored
MAX_INDEXES_AHEAD: Final = 8

BlockSpan: TypeAlias = tuple[int, int]  # blocks [a, b)
Group: TypeAlias = tuple[BlockSpan, ...]
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class FileReads:
    """The reads of the slices of one file.

    Attributes
    ----------
    slices : slices in key order
    edges : (n + 1,) where the blocks of the file lie
    groups : the blocks that are read and decoded together; their spans ascend, and so do the groups
    begun : its first reads, if they were started as soon as the index was there; they are taken out
    """

    file: SstFile
    slices: Sequence[FileSlice]
    index: SstIndex
    edges: NDArray[np.int64]
    groups: Sequence[Group]
    begun: deque[Begun[NDArray[np.uint8]]] = field(default_factory=deque)


@dataclass(frozen=True, slots=True)
class LayerReads:
    """The reads of a layer, begun. Nothing but these iterators holds what was fetched ahead.

    Attributes
    ----------
    files : the reads of each file, in key order; an error of one is raised when it is called
    buffers : the bytes of all reads, in their order
    """

    files: Iterator[Callable[[], FileReads]]
    buffers: Iterator[NDArray[np.uint8]]

    @classmethod
    def begin(cls, stores: TableStores, layer: Layer, window_bytes: int, ahead_bytes: int | None) -> LayerReads:
        """Start with the index and the first reads of the first file, if there is latency.

        Parameters
        ----------
        stores, layer, window_bytes, ahead_bytes : as for `layer_windows`
        """
        plan = _LayerPlan(stores, layer, window_bytes, ahead_bytes)
        files, to_fetch = _shared(plan.in_order())
        return cls(files, plan.fetched(to_fetch))


class _LayerPlan:
    """Which reads a layer takes. It knows neither iterator over them: a cycle would hold the bytes for a while."""

    def __init__(self, stores: TableStores, layer: Layer, window_bytes: int, ahead_bytes: int | None) -> None:
        self._stores, self._window_bytes = stores, window_bytes
        self._files = [(file, list(parts)) for file, parts in groupby(layer.slices, key=lambda part: part.file)]
        self._is_remote = any(stores.at(root).is_remote for root in {file.root for file, _ in self._files})
        # What is taken next counts as ahead, but will be the window.
        self._max_bytes = window_bytes + (2 * window_bytes if ahead_bytes is None else ahead_bytes)
        self._ahead = deque([self._start(0)] if self._files else [])

    def _start(self, number: int) -> Callable[[], FileReads]:
        begins = number == 0 and may_read_ahead(is_remote=self._is_remote)
        return cache(run_ahead(partial(self._find, *self._files[number], begins=begins), is_remote=self._is_remote))

    def _find(self, file: SstFile, slices: Sequence[FileSlice], *, begins: bool) -> FileReads:
        index = fetch_index(self._stores, file)
        edges = index.block_edges(file.info)
        groups = group_slices(index, edges, slices, self._window_bytes)
        reads = FileReads(file, slices, index, edges, groups)
        if begins:
            reads.begun.extend(begin_in_order(self._tasks(reads), depth=MAX_READS_AHEAD, max_bytes=self._max_bytes))
        return reads

    def _tasks(self, reads: FileReads) -> Iterator[tuple[Callable[[], NDArray[np.uint8]], int]]:
        """Yield a task for each read, and the bytes that it returns."""
        store, path = self._stores.at(reads.file.root), reads.file.path
        for group in reads.groups:
            spans = byte_ranges(reads.edges, group)
            yield partial(joined_ranges, store, path, spans), spans[-1].end - spans[0].start

    def in_order(self) -> Iterator[Callable[[], FileReads]]:
        """Yield the reads of each file; the indexes of the next ones are fetched meanwhile."""
        ahead_bytes = 0
        for number in range(len(self._files)):
            while (begun := number + len(self._ahead)) < len(self._files):
                index_bytes = self._files[begun][0].info.index_len
                if begun > number + 1 and (
                    begun > number + MAX_INDEXES_AHEAD or ahead_bytes + index_bytes > INDEX_BYTES_AHEAD
                ):
                    break
                ahead_bytes += index_bytes
                self._ahead.append(self._start(begun))
            if number:
                ahead_bytes -= self._files[number][0].info.index_len
            yield self._ahead.popleft()

    def fetched(self, files: Iterator[Callable[[], FileReads]]) -> Iterator[NDArray[np.uint8]]:
        """Yield the bytes of the reads of some files, which are all of the layer."""
        first = next(files, None)
        if first is None:
            return
        begun = first().begun
        rest = chain(islice(self._tasks(first()), len(begun), None), self._tasks_of(files))
        yield from run_in_order(
            rest, depth=MAX_READS_AHEAD, max_bytes=self._max_bytes, is_remote=self._is_remote, begun=begun
        )

    def _tasks_of(
        self, files: Iterator[Callable[[], FileReads]]
    ) -> Iterator[tuple[Callable[[], NDArray[np.uint8]], int]]:
        for find in files:
            try:
                reads = find()
            except SlateError:
                return  # it is raised where the windows of the file are wanted
            yield from self._tasks(reads)


def _shared(items: Iterator[Item]) -> tuple[Iterator[Item], Iterator[Item]]:
    """Return two iterators over the same items, each of which goes once both have passed it.

    `itertools.tee` keeps up to 57 of them longer, here with the index of a file each.
    """
    one, other = deque[Item](), deque[Item]()
    return _one_of_two(items, one, other), _one_of_two(items, other, one)


def _one_of_two(items: Iterator[Item], own: deque[Item], other: deque[Item]) -> Iterator[Item]:
    while True:
        if not own:
            try:
                item = next(items)
            except StopIteration:
                return
            own.append(item)
            other.append(item)
            del item
        yield own.popleft()


def byte_ranges(edges: NDArray[np.int64], group: Group) -> list[ByteRange]:
    """Return where the blocks of a group lie."""
    return [ByteRange(int(edges[a]), int(edges[b])) for a, b in group]


def group_slices(
    index: SstIndex, edges: NDArray[np.int64], slices: Sequence[FileSlice], window_bytes: int
) -> list[Group]:
    """Return the blocks that slices of a file need, each once, in groups that reach over at most `window_bytes`.

    A group of one block may be larger. Hundreds of small slices would otherwise be hundreds of windows, each with its
    own read, and a merge of every layer. A store may read what lies between the blocks of a group, so it counts.

    Parameters
    ----------
    edges : of the blocks, as from `SstIndex.block_edges`
    slices : in key order
    """
    groups: list[Group] = []
    waiting: list[BlockSpan] = []
    for first, end in _needed_blocks(index, slices):
        for a, b in group_blocks(edges, first, end, window_bytes):
            if waiting and (
                edges[b] - edges[waiting[0][0]] > window_bytes or edges[a] - edges[waiting[-1][1]] > MAX_GAP_BYTES
            ):
                groups.append(tuple(waiting))
                waiting = []
            waiting.append((a, b))
    return [*groups, tuple(waiting)] if waiting else groups


def _needed_blocks(index: SstIndex, slices: Sequence[FileSlice]) -> list[BlockSpan]:
    """Return the blocks that slices need, ascending, apart from each other."""
    found: list[BlockSpan] = []
    for first, end in index.blocks_for_each([part.keys for part in slices]):
        if first == end:
            continue
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((first, end))
    return found


def group_blocks(edges: NDArray[np.int64], first: int, end: int, window_bytes: int) -> list[BlockSpan]:
    """Return block numbers [a, b) of consecutive groups of at most `window_bytes` stored bytes, or of one block."""
    groups: list[BlockSpan] = []
    block = first
    while block < end:
        fits = int(np.searchsorted(edges, edges[block] + window_bytes, side="right")) - 1
        stop = min(max(fits, block + 1), end)
        groups.append((block, stop))
        block = stop
    return groups
