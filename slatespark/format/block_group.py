"""Consecutive stored data blocks -> their payloads: verify the checksum, then decompress.

Layout: `docs/reference/format/sst.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import CorruptDataError
from slatespark.format.codecs import CRC_BYTES, Compression, decompress
from slatespark.kernels import crc32_blocks

CHECKSUM_BATCH_BLOCKS: Final = 64  # per kernel call, which has a fixed cost
# u16 offsets limit a block to 64 KiB of rows, but an oversized row gets a block of its own.
MAX_BLOCK_BYTES: Final = 1 << 32


@dataclass(frozen=True, slots=True)
class UnpackedBlocks:
    """Payloads of blocks: block `i` is `data[starts[i]:ends[i]]`."""

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


def unpack_blocks(
    data: NDArray[np.uint8], edges: NDArray[np.int64], compression: Compression, *, limit_bytes: int
) -> UnpackedBlocks:
    """Verify and decompress blocks until `limit_bytes` of payload are reached; at least one block.

    Parameters
    ----------
    data : stored bytes that contain the blocks
    edges : (n + 1,) ascending offsets in `data`; block i is stored in [edges[i], edges[i + 1]), checksum included
    compression : of the file
    limit_bytes : bound of the payload; compressed blocks beyond it are left to the next call

    Returns
    -------
    The first m >= 1 blocks. Without compression, all blocks and `data` itself.

    Raises
    ------
    CorruptDataError
        Names the offset of the block in `data`.
    """
    _check_edges(data, edges)
    if compression is Compression.NONE:
        _check_sums(data, edges, len(edges) - 1)
        return UnpackedBlocks(data, edges[:-1], edges[1:] - CRC_BYTES)
    payloads: list[bytes] = []
    held_bytes = 0
    view = data.data
    bounds = edges.tolist()
    for number, (start, end) in enumerate(pairwise(bounds)):
        if number % CHECKSUM_BATCH_BLOCKS == 0:
            _check_sums(data, edges[number:], min(CHECKSUM_BATCH_BLOCKS, len(bounds) - 1 - number))
        if payloads and held_bytes >= limit_bytes:
            break
        try:
            payload = decompress(view[start : end - CRC_BYTES], compression, max_bytes=MAX_BLOCK_BYTES)
        except CorruptDataError as exc:
            raise CorruptDataError(str(exc), offset=start) from exc
        payloads.append(payload)
        held_bytes += len(payload)
    ends = np.cumsum([len(payload) for payload in payloads], dtype=np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    return UnpackedBlocks(np.frombuffer(b"".join(payloads), np.uint8), starts, ends)


def _check_edges(data: NDArray[np.uint8], edges: NDArray[np.int64]) -> None:
    lengths = np.diff(edges)
    if len(edges) < 2 or edges[0] < 0 or edges[-1] > len(data) or (lengths <= CRC_BYTES).any():
        raise CorruptDataError("block offsets do not ascend, or point outside the data.", offset=0)


def _check_sums(data: NDArray[np.uint8], edges: NDArray[np.int64], count: int) -> None:
    """Verify the checksums of the first `count` blocks."""
    ends = edges[1 : count + 1] - CRC_BYTES
    found = crc32_blocks(data, edges[:count], ends)
    stored = data[ends[:, None] + np.arange(CRC_BYTES)].view(">u4")[:, 0]
    wrong = np.flatnonzero(found != stored)
    if len(wrong):
        bad = int(wrong[0])
        raise CorruptDataError(
            f"block checksum is {int(found[bad]):08x}, expected {int(stored[bad]):08x}.",
            why="The stored bytes were changed.",
            todo="Run `slatespark verify` on the table and restore the object.",
            offset=int(edges[bad]),
        )
