"""Options that contradict each other, and the same ones apart."""

from __future__ import annotations

from typing import Any

import pytest

from slatespark.errors import OptionError
from slatespark.options import ReadOptions, WriteOptions
from slatespark.options.fields import Call
from slatespark.options.properties import parse_properties, require_consistent_properties, split_creation
from slatespark.options.streaming import StreamWriteOptions


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"readVersions": "intervals"}, {"includeDeleted": True}),
        ({"readChangeFeed": True, "changes": "log"}, {"pin": "1h"}),
        ({"versionAsOf": 1}, {"seqAsOf": 1}),
        ({"keyPrefix": "61"}, {"endKey": "62"}),
    ],
)
def test_of_reads(one: dict[str, Any], other: dict[str, Any]) -> None:
    for given in (one, other):
        ReadOptions.parse({"path": "t", **given})
    with pytest.raises(OptionError):
        ReadOptions.parse({"path": "t", **one, **other})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"opColumn": "op"}, {"operation": "merge"}),
        ({"operation": "delete"}, {"ttl": "1h"}),
        ({"operation": "delete"}, {"ttl": "none"}),
        ({"operation": "delete"}, {"ttlFrom": "write"}),
        ({"ttlColumn": "t"}, {"expireAtColumn": "e"}),
        ({"timestampColumn": "t"}, {"timestamp": 0}),
        ({"replaceWhere": "a = 1"}, {"keyPrefix": "61"}),
        ({"keyPrefix": "61"}, {"startKey": ""}),
    ],
)
def test_of_writes(one: dict[str, Any], other: dict[str, Any]) -> None:
    for given in (one, other):
        WriteOptions.parse({"path": "t", **given})
    with pytest.raises(OptionError):
        WriteOptions.parse({"path": "t", **one, **other})


@pytest.mark.parametrize("alone", [{"txnAppId": "a"}, {"txnVersion": 0}])
def test_a_pair_is_whole(alone: dict[str, Any]) -> None:
    assert WriteOptions.parse({"path": "t", "txnAppId": "a", "txnVersion": 0}).txn == ("a", 0)
    with pytest.raises(OptionError):
        WriteOptions.parse({"path": "t", **alone})


def test_sizes_of_a_block() -> None:
    for size in (1024, 65536):
        assert WriteOptions.parse({"path": "t", "blockSize": size}).block_bytes == size
    for size in (1023, 65537):
        with pytest.raises(OptionError):
            WriteOptions.parse({"path": "t", "blockSize": size})


@pytest.mark.parametrize(
    "given",
    [
        {"history": "true", "holdHistory": "true", "historyRetention": "7d", "retentionFrom": "write"},
        {"holdHistory": "false", "historyRetention": "none", "retentionFrom": "row", "columnar": "true"},
        {"history": "true", "clock": "custom", "columnar": "false"},
        {"segmentExtractor": "e", "segmentPrefixLength": "2"},
        {"segmentExtractor": "e", "segmentDelimiter": "/", "holdHistory": "false"},
    ],
)
def test_properties_that_go_together(given: dict[str, str]) -> None:
    require_consistent_properties(parse_properties(given))


@pytest.mark.parametrize(
    "given",
    [
        {"holdHistory": "true"},
        {"historyRetention": "7d", "history": "false"},
        {"retentionFrom": "write"},
        {"history": "true", "retentionFrom": "write", "clock": "custom"},
        {"history": "true", "columnar": "true"},
        {"history": "true", "columnar": "seq"},
        {"segmentExtractor": "e"},
        {"segmentDelimiter": "/"},
        {"segmentPrefixLength": "2", "segmentDelimiter": "/"},
        {"segmentExtractor": "e", "segmentPrefixLength": "2", "segmentDelimiter": "/"},
        {"segmentExtractor": "e", "segmentDelimiter": "/", "history": "true", "holdHistory": "true"},
    ],
)
def test_properties_that_contradict_each_other(given: dict[str, str]) -> None:
    with pytest.raises(OptionError):
        require_consistent_properties(parse_properties(given))


@pytest.mark.parametrize(
    "given",
    [
        {"txnVersion": 1},
        {"txn_version": None},
        {"ifExists": "ignore"},
        {"if_last_seq": 4},
        {"txnAppId": "stream:x"},
        {"retention": 24},
        {"defaultTtl": "366000d"},
    ],
)
def test_what_a_stream_refuses(given: dict[str, Any]) -> None:
    taken = {"path": "t", "checkpointLocation": "c", "queryName": "q", "txnAppId": " a ", "retention": "24h"}
    assert StreamWriteOptions.parse(taken).name == "a"
    with pytest.raises(OptionError):
        StreamWriteOptions.parse({**taken, **given})


def test_an_option_that_a_call_would_ignore_is_refused() -> None:
    ReadOptions.parse({"path": "t", "versionAsOf": 1, "readVersions": "latest"}).require_options_of(
        Call.INSPECTION, "describe"
    )
    with pytest.raises(OptionError):
        ReadOptions.parse({"path": "t", "readVersions": "all"}).require_options_of(Call.INSPECTION, "describe")


@pytest.mark.parametrize("names", [("defaultTtl", "default_ttl"), ("keyFormat", "key_format")])
def test_one_property_under_two_spellings_is_refused(names: tuple[str, str]) -> None:
    with pytest.raises(OptionError, match=f"{names[0]} is given twice"):
        split_creation(dict.fromkeys(names, "utf8" if names[0] == "keyFormat" else "1d"))
