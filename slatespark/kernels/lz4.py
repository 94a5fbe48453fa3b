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
        literals, at = _length(token >> 4, at + 1, end)
        if literals < 0:
            return -1
        at += literals
        size += literals
        if at == end:
            return size
        at += 2  # the offset of the match
        if at > end:
            return -1
        match, at = _length(token & 15, at, end)
        if match < 0:
            return -1
        size += match + 4
    return -1  # a match at the end, or nothing at all


@inlined
def _length(length: int, at: int, end: int) -> tuple[int, int]:
    """Return a length that begins with four bits of a token, -1 if it is cut, and where it ends."""
    if length == 15:
        while True:
            if at >= end:
                return -1, at
            more = load8(at)
            at += 1
            length += more
            if more != 255:
                break
    return length, at
