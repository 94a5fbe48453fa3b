"""Index of an SST: the offset of each block and the key that separates it from the previous block.

    flatbuffer SsTableIndex, compressed and checksummed like every section

The separator of block 0 is empty. That of a later block is above every earlier key and at most the block's first key.
It *equals* the last earlier key if versions of that key continue in the block. In a WAL file the separators are 8-byte
big-endian sequence numbers. Source: `docs/reference/format/sst-index.md`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import CorruptDataError
from slatespark.format.codecs import CRC_BYTES, Buffer, Compression, decode_section, encode_section
from slatespark.format.info import SstInfo
from slatespark.kernels import decode_indexes, encode_index, lower_bounds
from slatespark.kernels.reference.index import decode_index
from slatespark.ranges import KeyRange

_FEW_RANGES: Final = 4  # which are found sooner one by one
_SMALL_BYTES: Final = 512  # up to which going field by field is cheaper than the fixed cost of going by columns


@dataclass(frozen=True, slots=True, eq=False)
class SstIndex:
    """Blocks of an SST.

    Attributes
    ----------
    block_offsets : (n,) int64, first byte of each block in the object, ascending
    key_bytes : (any,) uint8, the concatenated separators
    key_offsets : (n + 1,) int64, where each key starts
    encoded_bytes : (n,) int64, stored bytes of a block, checksum included, if padding follows it; else 0. Clients from
        0.18 on can align blocks
    """

    block_offsets: NDArray[np.int64]
    key_bytes: NDArray[np.uint8]
    key_offsets: NDArray[np.int64]
    encoded_bytes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.block_offsets)

    @property
    def held_bytes(self) -> int:
        """Memory used by the index."""
        arrays = (self.block_offsets, self.key_bytes, self.key_offsets, self.encoded_bytes)
        return sum(array.nbytes for array in arrays)

    def first_key(self, block: int) -> bytes:
        """Return the separator before a block; empty for block 0."""
        return self.key_bytes[self.key_offsets[block] : self.key_offsets[block + 1]].tobytes()

    def block_edges(self, info: SstInfo) -> NDArray[np.int64]:
        """Return (n + 1,) offsets: block i is stored in [edges[i], edges[i + 1]), checksum and padding included."""
        return np.append(self.block_offsets, np.int64(info.data_bytes))

    def blocks_for(self, keys: KeyRange) -> tuple[int, int]:
        """Return the blocks [first, end) that may contain a key of the range."""
        if keys.is_empty():
            return 0, 0
        numbers = range(len(self))
        end = len(self) if keys.end is None else bisect_left(numbers, keys.end, key=self.first_key)
        # The block before the first separator at or above the start may end with that key.
        first = bisect_left(numbers, keys.start, key=self.first_key) - 1
        return (max(first, 0), end) if end else (0, 0)

    def blocks_for_each(self, ranges: Sequence[KeyRange]) -> list[tuple[int, int]]:
        """Return for each of some ranges what `blocks_for` returns; many at once are faster."""
        if len(ranges) < _FEW_RANGES:
            return [self.blocks_for(keys) for keys in ranges]
        first = np.maximum(self._blocks_from([keys.start for keys in ranges]) - 1, 0)
        end = self._blocks_from([keys.end or b"" for keys in ranges])
        end[[keys.end is None for keys in ranges]] = len(self)
        found = zip(ranges, first.tolist(), end.tolist(), strict=True)
        return [(0, 0) if not end or keys.is_empty() else (first, end) for keys, first, end in found]

    def _blocks_from(self, keys: Sequence[bytes]) -> NDArray[np.int64]:
        """Return for each key the first block whose separator is at least that key, or the number of blocks."""
        offsets = np.cumsum([0, *map(len, keys)], dtype=np.int64)
        return lower_bounds(self.key_bytes, self.key_offsets, np.frombuffer(b"".join(keys), np.uint8), offsets)

    def blocks_for_keys(
        self, key_bytes: NDArray[np.uint8], key_offsets: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return for each key the blocks [first, end) that may contain it.

        Parameters
        ----------
        key_bytes, key_offsets : (any,) and (n + 1,), ascending keys
        """
        # Like `blocks_for` of the range [key, key + 00).
        first = lower_bounds(self.key_bytes, self.key_offsets, key_bytes, key_offsets) - 1
        after_bytes = np.insert(key_bytes, key_offsets[1:], 0)
        after_offsets = key_offsets + np.arange(len(key_offsets), dtype=np.int64)
        end = lower_bounds(self.key_bytes, self.key_offsets, after_bytes, after_offsets)
        return np.minimum(np.maximum(first, 0), end), end

    def spans_key(self, block: int, last_key: bytes) -> bool:
        """Tell whether versions of `last_key`, the last key of the previous block, may continue in this block."""
        return block < len(self) and self.first_key(block) == last_key


