"""LZ4 for many blocks at a time gives what the codec gives block by block."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slatespark.errors import CorruptDataError
from slatespark.format import block_group
from slatespark.format.codecs import Compression
from tests.unit.format.reading import check_changed_byte, taking_few_together, unpacked_blocks

together = pytest.fixture(scope="module", autouse=True)(taking_few_together)

PAYLOADS = [b"x", b"ab" * 3000, bytes(5000), np.random.default_rng(1).bytes(4096), b"z" * 200_000, b""]


def packed(payload: bytes) -> bytes:
    """A block of another library, as it is stored."""
    block = pa.Codec("lz4_raw").compress(payload, asbytes=True)
    assert isinstance(block, bytes)
    return len(payload).to_bytes(4, "little") + block


@pytest.mark.parametrize("limit", [1, 7000, 1 << 30])
def test_blocks_of_another_library(limit: int) -> None:
    for payloads in (PAYLOADS, PAYLOADS[:-1]):
        expected = [part for number, part in enumerate(payloads) if sum(map(len, payloads[:number])) < limit]
        assert unpacked_blocks([packed(payload) for payload in payloads], Compression.LZ4, limit) == expected


def test_blocks_are_unpacked_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_group, "decompress", None)
    assert unpacked_blocks([packed(payload) for payload in PAYLOADS[:-1]], Compression.LZ4) == PAYLOADS[:-1]


@pytest.mark.parametrize("change", [-1, 1, 1 << 20])
def test_a_prefix_that_lies(change: int) -> None:
    block = packed(b"abcd" * 100)
    lying = (400 + change).to_bytes(4, "little") + block[4:]
    with pytest.raises(CorruptDataError) as refused:
        unpacked_blocks([block, lying, block], Compression.LZ4)
    assert refused.value.offset == len(block) + 4


@given(st.lists(st.binary(max_size=300).map(lambda part: part * 9), min_size=1, max_size=5), st.data())
def test_changed_bytes_are_read_or_refused_as_one_by_one(payloads: list[bytes], data: st.DataObject) -> None:
    blocks = [packed(payload) for payload in payloads]
    check_changed_byte(blocks, Compression.LZ4, data)
