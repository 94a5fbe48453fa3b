# mypy: untyped-calls-exclude="slatespark.format._generated"

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any

import flatbuffers
import numpy as np
import pytest

from slatespark.errors import CorruptDataError
from slatespark.format._generated import BlockMeta, SsTableIndex
from slatespark.format.building import put_offsets
from tests.unit.kernels.implementations import COMPILED

KEYS = [b"", b"b", b"b", b"banana", b"c\0"]
OFFSETS = np.array([0, 10, 4096, 1 << 40, (1 << 63) - 1], np.int64)


def encoded(kernels: Any, offsets: list[int], keys: list[bytes]) -> bytes:
    key_offsets = np.cumsum([0, *map(len, keys)], dtype=np.int64)
    data: bytes = kernels.encode_index(
        np.array(offsets, np.int64), np.frombuffer(b"".join(keys), np.uint8), key_offsets
    )
    return data


def decoded_sections(kernels: Any, *sections: bytes) -> tuple[list[int], list[int], list[bytes], list[int]]:
    """What some sections hold: blocks of each, then offsets, separators and stored bytes of all blocks."""
    ends = np.cumsum([len(each) for each in sections], dtype=np.int64)
    starts = np.append(np.int64(0), ends[:-1])
    found = kernels.decode_indexes(np.frombuffer(b"".join(sections), np.uint8), starts, ends)
    counts, offsets, key_bytes, key_offsets, encoded_bytes = found
    keys = [key_bytes[a:b].tobytes() for a, b in pairwise(key_offsets.tolist())]
    return counts.tolist(), offsets.tolist(), keys, encoded_bytes.tolist()


def decoded(kernels: Any, data: bytes) -> tuple[list[int], list[bytes]]:
    [count], offsets, keys, encoded_bytes = decoded_sections(kernels, data)
    assert encoded_bytes == [0] * count
    return offsets, keys


def test_round_trip(kernels: Any) -> None:
    assert decoded(kernels, encoded(kernels, OFFSETS.tolist(), KEYS)) == (OFFSETS.tolist(), KEYS)
    assert decoded(kernels, encoded(kernels, [], [])) == ([], [])


def test_keys_within_a_larger_buffer(kernels: Any) -> None:
    key_bytes = np.frombuffer(b"??ab", np.uint8)
    data = kernels.encode_index(np.array([0, 5]), key_bytes, np.array([2, 3, 4]))
    assert decoded(kernels, data) == ([0, 5], [b"a", b"b"])


def padded_index() -> bytes:
    """Two blocks, of which only the first states its bytes, as other encoders write it."""
    builder = flatbuffers.Builder(64)
    metas = []
    for offset, key, encoded_bytes in ((7, b"", 5), (4096, b"k", 0)):
        first_key = builder.CreateByteVector(key)
        BlockMeta.Start(builder)
        BlockMeta.AddOffset(builder, offset)
        BlockMeta.AddFirstKey(builder, first_key)
        BlockMeta.AddEncodedLen(builder, encoded_bytes)
        metas.append(BlockMeta.End(builder))
    block_metas = put_offsets(builder, metas)
    SsTableIndex.Start(builder)
    SsTableIndex.AddBlockMeta(builder, block_metas)
    builder.Finish(SsTableIndex.End(builder))
    return bytes(builder.Output())


def test_padded_blocks_state_their_bytes(kernels: Any) -> None:
    assert decoded_sections(kernels, padded_index()) == ([2], [7, 4096], [b"", b"k"], [5, 0])


def test_several_sections(kernels: Any) -> None:
    one, other = encoded(kernels, [0, 10], [b"b", b"c"]), encoded(kernels, [0, 7, 20], [b"a", b"a", b"b"])
    sections = [padded_index(), encoded(kernels, [], []), one, other, encoded(kernels, [], [])]
    counts, offsets, keys, encoded_bytes = decoded_sections(kernels, *sections)
    assert (counts, encoded_bytes) == ([2, 0, 2, 3, 0], [5, 0, 0, 0, 0, 0, 0])
    assert (offsets, keys) == ([7, 4096, 0, 10, 0, 7, 20], [b"", b"k", b"b", b"c", b"a", b"a", b"b"])
    assert decoded_sections(kernels, encoded(kernels, [], []), encoded(kernels, [], [])) == ([0, 0], [], [], [])


