from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slatespark.errors import CorruptDataError, InternalError, UnsupportedFormatError
from slatespark.kernels import damage
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, TOMBSTONE
from tests.unit.kernels.rows import Version, block, delete, extents, operand, put, v1_entry, v2_entry, versions

ROWS = [
    put(b"apple", 9, b"red", create_ts=7),
    operand(b"apple", 3, b"", expire_ts=-5, create_ts=1 << 62),
    delete(b"apricot", 2**64 - 1, create_ts=4),
    put(b"b", 0, b"x" * 100, expire_ts=2**63 - 1),
]
SHARED_V2 = [0, 5, 2, 0]
SHARED_V1 = [0, 5, 2, 0]


def v2_block(rows: list[Version], shared: list[int]) -> bytes:
    entries = [v2_entry(row, count) for row, count in zip(rows, shared, strict=True)]
    return block(b"".join(entries), 0)


def v1_block(rows: list[Version], shared: list[int]) -> bytes:
    entries = [v1_entry(row, count) for row, count in zip(rows, shared, strict=True)]
    return block(b"".join(entries), *(sum(map(len, entries[:i])) for i in range(len(entries))))


BLOCKS = {1: v1_block(ROWS, SHARED_V1), 2: v2_block(ROWS, SHARED_V2)}


@pytest.mark.parametrize("version", [1, 2])
def test_every_kind_of_row(kernels: Any, version: int) -> None:
    data, starts, ends = extents(BLOCKS[version])
    rows = kernels.decode_blocks(data, starts, ends, version=version)
    assert versions(rows) == ROWS
    assert rows.value_bytes is data
    assert rows.key_offsets.dtype == rows.value_starts.dtype == np.int64
    assert rows.seqs.dtype == np.uint64


@pytest.mark.parametrize("version", [1, 2])
def test_blocks_in_any_order_with_gaps_and_read_only(kernels: Any, version: int) -> None:
    data = np.frombuffer(b"??" + BLOCKS[version] + b"crc!" + BLOCKS[version], np.uint8)
    size = len(BLOCKS[version])
    starts = np.array([size + 6, 2], np.int64)
    rows = kernels.decode_blocks(data, starts, starts + size, version=version, ordered=False)
    assert versions(rows) == ROWS * 2


def test_no_blocks(kernels: Any) -> None:
    rows = kernels.decode_blocks(*extents(), version=2)
    assert len(rows) == 0
    assert rows.key_offsets.tolist() == [0]


@pytest.mark.parametrize("version", [1, 2])
def test_a_tombstone_loses_its_expiry(kernels: Any, version: int) -> None:
    row = Version(b"k", 5, b"", TOMBSTONE | HAS_EXPIRE | HAS_CREATE, 11, 22)
    entry = v1_entry(row) if version == 1 else v2_entry(row)
    rows = kernels.decode_blocks(*extents(block(entry, 0)), version=version)
    assert versions(rows) == [Version(b"k", 5, b"", TOMBSTONE | HAS_CREATE, 11, 0)]


def test_v2_lengths_of_several_bytes(kernels: Any) -> None:
    key, value = bytes(range(200)), b"v" * 20_000
    first = b"\0" + b"\xc8\x01" + b"\xa0\x9c\x01" + key + value + bytes(9)
    second = b"\xc7\x01" + b"\x01" + b"\0" + b"\xff" + bytes(9)
    rows = kernels.decode_blocks(*extents(block(first + second, 0)), version=2)
    assert versions(rows) == [Version(key, 0, value), Version(key[:199] + b"\xff", 0)]


def test_v2_longest_varint(kernels: Any) -> None:
    # 0 in five bytes is a valid u32; one more high bit is not.
    assert len(kernels.decode_blocks(*extents(block(b"\x80\x80\x80\x80\0\x01\0k" + bytes(9), 0)), version=2)) == 1
    with pytest.raises(CorruptDataError, match="varint"):
        kernels.decode_blocks(*extents(block(b"\x80\x80\x80\x80\x10\x01\0k" + bytes(9), 0)), version=2)


@pytest.mark.parametrize("interval", [1, 4])
def test_v2_other_restart_intervals(kernels: Any, interval: int) -> None:
    entries, offsets = b"", []
    rows = [put(b"key%02d" % i, 100 - i, b"") for i in range(20)]
    for i, row in enumerate(rows):
        if i % interval == 0:
            offsets.append(len(entries))
        entries += v2_entry(row, 0 if i % interval == 0 else 4 if i % 10 else 3)
    assert versions(kernels.decode_blocks(*extents(block(entries, *offsets)), version=2)) == rows


@pytest.mark.parametrize("version", [1, 2])
def test_more_rows_and_longer_keys_than_guessed(kernels: Any, version: int) -> None:
    rows = [put(b"%03d" % i + b"k" * 100, i, b"") for i in range(200)]
    blocks = [v1_block(rows[:100], [0] * 100), v1_block(rows[100:], [0] * 100)]
    if version == 2:
        blocks = [v2_block(rows[:100], [0] * 100), v2_block(rows[100:], [0] * 100)]
    assert versions(kernels.decode_blocks(*extents(*blocks), version=version)) == rows


