"""The check of a whole SST's checksums notices every changed byte that the client reads."""

from __future__ import annotations

import numpy as np
import pytest

from slatespark.errors import CorruptDataError, UnsupportedFormatError
from slatespark.format.codecs import Compression
from slatespark.format.info import FOOTER_BYTES, decode_footer, decode_info_section, info_range
from slatespark.format.manifest_codec import decode_manifest
from slatespark.format.paths import sst_path
from slatespark.format.references import SstHandle
from slatespark.format.row import Row, rows_to_columns
from slatespark.format.sst import SST_FORMAT_VERSION, SstBuilder, layout_of
from slatespark.format.sst_check import check_sst
from slatespark.format.ulid import make_ulid
from tests.support.fixture_databases import fixture_databases


def built(compression: Compression = Compression.NONE) -> tuple[bytes, SstHandle]:
    """A file with several blocks and a filter."""
    builder = SstBuilder(block_size=128, compression=compression, min_filter_keys=1)
    builder.add([rows_to_columns([Row(b"k%03d" % at, at + 1, value=b"v" * 20) for at in range(30)])], np.arange(30))
    made = builder.finish()
    return b"".join(bytes(part) for part in made.parts), SstHandle(make_ulid(1, 1), made.info, SST_FORMAT_VERSION)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
def test_every_changed_byte_is_noticed(compression: Compression) -> None:
    data, handle = built(compression)
    check_sst(data, handle)
    gap = layout_of(handle.info, decode_footer(data[-FOOTER_BYTES:]), len(data)).gap
    for at in range(len(data)):
        if gap.start <= at < gap.end:  # ours, with a checksum of its own; no reader depends on it
            continue
        changed = bytearray(data)
        changed[at] ^= 1
        with pytest.raises((CorruptDataError, UnsupportedFormatError)):
            check_sst(changed, handle)


def test_another_file_is_noticed() -> None:
    data, _ = built()
    _, other = built(Compression.ZSTD)
    with pytest.raises(CorruptDataError, match="contradicts"):
        check_sst(data, other)
    for size in (0, 5, len(data) // 2, len(data) - 1):
        with pytest.raises((CorruptDataError, UnsupportedFormatError)):
            check_sst(data[:size], built()[1])


def test_what_clients_wrote_is_sound() -> None:
    seen = 0
    for database in fixture_databases():
        for path in sorted((database.path / "manifest").glob("*.manifest")):
            for ulid, handle in decode_manifest(path.read_bytes()).ssts.items():
                file = database.path / sst_path(ulid)
                if file.exists():
                    check_sst(file.read_bytes(), handle)
                    seen += 1
    assert seen > 50


def test_the_info_of_the_file_counts_too() -> None:
    data, handle = built()
    span = info_range(decode_footer(data[-FOOTER_BYTES:]), len(data))
    assert decode_info_section(data[span.start : span.end]) == handle.info
