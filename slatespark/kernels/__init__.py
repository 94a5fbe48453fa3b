"""Hot loops over numpy arrays: block codecs, merging, gathering, filters, sorting.

Each kernel has two implementations with the same signature: compiled (`kernels/*.py`) and in plain Python
(`kernels/reference/`). The functions here call one of the two, chosen once per process (`_dispatch`). On the first call
the object code made ahead of time is loaded (`_object_code`), or numba compiles the kernel. May import numpy, numba and
`slatespark.errors`. See `docs/explanation/compiled-kernels.md`.

Rows are `RowColumns`. A row of one of several sources is a packed number, `source << ROW_BITS | position`. Arrays are
one-dimensional and C-contiguous, of the stated types, and may be read-only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from slatespark.kernels._dispatch import kernel_module
from slatespark.kernels.columns import (
    DROPPED,
    GROUP_HEAD,
    GROUP_REST,
    HAS_CREATE,
    HAS_EXPIRE,
    MERGE,
    PLAIN,
    ROW_BITS,
    TO_TOMBSTONE,
    TOMBSTONE,
    Retention,
    RowColumns,
    Selection,
    Visibility,
)
from slatespark.kernels.encodings import (
    decode_avro,
    decode_avro_parts,
    decode_tuples,
    encode_avro,
    encode_tuples,
    split_avro,
)
from slatespark.kernels.results import AvroItems, BlockSummaries, EncodedBlocks, Fields, Retained

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from slatespark.ranges import KeyRange

__all__ = [
    "DROPPED",
    "GROUP_HEAD",
    "GROUP_REST",
    "HAS_CREATE",
    "HAS_EXPIRE",
    "MERGE",
    "PLAIN",
    "ROW_BITS",
    "TOMBSTONE",
    "TO_TOMBSTONE",
    "AvroItems",
    "EncodedBlocks",
    "Fields",
    "Retained",
    "Retention",
    "RowColumns",
    "Selection",
    "Visibility",
    "build_bloom",
    "crc32_blocks",
    "decode_avro",
    "decode_avro_parts",
    "decode_blocks",
    "decode_indexes",
    "decode_tuples",
    "encode_avro",
    "encode_blocks",
    "encode_index",
    "encode_tuples",
    "first_wrong_block",
    "gather_fields",
    "gather_keys",
    "gather_values",
    "hash_keys",
    "key_lengths",
    "key_span",
    "lower_bound",
    "lower_bound_in_each",
    "lower_bounds",
    "lz4_sizes",
    "match_keys",
    "merge_all",
    "merge_visible",
    "new_key_mask",
    "probe_bloom",
    "retain_versions",
    "separator_keys",
    "sort_rows",
    "split_avro",
    "summarise_blocks",
    "take_rows",
    "value_lengths",
]


def decode_blocks(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    *,
    version: int,
    ordered: bool = True,
) -> RowColumns:
    """Decode the rows of data blocks, in block order.

    Parameters
    ----------
    data : (any,) uint8, decompressed blocks; becomes `value_bytes` of the result without a copy
    starts, ends : (n,) int64, block i is `data[starts[i]:ends[i]]` without its checksum
    version : block format, 1 or 2
    ordered : check (key ascending, seq descending) order within and across blocks; false for a WAL

    Raises
    ------
    CorruptDataError : names the offset in `data`; the bytes are not trusted in any respect
    UnsupportedFormatError : unknown version

    A tombstone is returned without expire_ts, even if the block has one. Source: `docs/reference/format/block.md`.
    """
    rows: RowColumns = kernel_module("decode").decode_blocks(data, starts, ends, version=version, ordered=ordered)
    return rows


def encode_blocks(
    sources: Sequence[RowColumns], rows: NDArray[np.int64], *, block_size: int, restart_interval: int = 16
) -> EncodedBlocks:
    """Encode rows as V2 data blocks, with the same block boundaries as the client.

    Parameters
    ----------
    rows : (m,) packed, in file order
    block_size : bytes, 1 to 65536; a larger row gets a block of its own
    restart_interval : rows per restart point, which stores the whole key

    Raises
    ------
    InvalidRequestError : a size out of range, or a key or value of 2^32 bytes or more

    A tombstone is written without value and expire_ts. Source: `docs/reference/format/block.md`,
    `docs/reference/format/sst.md`.
    """
    blocks: EncodedBlocks = kernel_module("encode").encode_blocks(
        sources, rows, block_size=block_size, restart_interval=restart_interval
    )
    return blocks


def merge_visible(
    sources: Sequence[RowColumns], lows: NDArray[np.int64], highs: NDArray[np.int64], visibility: Visibility
) -> Selection:
    """Merge the rows `[lows[i], highs[i])` of each source and return those visible to a read, keys ascending.

    Requires: sources newest layer first, each in (key ascending, seq descending) order. If two sources have the same
    key and seq, the source with the lower index is newer.

    The newest visible version decides on its key. A put is returned unless it is expired. A tombstone or an expired put
    hides the key and its older versions. Live merge operands are returned newest to oldest as a group, followed by the
    live put below them, if any; expired operands are skipped. Source: `docs/reference/format/rows.md`.
    """
    selection: Selection = kernel_module("merge").merge_visible(sources, lows, highs, visibility)
    return selection


def merge_all(sources: Sequence[RowColumns], lows: NDArray[np.int64], highs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Merge the rows `[lows[i], highs[i])` of all sources; returns packed rows by (key asc, seq desc, source asc).

    Requires: each source in (key ascending, seq descending) order.
    """
    rows: NDArray[np.int64] = kernel_module("merge").merge_all(sources, lows, highs)
    return rows


