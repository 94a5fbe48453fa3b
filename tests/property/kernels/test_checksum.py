from __future__ import annotations

import zlib
from types import ModuleType

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.kernels.test_checksum import both


@both
@given(data=st.binary(max_size=700), cuts=st.lists(st.integers(0, 700), max_size=6))
def test_checksums_equal_those_of_zlib(kernel: ModuleType, data: bytes, cuts: list[int]) -> None:
    edges = sorted(min(cut, len(data)) for cut in [0, *cuts, 700])
    starts, ends = np.array(edges[:-1], np.int64), np.array(edges[1:], np.int64)
    expected = [zlib.crc32(data[start:end]) for start, end in zip(starts, ends, strict=True)]
    assert kernel.crc32_blocks(np.frombuffer(data, np.uint8), starts, ends).tolist() == expected
