"""No byte of a file is trusted: damage raises the right error, or decodes to other values."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest

from slatespark.errors import CorruptDataError, UnsupportedFormatError
from slatespark.format.codecs import Compression
from slatespark.format.compactions import decode_compactions
from slatespark.format.manifest_codec import decode_manifest, encode_manifest
from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.format.sequence_tracker import decode_sequence_tracker, encode_sequence_tracker
from slatespark.format.sst import SstBuilder
from slatespark.format.wal import decode_wal
from tests.support.fixture_databases import FIXTURES
from tests.support.row_values import columns_to_rows
from tests.support.wal_files import encode_wal
from tests.unit.format.reading import read_sst

ROWS = [
    Row(b"a1", 7, RowKind.PUT, b"value", 1000, 2000),
    Row(b"a1", 5, RowKind.DELETE, b"", 900),
    Row(b"a2", 6, RowKind.MERGE, b"+", 950),
    Row(b"b", 8),
]


def small_sst(codec: Compression) -> bytes:
    builder = SstBuilder(block_size=64, compression=codec, min_filter_keys=1, created_ms=5)
    builder.add([rows_to_columns(ROWS)], np.arange(len(ROWS), dtype=np.int64))
    return b"".join(builder.finish().parts)


def small_wal(codec: Compression) -> bytes:
    return encode_wal(sorted(ROWS, key=lambda row: row.seq), compression=codec)


def newest(pattern: str) -> bytes:
    return max(FIXTURES.glob(pattern)).read_bytes()


FILES: dict[str, tuple[bytes, Callable[[bytes], object]]] = {
    "manifest": (newest("cut_views/manifest/*"), decode_manifest),
    "manifest_of_ours": (encode_manifest(decode_manifest(newest("segments/manifest/*"))), decode_manifest),
    "manifest_with_checkpoints": (newest("checkpoints/manifest/*"), decode_manifest),
    "manifest_of_a_clone": (newest("clone/proj/manifest/*"), decode_manifest),
    "compactions": (newest("compacted/compactions/*"), decode_compactions),
    "wal": (small_wal(Compression.NONE), decode_wal),
    "tracker": (
        encode_sequence_tracker(decode_manifest(newest("restored/manifest/*")).sequence_tracker),
        decode_sequence_tracker,
    ),
    **{f"sst_{codec.name.lower()}": (small_sst(codec), read_sst) for codec in Compression},
    **{f"wal_{codec.name.lower()}": (small_wal(codec), decode_wal) for codec in (Compression.LZ4, Compression.ZSTD)},
}


@pytest.mark.parametrize("name", FILES)
def test_valid_files_decode(name: str) -> None:
    data, decode = FILES[name]
    assert decode(data) is not None


@pytest.mark.parametrize("name", FILES)
def test_flipped_bytes_are_refused_or_decode(name: str) -> None:
    data, decode = FILES[name]
    step = max(1, len(data) // 1500)  # every byte of small files
    for at in range(0, len(data), step):
        for mask in (0xFF, 0x01, 0x80):
            damaged = bytearray(data)
            damaged[at] ^= mask
            with suppress(CorruptDataError, UnsupportedFormatError):
                decode(bytes(damaged))


@pytest.mark.parametrize("name", FILES)
def test_truncated_files_are_refused_or_decode(name: str) -> None:
    data, decode = FILES[name]
    for length in range(0, len(data), max(1, len(data) // 300)):
        with suppress(CorruptDataError, UnsupportedFormatError):
            decode(data[:length])


@pytest.mark.parametrize("codec", list(Compression))
def test_every_flip_in_a_data_block_is_detected(codec: Compression) -> None:
    data = small_sst(codec)
    sound = read_sst(data)
    assert columns_to_rows(sound.rows) == ROWS
    for at in range(sound.info.sections_end):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        with pytest.raises((CorruptDataError, UnsupportedFormatError)):
            read_sst(bytes(damaged))
