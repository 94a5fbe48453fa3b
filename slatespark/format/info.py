r"""SST info section, and the 10-byte footer that locates it.

    ..      flatbuffer SsTableInfo, never compressed
    +4      u32be crc32 of the flatbuffer
    +8      u64be offset of the flatbuffer in the object      \ footer
    +2      u16be format version of the data blocks, 1 or 2   /

For a compacted SST, readers use the copy of the info in the manifest and ignore the footer. For a WAL file the footer
is the only source. Source: `docs/reference/format/sst.md`.
"""

# mypy: untyped-calls-exclude="slatespark.format._generated"

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import flatbuffers

from slatespark.errors import CorruptDataError, UnsupportedFormatError
from slatespark.format._generated import SsTableInfo as InfoTable
from slatespark.format.codecs import CRC_BYTES, Buffer, Compression, check_crc
from slatespark.format.schemas import SST_INFO
from slatespark.format.verifier import verify
from slatespark.format.wire_columns import WireColumns
from slatespark.format.wire_table import WireTable, field_numbers
from slatespark.ranges import ByteRange, KeyRange, key_after

FOOTER_BYTES: Final = 10  # on disk, do not change
FORMAT_VERSIONS: Final = (1, 2)  # of the data blocks
FORMAT_VERSION: Final = 2  # the one slatespark writes

_FOOTER = struct.Struct(">QH")

_FIRST_ENTRY, _LAST_ENTRY = field_numbers(SST_INFO, "first_entry", "last_entry")
_INDEX_OFFSET, _INDEX_LEN = field_numbers(SST_INFO, "index_offset", "index_len")
_FILTER_OFFSET, _FILTER_LEN = field_numbers(SST_INFO, "filter_offset", "filter_len")
_STATS_OFFSET, _STATS_LEN = field_numbers(SST_INFO, "stats_offset", "stats_len")
_COMPRESSION, _SST_TYPE, _FILTER_FORMAT = field_numbers(SST_INFO, "compression_format", "sst_type", "filter_format")
_PLACES: Final = (_INDEX_OFFSET, _INDEX_LEN, _FILTER_OFFSET, _FILTER_LEN, _STATS_OFFSET, _STATS_LEN)
_KINDS: Final = (_COMPRESSION, _SST_TYPE, _FILTER_FORMAT)


class SstType(IntEnum):
    """Kind of an SST. On disk, do not change."""

    COMPACTED = 0
    WAL = 1


class FilterFormat(IntEnum):
    """Layout of the filter section. On disk, do not change."""

    LEGACY = 0
    COMPOSITE = 1


# Indexed by number: cheaper than an enum call, and a manifest has one of each per file.
_CODECS: Final = tuple(Compression)
_SST_TYPES: Final = tuple(SstType)
_FILTER_FORMATS: Final = tuple(FilterFormat)


@dataclass(frozen=True, slots=True)
class SstInfo:
    """Location of the sections of an SST. Every length includes the section's checksum.

    Attributes
    ----------
    first_entry : first key; in a WAL file the 8-byte big-endian seq of the first row
    last_entry : last key; None if unknown
    filter_offset : end of the data blocks if `filter_len` is 0
    """

    first_entry: bytes | None
    last_entry: bytes | None
    index_offset: int
    index_len: int
    filter_offset: int
    filter_len: int
    compression: Compression = Compression.NONE
    sst_type: SstType = SstType.COMPACTED
    stats_offset: int = 0
    stats_len: int = 0
    filter_format: FilterFormat = FilterFormat.COMPOSITE

    @property
    def data_bytes(self) -> int:
        """End of the last data block."""
        return self.filter_offset if self.filter_len else self.index_offset

    @property
    def index_range(self) -> ByteRange:
        """The index section."""
        return ByteRange(self.index_offset, self.index_offset + self.index_len)

    @property
    def filter_range(self) -> ByteRange | None:
        """The filter section, None if absent."""
        return ByteRange(self.filter_offset, self.filter_offset + self.filter_len) if self.filter_len else None

    @property
    def stats_range(self) -> ByteRange | None:
        """The stats section, None if absent."""
        return ByteRange(self.stats_offset, self.stats_offset + self.stats_len) if self.stats_len else None

    def key_range(self) -> KeyRange:
        """Return the keys that the file may contain; unbounded if the last key is unknown."""
        return KeyRange(self.first_entry or b"", None if self.last_entry is None else key_after(self.last_entry))

    @property
    def sections_end(self) -> int:
        """End of the last section listed in the info: the object's size without properties, info and footer."""
        filter_end = self.filter_offset + self.filter_len if self.filter_len else 0
        stats_end = self.stats_offset + self.stats_len if self.stats_len else 0
        return max(self.index_offset + self.index_len, filter_end, stats_end)


