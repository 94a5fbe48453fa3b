"""Readers of whole SSTs and of the fixture files, for tests."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

from slatespark.errors import CorruptDataError
from slatespark.format import block_group
from slatespark.format.block_group import unpack_blocks
from slatespark.format.codecs import Compression, decompress
from slatespark.format.filter import FilterSet, decode_filter_section
from slatespark.format.index import SstIndex, decode_index_section
from slatespark.format.info import Footer, SstInfo, decode_footer, decode_info_section, footer_range, info_range
from slatespark.format.properties import BlockBounds, SstProperties, decode_properties
from slatespark.format.sst import SstLayout, layout_of
from slatespark.format.stats import SstStats, decode_stats_section
from slatespark.kernels import decode_blocks
from slatespark.kernels.columns import RowColumns
from slatespark.ranges import ByteRange
from tests.support.fixture_databases import DATA


@dataclass(frozen=True, slots=True)
class WholeSst:
    """An SST with all sections decoded."""

    footer: Footer
    info: SstInfo
    layout: SstLayout
    index: SstIndex
    filters: FilterSet | None
    stats: SstStats | None
    properties: tuple[SstProperties, BlockBounds] | None
    rows: RowColumns


def read_sst(data: bytes) -> WholeSst:
    """Decode every section of an SST, starting from its footer."""

    def part(span: ByteRange) -> bytes:
        return data[span.start : span.end]

    footer = decode_footer(part(footer_range(len(data))))
    info = decode_info_section(part(info_range(footer, len(data))))
    layout = layout_of(info, footer, len(data))
    index = decode_index_section(part(layout.index), info)
    blocks = unpack_blocks(
        np.frombuffer(data, np.uint8),
        index.block_edges(info),
        index.encoded_bytes,
        info.compression,
        limit_bytes=1 << 40,
    )
    return WholeSst(
        footer=footer,
        info=info,
        layout=layout,
        index=index,
        filters=None if layout.filter is None else decode_filter_section(part(layout.filter), info),
        stats=None if layout.stats is None else decode_stats_section(part(layout.stats), info),
        properties=decode_properties(part(layout.gap)),
        rows=decode_blocks(blocks.data, blocks.starts, blocks.ends, version=footer.version),
    )


def fixture_files(pattern: str) -> list[Path]:
    """Return files of the fixture databases whose clients write the format that we write."""
    return sorted(DATA.glob(f"slatedb-0.*/{pattern}"))


def sst_files() -> list[Path]:
    """Return every compacted SST of the fixtures."""
    return fixture_files("**/compacted/*.sst")


def manifest_folders() -> list[list[Path]]:
    """Return the manifests of every fixture database, those of older clients too, in order."""
    folders = sorted({path.parent for path in DATA.glob("slatedb-*/**/*.manifest")})
    return [sorted(folder.glob("*.manifest")) for folder in folders]


def label(path: Path) -> str:
    """Return a test id."""
    return str(path.relative_to(DATA))


def unpacked_blocks(packed: Sequence[bytes], compression: Compression, limit_bytes: int = 1 << 30) -> list[bytes]:
    """The payloads of blocks, up to a limit; they are stored with the right checksums."""
    stored = [block + zlib.crc32(block).to_bytes(4, "big") for block in packed]
    edges = np.cumsum([0, *map(len, stored)])
    data = np.frombuffer(b"".join(stored), np.uint8)
    found = unpack_blocks(data, edges, np.zeros(len(stored), np.int64), compression, limit_bytes=limit_bytes)
    return [found.data[a:b].tobytes() for a, b in zip(found.starts, found.ends, strict=True)]


def check_changed_byte(blocks: Sequence[bytes], compression: Compression, data: st.DataObject) -> None:
    """With another byte in one of them, blocks are read or refused together as they are one by one."""
    number = data.draw(st.integers(0, len(blocks) - 1))
    at = data.draw(st.integers(0, len(blocks[number]) - 1))
    changed = bytearray(blocks[number])
    changed[at] ^= data.draw(st.integers(1, 255))
    blocks = [*blocks[:number], bytes(changed), *blocks[number + 1 :]]
    try:
        expected = [decompress(block, compression) for block in blocks]
    except CorruptDataError:
        with pytest.raises(CorruptDataError):
            unpacked_blocks(blocks, compression)
        return
    assert unpacked_blocks(blocks, compression) == expected


def taking_few_together() -> Iterator[None]:
    """Let few blocks be unpacked together as many are; for a fixture of a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_group, "MIN_TOGETHER", 1)
        yield
