from __future__ import annotations

import tracemalloc
import zlib

import pyarrow as pa
import pytest

from slatespark.errors import CorruptDataError, OptionError
from slatespark.format.codecs import (
    Compression,
    compress,
    decode_section,
    decompress,
    encode_section,
    parse_compression,
)

CODECS = list(Compression)
TEXT = b"the quick brown fox " * 200


@pytest.mark.parametrize("codec", CODECS)
def test_a_payload_above_the_limit_is_refused(codec: Compression) -> None:
    with pytest.raises(CorruptDataError, match="most"):
        decompress(compress(TEXT, codec), codec, max_bytes=len(TEXT) - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_a_wrong_checksum_is_refused(codec: Compression) -> None:
    section = bytearray(encode_section(TEXT, codec))
    section[0] ^= 1
    with pytest.raises(CorruptDataError, match="checksum"):
        decode_section(section, codec, what="it")


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec is not Compression.NONE])
@pytest.mark.parametrize(
    "packed", [b"\xff" * 40, b"\x05", b"\xff", b"\x28\xb5\x2f\xfd", b"\x10\x00\x00\x00", b"\xff" * 4]
)
def test_garbage_under_a_right_checksum_is_refused(codec: Compression, packed: bytes) -> None:
    section = packed + zlib.crc32(packed).to_bytes(4, "big")
    with pytest.raises(CorruptDataError):
        decode_section(section, codec, what="it")


@pytest.mark.parametrize("stated", [len(TEXT) + 1, len(TEXT) * 2, 1 << 31])
def test_lz4_with_an_overstated_length_is_refused(stated: int) -> None:
    packed = stated.to_bytes(4, "little") + compress(TEXT, Compression.LZ4)[4:]
    with pytest.raises(CorruptDataError):
        decompress(packed, Compression.LZ4)


def streamed_zstd(payload: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(payload)
    return bytes(sink.getvalue())


def test_damaged_zstd_frames_leave_no_memory_behind() -> None:
    cut = streamed_zstd(bytes(range(256)) * 1000)[:-9]
    tracemalloc.start()
    try:
        for _ in range(50):
            with pytest.raises(CorruptDataError):
                decompress(cut, Compression.ZSTD)
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held_bytes < 1 << 20


def test_zstd_frames_without_content_size_are_read() -> None:
    payload = TEXT * 100
    packed = streamed_zstd(payload)
    assert decompress(packed, Compression.ZSTD) == payload
    with pytest.raises(CorruptDataError, match="most"):
        decompress(packed, Compression.ZSTD, max_bytes=len(payload) - 1)
    with pytest.raises(CorruptDataError):
        decompress(packed[:-5], Compression.ZSTD)


def test_truncated_zlib_streams_are_refused() -> None:
    with pytest.raises(CorruptDataError, match="truncated"):
        decompress(zlib.compress(TEXT)[:-6], Compression.ZLIB)


def test_names() -> None:
    assert parse_compression(" Zstd ") is Compression.ZSTD
    assert parse_compression("none") is Compression.NONE
    with pytest.raises(OptionError, match="brotli"):
        parse_compression("brotli")


@pytest.mark.parametrize("codec", CODECS)
def test_highly_compressible_payloads_round_trip(codec: Compression) -> None:
    payload = bytes(1 << 22)
    assert decompress(compress(payload, codec), codec) == payload


def test_a_forged_length_is_refused() -> None:
    packed = b"\x28\xb5\x2f\xfd\xe0" + (1 << 29).to_bytes(8, "little") + bytes(8)
    for data, codec in (
        (b"\xff\xff\xff\xff\x01" + bytes(8), Compression.SNAPPY),
        ((1 << 29).to_bytes(4, "little") + bytes(8), Compression.LZ4),
        (packed, Compression.ZSTD),
    ):
        with pytest.raises(CorruptDataError):
            decompress(data, codec)