@dataclass(frozen=True, slots=True)
class Footer:
    """The last bytes of an SST."""

    info_offset: int  # first byte of the SST info section
    version: int  # of the data blocks


def footer_range(object_bytes: int) -> ByteRange:
    """Return the range of the footer in an object of that size.

    Raises
    ------
    CorruptDataError : too small for an SST (an empty object is a WAL fence and has no footer)
    """
    if object_bytes <= FOOTER_BYTES:
        raise CorruptDataError(
            f"SST has {object_bytes} bytes, expected more than {FOOTER_BYTES}.",
            why="The object is truncated or not an SST.",
            offset=0,
        )
    return ByteRange(object_bytes - FOOTER_BYTES, object_bytes)


def decode_footer(data: Buffer) -> Footer:
    """Decode the 10 bytes of a footer."""
    if len(data) != FOOTER_BYTES:
        raise CorruptDataError(
            f"SST footer has {len(data)} bytes, expected {FOOTER_BYTES}.", why="The object is truncated or not an SST."
        )
    info_offset, version = _FOOTER.unpack(data)
    return Footer(info_offset, check_format_version(version))


def encode_footer(footer: Footer) -> bytes:
    """Encode a footer."""
    return _FOOTER.pack(footer.info_offset, footer.version)


def check_format_version(version: int) -> int:
    """Return the block format version; raises `UnsupportedFormatError` for an unknown one."""
    if version not in FORMAT_VERSIONS:
        raise UnsupportedFormatError(
            f"SST has format version {version}, expected 1 or 2.",
            why="A newer release wrote it, or the object is not an SST.",
        )
    return version


def info_range(footer: Footer, object_bytes: int) -> ByteRange:
    """Return the range of the info section, checksum included."""
    end = object_bytes - FOOTER_BYTES
    if footer.info_offset + CRC_BYTES >= end:
        raise CorruptDataError(
            f"SST info starts at {footer.info_offset}, expected an offset below {end - CRC_BYTES}.", offset=end
        )
    return ByteRange(footer.info_offset, end)


def decode_info_section(data: Buffer) -> SstInfo:
    """Decode an info section: flatbuffer and checksum."""
    return decode_info(check_crc(data, what="SST info section"))


def encode_info_section(info: SstInfo) -> bytes:
    """Encode an info section: flatbuffer and checksum."""
    payload = encode_info(info)
    return payload + zlib.crc32(payload).to_bytes(CRC_BYTES, "big")


def decode_info(data: Buffer) -> SstInfo:
    """Decode the flatbuffer of an info."""
    verify(data, SST_INFO, what="SST info")
    return info_of(WireTable.root(data))


def encode_info(info: SstInfo) -> bytes:
    """Encode the flatbuffer of an info."""
    builder = flatbuffers.Builder(256)
    builder.Finish(put_info(builder, info))
    return bytes(builder.Output())


def info_of(table: WireTable) -> SstInfo:
    """Decode an info from a verified table."""
    keys = table.octets(_FIRST_ENTRY), table.octets(_LAST_ENTRY)
    return _info(*keys, *map(table.u64, _PLACES), *map(table.i8, _KINDS))


