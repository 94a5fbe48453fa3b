"""Result types of kernels besides `RowColumns` and `Selection`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True)
class EncodedBlocks:
    """Data blocks, to be compressed and checksummed.

    The blocks are in order, each followed by `CHECKSUM_BYTES` zero bytes. So the checksum of an uncompressed block can
    be written in place.

    Attributes
    ----------
    data : (any,) uint8
    starts, ends : (n,) int64; block i is `data[starts[i]:ends[i]]`, without the gap
    first_rows : (n,) int64, index of each block's first row in the encoded rows
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    first_rows: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)


@dataclass(slots=True)
class BlockSummaries:
    """What `n` encoded blocks hold.

    Attributes
    ----------
    counts : (n, 3) uint16, puts, deletes and merges; the block size limits a block to fewer than 2^16 rows
    min_create_ts, max_create_ts, min_expire_ts, max_expire_ts : (n,) int64 ms; where no row has the time, the minimum
        is the largest int64 and the maximum the smallest
    any_flags, all_flags : (n,) uint8, as they are stored: a tombstone has no expire_ts
    key_bytes, value_bytes : sizes of the keys and values of all blocks
    min_seq, max_seq : bounds of the sequence numbers of all blocks
    """

    counts: NDArray[np.uint16]
    min_create_ts: NDArray[np.int64]
    max_create_ts: NDArray[np.int64]
    min_expire_ts: NDArray[np.int64]
    max_expire_ts: NDArray[np.int64]
    any_flags: NDArray[np.uint8]
    all_flags: NDArray[np.uint8]
    key_bytes: int
    value_bytes: int
    min_seq: int
    max_seq: int


@dataclass(slots=True)
class Fields:
    """The fixed-width fields of `m` rows.

    Attributes
    ----------
    seqs : (m,) uint64
    flags : (m,) uint8
    create_ts, expire_ts : (m,) int64 ms, 0 if the flag is not set
    """

    seqs: NDArray[np.uint64]
    flags: NDArray[np.uint8]
    create_ts: NDArray[np.int64]
    expire_ts: NDArray[np.int64]

    @classmethod
    def joined(cls, parts: Sequence[Fields]) -> Fields:
        """Return the fields of the rows of all parts, in their order; one part at least."""
        return cls(
            seqs=np.concatenate([part.seqs for part in parts]),
            flags=np.concatenate([part.flags for part in parts]),
            create_ts=np.concatenate([part.create_ts for part in parts]),
            expire_ts=np.concatenate([part.expire_ts for part in parts]),
        )


@dataclass(slots=True)
class Retained:
    """The result of a compaction for each of `m` rows.

    Attributes
    ----------
    marks : (m,) uint8: PLAIN, GROUP_HEAD, GROUP_REST, TO_TOMBSTONE or DROPPED
    outdated : number of rows that are expired or past retention, without tombstones
    """

    marks: NDArray[np.uint8]
    outdated: int


@dataclass(slots=True)
class AvroItems:
    """Where the items of `n` Avro arrays or maps are.

    Attributes
    ----------
    bounds : (n + 1,) int64: the items of array i are those from `bounds[i]` to `bounds[i + 1]`
    starts, ends : (m,) int64, the bytes of each item; a pair of a map is one item
    status : (n,) uint8, FINE or MALFORMED; one that is malformed or null has no items
    """

    bounds: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    status: NDArray[np.uint8]
