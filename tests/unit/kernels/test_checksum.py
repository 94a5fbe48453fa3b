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
def test_nothing(kernel: ModuleType) -> None:
    none = np.zeros(0, np.int64)
    assert kernel.crc32_blocks(np.zeros(0, np.uint8), none, none).tolist() == []
