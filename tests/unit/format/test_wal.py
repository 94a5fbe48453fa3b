from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

from slatespark.errors import CorruptDataError, UnsupportedFormatError
from slatespark.format.codecs import Compression, encode_section
from slatespark.format.index import SstIndex, encode_index_section
from slatespark.format.info import Footer, SstInfo, SstType, encode_footer, encode_info_section
from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.format.sst import SstBuilder
from slatespark.format.wal import decode_wal
from tests.support.row_values import columns_to_rows
from tests.support.wal_files import encode_wal

ROWS = [
    Row(b"b", 5, RowKind.PUT, b"one", 100),
    Row(b"c", 5, RowKind.DELETE, b"", 100),
    Row(b"a", 6, RowKind.MERGE, b"two", 101, 500),
    Row(b"b", 9, RowKind.PUT, b"", None),
]


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("block_size", [30, 65535])
def test_rows_round_trip(codec: Compression, block_size: int) -> None:
    data = encode_wal(ROWS, compression=codec, block_size=block_size)
    assert columns_to_rows(decode_wal(data)) == ROWS
    assert columns_to_rows(decode_wal(memoryview(data))) == ROWS
    assert encode_wal(rows_to_columns(ROWS), compression=codec, block_size=block_size) == data


def test_uncompressed_values_stay_in_the_file() -> None:
    data = encode_wal(ROWS)
    assert len(decode_wal(data).value_bytes) == len(data)


def test_decreasing_seqs_are_refused() -> None:
    with pytest.raises(CorruptDataError, match="Row 2"):
        decode_wal(encode_wal([Row(b"a", 5), Row(b"b", 5), Row(b"c", 4)]))


def test_a_compacted_file_is_refused() -> None:
    builder = SstBuilder()
    builder.add([rows_to_columns(ROWS[:1])], np.zeros(1, np.int64))
    with pytest.raises(CorruptDataError, match="WAL"):
        decode_wal(b"".join(builder.finish().parts))


@pytest.mark.parametrize("data", [b"", b"x", b"0123456789", b"\0" * 100])
def test_garbage_is_refused(data: bytes) -> None:
    with pytest.raises((CorruptDataError, UnsupportedFormatError)):
        decode_wal(data)


def v1_block(rows: list[Row]) -> bytes:
    """Encode a V1 block: keys share a prefix with the first key of the block, one offset per row."""
    entries, offsets = b"", []
    for row in rows:
        offsets.append(len(entries))
        shared = 0 if not entries else sum(1 for _ in _common(rows[0].key, row.key))
        entries += (
            struct.pack(">HH", shared, len(row.key) - shared)
            + row.key[shared:]
            + struct.pack(">QB", row.seq, row.flags)
        )
        entries += b"" if row.expire_ts_ms is None else struct.pack(">q", row.expire_ts_ms)
        entries += b"" if row.create_ts_ms is None else struct.pack(">q", row.create_ts_ms)
        if row.kind is not RowKind.DELETE:
            entries += struct.pack(">I", len(row.value)) + row.value
    return entries + struct.pack(f">{len(offsets)}HH", *offsets, len(offsets))


def _common(one: bytes, other: bytes) -> list[int]:
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return list(range(place))
    return list(range(min(len(one), len(other))))


def wal_of(block: bytes, *, version: int, kind: SstType = SstType.WAL) -> bytes:
    section = encode_section(block, Compression.NONE)
    none = np.zeros(1, np.int64)
    index = SstIndex(none, np.frombuffer(struct.pack(">Q", 5), np.uint8), np.array([0, 8], np.int64), none)
    index_section = encode_index_section(index, Compression.NONE)
    info = SstInfo(struct.pack(">Q", 5), None, len(section), len(index_section), len(section), 0, sst_type=kind)
    data = section + index_section
    return data + encode_info_section(info) + encode_footer(Footer(len(data), version))


def test_files_of_version_one_are_read() -> None:
    assert columns_to_rows(decode_wal(wal_of(v1_block(ROWS), version=1))) == ROWS


def test_unknown_versions_are_refused() -> None:
    with pytest.raises(UnsupportedFormatError):
        decode_wal(wal_of(v1_block(ROWS), version=3))


def test_a_wrong_checksum_of_the_info_is_refused() -> None:
    data = bytearray(encode_wal(ROWS))
    info_offset = int.from_bytes(data[-10:-2], "big")
    data[info_offset + 8] ^= 1
    assert zlib.crc32(data[info_offset:-14]) != int.from_bytes(data[-14:-10], "big")
    with pytest.raises(CorruptDataError, match="info"):
        decode_wal(bytes(data))
