"""zstd for many blocks at a time gives what the codec gives block by block, whatever the frames look like."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from slatespark.errors import CorruptDataError
from slatespark.format import block_group, zstd_blocks
from slatespark.format.block_group import compress_blocks
from slatespark.format.codecs import Compression, decompress
from slatespark.format.zstd_blocks import content_sizes
from tests.unit.format.reading import check_changed_byte, taking_few_together, unpacked_blocks

_MIN_TOGETHER = block_group.MIN_TOGETHER
together = pytest.fixture(scope="module", autouse=True)(taking_few_together)

MAGIC = b"\x28\xb5\x2f\xfd"
PAYLOADS = [b"", b"x", b"ab" * 3000, bytes(5000), np.random.default_rng(1).bytes(4096), b"z" * 200_000]


def frame(payload: bytes) -> bytes:
    """A frame of another library."""
    packed = pa.Codec("zstd", compression_level=3).compress(payload, asbytes=True)
    assert isinstance(packed, bytes)
    return packed


def unpacked(frames: Sequence[bytes], limit_bytes: int = 1 << 30) -> list[bytes]:
    return unpacked_blocks(frames, Compression.ZSTD, limit_bytes)


def sizes_of(frames: Sequence[bytes]) -> list[int] | None:
    ends = np.cumsum([len(packed) for packed in frames])
    starts = ends - [len(packed) for packed in frames]
    found = content_sizes(np.frombuffer(b"".join(frames), np.uint8), starts, ends)
    return None if found is None else found.tolist()


def test_blocks_of_another_library() -> None:
    small = PAYLOADS[1:-1]
    assert sizes_of([frame(payload) for payload in small]) == [len(payload) for payload in small]
    assert unpacked([frame(payload) for payload in PAYLOADS]) == PAYLOADS


def test_frames_of_one_block_are_unpacked_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_group, "decompress", None)
    payloads = [*PAYLOADS[1:-1], b"ab" * 40_000]  # the size of the last one takes four bytes
    assert unpacked([frame(payload) for payload in payloads]) == payloads
    checked = zstandard.ZstdCompressor(write_checksum=True).compress(b"ab" * 3000)
    run = MAGIC + b"\x60" + (5000 - 256).to_bytes(2, "little") + (5000 << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"z"
    assert unpacked([checked, run, checked]) == [b"ab" * 3000, b"z" * 5000, b"ab" * 3000]


def test_another_library_reads_ours() -> None:
    ends = np.cumsum([len(payload) for payload in PAYLOADS[1:]])
    starts = ends - [len(payload) for payload in PAYLOADS[1:]]
    data = np.frombuffer(b"".join(PAYLOADS), np.uint8)
    frames = compress_blocks(data, starts, ends, Compression.ZSTD)
    assert frames == [frame(payload) for payload in PAYLOADS[1:]]


@pytest.mark.parametrize("limit", [1, 5000, 6001, 11_001, 1 << 20])
def test_as_many_blocks_as_the_limit_asks_for(limit: int) -> None:
    payloads = [b"ab" * 3000, bytes(5000), b"c" * 10]
    expected = [payload for number, payload in enumerate(payloads) if sum(map(len, payloads[:number])) < limit]
    assert unpacked([frame(payload) for payload in payloads], limit) == expected


def odd_frames() -> dict[str, bytes]:
    payload = b"some text, " * 500
    plain, writer = frame(payload), zstandard.ZstdCompressor
    return {
        "with a checksum": writer(write_checksum=True).compress(payload),
        "without a size": writer(write_content_size=False).compress(payload),
        "nothing": frame(b""),
        "two blocks": frame(np.random.default_rng(2).bytes(150_000)),
        "two frames": plain + plain,
        "more behind it": plain + b"\0",
        "cut": plain[:-1],
        "no frame": b"no frame at all",
        "its head only": plain[:5],
        "a size that is cut": MAGIC + b"\xe0" + bytes(4),
        "forged size": plain[:6] + bytes([plain[6] ^ 1]) + plain[7:],
        "of a dictionary": writer(dict_data=zstandard.ZstdCompressionDict(payload)).compress(payload),
        "skippable": b"\x50\x2a\x4d\x18\x04\0\0\0abcd",
    }


@pytest.mark.parametrize("kind", odd_frames())
@pytest.mark.parametrize("others", [0, 2])
def test_odd_frames_are_read_or_refused_as_one_by_one(kind: str, others: int) -> None:
    odd, plain = odd_frames()[kind], b"plain" * 100
    try:
        expected = decompress(odd, Compression.ZSTD)
    except CorruptDataError:
        with pytest.raises(CorruptDataError) as refused:
            unpacked([frame(plain)] * others + [odd])
        assert refused.value.offset == others * (len(frame(plain)) + 4)
        return
    assert unpacked([frame(plain)] * others + [odd]) == [plain] * others + [expected]


@given(st.lists(st.binary(max_size=300).map(lambda part: part * 9), min_size=1, max_size=5), st.data())
def test_changed_bytes_are_read_or_refused_as_one_by_one(payloads: list[bytes], data: st.DataObject) -> None:
    frames = [frame(payload) for payload in payloads]
    check_changed_byte(frames, Compression.ZSTD, data)


@pytest.mark.parametrize("count", [1, 9])
def test_few_blocks_are_unpacked_one_by_one(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lookup takes one block: to look at many at a time would take four times as long."""
    monkeypatch.setattr(block_group, "MIN_TOGETHER", _MIN_TOGETHER)
    monkeypatch.setattr(zstd_blocks, "content_sizes", None)
    assert unpacked([frame(b"abc")] * count) == [b"abc"] * count
    with pytest.raises(TypeError):
        unpacked([frame(b"abc")] * 10)
