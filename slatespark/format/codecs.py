"""Compression and checksums: how every section of an SST is framed.

    section  = payload' || u32be crc32(payload')
    payload' = compress(payload)

The SST info section is never compressed. Source: `docs/reference/format/sst.md`.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from functools import cache
from typing import Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from slatespark.errors import CorruptDataError, OptionError
from slatespark.kernels import lz4_sizes

Buffer: TypeAlias = bytes | bytearray | memoryview
_Name: TypeAlias = Literal["snappy", "lz4_raw", "zstd"]

CRC_BYTES: Final = 4
MAX_SECTION_BYTES: Final = 1 << 30  # far above any valid section: a bloom filter is a tenth of its keys

LZ4_PREFIX_BYTES: Final = 4  # u32 little endian, unlike everything else
ZSTD_LEVEL: Final = 3
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_CHUNK_BYTES: Final = 1 << 16
# Most output bytes per input byte: a copy of 64 bytes in three, a run of 255 in one, a block of 128 KiB in four.
MAX_EXPANSION: Final[dict[_Name, int]] = {"snappy": 22, "lz4_raw": 255, "zstd": 1 << 15}


class Compression(IntEnum):
    """Codec of a file. On disk, do not change."""

    NONE = 0
    SNAPPY = 1
    ZLIB = 2
    LZ4 = 3
    ZSTD = 4


def parse_compression(name: str) -> Compression:
    """Return the codec of that name, ignoring case; raises `OptionError` for an unknown name."""
    try:
        return Compression[name.strip().upper()]
    except KeyError:
        known = ", ".join(codec.name.lower() for codec in Compression)
        raise OptionError(f"Unknown compression {name!r}.", todo=f"Use one of {known}.") from None


@cache
def arrow_codec(name: _Name, level: int | None = None) -> pa.Codec:
    """Return a codec of pyarrow."""
    return pa.Codec(name, compression_level=level)


def compress(payload: Buffer, codec: Compression) -> bytes:
    """Return the compressed payload, without checksum."""
    if codec is Compression.NONE:
        return bytes(payload)
    if codec is Compression.SNAPPY:
        return _pack("snappy", payload)
    if codec is Compression.ZLIB:
        return zlib.compress(payload)
    if codec is Compression.LZ4:
        return len(payload).to_bytes(LZ4_PREFIX_BYTES, "little") + _pack("lz4_raw", payload)
    return _pack("zstd", payload, ZSTD_LEVEL)


def _pack(name: _Name, payload: Buffer, level: int | None = None) -> bytes:
    packed = arrow_codec(name, level).compress(payload, asbytes=True)
    assert isinstance(packed, bytes)
    return packed


def decompress(data: Buffer, codec: Compression, *, max_bytes: int = MAX_SECTION_BYTES) -> bytes:
    """Return the payload that `data` holds.

    Parameters
    ----------
    data : bytes of one section without its checksum
    max_bytes : a larger payload is refused before memory is allocated for it

    Raises
    ------
    CorruptDataError : `data` is malformed, or expands to more than `max_bytes`
    """
    try:
        if codec is Compression.NONE:
            _check_size(len(data), max_bytes)
            return bytes(data)
        if codec is Compression.SNAPPY:
            return _unpack("snappy", data, _snappy_size(data), max_bytes)
        if codec is Compression.ZLIB:
            return _unpack_zlib(data, max_bytes)
        if codec is Compression.LZ4:
            return _unpack_lz4(data, max_bytes)
        return _unpack_zstd(data, max_bytes)
    except (OSError, ValueError, EOFError, zlib.error, pa.ArrowException) as exc:
        raise CorruptDataError(f"{codec.name.lower()} data cannot be decompressed: {exc}.", offset=0) from exc


def _check_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise CorruptDataError(f"A section has {size} bytes, expected at most {max_bytes}.", offset=0)


def _unpack(name: _Name, data: Buffer, size: int, max_bytes: int) -> bytes:
    _check_size(size, max_bytes)
    if size > len(data) * MAX_EXPANSION[name]:  # before memory is allocated for a forged length
        raise ValueError(f"{len(data)} bytes cannot hold {size}")
    if size == 0:  # the codecs disagree on empty payloads
        return b""
    payload = arrow_codec(name).decompress(data, decompressed_size=size, asbytes=True)
    assert isinstance(payload, bytes)
    return payload


def _snappy_size(data: Buffer) -> int:
    size = 0
    for position in range(min(len(data), 5)):
        size |= (data[position] & 0x7F) << 7 * position
        if data[position] < 0x80:
            return size
    raise ValueError("the length prefix is truncated")


def _unpack_zlib(data: Buffer, max_bytes: int) -> bytes:
    inflater = zlib.decompressobj()
    payload = inflater.decompress(data, max_bytes + 1)
    _check_size(len(payload), max_bytes)
    if not inflater.eof:
        raise ValueError("the stream is truncated")
    return payload


def _unpack_lz4(data: Buffer, max_bytes: int) -> bytes:
    if len(data) < LZ4_PREFIX_BYTES:
        raise ValueError("the length prefix is truncated")
    size = int.from_bytes(data[:LZ4_PREFIX_BYTES], "little")
    block = memoryview(data)[LZ4_PREFIX_BYTES:]
    payload = _unpack("lz4_raw", block, size, max_bytes)
    if size and _lz4_size(block) != size:
        # The library does not report how much it wrote; the rest of the buffer is left unset.
        raise ValueError(f"the length prefix is {size}, the block holds less")
    return payload


def _lz4_size(block: memoryview) -> int:
    """Return how many bytes a block of LZ4 expands to; -1 if it is malformed."""
    ends = np.array([len(block)], np.int64)
    return int(lz4_sizes(np.frombuffer(block, np.uint8), ends - len(block), ends)[0])


def _unpack_zstd(data: Buffer, max_bytes: int) -> bytes:
    size = _zstd_size(data)
    if size is not None:
        return _unpack("zstd", data, size, max_bytes)
    payload, chunk = bytearray(), memoryview(bytearray(_CHUNK_BYTES))
    with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data)), "zstd") as stream:
        while count := stream.readinto(chunk):  # `read` leaks its memory when the stream is damaged
            _check_size(len(payload) + count, max_bytes)
            payload += chunk[:count]
    return bytes(payload)


def _zstd_size(data: Buffer) -> int | None:
    """Return the content size in the frame header, None if absent. Source: RFC 8878, section 3.1.1."""
    if len(data) < 5 or bytes(data[:4]) != _ZSTD_MAGIC:
        raise ValueError("not a zstd frame")
    descriptor = data[4]
    single_segment = descriptor >> 5 & 1
    width = (single_segment, 2, 4, 8)[descriptor >> 6]
    if width == 0:
        return None
    start = 5 + (1 - single_segment) + (0, 1, 2, 4)[descriptor & 3]
    if len(data) < start + width:
        raise ValueError("the frame header is truncated")
    return int.from_bytes(data[start : start + width], "little") + (256 if width == 2 else 0)


def encode_section(payload: Buffer, codec: Compression) -> bytes:
    """Return a section: the compressed payload and its checksum."""
    packed = compress(payload, codec)
    return packed + zlib.crc32(packed).to_bytes(CRC_BYTES, "big")


def check_crc(data: Buffer, *, what: str) -> memoryview:
    """Verify the checksum and return the bytes before it.

    Parameters
    ----------
    data : bytes of one section
    what : its name for error messages, "index section"
    """
    view = memoryview(data)
    if len(view) <= CRC_BYTES:
        raise CorruptDataError(f"{what} has {len(view)} bytes, expected more than {CRC_BYTES}.", offset=0)
    body = view[:-CRC_BYTES]
    stored, found = int.from_bytes(view[-CRC_BYTES:], "big"), zlib.crc32(body)
    if stored != found:
        raise CorruptDataError(
            f"{what} has checksum {found:08x}, expected {stored:08x}.",
            why="The stored bytes were changed.",
            offset=0,
        )
    return body


def decode_section(data: Buffer, codec: Compression, *, what: str) -> bytes:
    """Verify the checksum of a section and return its payload.

    Parameters
    ----------
    data : bytes of one section, checksum included
    what : its name for error messages, "index section"
    """
    body = check_crc(data, what=what)
    try:
        return decompress(body, codec, max_bytes=MAX_SECTION_BYTES)
    except CorruptDataError as exc:
        raise CorruptDataError(f"{what}: {exc.args[0]}", offset=exc.offset) from exc
