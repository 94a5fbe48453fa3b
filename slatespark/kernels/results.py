"""What the kernels give back where neither rows nor a selection of rows will do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True)
class EncodedBlocks:
    """Data blocks, ready to be compressed and sealed.

    The blocks lie in order with `CHECKSUM_BYTES` zero bytes behind each: an uncompressed block can be sealed in place.

    Attributes
    ----------
    data : (any,) uint8
    starts, ends : (n,) int64; block i is `data[starts[i]:ends[i]]`, without the gap
    first_rows : (n,) int64, index of each block's first row in the rows given
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
    create_ts, expire_ts : (m,) int64 ms, 0 where the flag says absent
    """

    seqs: NDArray[np.uint64]
    flags: NDArray[np.uint8]
    create_ts: NDArray[np.int64]
    expire_ts: NDArray[np.int64]


@dataclass(slots=True)
class Retained:
    """What a compaction does with `m` rows.

    Attributes
    ----------
    marks : (m,) uint8: PLAIN, GROUP_HEAD, GROUP_REST, BURIED or GONE
    outdated : how many rows had expired, or were past retention, and were no tombstones
    """

    marks: NDArray[np.uint8]
    outdated: int
