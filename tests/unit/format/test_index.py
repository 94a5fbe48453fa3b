from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slatespark.errors import CorruptDataError
from slatespark.format.codecs import Compression, encode_section
from slatespark.format.index import SstIndex, decode_index_section, encode_index_section
from slatespark.format.info import SstInfo
from slatespark.kernels import encode_index
from slatespark.ranges import ALL_KEYS, KeyRange

INFO = SstInfo(b"a", b"z", index_offset=300, index_len=99, filter_offset=300, filter_len=0)


def index_of(offsets: list[int], keys: list[bytes]) -> SstIndex:
    return SstIndex(
        np.array(offsets, np.int64),
        np.frombuffer(b"".join(keys), np.uint8),
        np.cumsum([0, *map(len, keys)], dtype=np.int64),
        np.zeros(len(keys), np.int64),
    )


INDEX = index_of([0, 100, 200], [b"", b"f", b"p"])


def test_sections_round_trip() -> None:
    for codec in Compression:
        info = replace(INFO, compression=codec)
        found = decode_index_section(encode_index_section(INDEX, codec), info)
        assert found.block_offsets.tolist() == [0, 100, 200]
        assert [found.first_key(block) for block in range(len(found))] == [b"", b"f", b"p"]


def test_blocks_end_where_the_next_starts() -> None:
    assert INDEX.block_edges(INFO).tolist() == [0, 100, 200, 300]


@pytest.mark.parametrize(
    ("keys", "blocks"),
    [
        (ALL_KEYS, (0, 3)),
        (KeyRange(b"a", b"b"), (0, 1)),
        (KeyRange(b"f", b"f\0"), (0, 2)),  # block 0 may end with versions of the key
        (KeyRange(b"g", b"h"), (1, 2)),
        (KeyRange(b"f", None), (0, 3)),
        (KeyRange(b"q", None), (2, 3)),
        (KeyRange(b"a", b"p"), (0, 2)),
        (KeyRange(b"a", b"p\0"), (0, 3)),
        (KeyRange(b"b", b"b"), (0, 0)),
        (KeyRange(b"", b"\0"), (0, 1)),
    ],
)
def test_blocks_for_a_range(keys: KeyRange, blocks: tuple[int, int]) -> None:
    assert INDEX.blocks_for(keys) == blocks


def test_a_key_may_continue_in_the_next_block() -> None:
    assert INDEX.spans_key(1, b"f")
    assert not INDEX.spans_key(1, b"e")
    assert not INDEX.spans_key(3, b"f")


@pytest.mark.parametrize(
    "broken",
    [
        index_of([], []),
        index_of([0, 298], [b"", b"f"]),
        index_of([0, 400], [b"", b"f"]),
        index_of([0, 3], [b"", b"f"]),
    ],
)
def test_blocks_outside_the_data_are_refused(broken: SstIndex) -> None:
    section = encode_section(encode_index(broken.block_offsets, broken.key_bytes, broken.key_offsets), Compression.NONE)
    with pytest.raises(CorruptDataError):
        decode_index_section(section, INFO)