@pytest.mark.parametrize("version", [1, 2])
def test_the_expansion_of_keys_is_limited(kernels: Any, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damage, "KEY_BYTES_FLOOR", 100)
    monkeypatch.setattr(damage, "KEY_BYTES_PER_BLOCK_BYTE", 1)
    rows = [put(b"k" * 100 + bytes([i]), i, b"") for i in range(20)]
    make = v1_block if version == 1 else v2_block
    with pytest.raises(CorruptDataError, match="expand"):
        kernels.decode_blocks(*extents(make(rows, [0] + [100] * 19)), version=version)


K, L = put(b"k", 5, b""), put(b"l", 5, b"")
ONE_V2, ONE_V1 = v2_entry(K), v1_entry(K)


@pytest.mark.parametrize(
    ("version", "data", "offset", "message"),
    [
        (2, b"", 0, "too few"),
        (2, b"\0", 0, "too few"),
        (2, ONE_V2 + b"\0\0", 13, "no row"),
        (2, b"\0\0\0\1", 2, "offset table"),
        (2, ONE_V2 + b"\xff\xff", 13, "offset table"),
        (2, block(ONE_V2, 1), 13, "offset 1 "),
        (2, block(ONE_V2, 0, 0), 15, "offset 0 "),
        (2, block(ONE_V2, 0, 13), 15, "offset 13 "),
        (2, block(ONE_V2[:-1], 0), 0, "past the end"),
        (2, block(ONE_V2[:-1] + b"\4", 0), 0, "past the end"),
        (2, block(b"\0\0\x7f" + bytes(20), 0), 0, "past the end"),
        (2, block(b"\0\xff\xff\xff\xff\x0f\0" + bytes(20), 0), 0, "past the end"),
        (2, block(ONE_V2 + b"\0", 0), 13, "past the end"),
        (2, block(b"\xff" * 20, 0), 0, "varint"),
        (2, block(b"\0\0" + b"\x80" * 11, 0), 0, "varint"),
        (2, block(b"\1" + ONE_V2[1:], 0), 0, "restart"),
        (2, block(ONE_V2 + v2_entry(L)[:0] + b"\2\0\0" + bytes(9), 0), 13, "shares 2"),
        (2, block(ONE_V2[:-1] + b"\x09", 0), 0, "flags 0x09"),
        (2, block(ONE_V2[:-1] + b"\x10", 0), 0, "flags 0x10"),
        (2, block(v2_entry(Version(b"k", 1, b"v", 1)), 0), 0, "tombstone"),
        (2, block(v2_entry(L) + ONE_V2, 0), 13, "order"),
        (2, block(ONE_V2 * 2, 0), 13, "order"),
        (2, block(ONE_V2 + v2_entry(put(b"k", 6, b""), 1), 0), 13, "order"),
        (2, block(v2_entry(put(b"kk", 1, b"")) + ONE_V2, 0), 14, "order"),
        (1, ONE_V1 + b"\0\0", 18, "no row"),
        (1, block(ONE_V1, 1), 18, "offset 1 "),
        (1, block(ONE_V1, 0, 0), 20, "offset 0 "),
        (1, block(ONE_V1, 0, 18), 18, "past the end"),
        (1, block(ONE_V1[:-1], 0), 0, "past the end"),
        (1, block(ONE_V1[:-1] + b"\1", 0), 0, "past the end"),
        (1, block(ONE_V1 + b"\0", 0), 18, "1 bytes follow"),
        (1, block(b"\0\1" + ONE_V1[2:], 0), 0, "shares 1"),
        (1, block(ONE_V1[:13] + b"\x19" + ONE_V1[14:], 0), 0, "flags 0x19"),
        (1, block(v1_entry(L) + ONE_V1, 0, 18), 18, "order"),
        (1, block(v1_entry(L) + v1_entry(L, 1), 0, 18), 18, "order"),
    ],
)
def test_damage(kernels: Any, version: int, data: bytes, offset: int, message: str) -> None:
    with pytest.raises(CorruptDataError) as caught:
        kernels.decode_blocks(*extents(data), version=version)
    assert caught.value.args[0].startswith("Block 0: ")
    assert message in caught.value.args[0]
    assert caught.value.offset == offset


def test_damage_in_a_later_block(kernels: Any) -> None:
    data, starts, ends = extents(block(ONE_V2, 0), block(v2_entry(L), 0), block(ONE_V2, 0))
    with pytest.raises(CorruptDataError, match="Block 2") as caught:
        kernels.decode_blocks(data, starts, ends, version=2)
    assert caught.value.offset == starts[2]
    assert len(kernels.decode_blocks(data, starts, ends, version=2, ordered=False)) == 3


@pytest.mark.parametrize(("start", "end"), [(-1, 4), (5, 4), (0, 10)])
def test_extents_outside_the_data(kernels: Any, start: int, end: int) -> None:
    with pytest.raises(CorruptDataError, match=f"\\[{start}, {end}\\)"):
        kernels.decode_blocks(np.zeros(9, np.uint8), np.array([start]), np.array([end]), version=2)


def test_invalid_calls(kernels: Any) -> None:
    data, starts, ends = extents(block(ONE_V2, 0))
    with pytest.raises(UnsupportedFormatError, match="version"):
        kernels.decode_blocks(data, starts, ends, version=3)
    with pytest.raises(InternalError, match="block starts"):
        kernels.decode_blocks(data, starts, ends[:0], version=2)
