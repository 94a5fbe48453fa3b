# mypy: untyped-calls-exclude="slatespark.format._generated"

from __future__ import annotations

import struct
import zlib
from dataclasses import replace

import flatbuffers
import numpy as np
import pytest

from slatespark.errors import CorruptDataError, UnsupportedFormatError
from slatespark.format._generated import BlockMeta, SsTableIndex
from slatespark.format.building import put_offsets
from slatespark.format.codecs import Compression, encode_section
from slatespark.format.index import SstIndex, encode_index_section
from slatespark.format.info import (
    FOOTER_BYTES,
    Footer,
    SstInfo,
    SstType,
    decode_footer,
    decode_info_section,
    encode_footer,
    encode_info_section,
)
from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.format.sst import SstBuilder
from slatespark.format.wal import OLD_FENCE_BYTES, decode_first_seq, decode_last_block, decode_wal, decode_wal_files
from tests.support.older_databases import OLDER
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


# --- files of old clients ---------------------------------------------------------------------------------------------


def old_file(number: int, name: str = "0.10-wal") -> bytes:
    return (OLDER / name / "wal" / f"{number:020d}.sst").read_bytes()


def info_of_file(data: bytes) -> SstInfo:
    return decode_info_section(data[decode_footer(data[-FOOTER_BYTES:]).info_offset : -FOOTER_BYTES])


def with_info(data: bytes, info: SstInfo, version: int = 1) -> bytes:
    """The file with another info and version, under a right checksum."""
    at = decode_footer(data[-FOOTER_BYTES:]).info_offset
    return data[:at] + encode_info_section(info) + encode_footer(Footer(at, version))


@pytest.mark.parametrize(("name", "number"), [("0.10-wal", 1), ("0.10-wal", 6), ("0.13-fences", 7)])
def test_a_fence_of_an_old_client_has_no_rows(name: str, number: int) -> None:
    data = old_file(number, name)
    assert len(data) <= OLD_FENCE_BYTES
    assert len(decode_wal(data)) == 0
    assert decode_first_seq(data, len(data)) is None
    assert decode_last_block(data, len(data)) is None
    assert decode_wal_files([data, encode_wal(ROWS)]) is None


def test_rows_of_an_old_client_come_in_commit_order() -> None:
    rows = columns_to_rows(decode_wal(old_file(2)))
    assert [(row.key, row.seq) for row in rows] == [
        (b"c", 1),
        (b"a", 2),
        (b"b", 3),
        (b"a", 4),
        (b"d", 4),
        (b"e", 4),
        (b"b", 5),
    ]
    assert [row.kind for row in rows] == [RowKind.PUT] * 3 + [RowKind.DELETE] + [RowKind.PUT] * 3
    many = columns_to_rows(decode_wal(old_file(3)))
    assert [row.seq for row in many] == list(range(6, 406))
    assert [row.key for row in many] == [b"k%03d" % (number * 7 % 400) for number in range(400)]


def test_a_key_of_an_old_client_is_no_sequence_number() -> None:
    data = old_file(5)
    assert info_of_file(data).first_entry == b"12345678"
    assert decode_first_seq(data, len(data)) is None
    assert decode_last_block(data, len(data)) is None
    assert decode_wal_files([data]) is None


def test_only_old_files_may_be_like_those_of_the_trees() -> None:
    rows, fence = old_file(2), old_file(1)
    assert len(decode_wal(with_info(rows, info_of_file(rows)))) == 7
    with pytest.raises(CorruptDataError, match="expected a WAL file"):
        decode_wal(with_info(rows, info_of_file(rows), version=2))
    with pytest.raises(CorruptDataError, match="empty"):  # a file with a first row has a block
        decode_wal(with_info(fence, replace(info_of_file(fence), first_entry=b"a")))
    with pytest.raises(CorruptDataError, match="empty"):  # a fence of a newer client has no bytes
        decode_wal(with_info(fence, replace(info_of_file(fence), sst_type=SstType.WAL), version=2))


@pytest.mark.parametrize("number", [1, 2, 5])
def test_damage_in_an_old_file_is_refused(number: int) -> None:
    data = old_file(number)
    for at in range(len(data) - 2):  # then the version of the blocks, which no checksum covers
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        with pytest.raises((CorruptDataError, UnsupportedFormatError)):
            decode_wal(bytes(damaged))
    for length in range(len(data)):
        with pytest.raises((CorruptDataError, UnsupportedFormatError)):
            decode_wal(data[:length])


def test_an_old_file_out_of_key_order_is_refused() -> None:
    section = encode_section(v1_block([Row(b"b", 1), Row(b"a", 2)]), Compression.NONE)
    none = np.zeros(1, np.int64)
    index = encode_index_section(SstIndex(none, np.zeros(0, np.uint8), np.zeros(2, np.int64), none), Compression.NONE)
    info = SstInfo(b"a", None, len(section), len(index), len(section), 0)
    data = section + index
    with pytest.raises(CorruptDataError):
        decode_wal(data + encode_info_section(info) + encode_footer(Footer(len(data), 1)))


