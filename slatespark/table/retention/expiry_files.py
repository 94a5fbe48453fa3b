"""Reads of an SST for the expiry report: its outline, and the rows of chosen blocks. A window bounds the memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import CorruptDataError
from slatespark.format.block_group import unpack_blocks
from slatespark.format.index import SstIndex, decode_index_section
from slatespark.format.info import FOOTER_BYTES, decode_footer, footer_range
from slatespark.format.properties import BlockBounds, SstProperties, decode_properties
from slatespark.format.sst import layout_of
from slatespark.format.stats import SstStats, decode_stats_section
from slatespark.kernels import decode_blocks
from slatespark.kernels.columns import RowColumns
from slatespark.ranges import ByteRange, coalesce
from slatespark.storage import read_ahead
from slatespark.table.read.merge.layer_reads import MAX_READS_AHEAD
from slatespark.table.read.planning.plan import SstFile
from slatespark.table.retention.expiry_plan import FileOutline
from slatespark.table.stores import TableStores, object_context

MAX_GAP_BYTES: Final = 64 << 10  # read needlessly between two blocks to save a request


def fetch_outline(stores: TableStores, file: SstFile) -> FileOutline:
    """Return the outline of a file; reads everything behind its data in one request.

    Raises
    ------
    CorruptDataError
        When sections are damaged, or slatespark's properties do not match the index or the statistics.
    """
    store, info = stores.at(file.root), file.info
    with object_context(store, file.path):
        size = store.head(file.path).size
        tail = footer_range(size)
        start = min(info.index_offset, tail.start)
        view = memoryview(store.get_range(file.path, ByteRange(start, size)))
        layout = layout_of(info, decode_footer(view[-FOOTER_BYTES:]), size)

        def section(span: ByteRange) -> memoryview:
            if span.start < start:  # no known writer orders the sections like this, but the format allows it
                return memoryview(store.get_range(file.path, span))
            return view[span.start - start : span.end - start]

        index = decode_index_section(section(layout.index), info)
        found = decode_properties(section(layout.gap))
        if found is None or layout.stats is None:
            return FileOutline(index, index.block_edges(info))
        stats = decode_stats_section(section(layout.stats), info)
        _check_agreement(*found, index, stats)
        if not found[0].is_consistent():
            return FileOutline(index, index.block_edges(info))
        block_rows = stats.block_counts.sum(axis=1, dtype=np.int64)
        deletes = stats.block_counts[:, 1].astype(np.int64)
        return FileOutline(index, index.block_edges(info), *found, block_rows, deletes)


def _check_agreement(properties: SstProperties, bounds: BlockBounds, index: SstIndex, stats: SstStats) -> None:
    """Refuse properties of other blocks or rows: blocks that they decide are never read."""
    rows = int(stats.block_counts.sum(dtype=np.int64))
    if not len(bounds) == len(stats.block_counts) == len(index) or not properties.num_rows == stats.num_rows == rows:
        raise CorruptDataError(
            f"properties count {properties.num_rows} rows in {len(bounds)} blocks, statistics {stats.num_rows} "
            f"rows ({rows} by block) in {len(stats.block_counts)} blocks, the index {len(index)} blocks.",
            todo="Run `slatespark verify` on the table.",
        )


def read_blocks(
    stores: TableStores,
    file: SstFile,
    outline: FileOutline,
    reads: Sequence[tuple[int, int]],
    *,
    window_bytes: int,
) -> Iterator[tuple[int, RowColumns, NDArray[np.int64]]]:
    """Yield the rows of blocks, some at a time: (number of the first block, rows, first row of each block).

    Parameters
    ----------
    reads : block numbers [first, end), ascending
    window_bytes : decoded at a time; at least one block
    """
    store, edges = stores.at(file.root), outline.edges
    pieces = [piece for first, end in reads for piece in _pieces(edges, first, end, window_bytes)]
    ranges = [ByteRange(int(edges[first]), int(edges[end])) for first, end in pieces]
    spans = coalesce(ranges, max_gap=MAX_GAP_BYTES, max_bytes=window_bytes)
    largest = max(map(len, spans), default=1)
    depth = max(2, min(MAX_READS_AHEAD, 2 * window_bytes // largest))
    buffers = read_ahead(store, file.path, spans, depth=depth)
    waiting = deque(pieces)
    for span in spans:
        with object_context(store, file.path, span.start):
            data = np.frombuffer(next(buffers), np.uint8)
            while waiting and edges[waiting[0][1]] <= span.end:
                first, end = waiting.popleft()
                inside, encoded = edges[first : end + 1] - span.start, outline.index.encoded_bytes[first:end]
                yield from _decoded(file, data, inside, encoded, first, window_bytes)


def _decoded(
    file: SstFile,
    data: NDArray[np.uint8],
    edges: NDArray[np.int64],
    encoded: NDArray[np.int64],
    first: int,
    window_bytes: int,
) -> Iterator[tuple[int, RowColumns, NDArray[np.int64]]]:
    """Yield the rows of consecutive blocks that are stored at `edges` in `data`, as `read_blocks` does."""
    done = 0
    while done < len(edges) - 1:
        opened = unpack_blocks(data, edges[done:], encoded[done:], file.info.compression, limit_bytes=window_bytes)
        rows = decode_blocks(opened.data, opened.starts, opened.ends, version=file.format_version)
        # A value, even an empty one, lies in its block, so value_starts ascend, and give the first row of a block.
        yield first + done, rows, np.searchsorted(rows.value_starts, opened.starts)
        done += len(opened.starts)


def _pieces(edges: NDArray[np.int64], first: int, end: int, window_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield consecutive block numbers [a, b) of at most `window_bytes` stored bytes, or of one block."""
    while first < end:
        fits = int(np.searchsorted(edges, edges[first] + window_bytes, side="right")) - 1
        stop = min(max(fits, first + 1), end)
        yield first, stop
        first = stop
