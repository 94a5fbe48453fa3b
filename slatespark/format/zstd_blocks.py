"""zstd for many blocks at a time: one call of the library, which leaves the interpreter to other threads meanwhile.

Frames of one block each, as the client and slatespark write them; RFC 8878, section 3.1.1, has their layout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from slatespark.format.codecs import MAX_EXPANSION, ZSTD_LEVEL

if TYPE_CHECKING:
    import zstandard

_MAGIC: Final = np.frombuffer(b"\x28\xb5\x2f\xfd", np.uint8)
_SINGLE_SEGMENT, _CHECKSUM, _DICTIONARY = 0x20, 0x04, 0x03
_HEADER_BYTES: Final = len(_MAGIC) + 1
_SIZE_BYTES: Final = np.array([1, 2, 4, 8], np.int64)  # by the first two bits of the descriptor
_BLOCK_HEADER_BYTES: Final = 3
_RUN: Final = 1  # the type of a block that repeats one byte


def compress_together(data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> list[bytes]:
    """Return the frame of each block `data[starts[i]:ends[i]]`."""
    import zstandard  # here and below: most processes need it not

    compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL)
    frames = compressor.multi_compress_to_buffer(_segments(data, starts, ends))
    return [frames[number].tobytes() for number in range(len(frames))]


def content_sizes(
    data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """Return the size of what each frame `data[starts[i]:ends[i]]` holds; None if one is of another layout, or damaged.

    The sizes are plausible, not proven.
    """
    lengths = ends - starts
    if (lengths < _HEADER_BYTES + _BLOCK_HEADER_BYTES + 1).any():
        return None
    heads = data[starts[:, None] + np.arange(_HEADER_BYTES)]
    descriptors = heads[:, -1]
    if (heads[:, :-1] != _MAGIC).any() or (descriptors & (_SINGLE_SEGMENT | _DICTIONARY) != _SINGLE_SEGMENT).any():
        return None
    widths = _SIZE_BYTES[descriptors >> 6]
    blocks = starts + _HEADER_BYTES + widths
    if (blocks + _BLOCK_HEADER_BYTES > ends).any():
        return None
    sizes = _numbers(data, starts + _HEADER_BYTES, widths) + np.where(widths == 2, 256, 0)
    described = _numbers(data, blocks, np.full(len(blocks), _BLOCK_HEADER_BYTES))
    is_last, kinds, stored = described & 1, described >> 1 & 3, described >> 3
    stored = np.where(kinds == _RUN, 1, stored) + np.where(descriptors & _CHECKSUM, 4, 0)
    is_whole = (is_last == 1) & (blocks + _BLOCK_HEADER_BYTES + stored == ends)
    # No empty ones: the library takes 0 for an unknown size, and frees memory twice where all frames are empty.
    is_plausible = is_whole & (sizes > 0) & (sizes <= lengths * MAX_EXPANSION["zstd"])
    return sizes if is_plausible.all() else None


def decompress_together(
    data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64], sizes: NDArray[np.int64]
) -> bytes | None:
    """Return what some frames hold, one behind the other; None if one does not hold what its size says.

    Parameters
    ----------
    sizes : those of `content_sizes`
    """
    import zstandard

    frames = _segments(data, starts, ends)
    try:
        payloads = zstandard.ZstdDecompressor().multi_decompress_to_buffer(
            frames, decompressed_sizes=sizes.astype(np.uint64).tobytes()
        )
    except zstandard.ZstdError:
        return None
    # The library's types do not say that a segment is a buffer.
    return b"".join(payloads[number] for number in range(len(payloads)))  # type: ignore[misc]


def _segments(
    data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> zstandard.BufferWithSegments:
    import zstandard

    spans = np.column_stack([starts, ends - starts]).astype(np.uint64)
    return zstandard.BufferWithSegments(data.data, spans.tobytes())


def _numbers(data: NDArray[np.uint8], starts: NDArray[np.int64], widths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return little-endian numbers of some bytes each."""
    places = np.arange(int(widths.max(initial=0)), dtype=np.int64)
    inside = places < widths[:, None]
    octets = np.where(inside, data[np.where(inside, starts[:, None] + places, 0)], 0).astype(np.int64)
    numbers: NDArray[np.int64] = (octets << 8 * places).sum(axis=1)
    return numbers
