"""Dates, timestamps and times from text, by the rules of Spark's casts. Without an offset they are UTC.

Days and microseconds are computed here, since the years of `datetime` end at 9999.
"""

from __future__ import annotations

import re
from typing import Final

from slatespark.units import DAY_US

US_PER_S: Final = 1_000_000

NS_PER_US: Final = 1000

BLANKS: Final = "".join(map(chr, range(0x21)))  # Spark trims these
_DATE: Final = re.compile(r"([+-]?)(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_CLOCK: Final = r"(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?"
_TIMESTAMP: Final = re.compile(
    rf"([+-]?)(\d{{4,6}})(?:-(\d{{1,2}})(?:-(\d{{1,2}})(?:[ T]{_CLOCK}\s*(\S.*)?)?)?)?)?)?", re.ASCII
)
_TIME: Final = re.compile(r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?", re.ASCII)
_ZONE: Final = re.compile(r"(?:UTC|GMT|UT)?([+-])(.+)", re.ASCII)
_OFFSETS: Final = tuple(
    re.compile(form, re.ASCII)
    for form in (r"(\d{1,2})(?::(\d{1,2}))?", r"(\d\d):(\d\d):(\d\d)", r"(\d\d)(\d\d)(\d\d)?")
)
_UTC: Final = ("Z", "UTC", "GMT", "UT")
_MAX_OFFSET_S: Final = 18 * 3600
_DAYS_IN_MONTH: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def parse_date(text: str) -> int | None:
    """Return days since 1970-01-01, or None if the text is not a date.

    `2026`, `2026-1` and `2026-01-31` are dates; a time of day after the day is ignored.
    """
    match = _DATE.fullmatch(text.strip(BLANKS))
    if match is None:
        return None
    sign, year, month, day = match.groups()
    days = _days(int(sign + year), int(month or 1), int(day or 1))
    return days if days is not None and -(2**31) <= days < 2**31 else None


def parse_timestamp(text: str, *, with_offset: bool) -> int | None:
    """Return microseconds since 1970 in UTC, or None if the text is not a timestamp.

    Parameters
    ----------
    text : `2026-01-31 12:00:00.5+01:00`. Everything after the year may be omitted; only six decimals count
    with_offset : whether the offset counts; it does not for a TIMESTAMP_NTZ
    """
    match = _TIMESTAMP.fullmatch(text.strip(BLANKS))
    if match is None:
        return None
    sign, year, month, day, hour, minute, second, fraction, zone = match.groups()
    days = _days(int(sign + year), int(month or 1), int(day or 1))
    clock = _clock_us(hour or "0", minute or "0", second or "0", fraction or "")
    offset = _offset_s(zone or "Z")
    if days is None or clock is None or offset is None:
        return None
    moment = days * DAY_US + clock - (offset * US_PER_S if with_offset else 0)
    return moment if -(2**63) <= moment < 2**63 else None


def parse_time(text: str) -> int | None:
    """Return nanoseconds since midnight, or None if the text is not a time of day."""
    match = _TIME.fullmatch(text.strip(BLANKS))
    if match is None:
        return None
    clock = _clock_us(match[1], match[2], match[3] or "0", match[4] or "")
    return None if clock is None else clock * NS_PER_US


def _days(year: int, month: int, day: int) -> int | None:
    """Return days since 1970-01-01 in the proleptic Gregorian calendar."""
    if not 1 <= month <= 12 or not 1 <= day <= _DAYS_IN_MONTH[month - 1] + (month == 2 and _is_leap(year)):
        return None
    # Years start in March, which makes the leap day the last day: year n starts at n * 365.2425 days.
    shifted, in_year = (year, month - 3) if month > 2 else (year - 1, month + 9)
    before = shifted * 365 + shifted // 4 - shifted // 100 + shifted // 400
    return before + (153 * in_year + 2) // 5 + day - 1 - 719_468


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _clock_us(hour: str, minute: str, second: str, fraction: str) -> int | None:
    if int(hour) > 23 or int(minute) > 59 or int(second) > 59:
        return None
    seconds = (int(hour) * 60 + int(minute)) * 60 + int(second)
    return seconds * US_PER_S + int(fraction[:6].ljust(6, "0"))


def _offset_s(zone: str) -> int | None:
    if zone in _UTC:
        return 0
    signed = _ZONE.fullmatch(zone)
    match = next(filter(None, (form.fullmatch(signed[2]) for form in _OFFSETS)), None) if signed else None
    if signed is None or match is None:
        return None
    hours, minutes, seconds = (int(part or 0) for part in (*match.groups(), None, None)[:3])
    total = (hours * 60 + minutes) * 60 + seconds
    if minutes > 59 or seconds > 59 or total > _MAX_OFFSET_S:
        return None
    return -total if signed[1] == "-" else total
