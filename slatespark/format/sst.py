"""Whole SSTs: rows -> bytes (`SstBuilder`), and the ranges of the sections of a file (`SstLayout`).

    data block 0 .. n-1
    filter section          from `min_filter_keys` rows on
    index section
    stats section
    properties              written by slatespark only, see `properties`
    SST info section
    footer, 10 bytes

Source: `docs/reference/format/sst.md`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import InternalError
from slatespark.format.block_group import compress_blocks
from slatespark.format.codecs import CRC_BYTES, Buffer, Compression, encode_section
from slatespark.format.filter import encode_filter
from slatespark.format.index import SstIndex, encode_index_section, separator_key
from slatespark.format.info import (
    FORMAT_VERSION,
    Footer,
    SstInfo,
    check_section_bounds,
    decode_footer,
    decode_info_section,
    encode_footer,
    encode_info_section,
    footer_range,
    info_range,
)
from slatespark.format.properties import SstProperties, encode_properties, gap_range, join_bounds
from slatespark.format.stats import SstStats, encode_stats
from slatespark.kernels import (
    crc32_blocks,
    encode_blocks,
    hash_keys,
    separator_keys,
    summarise_blocks,
    take_rows,
)
from slatespark.kernels.columns import ROW_BITS, RowColumns, key_at
from slatespark.kernels.results import BlockSummaries, EncodedBlocks
from slatespark.ranges import ByteRange

SST_FORMAT_VERSION: Final = FORMAT_VERSION  # of files that `SstBuilder` makes
BLOCK_BYTES: Final = 4096  # the client's default
BITS_PER_KEY: Final = 10  # the client's default
MIN_FILTER_KEYS: Final = 1000  # the client's default
BLOCKS_PER_TASK: Final = 128  # that a thread compresses at a time
BYTES_AHEAD: Final = 16 << 20  # more rows are not held while they are compressed
GROUPS_AHEAD: Final = 2  # of blocks, one for each call of `add`: threads find work while the next one is encoded

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True)
class SstLayout:
    """Ranges of the parts of a file; absent sections are None, the gap may be empty."""

    data: ByteRange
    filter: ByteRange | None
    index: ByteRange
    stats: ByteRange | None
    gap: ByteRange
    info: ByteRange
    footer: ByteRange


def layout_of(info: SstInfo, footer: Footer, object_bytes: int) -> SstLayout:
    """Return the layout of a file; raises `CorruptDataError` if a section lies outside it."""
    span = info_range(footer, object_bytes)
    check_section_bounds(info, footer.info_offset)
    return SstLayout(
        data=ByteRange(0, info.data_bytes),
        filter=info.filter_range,
        index=info.index_range,
        stats=info.stats_range,
        gap=gap_range(info, footer),
        info=span,
        footer=ByteRange(span.end, object_bytes),
    )


def open_sst(data: memoryview) -> tuple[Footer, SstInfo, SstLayout]:
    """Decode the end of a whole file: footer, info, and where its parts are."""
    tail = footer_range(len(data))
    footer = decode_footer(data[tail.start : tail.end])
    span = info_range(footer, len(data))
    info = decode_info_section(data[span.start : span.end])
    return footer, info, layout_of(info, footer, len(data))


@dataclass(frozen=True, slots=True)
class BuiltSst:
    """A finished file, not yet stored.

    Attributes
    ----------
    parts : consecutive parts of the object
    info : for the manifest
    size : of the object, in bytes
    """

    parts: list[Buffer]
    info: SstInfo
    size: int
    properties: SstProperties


class Spread(Protocol):
    """Runs a function on items, and returns the results in their order: `map`, or threads that begin at once."""

    def __call__(self, function: Callable[[Item], Outcome], items: Sequence[Item], /) -> Iterable[Outcome]:
        """Return the results."""


class SstBuilder:
    """Builds one SST from sorted rows.

    The bytes do not depend on how the rows are split into calls of `add`: the last block stays open until the next one.
    Blocks are compressed while the rows of the next calls are encoded.

    Parameters
    ----------
    block_size : bytes, up to 65536; a larger row gets a block of its own
    compression : codec of every section except the info
    bloom_bits_per_key : 0 for no filter
    min_filter_keys : files with fewer rows have no filter
    created_ms : stored in the properties
    spread : compresses blocks
    """

    def __init__(
        self,
        *,
        block_size: int = BLOCK_BYTES,
        compression: Compression = Compression.NONE,
        bloom_bits_per_key: int = BITS_PER_KEY,
        min_filter_keys: int = MIN_FILTER_KEYS,
        created_ms: int = 0,
        spread: Spread = map,
    ) -> None:
        self._spread = spread
        self._block_size = block_size
        self._compression = compression
        self._bits_per_key = bloom_bits_per_key
        self._min_filter_keys = min_filter_keys
        self._created_ms = created_ms
        self._parts: list[Buffer] = []
        self._sizes: list[NDArray[np.int64]] = []  # of the blocks in these parts
        self._data_bytes = 0
        self._encoded_bytes = 0  # of these blocks before they were compressed
        self._compressing: deque[_Compressing] = deque()  # the blocks that follow
        self._first_key: bytes | None = None
        self._last_key: bytes | None = None  # of the last finished block
        self._tail: RowColumns | None = None  # rows of the open block
        self._tail_bytes = 0
        self._blocks: list[_Blocks] = []
        self._rows = 0

    @property
    def estimated_bytes(self) -> int:
        """Approximate size of the file if it were finished now."""
        bits = self._bits_per_key if self._rows >= self._min_filter_keys else 0
        ratio = self._data_bytes / self._encoded_bytes if self._encoded_bytes else 1.0
        return self._data_bytes + int(self._following_bytes * ratio) + self._tail_bytes + self._rows * bits // 8

    @property
    def _following_bytes(self) -> int:
        return sum(group.encoded_bytes for group in self._compressing)

    def reaches(self, size: int) -> bool:
        """Tell whether the file would have so many bytes if it were finished now, about."""
        while self.estimated_bytes >= size and self._compressing:  # by a guess of what is left to compress
            self._take_compressed()
        return self.estimated_bytes >= size

    def add(self, sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> None:
        """Append rows.

        Requires: packed rows in (key ascending, seq descending) order, after every row added before; no two rows with
        the same key and seq.
        """
        if not len(rows):
            return
        if self._tail is not None:
            waiting = len(self._tail)
            sources = [self._tail, *sources]
            rows = np.concatenate([np.arange(waiting, dtype=np.int64), rows + (1 << ROW_BITS)])
            if key_at(sources, int(rows[waiting])) < key_at(sources, int(rows[waiting - 1])):
                raise InternalError("Rows were added to an SST after rows with higher keys.")
        encoded = encode_blocks(sources, rows, block_size=self._block_size)
        whole = len(encoded) - 1
        if whole:
            self._append_blocks(sources, rows[: encoded.first_rows[whole]], encoded, whole)
        if self._first_key is None:
            self._first_key = key_at(sources, int(rows[0]))
        self._rows += len(rows) - (0 if self._tail is None else len(self._tail))
        self._tail = take_rows(sources, rows[encoded.first_rows[whole] :])
        self._tail_bytes = int(encoded.ends[whole] - encoded.starts[whole]) + CRC_BYTES

    def finish(self) -> BuiltSst:
        """Return the file. The builder must not be used afterwards.

        Requires: at least one row was added.
        """
        if self._tail is None or self._first_key is None:
            raise InternalError("An SST without rows cannot be finished.")
        sources, rows = [self._tail], np.arange(len(self._tail), dtype=np.int64)
        encoded = encode_blocks(sources, rows, block_size=self._block_size)
        self._append_blocks(sources, rows, encoded, len(encoded))
        return self._close(self._first_key)

    def _append_blocks(
        self, sources: Sequence[RowColumns], rows: NDArray[np.int64], encoded: EncodedBlocks, count: int
    ) -> None:
        """Append the first `count` blocks, which contain `rows`."""
        first_rows = encoded.first_rows[:count]
        separators, ends = separator_keys(sources, rows, first_rows)
        if self._last_key is not None:  # the kernel does not know the previous row
            opening = np.frombuffer(separator_key(self._last_key, key_at(sources, int(rows[0]))), np.uint8)
            separators = np.concatenate([opening, separators])
            ends = np.append(np.zeros(1, np.int64), ends[1:] + len(opening))
        self._blocks.append(
            _Blocks(
                separators=separators,
                separator_ends=ends[1:],
                summaries=summarise_blocks(sources, rows, first_rows),
                hashes=hash_keys(sources, rows) if self._bits_per_key else np.zeros(0, np.uint64),
            )
        )
        self._compressing.append(self._begin_compression(encoded, count))
        while len(self._compressing) > GROUPS_AHEAD or self._following_bytes > BYTES_AHEAD:
            self._take_compressed()
        self._last_key = key_at(sources, int(rows[-1]))

    def _begin_compression(self, encoded: EncodedBlocks, count: int) -> _Compressing:
        encoded_bytes = int(encoded.ends[count - 1] - encoded.starts[0]) + CRC_BYTES
        if self._compression is Compression.NONE:
            return _Compressing((_checksum_in_place(encoded, count),), encoded_bytes)
        groups = [range(first, min(first + BLOCKS_PER_TASK, count)) for first in range(0, count, BLOCKS_PER_TASK)]
        compress = partial(_compress_blocks, encoded, self._compression)
        return _Compressing(self._spread(compress, groups), encoded_bytes)

    def _take_compressed(self) -> None:
        """Wait for the next blocks, and append them."""
        group = self._compressing.popleft()
        for part, sizes in group.parts:
            self._parts.append(part)
            self._sizes.append(sizes)
            self._data_bytes += len(part)
        self._encoded_bytes += group.encoded_bytes

    def _close(self, first_key: bytes) -> BuiltSst:
        while self._compressing:
            self._take_compressed()
        codec, blocks = self._compression, self._blocks
        stats, bounds = _sum_stats(blocks), join_bounds([part.summaries for part in blocks])
        properties = SstProperties.of_blocks(
            bounds,
            counts=(stats.num_puts, stats.num_deletes, stats.num_merges),
            seqs=(min(part.summaries.min_seq for part in blocks), max(part.summaries.max_seq for part in blocks)),
            created_ms=self._created_ms,
        )
        hashes = np.concatenate([part.hashes for part in blocks])
        wanted = self._bits_per_key > 0 and self._rows >= self._min_filter_keys
        filter_section = encode_section(encode_filter(hashes, self._bits_per_key), codec) if wanted else b""
        index_section = encode_index_section(_join_index(blocks, self._sizes), codec)
        stats_section = encode_section(encode_stats(stats), codec)
        index_offset = self._data_bytes + len(filter_section)
        info = SstInfo(
            first_entry=first_key,
            last_entry=self._last_key,
            index_offset=index_offset,
            index_len=len(index_section),
            filter_offset=self._data_bytes,
            filter_len=len(filter_section),
            compression=codec,
            stats_offset=index_offset + len(index_section),
            stats_len=len(stats_section),
        )
        tail = b"".join((filter_section, index_section, stats_section, encode_properties(properties, bounds)))
        info_offset = self._data_bytes + len(tail)
        tail += encode_info_section(info) + encode_footer(Footer(info_offset, SST_FORMAT_VERSION))
        self._parts.append(tail)
        return BuiltSst(self._parts, info, self._data_bytes + len(tail), properties)


@dataclass(frozen=True, slots=True)
class _Compressing:
    """Blocks that are being compressed.

    Attributes
    ----------
    parts : the stored blocks, and the size of each
    encoded_bytes : their bytes before
    """

    parts: Iterable[tuple[Buffer, NDArray[np.int64]]]
    encoded_bytes: int


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Input of the closing sections from one group of blocks."""

    separators: NDArray[np.uint8]
    separator_ends: NDArray[np.int64]
    summaries: BlockSummaries
    hashes: NDArray[np.uint64]