def test_absent_offset_is_zero(kernels: Any) -> None:
    # Vtable of 8 bytes without slot 4, as other encoders write the first block.
    tail = struct.pack("<HHHH", 8, 8, 0, 4) + struct.pack("<iI", 8, 4) + struct.pack("<I", 0)
    head = struct.pack("<IHHHHiII", 12, 6, 8, 4, 0, 8, 4, 1) + struct.pack("<I", 12)
    assert decoded(kernels, head + tail) == ([0], [b""])


GOOD = encoded(COMPILED, [0, 10, 20], [b"", b"b", b"c"])  # tables at 48, 64, 80, their vtable at 40, keys from 96


def patched(at: int, kind: str, value: int) -> bytes:
    data = bytearray(GOOD)
    struct.pack_into("<" + kind, data, at, value)
    return bytes(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        GOOD[:3],
        GOOD[:30],
        GOOD[:-4],
        patched(0, "I", 1 << 31),
        patched(12, "i", -(1 << 30)),
        patched(12, "i", 1 << 30),
        patched(4, "H", 60000),
        patched(6, "H", 60000),
        patched(8, "H", 0),
        patched(8, "H", 6),
        patched(16, "I", 0xFFFF_FFFF),
        patched(20, "I", 0xFFFF_FFFF),
        patched(20, "I", 4),
        patched(28, "I", 1 << 20),
        patched(44, "H", 9),
        patched(46, "H", 0),
        patched(46, "H", 13),
        patched(52, "I", 1 << 30),
        patched(64 + 8, "Q", 0),
        patched(64 + 8, "Q", 20),
        patched(80 + 8, "Q", 1 << 63),
        patched(100, "I", 1000),
    ],
)
def test_damage(kernels: Any, data: bytes) -> None:
    with pytest.raises(CorruptDataError, match="index") as caught:
        decoded(kernels, data)
    assert caught.value.offset is not None


@pytest.mark.parametrize("cut", [4, 20, 40, len(GOOD) - 1, len(GOOD)])
def test_a_section_must_not_reach_into_the_next_one(kernels: Any, cut: int) -> None:
    """The bytes are all there, but beyond the end of the section, or before its start."""
    data = np.frombuffer(GOOD + GOOD, np.uint8)
    size = len(GOOD)
    for starts, ends in (([0, size], [size - cut, 2 * size]), ([0, size + cut], [size, 2 * size])):
        with pytest.raises(CorruptDataError):
            kernels.decode_indexes(data, np.array(starts, np.int64), np.array(ends, np.int64))


def test_order(kernels: Any) -> None:
    for offsets, keys in (([0, 0], [b"", b"a"]), ([1, 0], [b"", b"a"]), ([0, 1], [b"b", b"a"]), ([0, 1], [b"a", b""])):
        with pytest.raises(CorruptDataError, match=r"ascend|descend"):
            decoded(kernels, encoded(kernels, offsets, keys))
        with pytest.raises(CorruptDataError, match=r"ascend|descend"):
            decoded_sections(kernels, GOOD, encoded(kernels, offsets, keys), GOOD)


def test_keys_that_share_bytes_are_limited(kernels: Any) -> None:
    data = bytearray(encoded(kernels, list(range(50)), [b"k" * 100] + [b"k"] * 49))
    tables_at = (24 + 4 * 50 + 7) // 8 * 8 + 8
    keys_at = tables_at + 16 * 50
    for number in range(50):
        at = tables_at + 16 * number + 4
        struct.pack_into("<I", data, at, keys_at - at)
    with pytest.raises(CorruptDataError, match="more bytes"):
        decoded(kernels, bytes(data))
    with pytest.raises(CorruptDataError, match="more bytes"):
        decoded_sections(kernels, bytes(data), encoded(kernels, [0], [b"k" * 10_000]))
