"""Whether any row of a file can pass a filter on metadata columns, judged by the file's properties."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from slatespark.encoding.predicates import bind_filter, parse_filter
from slatespark.format.properties import SstProperties
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE
from slatespark.table.read.planning.metadata_filter import file_test

COLUMNS = pa.schema(
    [
        ("key", pa.binary()),
        ("_seq", pa.int64()),
        ("_create_ts", pa.timestamp("us", "UTC")),
        ("_expire_ts", pa.timestamp("us", "UTC")),
    ]
)
BOTH = HAS_CREATE | HAS_EXPIRE
FILE = SstProperties(
    created_ms=0, min_create_ts=10_000, max_create_ts=20_000, min_expire_ts=30_000, max_expire_ts=40_000, min_seq=5,
    max_seq=9, puts=2, deletes=0, merges=0, any_flags=BOTH, all_flags=BOTH, all_versions=False,
)  # fmt: skip
UNTIMED = replace(
    FILE, min_create_ts=None, max_create_ts=None, min_expire_ts=None, max_expire_ts=None, any_flags=0, all_flags=0
)


def judge(text: str, columns: tuple[str, ...] = ("key",)) -> Callable[[SstProperties], bool] | None:
    return file_test(bind_filter(parse_filter(text), COLUMNS), list(columns))


@pytest.mark.parametrize(
    ("text", "may_pass"),
    [
        ("_seq = 4", False),
        ("_seq = 5", True),
        ("_seq = 9", True),
        ("_seq = 10", False),
        ("_seq < 5", False),
        ("_seq <= 5", True),
        ("_seq > 9", False),
        ("_seq >= 9", True),
        ("_seq IN (1, 20)", False),
        ("_seq IN (1, 7, 20)", True),
        ("_seq IS NULL", False),
        ("_create_ts < '1970-01-01T00:00:10Z'", False),
        ("_create_ts <= '1970-01-01T00:00:10Z'", True),
        ("_create_ts > '1970-01-01T00:00:20Z'", False),
        ("_create_ts >= '1970-01-01T00:00:20Z'", True),
        ("_create_ts IS NULL", False),
        ("_expire_ts < '1970-01-01T00:00:30Z'", False),
        ("_expire_ts >= '1970-01-01T00:00:40Z'", True),
        ("_expire_ts IS NULL", False),
        ("_seq = 5 AND _create_ts > '1970-01-01T00:00:20Z'", False),
        ("_seq = 5 AND key = X'00'", True),
    ],
)
def test_a_file_whose_rows_all_have_times(text: str, may_pass: bool) -> None:
    test = judge(text)
    assert test is not None
    assert test(FILE) is may_pass


@pytest.mark.parametrize("column", ["_create_ts", "_expire_ts"])
@pytest.mark.parametrize(
    ("known", "is_null", "is_later"),
    [(FILE, False, True), (replace(FILE, all_flags=0), True, True), (UNTIMED, True, False)],
    ids=["all", "some", "none"],
)
def test_rows_without_a_time(column: str, known: SstProperties, is_null: bool, is_later: bool) -> None:
    for text, expected in ((f"{column} IS NULL", is_null), (f"{column} > '1970-01-01T00:00:01Z'", is_later)):
        test = judge(text)
        assert test is not None
        assert test(known) is expected


def test_sequence_numbers_that_the_column_cannot_show() -> None:
    test = judge("_seq < 5")
    assert test is not None
    assert not test(replace(FILE, max_seq=2**63 - 1))
    assert test(replace(FILE, max_seq=2**63)), "its rows are shown by other numbers"


def test_times_beyond_microseconds_count_as_the_nearest_ones() -> None:
    test = judge("_create_ts = '294247-01-10T04:00:54.775Z'")  # 2^63 us, in whole ms
    assert test is not None
    assert not test(FILE)
    assert test(replace(FILE, min_create_ts=2**63 - 1, max_create_ts=2**63 - 1))


@pytest.mark.parametrize(
    ("text", "columns"), [("key = X'00'", ("key",)), ("_seq = 5", ("key", "_seq"))], ids=["no metadata", "hidden"]
)
def test_a_filter_that_says_nothing_of_files(text: str, columns: tuple[str, ...]) -> None:
    assert judge(text, columns) is None
    assert file_test(None, ["key"]) is None