def gather_keys(sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return the keys of packed rows as an Arrow binary array: (m + 1,) offsets and the bytes.

    Raises
    ------
    InternalError : 2^31 bytes or more, or a row that does not exist
    """
    buffers: tuple[NDArray[np.int32], NDArray[np.uint8]] = kernel_module("gather").gather_keys(sources, rows)
    return buffers


def gather_values(
    sources: Sequence[RowColumns], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return the values of packed rows as an Arrow binary array: (m + 1,) offsets and the bytes.

    Raises
    ------
    InternalError : 2^31 bytes or more, or a row that does not exist
    """
    buffers: tuple[NDArray[np.int32], NDArray[np.uint8]] = kernel_module("gather").gather_values(sources, rows)
    return buffers


def key_lengths(sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the key length of each packed row, in bytes."""
    lengths: NDArray[np.int64] = kernel_module("gather").key_lengths(sources, rows)
    return lengths


def value_lengths(sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the value length of each packed row, in bytes."""
    lengths: NDArray[np.int64] = kernel_module("gather").value_lengths(sources, rows)
    return lengths


def gather_fields(sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> Fields:
    """Return the sequence numbers, flags and times of packed rows."""
    fields: Fields = kernel_module("gather").gather_fields(sources, rows)
    return fields


def take_rows(sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> RowColumns:
    """Return a copy of packed rows, with keys and values, independent of the sources."""
    taken: RowColumns = kernel_module("gather").take_rows(sources, rows)
    return taken


def summarise_blocks(
    sources: Sequence[RowColumns], rows: NDArray[np.int64], first_rows: NDArray[np.int64]
) -> BlockSummaries:
    """Return what index, statistics and properties say of encoded blocks.

    Parameters
    ----------
    sources, rows : packed rows of the blocks; one at least
    first_rows : (n,) index of the first row of each block in `rows`
    """
    summaries: BlockSummaries = kernel_module("summarise").summarise_blocks(sources, rows, first_rows)
    return summaries


def new_key_mask(sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return, for each packed row, whether its key differs from the previous row's; true for the first row."""
    mask: NDArray[np.bool_] = kernel_module("gather").new_key_mask(sources, rows)
    return mask


def retain_versions(fields: Fields, first: NDArray[np.bool_], retention: Retention) -> Retained:
    """Return what a compaction does with each version of some keys.

    Parameters
    ----------
    fields : fields of the versions, newest first within a key, no sequence number twice in a key
    first : (m,) true for the first version of each key

    Protected versions (`Retention`) are kept unchanged. Of the others, consecutive operands with the same expiry form a
    group, together with the put or tombstone below them if it has the same expiry. The newest put, tombstone or group
    with such a base hides everything below it except protected versions.

    Of the remaining rows, an expired put becomes a tombstone, and so does the newest row of an expired group with a
    base; other expired operands are dropped. If all remaining rows of a key are past retention, the key is dropped; if
    only the rows below its visible group are, they are dropped. The oldest dropped version then becomes a tombstone,
    unless nothing lies below. Finally, if nothing lies below, the oldest tombstones of a key are dropped. Source:
    `docs/reference/format/rows.md`, `docs/explanation/what-a-compaction-keeps.md`.
    """
    retained: Retained = kernel_module("retain").retain_versions(fields, first, retention)
    return retained


def sort_rows(rows: RowColumns) -> NDArray[np.int64]:
    """Return the positions of the rows sorted by key, in unsigned byte order; the sort is stable."""
    order: NDArray[np.int64] = kernel_module("sort").sort_rows(rows)
    return order


def hash_keys(sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the bloom filter hash of each packed row's key: SipHash-1-3 with key 0/0."""
    hashes: NDArray[np.uint64] = kernel_module("filter").hash_keys(sources, rows)
    return hashes


def build_bloom(hashes: NDArray[np.uint64], bits_per_key: int) -> bytes:
    """Encode a bloom filter of the hashes, bit for bit as the client does. Source: `docs/reference/format/filter.md`.

    Raises
    ------
    InvalidRequestError : 2^32 bits or more
    """
    data: bytes = kernel_module("filter").build_bloom(hashes, bits_per_key)
    return data


def probe_bloom(data: bytes | memoryview, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return, for each hash, whether the filter may contain it; false is certain."""
    hits: NDArray[np.bool_] = kernel_module("filter").probe_bloom(data, hashes)
    return hits


def crc32_blocks(data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return the CRC-32 (zlib's) of each `data[starts[i]:ends[i]]`.

    Requires: 0 <= starts[i] <= ends[i] <= len(data).
    """
    sums: NDArray[np.uint32] = kernel_module("checksum").crc32_blocks(data, starts, ends)
    return sums


def first_wrong_block(data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> int:
    """Return the first i where the CRC-32 of `data[starts[i]:ends[i]]` is not the big-endian u32 after it, else -1.

    Requires: 0 <= starts[i] <= ends[i] <= len(data) - 4.
    """
    block: int = kernel_module("checksum").first_wrong_block(data, starts, ends)
    return block


def lz4_sizes(data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many bytes each LZ4 block `data[starts[i]:ends[i]]` expands to; -1 for a malformed one.

    Offsets of matches are not looked at, so a block with a size may still be malformed.

    Requires: 0 <= starts[i] <= ends[i] <= len(data).
    """
    sizes: NDArray[np.int64] = kernel_module("lz4").lz4_sizes(data, starts, ends)
    return sizes


def decode_indexes(
    data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Decode some decompressed index sections together, which takes little more than one of them.

    Parameters
    ----------
    data : (any,) uint8
    starts, ends : (k,) int64, k > 0; section i is `data[starts[i]:ends[i]]`

    Returns
    -------
    (k,) number of blocks in each section. Then, of one section after another: (n,) block offsets; separators as bytes
    and (n + 1,) offsets; (n,) stored bytes of the blocks that are padded, 0 for the others.

    Raises
    ------
    CorruptDataError : damaged; block offsets do not ascend, or separators descend; it does not say in which section

    Requires: 0 <= starts[i] <= ends[i] <= len(data).
    """
    indexes: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]
    indexes = kernel_module("index").decode_indexes(data, starts, ends)
    return indexes


def encode_index(offsets: NDArray[np.int64], key_bytes: NDArray[np.uint8], key_offsets: NDArray[np.int64]) -> bytes:
    """Encode an uncompressed index section of blocks without padding, the inverse of `decode_indexes` for one."""
    data: bytes = kernel_module("index").encode_index(offsets, key_bytes, key_offsets)
    return data


def separator_keys(
    sources: Sequence[RowColumns], rows: NDArray[np.int64], first_rows: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the index separator of every block: bytes and (n + 1,) offsets.

    Parameters
    ----------
    rows : (m,) packed, keys ascending
    first_rows : (n,) index into `rows` of each block's first row

    A separator is the shortest prefix of the block's first key above the previous key, or the whole key if the two are
    equal. It is empty if the block starts with row 0. Source: `docs/reference/format/sst-index.md`.
    """
    keys: tuple[NDArray[np.uint8], NDArray[np.int64]] = kernel_module("separators").separator_keys(
        sources, rows, first_rows
    )
    return keys


def match_keys(
    rows: RowColumns, low: int, high: int, key_bytes: NDArray[np.uint8], key_offsets: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the ascending positions of the rows in `[low, high)` with a wanted key, all versions included.

    Parameters
    ----------
    rows : keys ascending
    key_bytes, key_offsets : (any,) and (n + 1,), wanted keys, ascending and distinct
    """
    found: NDArray[np.int64] = kernel_module("match").match_keys(rows, low, high, key_bytes, key_offsets)
    return found


def lower_bound(rows: RowColumns, key: bytes, low: int, high: int) -> int:
    """Return the first row in `[low, high)` whose key is at least `key`, else `high`.

    Requires: keys ascending.
    """
    bound: int = kernel_module("match").lower_bound(rows, key, low, high)
    return bound


def lower_bound_in_each(
    sources: Sequence[RowColumns], key: bytes, lows: NDArray[np.int64], highs: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return `lower_bound` of one key in rows `[lows[i], highs[i])` of each source i.

    Requires: keys ascending.
    """
    bounds: NDArray[np.int64] = kernel_module("match").lower_bound_in_each(sources, key, lows, highs)
    return bounds


def key_span(rows: RowColumns, keys: KeyRange, low: int = 0, high: int | None = None) -> tuple[int, int]:
    """Return the span `[start, end)` of those rows in `[low, high)` whose keys lie in a range.

    Requires: keys ascending.

    Parameters
    ----------
    high : None for all rows from `low` on
    """
    high = len(rows) if high is None else high
    start = lower_bound(rows, keys.start, low, high) if keys.start else low
    return start, high if keys.end is None else lower_bound(rows, keys.end, start, high)


def lower_bounds(
    rows_key_bytes: NDArray[np.uint8],
    rows_key_offsets: NDArray[np.int64],
    wanted_bytes: NDArray[np.uint8],
    wanted_offsets: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return, for each wanted key, the first row with at least that key, or the number of rows.

    Parameters
    ----------
    rows_key_bytes, rows_key_offsets : (any,) and (n + 1,), keys ascending
    wanted_bytes, wanted_offsets : (any,) and (m + 1,), in any order; ascending is faster
    """
    bounds: NDArray[np.int64] = kernel_module("match").lower_bounds(
        rows_key_bytes, rows_key_offsets, wanted_bytes, wanted_offsets
    )
    return bounds
