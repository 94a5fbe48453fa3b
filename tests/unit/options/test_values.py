"""Values at the ends of what an option takes, and the first ones beyond."""

from __future__ import annotations

from typing import Any

import pytest

from slatespark.errors import OptionError
from slatespark.options import ReadOptions
from slatespark.options.fields import find_other
from slatespark.options.values import (
    AUTO_THROUGHPUT,
    MAX_APP_ID_BYTES,
    MAX_TTL_MS,
    Parser,
    bytes_text,
    key_range_of,
    parse_app_id,
    parse_bytes_or_text,
    parse_count,
    parse_duration_of,
    parse_lasting_duration,
    parse_metadata_columns,
    parse_min_age,
    parse_names,
    parse_stream_id,
    parse_throughput,
    parse_ttl_or_none,
    refuse_place,
    with_own_spelling,
)
from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.units import HOUR_MS, MINUTE_MS

COUNT = parse_count(2, 9)


@pytest.mark.parametrize(
    ("parse", "value", "parsed"),
    [
        (parse_app_id, "é" * (MAX_APP_ID_BYTES // 2), "é" * (MAX_APP_ID_BYTES // 2)),
        (parse_app_id, " my stream:", "my stream:"),
        (parse_stream_id, "a-1._" * 20, "a-1._" * 20),
        (COUNT, 2, 2),
        (COUNT, " 9 ", 9),
        (parse_throughput, 0.001, 1000),
        (parse_throughput, "1000000", 10**12),
        (parse_throughput, " AUTO ", AUTO_THROUGHPUT),
        (parse_names, "a, b", ("a", "b")),
        (parse_names, "`a, b` ,`c``d`, ` e`f,g", ("a, b", "c`d", "` e`f", "g")),
        (parse_names, "`a`,`b", ("a", "`b")),
        (parse_metadata_columns, "_op,key", ("key", "op")),
        (parse_ttl_or_none, MAX_TTL_MS, MAX_TTL_MS),
        (parse_ttl_or_none, "none", None),
        (parse_duration_of(1000), 1000, 1000),
        (parse_lasting_duration, MINUTE_MS, MINUTE_MS),
        (parse_lasting_duration, 0, 0),
        (parse_lasting_duration, "7ms", 7),
        (parse_bytes_or_text, "X'00ff'", b"\x00\xff"),
    ],
)
def test_values_that_are_taken(parse: Parser, value: object, parsed: object) -> None:
    assert parse(value, "option") == parsed


@pytest.mark.parametrize(
    ("parse", "value"),
    [
        (parse_app_id, "é" * (MAX_APP_ID_BYTES // 2) + "a"),
        (parse_app_id, "\ud800"),
        (parse_app_id, "stream:1"),
        (parse_stream_id, "a" * 101),
        (parse_stream_id, "a/b"),
        (COUNT, 1),
        (COUNT, "10"),
        (COUNT, "²"),
        (COUNT, "٣"),
        (COUNT, "9" * 5000),
        (COUNT, True),
        (parse_throughput, 0.0009),
        (parse_throughput, 1_000_000.5),
        (parse_throughput, True),
        (parse_throughput, "1e3"),
        (parse_names, ()),
        (parse_names, "a,a"),
        (parse_names, "a,`a`"),
        (parse_names, "a,"),
        (parse_names, "a,,b"),
        (parse_metadata_columns, "key,none"),
        (parse_ttl_or_none, MAX_TTL_MS + 1),
        (parse_duration_of(1000), 999),
        (parse_lasting_duration, MINUTE_MS - 1),
        (parse_bytes_or_text, ""),
        (parse_bytes_or_text, "X''"),
    ],
)
def test_values_that_are_refused(parse: Parser, value: object) -> None:
    with pytest.raises(OptionError):
        parse(value, "option")


def test_the_least_age_of_a_vacuum() -> None:
    assert parse_min_age("1h", is_forced=False) == HOUR_MS
    assert parse_min_age("59m", is_forced=True) == HOUR_MS - MINUTE_MS
    for value, forced in (("59m", False), (HOUR_MS, True), ("3600000", True)):
        with pytest.raises(OptionError):
            parse_min_age(value, is_forced=forced)


@pytest.mark.parametrize(
    "data", [b"a b", b" a", b"a ", b"\t", b"\x00", b"\xff", b"X'00'", "é€".encode(), b"\xc2\xa0", b"'"]
)
def test_bytes_as_text_are_read_as_the_same_bytes(data: bytes) -> None:
    """Also where the text is stripped, as that of a property is."""
    text = bytes_text(data)
    assert parse_bytes_or_text(text, "option") == parse_bytes_or_text(text.strip(), "option") == data
    assert text.isprintable()


@pytest.mark.parametrize(
    ("given", "keys"),
    [
        ((None, None, None), ALL_KEYS),
        ((b"", None, None), ALL_KEYS),
        ((None, b"", None), KeyRange(b"", b"")),
        ((None, b"b", None), KeyRange(b"", b"b")),
        ((b"a", None, None), KeyRange(b"a")),
        ((None, None, b""), ALL_KEYS),
        ((None, None, b"a\xff"), KeyRange(b"a\xff", b"b")),
    ],
)
def test_ranges_of_keys(given: tuple[Any, Any, Any], keys: KeyRange) -> None:
    assert key_range_of(*given) == keys


# --- names ----------------------------------------------------------------------------------------------------------


def test_an_argument_under_two_spellings_is_refused() -> None:
    assert with_own_spelling({"min_age": 1, "other_one": 2}, ["minAge"]) == {"minAge": 1, "other_one": 2}
    with pytest.raises(OptionError):
        with_own_spelling({"min_age": 1, "minAge": 2}, ["minAge"])


@pytest.mark.parametrize("name", ["path", "wal_path", "storage.key", "Storage.Key"])
def test_an_open_table_takes_no_other_place(name: str) -> None:
    refuse_place({name: None, "clock": "custom"}, "open")
    with pytest.raises(OptionError):
        refuse_place({name: "elsewhere"}, "open")
    with pytest.raises(OptionError):
        refuse_place({"Clock": "module:function"}, "open")


def test_a_storage_option_that_is_none_is_not_given() -> None:
    assert ReadOptions.parse({"path": "t", "storage.key": None}).storage == {}
    assert find_other(ReadOptions, {"storage.key": None, "columns": None}, ["filter"]) is None
    assert find_other(ReadOptions, {"storage.key": "x"}, ["filter"]) == "storage.key"
    with pytest.raises(OptionError):
        find_other(ReadOptions, {"column": None}, ["filter"])


@pytest.mark.parametrize("kind", ["Version", "Timestamp"])
def test_a_feed_may_start_where_it_ends(kind: str) -> None:
    given = {"path": "t", "readChangeFeed": True, f"starting{kind}": 5}
    assert ReadOptions.parse({**given, f"ending{kind}": 5}).has_end
    with pytest.raises(OptionError):
        ReadOptions.parse({**given, f"ending{kind}": 4})
