"""Result types of kernels besides `RowColumns` and `Selection`."""

from __future__ import annotations

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
