"""Index of an SST: where each block starts, and a key that parts it from the block before.

    flatbuffer SsTableIndex, compressed and sealed like every section

The key of block 0 is empty; that of a later block is above every key before it and not above any of its own, except
that it *equals* the last key before it when versions of that key go on in the block. In a WAL file the keys are 8-byte
big-endian seqs. Source: spec section 2.10.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import CorruptDataError
from slatespark.format.codecs import CRC_BYTES, Buffer, Compression, decode_section, encode_section
from slatespark.format.info import SstInfo
from slatespark.kernels import decode_index, encode_index, lower_bounds
from slatespark.ranges import ByteRange, KeyRange


@dataclass(frozen=True, slots=True, eq=False)
class SstIndex:
    """Blocks of an SST.

    Attributes
    ----------
    block_offsets : (n,) int64, first byte of each block in the object, ascending
    key_bytes : (any,) uint8, the keys one behind the other
    key_offsets : (n + 1,) int64
    """

    block_offsets: NDArray[np.int64]
    key_bytes: NDArray[np.uint8]
    key_offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.block_offsets)

    @property
    def held_bytes(self) -> int:
        """Memory that the index takes."""
        return self.block_offsets.nbytes + self.key_bytes.nbytes + self.key_offsets.nbytes

    def first_key(self, block: int) -> bytes:
        """Return the key that parts a block from the one before; empty for block 0."""
        return self.key_bytes[self.key_offsets[block] : self.key_offsets[block + 1]].tobytes()

    def block_edges(self, info: SstInfo) -> NDArray[np.int64]:
        """Return (n + 1,) offsets: block i is stored in [edges[i], edges[i + 1]), checksum included."""
        return np.append(self.block_offsets, np.int64(info.data_bytes))

    def block_range(self, block: int, info: SstInfo) -> ByteRange:
        """Return where a block is stored, checksum included."""
        last = block + 1 == len(self)
        return ByteRange(
            int(self.block_offsets[block]), info.data_bytes if last else int(self.block_offsets[block + 1])
        )

    def blocks_for(self, keys: KeyRange) -> tuple[int, int]:
        """Return the blocks [first, end) that may hold a key of the range."""
        if keys.is_empty():
            return 0, 0
        numbers = range(len(self))
        end = len(self) if keys.end is None else bisect_left(numbers, keys.end, key=self.first_key)
        # The block before the first key that is not below the start: it may end with that very key.
        first = bisect_left(numbers, keys.start, key=self.first_key) - 1
        return (max(first, 0), end) if end else (0, 0)

    def blocks_for_keys(
        self, key_bytes: NDArray[np.uint8], key_offsets: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return for each key the blocks [first, end) that may hold it.

        Parameters
        ----------
        key_bytes, key_offsets : (any,) and (n + 1,), the keys, ascending
        """
        # As `blocks_for` of the range [key, key + 00).
        first = lower_bounds(self.key_bytes, self.key_offsets, key_bytes, key_offsets) - 1
        after_bytes = np.insert(key_bytes, key_offsets[1:], 0)
        after_offsets = key_offsets + np.arange(len(key_offsets), dtype=np.int64)
        end = lower_bounds(self.key_bytes, self.key_offsets, after_bytes, after_offsets)
        return np.minimum(np.maximum(first, 0), end), end

    def spans_key(self, block: int, last_key: bytes) -> bool:
        """Tell whether versions of `last_key`, the last key of the block before, may go on in this block."""
        return block < len(self) and self.first_key(block) == last_key


def decode_index_section(data: Buffer, info: SstInfo) -> SstIndex:
    """Return the index that a section holds.

    Parameters
    ----------
    data : the bytes of `info.index_range`
    info : of the same SST

    Raises
    ------
    CorruptDataError : damaged, or a block does not lie in the data
    """
    payload = decode_section(data, info.compression, what="index section")
    index = SstIndex(*decode_index(np.frombuffer(payload, np.uint8)))
    if not len(index):
        raise CorruptDataError("SST index names no block.")
    edges = index.block_edges(info)
    if edges[0] < 0 or (np.diff(edges) <= CRC_BYTES).any():
        raise CorruptDataError(
            f"SST index puts a block outside the {info.data_bytes} bytes of data, or two blocks at one place."
        )
    return index


def encode_index_section(index: SstIndex, codec: Compression) -> bytes:
    """Return the section of an index, sealed."""
    return encode_section(encode_index(index.block_offsets, index.key_bytes, index.key_offsets), codec)


def separator_key(last_key: bytes, key: bytes) -> bytes:
    """Return the shortest prefix of `key` above `last_key`, the key before it; all of it if the two are equal."""
    for place, (one, other) in enumerate(zip(last_key, key, strict=False)):
        if one != other:
            return key[: place + 1]
    return key[: len(last_key) + 1]
