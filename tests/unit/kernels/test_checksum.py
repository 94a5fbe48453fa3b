from __future__ import annotations

import zlib
from types import ModuleType

import numpy as np
import pytest

from slatespark.kernels import checksum
from slatespark.kernels.reference import checksum as plain

both = pytest.mark.parametrize("kernel", [checksum, plain], ids=["compiled", "reference"])


@both
def test_every_length_and_alignment(kernel: ModuleType) -> None:
    data = np.random.default_rng(7).integers(0, 256, 5000, np.uint8)
    starts = np.arange(600, dtype=np.int64) % 17
    ends = starts + np.arange(600, dtype=np.int64) * 8 + starts % 3
    expected = [zlib.crc32(data[start:end].tobytes()) for start, end in zip(starts, ends, strict=True)]
    assert kernel.crc32_blocks(data, starts, ends).tolist() == expected


@both
def test_the_first_block_with_another_checksum(kernel: ModuleType) -> None:
    blocks = [bytes([number]) * (37 * number) for number in range(9)]
    data = bytearray().join(block + zlib.crc32(block).to_bytes(4) for block in blocks)
    ends = np.cumsum([len(block) + 4 for block in blocks]) - 4
    starts = ends - [len(block) for block in blocks]
    assert kernel.first_wrong_block(np.frombuffer(data, np.uint8), starts, ends) == -1
    for block in (8, 7, 3, 0):  # the checksum, then a byte of the block as well
        data[ends[block] + block % 4] ^= 0x80
        assert kernel.first_wrong_block(np.frombuffer(data, np.uint8), starts, ends) == block
        data[starts[block]] ^= 1
        assert kernel.first_wrong_block(np.frombuffer(data, np.uint8), starts, ends) == block


@both
def test_nothing(kernel: ModuleType) -> None:
    none = np.zeros(0, np.int64)
    assert kernel.first_wrong_block(np.zeros(0, np.uint8), none, none) == -1
    assert kernel.crc32_blocks(np.zeros(0, np.uint8), none, none).tolist() == []
