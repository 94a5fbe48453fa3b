"""Dates and times from text. Expected values beyond the years of `datetime` are from Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from slatespark.encoding.predicates.datetimes import parse_date, parse_timestamp

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
