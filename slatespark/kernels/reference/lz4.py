"""Sizes of LZ4 blocks, from the lengths of their sequences."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def lz4_sizes(data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """See `slatespark.kernels.lz4_sizes`."""
    view = data.data
    bounds = zip(starts.tolist(), ends.tolist(), strict=True)
    return np.array([_size(bytes(view[start:end])) for start, end in bounds], np.int64)


def _size(block: bytes) -> int:
    size, octets = 0, iter(block)
    left = len(block)

    def length(nibble: int) -> int:
        nonlocal left
        total = nibble
        while nibble == 15:
            more = next(octets)
            left -= 1
            total += more
            if more < 255:
                break
        return total

    try:
        while True:
            token = next(octets)
            left -= 1
            literals = length(token >> 4)
            if literals > left:
                return -1
            for _ in range(literals):
                next(octets)
            left -= literals
            size += literals
            if left == 0:
                return size
            next(octets), next(octets)
            left -= 2
            size += length(token & 15) + 4
    except StopIteration:
        return -1
