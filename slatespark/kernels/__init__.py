"""Hot loops over numpy arrays: blocks, merging, gathering, filters, sorting.

Each kernel exists twice with the same signature: compiled by numba (`kernels/*.py`) and as plain Python
(`kernels/reference/`). The functions here hand on to one of the two, chosen once (`_dispatch`). numba is imported, and
a kernel compiled or loaded from its cache, when it is first called. May import numpy, numba and `slatespark.errors`.

Rows are `RowColumns`; a row of one of several sources is a packed number, `source << ROW_BITS | position`. Arrays are
one-dimensional and C-contiguous, of the types stated, and may be read-only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from slatespark.kernels._dispatch import implementation, kernel_module
from slatespark.kernels.blocks import CHECKSUM_BYTES
from slatespark.kernels.columns import (
    BURIED,
    GONE,
    GROUP_HEAD,
    GROUP_REST,
    HAS_CREATE,
    HAS_EXPIRE,
    MERGE,
    PLAIN,
    ROW_BITS,
    TOMBSTONE,
    Retention,
    RowColumns,
    Selection,
    Visibility,
)
from slatespark.kernels.results import EncodedBlocks, Fields, Retained
from slatespark.kernels.search import lower_bound
from slatespark.kernels.siphash import hash_key

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from slatespark.kernels.avro_program import DecodeProgram, EncodeProgram
    from slatespark.kernels.flat import FlatColumn

__all__ = [
    "BURIED",
    "CHECKSUM_BYTES",
    "GONE",
    "GROUP_HEAD",
    "GROUP_REST",
    "HAS_CREATE",
    "HAS_EXPIRE",
    "MERGE",
    "PLAIN",
    "ROW_BITS",
    "TOMBSTONE",
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
    "decode_blocks",
    "decode_index",
    "decode_tuples",
    "encode_avro",
    "encode_blocks",
    "encode_index",
    "encode_tuples",
    "gather_fields",
    "gather_keys",
    "gather_values",
    "hash_key",
    "hash_keys",
    "implementation",
    "key_lengths",
    "lower_bound",
    "lower_bounds",
    "match_keys",
    "merge_all",
    "merge_visible",
    "new_key_mask",
    "probe_bloom",
    "retain_versions",
    "separator_keys",
    "sort_rows",
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
    """Return the rows of data blocks, in the order of the blocks.

    Parameters
    ----------
    data : (any,) uint8, decompressed blocks; becomes `value_bytes` of the result, uncopied
    starts, ends : (n,) int64, block i is `data[starts[i]:ends[i]]` without its checksum
    version : block format, 1 or 2
    ordered : check (key ascending, seq descending) within and across the blocks; false for a WAL

    Raises
    ------
    CorruptDataError : with the offset in `data`; the bytes are not trusted in any respect
    UnsupportedFormatError : another version

    A tombstone comes back without its expire_ts, whatever the block says. Source: spec 2.3 to 2.6.
    """
    rows: RowColumns = kernel_module("decode").decode_blocks(data, starts, ends, version=version, ordered=ordered)
    return rows


def encode_blocks(
    sources: Sequence[RowColumns], rows: NDArray[np.int64], *, block_size: int, restart_interval: int = 16
) -> EncodedBlocks:
    """Return rows as data blocks V2, filled as the client fills them.

    Parameters
    ----------
    rows : (m,) packed, in the order of the file
    block_size : bytes, 1 to 65536; a row that is larger gets a block of its own
    restart_interval : rows from one whole key to the next

    Raises
    ------
    InvalidRequestError : a size out of range, or a key or value of 2^32 bytes or more

    A tombstone is written without value and without expire_ts. Source: spec 2.4, 2.7.
    """
    blocks: EncodedBlocks = kernel_module("encode").encode_blocks(
        sources, rows, block_size=block_size, restart_interval=restart_interval
    )
    return blocks


def merge_visible(
    sources: Sequence[RowColumns], lows: NDArray[np.int64], highs: NDArray[np.int64], visibility: Visibility
) -> Selection:
    """Return what a read shows of the rows `[lows[i], highs[i])` of each source, keys ascending.

    Requires: sources newest layer first, each in (key ascending, seq descending) order. Where key and seq are equal in
    two sources, the lower one is taken as newer.

    The newest visible version of a key decides. A put is shown, unless it is expired; a tombstone, or an expired put,
    hides the key and what is older. Live merge operands are shown newest to oldest as a group, followed by the live put
    below them, if there is one; expired operands are passed over. Source: design section 3.
    """
    selection: Selection = kernel_module("merge").merge_visible(sources, lows, highs, visibility)
    return selection


def merge_all(sources: Sequence[RowColumns], lows: NDArray[np.int64], highs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rows `[lows[i], highs[i])` of all sources, packed, by (key asc, seq desc, source asc).

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
    """Return the bytes of each packed row's key."""
    lengths: NDArray[np.int64] = kernel_module("gather").key_lengths(sources, rows)
    return lengths


