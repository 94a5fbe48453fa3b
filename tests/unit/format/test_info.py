# mypy: untyped-calls-exclude="slatespark.format._generated"

from __future__ import annotations

from dataclasses import replace

import flatbuffers
import pytest

from slatespark.errors import CorruptDataError, UnsupportedFormatError
from slatespark.format._generated import SsTableInfo
from slatespark.format.info import (
    Footer,
    SstInfo,
    check_section_bounds,
    decode_footer,
    decode_info,
    encode_footer,
    encode_info,
    footer_range,
    info_range,
)
from slatespark.ranges import ByteRange, KeyRange

INFO = SstInfo(
    b"a", b"z", index_offset=100, index_len=20, filter_offset=90, filter_len=10, stats_offset=120, stats_len=30
)


def test_sections_are_where_the_info_says() -> None:
    assert INFO.data_bytes == 90
    assert INFO.index_range == ByteRange(100, 120)
    assert INFO.filter_range == ByteRange(90, 100)
    assert INFO.stats_range == ByteRange(120, 150)
    assert INFO.sections_end == 150
    assert INFO.key_range() == KeyRange(b"a", b"z\0")
    bare = replace(INFO, filter_offset=100, filter_len=0, stats_len=0, last_entry=None)
    assert (bare.data_bytes, bare.filter_range, bare.stats_range, bare.sections_end) == (100, None, None, 120)
    assert bare.key_range() == KeyRange(b"a", None)


def test_footers_round_trip() -> None:
    assert encode_footer(Footer(0x0102, 2)) == bytes.fromhex("0000000000000102" + "0002")
    assert decode_footer(encode_footer(Footer(7, 1))) == Footer(7, 1)
    assert footer_range(50) == ByteRange(40, 50)
    assert info_range(Footer(10, 2), 50) == ByteRange(10, 40)


@pytest.mark.parametrize("size", [0, 1, 10])
def test_an_object_without_room_for_a_footer_is_refused(size: int) -> None:
    with pytest.raises(CorruptDataError):
        footer_range(size)


def test_another_format_version_is_refused() -> None:
    with pytest.raises(UnsupportedFormatError):
        decode_footer(encode_footer(Footer(7, 3)))


@pytest.mark.parametrize("offset", [36, 40, 1 << 60])
def test_an_info_outside_the_object_is_refused(offset: int) -> None:
    with pytest.raises(CorruptDataError):
        info_range(Footer(offset, 2), 50)


@pytest.mark.parametrize(
    "broken",
    [
        replace(INFO, index_len=4),
        replace(INFO, index_offset=80),
        replace(INFO, index_len=(1 << 64) - 1),
        replace(INFO, stats_offset=10),
        replace(INFO, filter_offset=110, filter_len=0),
        replace(INFO, filter_len=3),
    ],
)
def test_sections_inside_the_data_are_refused(broken: SstInfo) -> None:
    with pytest.raises(CorruptDataError):
        decode_info(encode_info(broken))


def test_sections_after_the_info_are_refused() -> None:
    check_section_bounds(INFO, 150)
    with pytest.raises(CorruptDataError):
        check_section_bounds(INFO, 149)


@pytest.mark.parametrize("name", ["AddCompressionFormat", "AddSstType", "AddFilterFormat"])
@pytest.mark.parametrize("value", [-1, 5])
def test_unknown_numbers_are_refused(name: str, value: int) -> None:
    builder = flatbuffers.Builder(64)
    SsTableInfo.Start(builder)
    getattr(SsTableInfo, name)(builder, value)
    builder.Finish(SsTableInfo.End(builder))
    with pytest.raises(UnsupportedFormatError):
        decode_info(bytes(builder.Output()))
