"""CRC-32 of many blocks, with zlib."""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray


def crc32_blocks(data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.uint32]:
    """See `slatespark.kernels.crc32_blocks`."""
    view = data.data
    bounds = zip(starts.tolist(), ends.tolist(), strict=True)
    return np.array([zlib.crc32(view[start:end]) for start, end in bounds], np.uint32)


def first_wrong_block(data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> int:
    """See `slatespark.kernels.first_wrong_block`."""
    view = data.data
    for block, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        if zlib.crc32(view[start:end]) != int.from_bytes(view[end : end + 4]):
            return block
    return -1