# --- damage -----------------------------------------------------------------------------------------------------------


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


# --- several files together -------------------------------------------------------------------------------------------

LATER = [Row(b"a", 10, RowKind.DELETE, b"", 102), Row(b"d", 11, RowKind.MERGE, b"x" * 40, 103, 900)]
LAST = [Row(b"%03d" % number, 12 + number // 3, value=b"v" * number) for number in range(60)]


def padded_wal(seq: int, padding: int, stated: int) -> bytes:
    """Return a file of one block of one row, with bytes behind it; `stated` is the length of the block in the index."""
    plain = encode_wal([Row(b"k", seq, value=b"v")])
    section = plain[: int.from_bytes(plain[-10:-2], "big")]
    block = section[: len(section) - len(encode_index_section(one_block(seq), Compression.NONE))]
    builder = flatbuffers.Builder(64)
    first_key = builder.CreateByteVector(struct.pack(">Q", seq))
    BlockMeta.Start(builder)
    BlockMeta.AddFirstKey(builder, first_key)
    BlockMeta.AddEncodedLen(builder, len(block) + stated)
    metas = put_offsets(builder, [BlockMeta.End(builder)])
    SsTableIndex.Start(builder)
    SsTableIndex.AddBlockMeta(builder, metas)
    builder.Finish(SsTableIndex.End(builder))
    index = encode_section(bytes(builder.Output()), Compression.NONE)
    data_bytes = len(block) + padding
    info = SstInfo(struct.pack(">Q", seq), None, data_bytes, len(index), data_bytes, 0, sst_type=SstType.WAL)
    data = block + bytes(padding) + index
    return data + encode_info_section(info) + encode_footer(Footer(len(data), 2))


def one_block(seq: int) -> SstIndex:
    none = np.zeros(1, np.int64)
    return SstIndex(none, np.frombuffer(struct.pack(">Q", seq), np.uint8), np.array([0, 8], np.int64), none)


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("block_size", [30, 65535])
def test_files_together_have_the_rows_of_each(codec: Compression, block_size: int) -> None:
    files = [encode_wal(rows, compression=codec, block_size=block_size) for rows in (ROWS, LATER, LAST)]
    for few in (files, files[:1], files[1:]):
        rows = decode_wal_files(few)
        assert rows is not None
        assert columns_to_rows(rows) == [row for data in few for row in columns_to_rows(decode_wal(data))]


def test_files_of_version_one_and_padded_ones_together() -> None:
    old = [wal_of(v1_block(rows), version=1) for rows in (ROWS, LATER)]
    rows = decode_wal_files(old)
    assert rows is not None
    assert columns_to_rows(rows) == [*ROWS, *LATER]
    padded = [padded_wal(seq, padding=20, stated=0) for seq in (3, 4)]
    rows = decode_wal_files([*padded, encode_wal(ROWS)])
    assert rows is not None
    assert columns_to_rows(rows) == [Row(b"k", 3, value=b"v"), Row(b"k", 4, value=b"v"), *ROWS]


def test_files_that_differ_are_not_decoded_together() -> None:
    assert decode_wal_files([encode_wal(ROWS), encode_wal(LATER, compression=Compression.ZSTD)]) is None
    assert decode_wal_files([wal_of(v1_block(ROWS), version=1), encode_wal(LATER)]) is None


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_damaged_file_among_others_is_refused(place: int) -> None:
    files = [encode_wal(rows) for rows in (ROWS, LATER, LAST)]
    for at in range(0, len(files[place]), 3):
        damaged = bytearray(files[place])
        damaged[at] ^= 0x10
        with pytest.raises((CorruptDataError, UnsupportedFormatError)) as caught:
            decode_wal(damaged)
        with pytest.raises(caught.type):
            decode_wal_files([damaged if number == place else data for number, data in enumerate(files)])


def test_a_block_that_reaches_into_what_follows_it_is_refused() -> None:
    wrong = padded_wal(3, padding=4, stated=5)
    with pytest.raises(CorruptDataError, match="overlaps"):
        decode_wal(wrong)
    with pytest.raises(CorruptDataError, match="overlaps"):
        decode_wal_files([wrong, encode_wal(ROWS)])


@pytest.mark.parametrize("seq", [8, 9])
def test_files_whose_seqs_do_not_grow_are_refused(seq: int) -> None:
    files = [encode_wal(ROWS), encode_wal([Row(b"x", seq)])]
    for few in (files, [*files, encode_wal(LAST)]):
        with pytest.raises(CorruptDataError):
            decode_wal_files(few)
