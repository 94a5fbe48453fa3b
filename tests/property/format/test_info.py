# mypy: untyped-calls-exclude="slatespark.format._generated"

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from slatespark.format.codecs import Compression
from slatespark.format.info import (
    FilterFormat,
    SstType,
    decode_info,
    decode_info_section,
    encode_info,
    encode_info_section,
)
from tests.unit.format.test_info import INFO

keys = st.none() | st.binary(max_size=20)


@given(keys, keys, st.sampled_from(Compression), st.sampled_from(SstType), st.sampled_from(FilterFormat), st.booleans())
def test_infos_round_trip(
    first: bytes | None, last: bytes | None, codec: Compression, kind: SstType, filters: FilterFormat, bare: bool
) -> None:
    info = replace(INFO, first_entry=first, last_entry=last, compression=codec, sst_type=kind, filter_format=filters)
    if bare:
        info = replace(info, filter_offset=100, filter_len=0, stats_offset=0, stats_len=0)
    assert decode_info(encode_info(info)) == info
    assert decode_info_section(encode_info_section(info)) == info
