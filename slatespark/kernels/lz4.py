"""Sizes of LZ4 blocks, compiled: what a decoder would write, from the lengths alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels._compile import Kernel, inlined
from slatespark.kernels._native import load8, load64, store64
from slatespark.kernels._sources import address_of, checked_address


def lz4_sizes(data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """See `slatespark.kernels.lz4_sizes`."""
    sizes = np.empty(len(starts), np.int64)
    blocks = checked_address(starts, np.int64, 0), checked_address(ends, np.int64, len(starts)), len(starts)
    _measure_blocks(checked_address(data, np.uint8, 0), *blocks, address_of(sizes))
    return sizes


@Kernel
def _measure_blocks(data: int, starts: int, ends: int, count: int, sizes: int) -> int:
    """Write the size of each block, -1 for a malformed one."""
    for block in range(count):
        start, end = load64(starts + 8 * block), load64(ends + 8 * block)
        store64(sizes + 8 * block, _measure(data + start, data + end))
    return 0


@inlined
def _measure(at: int, end: int) -> int:
    """Return the size of a block, from its sequences: a token, literals, and a match but for the last one."""
    size = 0
    while at < end:
        token = load8(at)
        at += 1
        literals = token >> 4
        if literals == 15:
            while at < end:
                more = load8(at)
                at += 1
                literals += more
                if more != 255:
                    break
            else:
                return -1
        at += literals
        size += literals
        if at == end:
            return size
        at += 2  # the offset of the match
        if at > end:
            return -1
        match = token & 15
        if match == 15:
            while at < end:
                more = load8(at)
                at += 1
                match += more
                if more != 255:
                    break
            else:
                return -1
        size += match + 4
    return -1  # a match at the end, or nothing at all