def infos_of(tables: WireColumns) -> list[SstInfo]:
    """Decode the infos of verified tables."""
    keys = tables.octets(_FIRST_ENTRY), tables.octets(_LAST_ENTRY)
    kinds = (tables.numbers(field, "<i1") for field in _KINDS)
    return list(map(_info, *keys, *map(tables.numbers, _PLACES), *kinds))


def _info(
    first: bytes | None,
    last: bytes | None,
    index_offset: int,
    index_len: int,
    filter_offset: int,
    filter_len: int,
    stats_offset: int,
    stats_len: int,
    codec: int,
    kind: int,
    filter_format: int,
) -> SstInfo:
    for what, value, known in (
        ("compression", codec, _CODECS),
        ("type", kind, _SST_TYPES),
        ("filter format", filter_format, _FILTER_FORMATS),
    ):
        if not 0 <= value < len(known):
            raise UnsupportedFormatError(f"SST has {what} {value}, expected 0 to {len(known) - 1}.")
    info = SstInfo(
        first_entry=first,
        last_entry=last,
        index_offset=index_offset,
        index_len=index_len,
        filter_offset=filter_offset,
        filter_len=filter_len,
        compression=_CODECS[codec],
        sst_type=_SST_TYPES[kind],
        stats_offset=stats_offset,
        stats_len=stats_len,
        filter_format=_FILTER_FORMATS[filter_format],
    )
    _check_sections(info)
    return info


def put_info(builder: flatbuffers.Builder, info: SstInfo) -> int:
    """Add an info to the builder; returns its offset."""
    first = None if info.first_entry is None else builder.CreateByteVector(info.first_entry)
    last = None if info.last_entry is None else builder.CreateByteVector(info.last_entry)
    InfoTable.Start(builder)
    InfoTable.AddStatsLen(builder, info.stats_len)
    InfoTable.AddStatsOffset(builder, info.stats_offset)
    InfoTable.AddFilterLen(builder, info.filter_len)
    InfoTable.AddFilterOffset(builder, info.filter_offset)
    InfoTable.AddIndexLen(builder, info.index_len)
    InfoTable.AddIndexOffset(builder, info.index_offset)
    if last is not None:
        InfoTable.AddLastEntry(builder, last)
    if first is not None:
        InfoTable.AddFirstEntry(builder, first)
    InfoTable.AddFilterFormat(builder, info.filter_format)
    InfoTable.AddSstType(builder, info.sst_type)
    InfoTable.AddCompressionFormat(builder, info.compression)
    return int(InfoTable.End(builder))


def _check_sections(info: SstInfo) -> None:
    """Check what needs no object size: the index follows the data, no section overlaps the data."""
    data_end = info.data_bytes
    _check_section("index", info.index_offset, info.index_len, data_end)
    if info.filter_len:
        _check_section("filter", info.filter_offset, info.filter_len, data_end)
    if info.stats_len:
        _check_section("stats", info.stats_offset, info.stats_len, data_end)
    if info.filter_offset > info.index_offset and info.filter_len == 0:
        raise CorruptDataError(
            f"SST info places the end of the data at {info.filter_offset}, after the index at {info.index_offset}."
        )


def _check_section(name: str, start: int, length: int, data_end: int) -> None:
    if length <= CRC_BYTES or start < data_end or start + length >= 1 << 63:
        raise CorruptDataError(
            f"SST info places the {name} section at bytes {start} to {start + length}, "
            f"expected it after the {data_end} bytes of data."
        )


def check_section_bounds(info: SstInfo, info_offset: int) -> None:
    """Check that every section ends before the info section; raises `CorruptDataError`."""
    if info.sections_end > info_offset:
        raise CorruptDataError(
            f"SST info lists sections up to byte {info.sections_end}, but starts at {info_offset}.", offset=info_offset
        )
