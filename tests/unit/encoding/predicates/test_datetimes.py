"""Dates and times from text. Expected values beyond the years of `datetime` are from Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slatespark.encoding.predicates.datetimes import parse_date, parse_time, parse_timestamp

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
US = timedelta(microseconds=1)


@given(st.dates())
def test_every_date(day: date) -> None:
    assert parse_date(day.isoformat()) == day.toordinal() - EPOCH.toordinal()


@given(st.datetimes(timezones=st.just(UTC)), st.integers(-18 * 60, 18 * 60))
def test_every_moment_at_every_offset(moment: datetime, offset_minutes: int) -> None:
    naive = moment.replace(tzinfo=None).isoformat(sep=" ")
    sign, (hours, minutes) = "-" if offset_minutes < 0 else "+", divmod(abs(offset_minutes), 60)
    text = f"{naive}{sign}{hours:02}:{minutes:02}"
    if moment.second == 0 and moment.microsecond == 0:
        text = f"{naive}{sign}{hours}:{minutes}"
    expected = (moment - EPOCH) // US
    assert parse_timestamp(text, with_offset=True) == expected - offset_minutes * 60_000_000
    assert parse_timestamp(text, with_offset=False) == expected


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("1970", 0),
        ("1970-2", 31),
        (" 1970-01-02 ", 1),
        ("1970-01-02 whatever", 1),
        ("1970-01-02T", 1),
        ("+01970-1-2", 1),
        ("0000-01-01", -719_528),
        ("-0001-12-31", -719_529),
        ("5881580-07-11", 2**31 - 1),
        ("5881580-07-12", None),
        ("-5877641-06-23", -(2**31)),
        ("1900-02-29", None),
        ("2000-02-29", 11_016),
        ("1970-13-01", None),
        ("1970-00-01", None),
        ("1970-01-32", None),
        ("1970-01-001", None),
        ("197-01-01", None),
        ("12345678-01-01", None),
        ("1970-01-01x", None),
        ("1970-", None),
        ("1970 x", None),
        ("19700101", None),
        ("", None),
        ("today", None),
        ("\u0661\u0669\u0667\u0660", None),
    ],
)
def test_dates(text: str, days: int | None) -> None:
    assert parse_date(text) == days


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("1970", 0),
        ("1970-01-01 1", 3_600_000_000),
        ("1970-01-01T0:1", 60_000_000),
        ("1970-01-01 00:00:00.1234567", 123_456),
        ("1970-01-01 00:00:01.", 1_000_000),
        ("1970-01-01 00:00:00Z", 0),
        ("1970-01-01 00:00:00 UTC+1", -3_600_000_000),
        ("1970-01-01 00:00:00 GMT-01:30", 5_400_000_000),
        ("1970-01-01 00:00:00+0100", -3_600_000_000),
        ("1970-01-01 00:00:00-01:30:15", 5_415_000_000),
        ("1970-01-01 00:00:00+18:00", -64_800_000_000),
        ("294247-01-10 04:00:54.775807", 2**63 - 1),
        ("294247-01-10 04:00:54.775808", None),
        ("-290308-12-21 19:59:05.224192", -(2**63)),
        ("1970-01-01T", None),
        ("1970-01-01 24:00:00", None),
        ("1970-01-01 00:60", None),
        ("1970-01-01 00:00:60", None),
        ("1970-01-01 00:00:00+18:01", None),
        ("1970-01-01 00:00:00+1:60", None),
        ("1970-01-01 00:00:00+01:", None),
        ("1970-01-01 00:00:00+130", None),
        ("1970-01-01 00:00:00z", None),
        ("1970-01-01 00:00:00PST", None),
        ("1970-01-01 00:00Z", None),
        ("1970-01-01Z", None),
        ("12:00:00", None),
        ("now", None),
    ],
)
def test_timestamps(text: str, us: int | None) -> None:
    assert parse_timestamp(text, with_offset=True) == us


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("00:00", 0),
        ("1:2:3", 3_723_000_000_000),
        ("23:59:59.999999", 86_399_999_999_000),
        ("24:00", None),
        ("12", None),
        ("12:00 PM", None),
    ],
)
def test_times(text: str, ns: int | None) -> None:
    assert parse_time(text) == ns
