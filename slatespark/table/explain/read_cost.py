"""What the splits of a read will request, from the plan and what is cached in this process. Requests nothing.

A file whose index is cached is known to the block. Of any other file only its size is known, so that the requests for
it have bounds: what a window holds, and what two neighbouring windows hold at least. Blocks of a lookup are taken for
two of the usual size, since nothing is known of them before the filter and the index are read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

from slatespark.format.columnar_copy import seal_range
from slatespark.ranges import ByteRange
from slatespark.storage.counted_store import range_requests
from slatespark.storage.remote_store import MAX_GAP_BYTES
from slatespark.storage.requests import Requests
from slatespark.table.explain.cost import NOTHING, RequestRange
from slatespark.table.read.copies.part import CopyPart
from slatespark.table.read.fetch import filter_sets, indexes
from slatespark.table.read.merge.cursor import window_size
from slatespark.table.read.merge.layer_reads import byte_ranges, group_slices
from slatespark.table.read.planning.plan import POINT_BYTES, FileSlice, Layer, Split, SstFile, keep_slices
from slatespark.table.read.points import SoughtKeys, cached_blocks
from slatespark.table.read.section_cache import SectionCache, metadata_limit
from slatespark.table.stores import TableStores

NO_COPIES: Final[Mapping[int, Sequence[CopyPart]]] = {}

_CACHE_SHARE: Final = 4  # a decoded section may take this many times its stored bytes


@dataclass(slots=True)
class SplitCosts:
    """Adds up the requests of splits that are read in this process.

    Attributes
    ----------
    buffer_bytes : `readBuffer`
    wal_bytes : size of each WAL file that a split reads, unless planning has read them for it
    files : the files of all splits
    is_concurrent : whether splits are read at the same time, so that two may miss the same section
    counted : sections that are counted already, by the offset in their file; from then on they are cached
    """

    stores: TableStores
    buffer_bytes: int
    wal_bytes: Sequence[int] = ()
    files: frozenset[SstFile] = frozenset()
    is_concurrent: bool = False
    counted: set[tuple[SstFile, int]] = field(default_factory=set)

    def of(self, splits: Iterable[Split], copies: Mapping[int, Sequence[CopyPart]] = NO_COPIES) -> RequestRange:
        """Return the requests of some splits; `copies` has what is read from copies, by the number of the split."""
        total = NOTHING
        for number, split in enumerate(splits):
            if split.wal is None:
                total += RequestRange.of(Requests(get=len(self.wal_bytes), read_bytes=sum(self.wal_bytes)))
            if split.points is None:
                total += self._scan(split, copies.get(number, ()))
            else:
                total += self._look_up(split.layers, split.points)
        return total

    def of_layers(self, layers: Iterable[Layer], window_bytes: int) -> RequestRange:
        """Return the requests of a scan of layers."""
        total = NOTHING
        for layer in layers:
            for file, parts in groupby(layer.slices, key=lambda part: part.file):
                total += self._section(indexes, file, file.info.index_range)
                total += self._slices(file, list(parts), window_bytes)
        return total

    # --- sections ---------------------------------------------------------------------------------------------------

    def _section(
        self,
        cache: SectionCache[Any],
        file: SstFile,
        span: ByteRange,
        *,
        is_certain: bool = True,
    ) -> RequestRange:
        """Return the requests for an index or filter: once, unless the cache may be too small."""
        once = range_requests([span])
        is_cached = cache.peek(self.stores.at(file.root), file.path) is not None
        is_new = not is_cached and (file, span.start) not in self.counted
        self.counted.add((file, span.start))
        low = once if is_new and is_certain else Requests()
        may_miss = is_new or (self.is_concurrent and not is_cached) or self._may_evict()
        return RequestRange(low, once if may_miss else Requests())

    def _may_evict(self) -> bool:
        """Tell whether the sections of all files may not fit the cache together."""
        stored_bytes = sum(file.info.index_len + file.info.filter_len for file in self.files)
        return _CACHE_SHARE * stored_bytes > metadata_limit()

    # --- scans ------------------------------------------------------------------------------------------------------

    def _slices(self, file: SstFile, parts: Sequence[FileSlice], window_bytes: int) -> RequestRange:
        """Return the requests for the blocks of some slices of a file."""
        index = indexes.peek(self.stores.at(file.root), file.path)
        if index is not None:
            edges = index.block_edges(file.info)
            groups = group_slices(index, edges, parts, window_bytes)
            return RequestRange.of(_sum(range_requests(byte_ranges(edges, group)) for group in groups))
        size = file.data_bytes
        least = Requests(get=-(-size // window_bytes), read_bytes=size)
        # Two neighbouring groups hold more than one window, or their blocks would be in one.
        groups_at_most = 1 if size <= window_bytes else 2 * size // window_bytes + 1
        most = Requests(get=groups_at_most + len(parts) - 1, read_bytes=size)
        return RequestRange(least if parts[0].is_whole else Requests(), most)

    # --- lookups ----------------------------------------------------------------------------------------------------

    def _scan(self, split: Split, copies: Sequence[CopyPart]) -> RequestRange:
        window_bytes, copied = window_size(self.buffer_bytes, len(split.layers)), {found.part for found in copies}
        rest = keep_slices(split.layers, lambda part: part not in copied)
        of_copies = _sum(_of_copy(part, window_bytes) for part in copies)
        return self.of_layers(rest, window_bytes) + RequestRange.of(of_copies)

    def _look_up(self, layers: Iterable[Layer], points: Sequence[bytes]) -> RequestRange:
        total = NOTHING
        sought = SoughtKeys.of(points)
        for part in (part for layer in layers for part in layer.slices):
            low = bisect_left(points, part.keys.start)
            high = len(points) if part.keys.end is None else bisect_left(points, part.keys.end)
            if low < high:
                total += self._look_up_in(part, sought, low, high)
        return total

    def _look_up_in(self, part: FileSlice, sought: SoughtKeys, low: int, high: int) -> RequestRange:
        spans = cached_blocks(self.stores, part, sought, low, high)
        if spans is not None:
            return RequestRange.of(range_requests(spans) if spans else Requests())
        file, keys, span = part.file, high - low, part.file.info.filter_range
        total = NOTHING if span is None else self._section(filter_sets, file, span)
        total += self._section(indexes, file, file.info.index_range, is_certain=span is None)
        blocks_bytes = keys * 2 * POINT_BYTES + (keys - 1) * MAX_GAP_BYTES
        return total + RequestRange(Requests(), Requests(get=keys, read_bytes=min(file.data_bytes, blocks_bytes)))


def _of_copy(part: CopyPart, window_bytes: int) -> Requests:
    """Return the requests for the rows of a copy: its chunks, and after each fetch the seal."""
    total = Requests()
    for groups in part.fetched_together(window_bytes):
        total += range_requests([span for group in groups for span in part.spans(group)])
        total += range_requests([seal_range(part.footer, part.meta.size)])
    return total


def _sum(parts: Iterable[Requests]) -> Requests:
    return sum(parts, Requests())