def decode_index_section(data: Buffer, info: SstInfo, *, may_be_empty: bool = False) -> SstIndex:
    """Decode an index section.

    Parameters
    ----------
    data : the bytes of `info.index_range`
    info : info of the same SST
    may_be_empty : the file may have no block, as an old fence in `wal/`

    Raises
    ------
    CorruptDataError : damaged, without blocks, or a block lies outside the data
    """
    payload = np.frombuffer(decode_section(data, info.compression, what="index section"), np.uint8)
    if len(payload) <= _SMALL_BYTES:
        index = SstIndex(*decode_index(payload))
    else:
        index = SstIndex(*decode_indexes(payload, np.zeros(1, np.int64), np.array([len(payload)], np.int64))[1:])
    if not (len(index) or may_be_empty):
        raise _empty_index()
    edges = index.block_edges(info)
    if edges[0] < 0 or (np.diff(edges) <= CRC_BYTES).any():
        raise _misplaced_block(info)
    return index


@dataclass(frozen=True, slots=True, eq=False)
class BlockPlaces:
    """The blocks of several files, one file after another.

    Attributes
    ----------
    counts : (k,) int64, blocks of each file
    starts, ends : (n,) int64, where each block is stored in its file, checksum and padding included
    encoded_bytes : (n,) int64, as in `SstIndex`
    """

    counts: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    encoded_bytes: NDArray[np.int64]


def decode_block_places(sections: Sequence[Buffer], infos: Sequence[SstInfo]) -> BlockPlaces:
    """Decode the index sections of some files together; raises as `decode_index_section` of one of them."""
    payloads = [
        decode_section(section, info.compression, what="index section")
        for section, info in zip(sections, infos, strict=True)
    ]
    section_ends = np.cumsum([len(payload) for payload in payloads], dtype=np.int64)
    section_starts = np.append(np.int64(0), section_ends[:-1])
    joined = np.frombuffer(b"".join(payloads), np.uint8)
    counts, starts, _, _, encoded_bytes = decode_indexes(joined, section_starts, section_ends)
    if not counts.all():
        raise _empty_index()
    ends = np.append(starts[1:], np.int64(0))
    ends[np.cumsum(counts) - 1] = [info.data_bytes for info in infos]
    if starts.min() < 0 or (ends - starts <= CRC_BYTES).any():
        raise _misplaced_block(infos[0])
    return BlockPlaces(counts, starts, ends, encoded_bytes)


def _empty_index() -> CorruptDataError:
    return CorruptDataError("SST index is empty, expected at least one block.")


def _misplaced_block(info: SstInfo) -> CorruptDataError:
    return CorruptDataError(
        f"SST index places a block outside the {info.data_bytes} bytes of data, or two blocks at one offset."
    )


def encode_index_section(index: SstIndex, codec: Compression) -> bytes:
    """Encode the index section of blocks without padding."""
    assert not index.encoded_bytes.any()
    return encode_section(encode_index(index.block_offsets, index.key_bytes, index.key_offsets), codec)


def separator_key(last_key: bytes, key: bytes) -> bytes:
    """Return the shortest prefix of `key` above `last_key`, the previous key; all of `key` if the two are equal."""
    for position, (one, other) in enumerate(zip(last_key, key, strict=False)):
        if one != other:
            return key[: position + 1]
    return key[: len(last_key) + 1]
