from __future__ import annotations

from typing import Any

import pytest

from slatespark.errors import OptionError
from slatespark.options import ReadOptions, WriteOptions
from slatespark.options.values import METADATA_COLUMNS, unknown_option
from slatespark.ranges import KeyRange, prefix_range


def read(**given: Any) -> ReadOptions:
    return ReadOptions.parse({"path": "/t", **given})


def write(**given: Any) -> WriteOptions:
    return WriteOptions.parse({"path": "/t", **given})


def test_case_and_underscores_do_not_matter() -> None:
    for key in ("versionAsOf", "versionasof", "version_as_of", "VERSIONASOF"):
        assert read(**{key: "7"}).version_as_of == 7


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("where", ["path", "filter"], "filter"),
        ("condition", ["path", "filter"], "filter"),
        ("filter", ["where", "timestamp"], "where"),
        ("filter", ["where", "filters"], "filters"),
        ("Select", ["columns", "seqAsOf"], "columns"),
        ("partition_by", ["keyColumns", "retention"], "keyColumns"),
    ],
)
def test_a_name_of_another_library_gets_the_option_that_is_meant(name: str, known: list[str], meant: str) -> None:
    assert str(unknown_option(name, known)).endswith(f"Did you mean {meant}?")


def test_an_unknown_option_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(OptionError, match=r"versionAsOf\?"):
        read(versionAsOff=1)
    with pytest.raises(OptionError, match="path"):
        read(zzz=1)


def test_a_missing_path_says_what_to_do() -> None:
    with pytest.raises(OptionError, match="Catalog"):
        ReadOptions.parse({})


def test_one_option_under_two_spellings_is_refused() -> None:
    with pytest.raises(OptionError, match="twice"):
        read(splitSize="1m", split_size="2m")


@pytest.mark.parametrize(
    "given",
    [
        {"versionAsOf": "x"},
        {"versionAsOf": 0},
        {"versionAsOf": "9" * 5000},
        {"versionAsOf": 1, "checkpoint": "c"},
        {"now": "soon"},
        {"columns": ""},
        {"columns": "key,key"},
        {"startKey": "zz"},
        {"keyPrefix": "00", "startKey": "00"},
        {"metadataColumns": "seq,color"},
        {"readVersions": "some"},
        {"includeExpired": "yes"},
        {"splitSize": "0"},
        {"checkpoint": ""},
    ],
)
def test_wrong_read_options_are_refused_by_name(given: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(given))):
        read(**given)


@pytest.mark.parametrize(
    "given",
    [
        {"operation": "insert"},
        {"opColumn": "op", "operation": "delete"},
        {"ttl": "soon"},
        {"compression": "brotli"},
        {"blockSize": "128k"},
        {"blockSize": 512},
        {"bloomBitsPerKey": 65},
        {"ifExists": "replace"},
        {"ifClientActive": "maybe"},
        {"versionAsOf": 1},
    ],
)
def test_wrong_write_options_are_refused_by_name(given: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(given))):
        write(**given)


def test_text_and_python_values_mean_the_same() -> None:
    assert read(now="1970-01-01T00:00:01Z", startKey="00ff", includeExpired="true") == read(
        now=1000, startKey=b"\0\xff", includeExpired=True
    )
    assert write(ttl="7d", bloomBitsPerKey="12").ttl_ms == 7 * 86_400_000
    assert write(ttl="none").ttl_ms is None


def test_selected_keys() -> None:
    assert read().key_range == KeyRange()
    assert read(keyPrefix="61").key_range == prefix_range(b"a")
    assert read(startKey="61", endKey="62").key_range == KeyRange(b"a", b"b")
    assert read(endKey="").key_range.is_empty()


def test_all_versions_have_metadata_columns() -> None:
    assert read(readVersions="all").metadata_columns == METADATA_COLUMNS
    assert read(metadataColumns="expire_ts, seq").metadata_columns == ("seq", "expire_ts")
    assert read(metadataColumns="_expire_ts, seq, _SEQ").metadata_columns == ("seq", "expire_ts")


def test_credentials_are_not_printed() -> None:
    options = read(**{"storage.key": "AKIA", "storage.SECRET": "hush"})
    assert options.storage == {"key": "AKIA", "secret": "hush"}
    assert "hush" not in repr(options)
    assert "AKIA" not in repr(options)
