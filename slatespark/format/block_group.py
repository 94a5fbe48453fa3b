"""Consecutive data blocks, stored and as payloads: compress; verify the checksum, then decompress.

Layout: `docs/reference/format/sst.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import CorruptDataError
from slatespark.format import lz4_blocks, zstd_blocks
from slatespark.format.codecs import CRC_BYTES, Compression, compress, decompress
from slatespark.kernels import crc32_blocks, first_wrong_block

CHECKSUM_BATCH_BLOCKS: Final = 64  # per kernel call, which has a fixed cost
# u16 offsets limit a block to 64 KiB of rows, but an oversized row gets a block of its own.
MAX_BLOCK_BYTES: Final = 1 << 32
MIN_TOGETHER: Final = 10  # fewer blocks, as of a lookup, are unpacked one by one in less time


@dataclass(frozen=True, slots=True)
class UnpackedBlocks:
    """Payloads of blocks: block `i` is `data[starts[i]:ends[i]]`."""

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


def unpack_blocks(
    data: NDArray[np.uint8],
    edges: NDArray[np.int64],
    encoded_bytes: NDArray[np.int64],
    compression: Compression,
    *,
    limit_bytes: int,
) -> UnpackedBlocks:
    """Verify and decompress blocks until `limit_bytes` of payload are reached; at least one block.

    Parameters
    ----------
    data : stored bytes that contain the blocks
    edges : (n + 1,) ascending offsets in `data`; block i is stored in [edges[i], edges[i + 1]), checksum included
    encoded_bytes : (n,) stored bytes of the blocks that end before the next edge, 0 for the others
    compression : codec of the file
    limit_bytes : bound of the payload; compressed blocks beyond it are left to the next call

    Returns
    -------
    The first m >= 1 blocks. Without compression, all blocks and `data` itself.

    Raises
    ------
    CorruptDataError
        Names the offset of the block in `data`.
    """
    starts, stops = _stored_blocks(data, edges, encoded_bytes)
    if compression is Compression.NONE:
        _check_sums(data, starts, stops)
        return UnpackedBlocks(data, starts, stops - CRC_BYTES)
    opened = _unpack_together(data, starts, stops, compression, limit_bytes)
    return _unpack_each(data, starts, stops, compression, limit_bytes) if opened is None else opened


def _unpack_each(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    compression: Compression,
    limit_bytes: int,
) -> UnpackedBlocks:
    payloads: list[bytes] = []
    held_bytes = 0
    view = data.data
    for number, (start, end) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
        if number % CHECKSUM_BATCH_BLOCKS == 0:
            batch = slice(number, number + CHECKSUM_BATCH_BLOCKS)
            _check_sums(data, starts[batch], stops[batch])
        if payloads and held_bytes >= limit_bytes:
            break
        try:
            payload = decompress(view[start : end - CRC_BYTES], compression, max_bytes=MAX_BLOCK_BYTES)
        except CorruptDataError as exc:
            raise CorruptDataError(str(exc), offset=start) from exc
        payloads.append(payload)
        held_bytes += len(payload)
    return _unpacked(b"".join(payloads), np.array([len(payload) for payload in payloads], np.int64))


def _unpack_together(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    compression: Compression,
    limit_bytes: int,
) -> UnpackedBlocks | None:
    """Return the payloads of many blocks of a codec that takes many; None if they have to be unpacked one by one."""
    codec = {Compression.ZSTD: zstd_blocks, Compression.LZ4: lz4_blocks}.get(compression)
    if codec is None or len(starts) < MIN_TOGETHER:
        return None
    sizes = codec.content_sizes(data, starts, stops - CRC_BYTES)
    if sizes is None:
        return None
    count = min(len(sizes), 1 + int(np.searchsorted(np.cumsum(sizes), limit_bytes)))
    starts, stops, sizes = starts[:count], stops[:count], sizes[:count]
    _check_sums(data, starts, stops)
    payload = codec.decompress_together(data, starts, stops - CRC_BYTES, sizes)
    return None if payload is None else _unpacked(payload, sizes)


def _unpacked(payload: bytes, sizes: NDArray[np.int64]) -> UnpackedBlocks:
    ends = np.cumsum(sizes)
    return UnpackedBlocks(np.frombuffer(payload, np.uint8), ends - sizes, ends)


def compress_blocks(
    data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64], compression: Compression
) -> list[bytes]:
    """Return the blocks `data[starts[i]:ends[i]]` as they are stored, without checksums."""
    if compression is Compression.ZSTD:
        return zstd_blocks.compress_together(data, starts, ends)
    view = data.data
    return [compress(view[a:b], compression) for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]


def check_blocks(data: NDArray[np.uint8], edges: NDArray[np.int64], encoded_bytes: NDArray[np.int64]) -> None:
    """Verify the checksums of stored blocks without decompressing them; parameters and errors as `unpack_blocks`."""
    _check_sums(data, *_stored_blocks(data, edges, encoded_bytes))


def _stored_blocks(
    data: NDArray[np.uint8], edges: NDArray[np.int64], encoded_bytes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where each block starts and stops, checksum included."""
    stops = np.where(encoded_bytes > 0, edges[:-1] + encoded_bytes, edges[1:])
    _check_bounds(data, edges, stops)
    return edges[:-1], stops


def _check_bounds(data: NDArray[np.uint8], edges: NDArray[np.int64], stops: NDArray[np.int64]) -> None:
    if len(edges) < 2 or edges[0] < 0 or edges[-1] > len(data) or (stops - edges[:-1] <= CRC_BYTES).any():
        raise CorruptDataError("block offsets do not ascend, or point outside the data.", offset=0)
    if (stops > edges[1:]).any():
        raise CorruptDataError("a block overlaps the next one.", offset=int(edges[np.argmax(stops > edges[1:])]))


def _check_sums(data: NDArray[np.uint8], starts: NDArray[np.int64], stops: NDArray[np.int64]) -> None:
    """Verify the checksums of the blocks [starts[i], stops[i])."""
    ends = stops - CRC_BYTES
    bad = first_wrong_block(data, starts, ends)
    if bad >= 0:
        [found], stored = crc32_blocks(data, starts[bad:][:1], ends[bad:][:1]), data[ends[bad] : stops[bad]]
        raise CorruptDataError(
            f"block checksum is {int(found):08x}, expected {stored.tobytes().hex()}.",
            why="The stored bytes were changed.",
            todo="Run `slatespark verify` on the table and restore the object.",
            offset=int(starts[bad]),
        )
