from __future__ import annotations

import numpy as np
import pytest

from slatespark.errors import CorruptDataError
from slatespark.format.codecs import Compression, encode_section
from slatespark.format.filter import (
    FilterSet,
    NamedFilter,
    decode_filter_section,
    decode_filters,
    encode_filter,
    encode_filters,
)
from slatespark.format.info import FilterFormat, SstInfo
from slatespark.format.row import Row, rows_to_columns
from slatespark.kernels import build_bloom, hash_keys
from slatespark.kernels.siphash import hash_key
from tests.support.fixture_databases import FIXTURES
from tests.unit.format.reading import read_sst

KEYS = [b"key%d" % number for number in range(300)]
COLUMNS = rows_to_columns([Row(key, 1) for key in KEYS])
HASHES = hash_keys([COLUMNS], np.arange(len(KEYS), dtype=np.int64))


def info(filter_format: FilterFormat) -> SstInfo:
    return SstInfo(b"a", b"z", 200, 50, 100, 100, filter_format=filter_format)


def test_no_key_is_missed() -> None:
    found = decode_filters(encode_filter(HASHES, 10))
    assert found.probe(HASHES).all()
    others = np.array([hash_key(b"no%d" % number) for number in range(1000)], np.uint64)
    assert found.probe(others).sum() < 60


def test_both_forms_of_the_section_are_read() -> None:
    bloom = build_bloom(HASHES, 10)
    legacy = decode_filter_section(encode_section(bloom, Compression.NONE), info(FilterFormat.LEGACY))
    composite = decode_filter_section(
        encode_section(encode_filter(HASHES, 10), Compression.NONE), info(FilterFormat.COMPOSITE)
    )
    assert legacy == composite == FilterSet((NamedFilter("_bf", bloom),))


@pytest.mark.parametrize(
    ("name", "usable"),
    [
        ("_bf", True),
        ("_bf:p=fixed3", True),
        ("_bf:p=fixed3:wh=0", False),
        ("_bf:wh=0", False),
        ("mine", False),
        ("_bfx", False),
    ],
)
def test_which_filters_contain_whole_keys(name: str, usable: bool) -> None:
    nothing = NamedFilter(name, bytes.fromhex("0006"))  # an empty bit array matches nothing
    assert nothing.holds_whole_keys() == usable
    assert FilterSet((nothing,)).probe(HASHES[:1]).all() != usable


def test_several_filters_round_trip_and_all_are_probed() -> None:
    some = FilterSet(
        (
            NamedFilter("mine", b"\xff"),
            NamedFilter("_bf:p=é", build_bloom(HASHES, 12)),
            NamedFilter("_bf", b"\0\6"),
        )
    )
    assert decode_filters(encode_filters(some)) == some
    assert not some.probe(HASHES[:1]).any()
    assert FilterSet(()).probe(HASHES[:1]).all()


def test_a_prefix_filter_of_the_client_holds_whole_keys() -> None:
    (path,) = (FIXTURES / "prefix_bloom/compacted").glob("*.sst")
    sst = read_sst(path.read_bytes())
    assert sst.filters is not None
    assert sst.filters.probe(hash_keys([sst.rows], np.arange(len(sst.rows), dtype=np.int64))).all()
    assert not sst.filters.probe(np.arange(10**6, 10**6 + 1000, dtype=np.uint64) * 0x9E3779B97F4A7C15).all()


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\0",
        b"\0\1",
        b"\0\1\0\3_b",
        b"\0\1\0\3_bf\0\0\0\0\0\0\0",
        b"\0\1\0\3_bf" + b"\xff" * 8,
        b"\0\1\0\3_bf\0\0\0\0\0\0\0\1\6",
        b"\0\1\0\1\xff\0\0\0\0\0\0\0\0",
    ],
)
def test_damaged_sections_are_refused(payload: bytes) -> None:
    with pytest.raises(CorruptDataError):
        decode_filters(payload)
