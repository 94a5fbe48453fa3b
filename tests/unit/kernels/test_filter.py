from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slatespark.errors import CorruptDataError, InvalidRequestError
from slatespark.kernels.siphash import hash_key
from tests.unit.kernels.rows import all_rows, columns, put

# A thousand rows written by the real client with default settings, see tests/data/slatedb-0.17/README.md.
DATA = Path(__file__).parents[2] / "data" / "slatedb-0.17" / "default_bloom" / "compacted"


def hashes_of(kernels: Any, keys: list[bytes]) -> list[int]:
    rows = columns(*(put(key, 1) for key in keys))
    found = kernels.hash_keys([rows], all_rows([rows]))
    assert found.dtype == np.uint64
    hashes: list[int] = found.tolist()
    return hashes


def test_hashes_are_those_of_cpython(kernels: Any) -> None:
    # CPython hashes bytes with SipHash-1-3, and key 0/0 if PYTHONHASHSEED is 0; only b"" always hashes to 0.
    if sys.hash_info.algorithm != "siphash13":
        pytest.skip("this Python hashes differently")
    keys = [bytes((7 * i + length) % 256 for i in range(length)) for length in range(1, 70)]
    program = f"print(*(hash(key) for key in {keys!r}))"
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    answer = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, check=True, text=True
    )
    expected = [int(text) % (1 << 64) for text in answer.stdout.split()]
    assert hashes_of(kernels, keys) == expected
    assert [hash_key(key) for key in keys] == expected


def test_hash_of_the_empty_key(kernels: Any) -> None:
    assert hashes_of(kernels, [b""]) == [hash_key(b"")] == [0xD1FBA762150C532C]


def test_length_counts_modulo_256(kernels: Any) -> None:
    keys = [b"x" * 255, b"x" * 256, b"x" * 257]
    assert hashes_of(kernels, keys) == [hash_key(key) for key in keys]


class ClientSst:
    """Extract the needed sections of the client's file, by offset."""

    def __init__(self) -> None:
        (path,) = DATA.iterdir()
        self.data = path.read_bytes()
        self.info_at = int.from_bytes(self.data[-10:-2], "big")
        index_at, index_size, filter_at, filter_size = (self._info_field(slot) for slot in (6, 8, 10, 12))
        self.index = np.frombuffer(self.data[index_at : index_at + index_size - 4], np.uint8)
        # u16 count, u16 name length, name, u64 data length, data; then the checksum
        self.filter = self.data[filter_at : filter_at + filter_size - 4]
        self.blocks_end = filter_at

    def _info_field(self, slot: int) -> int:
        table = self.info_at + int.from_bytes(self.data[self.info_at : self.info_at + 4], "little")
        vtable = table - int.from_bytes(self.data[table : table + 4], "little", signed=True)
        at = table + int.from_bytes(self.data[vtable + slot : vtable + slot + 2], "little")
        return int.from_bytes(self.data[at : at + 8], "little")


def test_the_clients_filter_bit_for_bit(kernels: Any) -> None:
    sst = ClientSst()
    whole = np.zeros(1, np.int64), np.array([len(sst.index)], np.int64)
    _, offsets, key_bytes, key_offsets, _ = kernels.decode_indexes(sst.index, *whole)
    ends = np.append(offsets[1:], sst.blocks_end) - 4
    rows = kernels.decode_blocks(np.frombuffer(sst.data, np.uint8), offsets, ends, version=2)
    assert len(rows) == 1000
    bloom = kernels.build_bloom(kernels.hash_keys([rows], all_rows([rows])), 10)
    assert sst.filter == b"\0\1" + b"\0\3_bf" + len(bloom).to_bytes(8, "big") + bloom
    encoded = kernels.encode_blocks([rows], all_rows([rows]), block_size=4096)
    assert (encoded.starts.tolist(), encoded.ends.tolist()) == (offsets.tolist(), ends.tolist())
    for start, end in zip(offsets.tolist(), ends.tolist(), strict=True):
        assert encoded.data[start:end].tobytes() == sst.data[start:end]
    found_bytes, found_offsets = kernels.separator_keys([rows], all_rows([rows]), encoded.first_rows)
    assert found_bytes.tobytes() == key_bytes.tobytes()
    assert found_offsets.tolist() == key_offsets.tolist()


def test_no_false_negatives_and_few_false_positives(kernels: Any) -> None:
    present = np.array([hash_key(b"key%d" % i) for i in range(2000)], np.uint64)
    absent = np.array([hash_key(b"other%d" % i) for i in range(2000)], np.uint64)
    bloom = kernels.build_bloom(present, 10)
    assert kernels.probe_bloom(bloom, present).all()
    assert kernels.probe_bloom(memoryview(bloom), absent).sum() < 100


@pytest.mark.parametrize(("bits_per_key", "probes"), [(1, 0), (2, 1), (10, 6), (12, 8), (100, 69)])
def test_probe_counts_and_sizes(kernels: Any, bits_per_key: int, probes: int) -> None:
    bloom = kernels.build_bloom(np.arange(3, dtype=np.uint64), bits_per_key)
    assert int.from_bytes(bloom[:2], "big") == probes
    assert len(bloom) == 2 + (3 * bits_per_key + 7) // 8


def test_a_tiny_filter_probed_by_hand(kernels: Any) -> None:
    # 8 bits; low half 3, high half 2: bits 3, 3+2=5, 5+3=0, 0+5=5, then steps 8=0 and 4
    bloom = kernels.build_bloom(np.array([3 | 2 << 32], np.uint64), 8)
    assert bloom == b"\0\5" + bytes([1 << 3 | 1 << 5 | 1 << 0])


def test_filter_without_bits_matches_nothing(kernels: Any) -> None:
    assert kernels.build_bloom(np.zeros(0, np.uint64), 10) == b"\0\6"
    assert kernels.probe_bloom(b"\0\6", np.arange(3, dtype=np.uint64)).tolist() == [False] * 3
    assert kernels.probe_bloom(b"\0\0\0", np.arange(3, dtype=np.uint64)).tolist() == [True] * 3


def test_invalid_arguments(kernels: Any) -> None:
    for data in (b"", b"\0"):
        with pytest.raises(CorruptDataError, match=str(len(data))):
            kernels.probe_bloom(data, np.zeros(1, np.uint64))
    for bits_per_key in (0, -1, 1_000_000):
        with pytest.raises(InvalidRequestError, match=str(bits_per_key)):
            kernels.build_bloom(np.zeros(1, np.uint64), bits_per_key)
    many = np.broadcast_to(np.uint64(0), 1 << 26)
    with pytest.raises(InvalidRequestError, match=r"2\^32"):
        kernels.build_bloom(many, 64)
