"""ISO-8601 text -> dates, instants, durations and times of day as numbers; errors are `ValueError`s with a hint."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from slatespark.units import DAY_US

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  # only subtracted from times that have no zone either
_CYCLE_YEARS: Final = 400
_CYCLE_DAYS: Final = 146_097

_FAR: Final = re.compile(r"([+-]?\d{3,7})(-\d\d-\d\d(?:[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?)?)", re.ASCII)
_DURATION: Final = re.compile(
    r"(-)?P(?:(\d{1,9})D)?(?:T(?:(\d{1,12})H)?(?:(\d{1,12})M)?(?:(\d{1,15})(?:\.(\d{1,6}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
_BELOW_US: Final = re.compile(r"[.,]\d{6}\d*[1-9]", re.ASCII)  # digits that a microsecond does not have
_TIME: Final = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?", re.ASCII)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("Write it as text in ISO-8601.")  # noqa: TRY004  # every refusal here is a ValueError
    return value.strip()


def parse_days(value: Any, kind: pa.DataType) -> int:
    """Return a date as days since the epoch, in any year."""
    del kind
    text = _text(value)
    if len(text) < len("2026-01-31") or "T" in text or " " in text:
        raise ValueError("Write it like 2026-01-31.")
    return _since_epoch_us(text) // DAY_US


def parse_timestamp_us(value: Any, kind: pa.DataType) -> int:
    """Return an instant as microseconds since the epoch, in any year.

    Text without an offset is UTC; a timestamp without time zone takes no offset.
    """
    text = _text(value)
    if _BELOW_US.search(text):
        raise ValueError("It is more exact than a microsecond.")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return _since_epoch_us(text.removesuffix("Z") if kind.tz else text)
    if moment.tzinfo is None:
        return (moment - _EPOCH) // timedelta(microseconds=1)
    if kind.tz is None:
        raise ValueError("It has no time zone: leave the offset out.")
    shift = moment.utcoffset() or timedelta()
    return (moment.replace(tzinfo=None) - _EPOCH - shift) // timedelta(microseconds=1)


def _since_epoch_us(text: str) -> int:
    """Return a time without offset as microseconds since the epoch, also in years that `datetime` does not support."""
    match = _FAR.fullmatch(text)
    if match is None:
        raise ValueError("Write it like 2026-01-31 or 2026-01-31T12:00:00.")
    # The calendar repeats every 400 years: compute the same time in a supported cycle, and add the cycles in between.
    cycles, near = divmod(int(match[1]) - 2000, _CYCLE_YEARS)
    moment = datetime.fromisoformat(f"{near + 2000:04d}{match[2]}")
    return (moment - _EPOCH) // timedelta(microseconds=1) + cycles * _CYCLE_DAYS * DAY_US


def parse_duration_us(value: Any, kind: pa.DataType) -> int:
    """Return a duration as microseconds."""
    del kind
    match = _DURATION.fullmatch(_text(value))
    if match is None or not any(part is not None for part in match.groups()[1:]):
        raise ValueError("Write it like P1DT2H or PT90.5S.")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups()[1:5])
    whole = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    micros = whole * 1_000_000 + int((match[6] or "0").ljust(6, "0"))
    return -micros if match[1] else micros


def parse_time_ns(value: Any, kind: pa.DataType) -> int:
    """Return a time of day as nanoseconds since midnight."""
    del kind
    match = _TIME.fullmatch(_text(value))
    hours, minutes, seconds = (int(part) for part in match.groups()[:3]) if match is not None else (24, 0, 0)
    if match is None or hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError("Write it like 12:30:00.5.")
    whole = (hours * 60 + minutes) * 60 + seconds
    return whole * 1_000_000_000 + int((match[4] or "0").ljust(9, "0"))
