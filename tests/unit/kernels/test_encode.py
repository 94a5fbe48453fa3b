from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slatespark.errors import InternalError, InvalidRequestError
from slatespark.kernels.columns import HAS_EXPIRE, TOMBSTONE
from tests.unit.kernels.rows import Version, all_rows, block, columns, delete, operand, packed, put, v2_entry, versions


def blocks_of(encoded: Any) -> list[bytes]:
    return [
        encoded.data[start:end].tobytes()
        for start, end in zip(encoded.starts.tolist(), encoded.ends.tolist(), strict=True)
    ]


def test_one_block_by_hand(kernels: Any) -> None:
    rows = [
        put(b"apple", 9, b"red", create_ts=7),
        operand(b"apple", 3, b""),
        delete(b"apricot", 2**64 - 1),
        put(b"b", 0),
    ]
    encoded = kernels.encode_blocks([columns(*rows)], np.arange(4), block_size=4096)
    entries = [v2_entry(row, shared) for row, shared in zip(rows, [0, 5, 2, 0], strict=True)]
    assert blocks_of(encoded) == [block(b"".join(entries), 0)]
    assert encoded.first_rows.tolist() == [0]


def test_a_tombstone_is_written_without_value_and_expiry(kernels: Any) -> None:
    rows = columns(Version(b"k", 1, b"value", TOMBSTONE | HAS_EXPIRE, 0, 5))
    encoded = kernels.encode_blocks([rows], np.arange(1), block_size=100)
    assert blocks_of(encoded) == [block(v2_entry(delete(b"k", 1)), 0)]


def test_rows_of_several_sources(kernels: Any) -> None:
    first, second = columns(put(b"b", 1), put(b"d", 1)), columns(put(b"a", 2), put(b"c", 2))
    rows = np.array(packed(1, 0) + packed(0, 0) + packed(1, 1) + packed(0, 1), np.int64)
    encoded = kernels.encode_blocks([first, second], rows, block_size=4096)
    decoded = kernels.decode_blocks(encoded.data, encoded.starts, encoded.ends, version=2)
    assert versions(decoded) == [put(b"a", 2), put(b"b", 1), put(b"c", 2), put(b"d", 1)]


def test_restart_points(kernels: Any) -> None:
    rows = columns(*(put(b"key%d" % i, 1, b"") for i in range(5)))
    (data,) = blocks_of(kernels.encode_blocks([rows], np.arange(5), block_size=4096, restart_interval=2))
    entries = [v2_entry(put(b"key%d" % i, 1, b""), 0 if i % 2 == 0 else 3) for i in range(5)]
    offsets = [len(b"".join(entries[:i])) for i in (0, 2, 4)]
    assert data == block(b"".join(entries), *offsets)


@pytest.mark.parametrize("spare", [0, -1])
def test_a_row_that_just_fits_and_one_that_does_not(kernels: Any, spare: int) -> None:
    rows = columns(put(b"k1", 1), put(b"k2", 1))
    size = len(block(v2_entry(put(b"k1", 1)) + v2_entry(put(b"k2", 1), 1), 0))
    encoded = kernels.encode_blocks([rows], np.arange(2), block_size=size + spare)
    assert len(encoded) == (1 if spare == 0 else 2)
    if spare < 0:  # the second block starts with a whole key
        assert blocks_of(encoded)[1] == block(v2_entry(put(b"k2", 1)), 0)
        assert encoded.first_rows.tolist() == [0, 1]


def test_a_restart_costs_two_bytes_more(kernels: Any) -> None:
    rows = columns(put(b"a", 1), put(b"b", 1))
    size = len(block(v2_entry(put(b"a", 1)) + v2_entry(put(b"b", 1)), 0))
    assert len(kernels.encode_blocks([rows], np.arange(2), block_size=size, restart_interval=2)) == 1
    assert len(kernels.encode_blocks([rows], np.arange(2), block_size=size, restart_interval=1)) == 2
    assert len(kernels.encode_blocks([rows], np.arange(2), block_size=size + 2, restart_interval=1)) == 1


def test_an_oversized_row_gets_a_block_of_its_own(kernels: Any) -> None:
    rows = columns(put(b"a", 3), put(b"b", 2, b"v" * 70_000), put(b"c" * 70_000, 1), put(b"d", 1))
    encoded = kernels.encode_blocks([rows], np.arange(4), block_size=65536)
    assert encoded.first_rows.tolist() == [0, 1, 2, 3]
    decoded = kernels.decode_blocks(encoded.data, encoded.starts, encoded.ends, version=2)
    assert versions(decoded) == versions(rows)


def test_room_for_a_checksum_after_each_block(kernels: Any) -> None:
    rows = columns(*(put(b"%d" % i, 1) for i in range(9)))
    encoded = kernels.encode_blocks([rows], np.arange(9), block_size=40)
    assert (encoded.starts[1:] == encoded.ends[:-1] + 4).all()
    assert len(encoded.data) == encoded.ends[-1] + 4
    assert all(encoded.data[end : end + 4].tobytes() == bytes(4) for end in encoded.ends.tolist())


def test_no_rows(kernels: Any) -> None:
    encoded = kernels.encode_blocks([], np.zeros(0, np.int64), block_size=4096)
    assert len(encoded) == len(encoded.data) == len(encoded.first_rows) == 0


def test_invalid_arguments(kernels: Any) -> None:
    rows = columns(put(b"a", 1))
    for block_size in (0, 65537):
        with pytest.raises(InvalidRequestError, match=str(block_size)):
            kernels.encode_blocks([rows], all_rows([rows]), block_size=block_size)
    with pytest.raises(InvalidRequestError, match="interval"):
        kernels.encode_blocks([rows], all_rows([rows]), block_size=1, restart_interval=0)
    for flags in (0x09, 0x10):
        with pytest.raises(InternalError, match=f"{flags:#04x}"):
            kernels.encode_blocks([columns(Version(b"k", 1, b"", flags))], np.arange(1), block_size=9)
    with pytest.raises(InternalError, match="source 0"):
        kernels.encode_blocks([rows], np.array([1]), block_size=9)