def _checksum_in_place(encoded: EncodedBlocks, count: int) -> tuple[Buffer, NDArray[np.int64]]:
    """Return blocks with checksums in the gaps left by the kernel, and their sizes; copies only a read-only buffer."""
    data = encoded.data if encoded.data.flags.writeable else encoded.data.copy()
    starts, ends = encoded.starts[:count], encoded.ends[:count]
    _write_checksums(data, starts, ends)
    return data.data[int(starts[0]) : int(ends[-1]) + CRC_BYTES], ends + CRC_BYTES - starts


def _compress_blocks(encoded: EncodedBlocks, codec: Compression, blocks: range) -> tuple[Buffer, NDArray[np.int64]]:
    """Return compressed blocks with checksums, and their sizes."""
    some = slice(blocks.start, blocks.stop)
    packed = compress_blocks(encoded.data, encoded.starts[some], encoded.ends[some], codec)
    sizes = np.fromiter(map(len, packed), np.int64, len(packed)) + CRC_BYTES
    data = np.frombuffer(bytearray(bytes(CRC_BYTES).join([*packed, b""])), np.uint8)
    ends = np.cumsum(sizes)
    _write_checksums(data, ends - sizes, ends - CRC_BYTES)
    return data.data, sizes


def _write_checksums(data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
    """Write the checksum of each block behind it, in place."""
    octets = crc32_blocks(data, starts, ends).astype(">u4").view(np.uint8).reshape(len(starts), CRC_BYTES)
    data[ends[:, None] + np.arange(CRC_BYTES)] = octets


def _sum_stats(blocks: list[_Blocks]) -> SstStats:
    counts = np.concatenate([part.summaries.counts for part in blocks])
    puts, deletes, merges = (int(total) for total in counts.sum(axis=0, dtype=np.int64))
    key_bytes = sum(part.summaries.key_bytes for part in blocks)
    value_bytes = sum(part.summaries.value_bytes for part in blocks)
    return SstStats(puts, deletes, merges, key_bytes, value_bytes, counts)


def _join_index(blocks: list[_Blocks], block_sizes: list[NDArray[np.int64]]) -> SstIndex:
    lengths = [np.diff(part.separator_ends, prepend=0) for part in blocks]
    sizes = np.concatenate(block_sizes)
    return SstIndex(
        block_offsets=np.cumsum(sizes) - sizes,
        key_bytes=np.concatenate([part.separators for part in blocks]),
        key_offsets=np.append(np.zeros(1, np.int64), np.cumsum(np.concatenate(lengths), dtype=np.int64)),
        encoded_bytes=np.zeros(len(sizes), np.int64),
    )