def value_lengths(sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the bytes of each packed row's value."""
    lengths: NDArray[np.int64] = kernel_module("gather").value_lengths(sources, rows)
    return lengths


def gather_fields(sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> Fields:
    """Return sequence number, flags and times of each packed row."""
    fields: Fields = kernel_module("gather").gather_fields(sources, rows)
    return fields


def take_rows(sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> RowColumns:
    """Return a copy of packed rows, keys and values included, that refers to none of the sources."""
    taken: RowColumns = kernel_module("gather").take_rows(sources, rows)
    return taken


def new_key_mask(sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return, for each packed row, whether its key differs from that of the row before; true for the first."""
    mask: NDArray[np.bool_] = kernel_module("gather").new_key_mask(sources, rows)
    return mask


def retain_versions(fields: Fields, first: NDArray[np.bool_], retention: Retention) -> Retained:
    """Return what a compaction does with the versions of some keys.

    Parameters
    ----------
    fields : of the versions, newest first within a key, no sequence number twice in a key
    first : (m,) true where another key begins

    Versions that are needed (`Retention`) stay as they are. Of the others, operands that follow each other and expire
    alike are a group, together with the put or tombstone below them if that expires alike. The newest put, tombstone or
    group with such a base hides what lies below it; only needed versions stay there. Of what stays, a put that has
    expired is buried, or such a group, by its newest row; operands that have expired go. Where all of a key that stays
    is past retention it goes, or what lies below the group that it shows; the oldest version of that is buried unless
    nothing lies below. In the end, tombstones at the old end of a key go where nothing lies below. Source: spec 7.4;
    design sections 7, 8.
    """
    retained: Retained = kernel_module("retain").retain_versions(fields, first, retention)
    return retained


def sort_rows(rows: RowColumns) -> NDArray[np.int64]:
    """Return the positions of the rows by key, unsigned bytes, shorter prefix first; equal keys keep their order."""
    order: NDArray[np.int64] = kernel_module("sort").sort_rows(rows)
    return order


def hash_keys(sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the bloom filter's hash of each packed row's key: SipHash-1-3 with key 0/0. `hash_key` does one key."""
    hashes: NDArray[np.uint64] = kernel_module("filter").hash_keys(sources, rows)
    return hashes


def build_bloom(hashes: NDArray[np.uint64], bits_per_key: int) -> bytes:
    """Return bloom filter data with one entry for each hash, bit for bit as the client writes it. Source: spec 2.9.

    Raises
    ------
    InvalidRequestError : 2^32 bits or more
    """
    data: bytes = kernel_module("filter").build_bloom(hashes, bits_per_key)
    return data


def probe_bloom(data: bytes | memoryview, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return, for each hash, whether the filter may hold it; false is certain."""
    hits: NDArray[np.bool_] = kernel_module("filter").probe_bloom(data, hashes)
    return hits


def crc32_blocks(data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return the CRC-32 (as zlib has it) of each piece `data[starts[i]:ends[i]]`.

    Requires: 0 <= starts[i] <= ends[i] <= len(data).
    """
    sums: NDArray[np.uint32] = kernel_module("checksum").crc32_blocks(data, starts, ends)
    return sums


def decode_index(data: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64]]:
    """Return the block offsets, and the first keys as bytes and (n + 1,) offsets, of a decompressed index section.

    Raises
    ------
    CorruptDataError : also where block offsets do not ascend, or first keys descend
    """
    index: tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64]] = kernel_module("index").decode_index(data)
    return index


def encode_index(offsets: NDArray[np.int64], key_bytes: NDArray[np.uint8], key_offsets: NDArray[np.int64]) -> bytes:
    """Return an index section, uncompressed: the opposite of `decode_index`."""
    data: bytes = kernel_module("index").encode_index(offsets, key_bytes, key_offsets)
    return data


def separator_keys(
    sources: Sequence[RowColumns], rows: NDArray[np.int64], first_rows: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the index's first key of every block: bytes and (n + 1,) offsets.

    Parameters
    ----------
    rows : (m,) packed, keys ascending
    first_rows : (n,) index into `rows` of each block's first row

    Each is the shortest prefix of the block's first key that is above the key before it, or all of it if the two are
    equal. It is empty where the block starts with row 0. Source: spec 2.10.
    """
    keys: tuple[NDArray[np.uint8], NDArray[np.int64]] = kernel_module("separators").separator_keys(
        sources, rows, first_rows
    )
    return keys


def match_keys(
    rows: RowColumns, low: int, high: int, key_bytes: NDArray[np.uint8], key_offsets: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the positions of the rows in `[low, high)` whose key is wanted, ascending; all versions of a key.

    Parameters
    ----------
    rows : keys ascending
    key_bytes, key_offsets : (any,) and (n + 1,), the wanted keys, ascending and distinct
    """
    found: NDArray[np.int64] = kernel_module("match").match_keys(rows, low, high, key_bytes, key_offsets)
    return found


def lower_bounds(
    rows_key_bytes: NDArray[np.uint8],
    rows_key_offsets: NDArray[np.int64],
    wanted_bytes: NDArray[np.uint8],
    wanted_offsets: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return, for each wanted key, the first row whose key is at least that, or the number of rows.

    Parameters
    ----------
    rows_key_bytes, rows_key_offsets : (any,) and (n + 1,), keys ascending
    wanted_bytes, wanted_offsets : (any,) and (m + 1,), in any order; ascending is faster
    """
    bounds: NDArray[np.int64] = kernel_module("match").lower_bounds(
        rows_key_bytes, rows_key_offsets, wanted_bytes, wanted_offsets
    )
    return bounds


def encode_avro(
    columns: Sequence[FlatColumn], program: EncodeProgram, count: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return rows in Avro's single-object encoding: bytes and (count + 1,) offsets.

    Parameters
    ----------
    columns : one for each node of the program, of at least `count` items
    program : what the columns are written as
    count : rows; there may be no column

    Raises
    ------
    InternalError : a column that does not fit its node
    InvalidRequestError : text that is no UTF-8
    """
    values: tuple[NDArray[np.uint8], NDArray[np.int64]] = kernel_module("avro_encode").encode_avro(
        columns, program, count
    )
    return values


def decode_avro(
    sources: Sequence[RowColumns], rows: NDArray[np.int64], program: DecodeProgram
) -> tuple[list[FlatColumn], NDArray[np.uint8]]:
    """Return the columns of a program from the values of packed rows, and (m,) FINE, UNKNOWN_FINGERPRINT or MALFORMED.

    The bytes are not trusted in any respect. A row that is not FINE, and a tombstone, which is, is null in all columns;
    null numbers are 0, null bytes empty. Text is UTF-8. A row is read up to the last field that is wanted: what follows
    it is not looked at.

    Raises
    ------
    InternalError : 2^31 bytes or more of values, if bytes come out, or a row that does not exist
    """
    decoded: tuple[list[FlatColumn], NDArray[np.uint8]] = kernel_module("avro_decode").decode_avro(
        sources, rows, program
    )
    return decoded


def encode_tuples(
    columns: Sequence[FlatColumn], program: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return one key for each row, in FoundationDB's tuple layer: bytes and (n + 1,) offsets.

    Parameters
    ----------
    columns : those that the program names, in its order, of one length
    program : what a key is made of, see `slatespark.kernels.tuple_program`

    Raises
    ------
    SchemaError : a string that is no UTF-8, or a decimal of more digits than its step has
    """
    keys: tuple[NDArray[np.uint8], NDArray[np.int64]] = kernel_module("tuple_encode").encode_tuples(columns, program)
    return keys


def decode_tuples(
    sources: Sequence[RowColumns], rows: NDArray[np.int64], program: NDArray[np.int64], wanted: NDArray[np.bool_]
) -> tuple[list[FlatColumn | None], NDArray[np.uint8]]:
    """Return the columns wanted of the keys of packed rows, and a `tuple_program.KeyStatus` for each row.

    Where the status is not 0, all columns are absent. It is the same whatever is wanted: all of a key is checked.

    Raises
    ------
    InternalError : keys of 2^31 bytes or more, or a row that does not exist
    """
    decoded: tuple[list[FlatColumn | None], NDArray[np.uint8]] = kernel_module("tuple_decode").decode_tuples(
        sources, rows, program, wanted
    )
    return decoded
