"""What LZ4 blocks expand to."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.kernels.implementations import COMPILED, REFERENCE

both = pytest.mark.parametrize("kernels", [COMPILED, REFERENCE], ids=["compiled", "reference"])


def sizes(kernels: object, blocks: list[bytes]) -> list[int]:
    ends = np.cumsum([len(block) for block in blocks], dtype=np.int64)
    starts = ends - np.array([len(block) for block in blocks], np.int64)
    found = kernels.lz4_sizes(np.frombuffer(b"".join(blocks), np.uint8), starts, ends)  # type: ignore[attr-defined]
    return [int(size) for size in found]


@both
def test_blocks_of_a_library(kernels: object) -> None:
    payloads = [b"x", b"ab" * 3000, bytes(5000), np.random.default_rng(1).bytes(4096), b"z" * 100_000, b"abc" * 91]
    blocks = [pa.Codec("lz4_raw").compress(payload, asbytes=True) for payload in payloads]
    assert sizes(kernels, blocks) == [len(payload) for payload in payloads]


@both
def test_malformed_blocks(kernels: object) -> None:
    cases = {
        b"": -1,
        b"\x00": 0,
        b"\x10": -1,  # a literal that is not there
        b"\x10a": 1,
        b"\x10ab": -1,  # half an offset
        b"\x10a\x01\x00": -1,  # a match at the end
        b"\x10a\x01\x00\x00": 5,
        b"\xf0": -1,  # a length that is cut
        b"\xf0\xff": -1,
        b"\xf0\x00" + b"a" * 15: 15,
        b"\xf0\xff\x01" + b"a" * 271: 271,
        b"\x1fa\x01\x00": -1,
        b"\x1fa\x01\x00\xff\x02\x00": 277,
    }
    assert sizes(kernels, list(cases)) == list(cases.values())
