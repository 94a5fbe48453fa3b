"""Durations, instants and sizes: the one place that parses, formats and converts them.

Instants and durations are integers in milliseconds everywhere else (`*_ms`); the format keeps seconds in checkpoints
and in the sequence tracker (`*_s`).
"""

from __future__ import annotations

import operator
import re
from datetime import UTC, datetime, timedelta
from typing import Final

from slatespark.errors import OptionError

MAX_MS: Final = 2**63 - 1
MAX_TIMESTAMP_MS: Final = MAX_MS // 1000  # a timestamp of microseconds holds no later instant
MAX_CALENDAR_MS: Final = 253_402_300_799_999  # the end of the year 9999
MIN_MS: Final = -(2**63)

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
WEEK_MS: Final = 7 * DAY_MS
DAY_US: Final = 1000 * DAY_MS

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNIT_MS: Final = {"ms": 1, "s": 1000, "m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS, "w": WEEK_MS}
_UNIT_BYTES: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}

_MAX_CHARS: Final = 100  # no valid value is longer; for thousands of digits Python raises an error of its own

# Without ASCII, the long s of old prints is an s, and the sign for Kelvin a k.
_ANY_CASE: Final = re.IGNORECASE | re.ASCII
_SIMPLE_DURATION: Final = re.compile(r"(\d+)\s*(ms|s|m|h|d|w)", _ANY_CASE)
_ISO_DURATION: Final = re.compile(
    r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,3}))?S)?)?", _ANY_CASE
)
# A date without hyphens, maybe with a time: as ms it would be one of 1970, or of the far future.
_DATE_DIGITS: Final = re.compile(
    r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(([01]\d|2[0-3])[0-5]\d[0-5]\d)?", re.ASCII
)
_SIZE: Final = re.compile(r"(\d+)\s*([kmgt]?)(?:i?b)?", _ANY_CASE)


def whole_number(value: object) -> int | None:
    """Return a whole number of any type, such as numpy's; None for anything else, booleans too."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return None
    try:
        return operator.index(value)
    except TypeError:  # an array of numpy
        return None


def parse_duration_ms(value: str | int | timedelta, *, name: str = "duration") -> int:
    """Return a non-negative duration in ms.

    Parameters
    ----------
    value : `7d`, `90m`, `250ms`, ISO-8601 (`P7D`, `PT1H30M`), a plain number of ms, or a timedelta
    name : the option, for error messages

    Raises
    ------
    OptionError
        The value has another form, is negative, or does not fit 64 bits.
    """
    number = whole_number(value)
    if isinstance(value, timedelta):
        ms = value // timedelta(milliseconds=1)
    elif isinstance(value, str):
        ms = _duration_text_ms(_stripped(value, name), name)
    elif number is not None:
        ms = number
    else:
        raise _bad_duration(value, name)
    if not 0 <= ms <= MAX_MS:
        raise OptionError(f"{name}: {value!r} is out of range.", todo="A duration must be between 0 and 2^63 - 1 ms.")
    return ms


def _stripped(value: str, name: str) -> str:
    text = value.strip()
    if len(text) > _MAX_CHARS:
        raise OptionError(
            f"{name}: {text[:_MAX_CHARS]!r}... has {len(text)} characters, expected at most {_MAX_CHARS}."
        )
    return text


def _duration_text_ms(text: str, name: str) -> int:
    if text.isascii() and text.isdigit():
        return int(text)
    if simple := _SIMPLE_DURATION.fullmatch(text):
        return int(simple[1]) * _UNIT_MS[simple[2].lower()]
    iso = _ISO_DURATION.fullmatch(text)
    if iso is None or not any(iso.groups()):
        raise _bad_duration(text, name)
    weeks, days, hours, minutes, seconds = (int(part or 0) for part in iso.groups()[:5])
    millis = int((iso[6] or "0").ljust(3, "0"))
    return ((((weeks * 7 + days) * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + millis


def _bad_duration(value: object, name: str) -> OptionError:
    return OptionError(f"{name}: {value!r} is not a duration.", todo="Write 7d, 90m, 500ms, P7D, or a number of ms.")


def parse_time_ms(value: str | int | datetime, *, name: str = "time") -> int:
    """Return an instant in ms since the epoch.

    Parameters
    ----------
    value : ISO-8601 text (without an offset it is UTC), a number of ms, or a datetime (naive is UTC)
    name : the option, for error messages

    Raises
    ------
    OptionError
        The value has another form, may be a date or a number, or does not fit 64 bits.
    """
    if isinstance(value, datetime) and value == value:  # unlike NaT of pandas, which is a datetime too
        return datetime_to_ms(value)
    if isinstance(value, str):
        text = _stripped(value, name)
        if _DATE_DIGITS.fullmatch(text):
            raise OptionError(
                f"{name}: {text!r} is a date without hyphens, or ms since 1970.",
                todo=f"Write {text[:4]}-{text[4:6]}-{text[6:8]} for the date, or +{text} for ms.",
            )
        if re.fullmatch(r"[+-]?\d+", text, re.ASCII):
            value = int(text)
        else:
            return datetime_to_ms(_parse_iso(text, name))
    number = whole_number(value)
    if number is None:
        raise OptionError(f"{name}: {value!r} is not an instant.", todo="Write 2026-01-31T12:00:00Z or ms since 1970.")
    if not MIN_MS <= number <= MAX_MS:
        raise OptionError(f"{name}: {value!r} is out of range.", todo="Use ms since 1970 within 64 bits.")
    return number


def _parse_iso(text: str, name: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as exc:
        raise OptionError(
            f"{name}: {text!r} is not an instant.", todo="Write 2026-01-31T12:00:00Z or ms since 1970."
        ) from exc


def datetime_to_ms(moment: datetime) -> int:
    """Return ms since the epoch, rounded down; a naive datetime is UTC."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(milliseconds=1)


def ms_to_text(ms: int) -> str:
    """Return an instant as ISO-8601 in UTC, or the number itself if no calendar date represents it."""
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return str(ms)


def time_text(time_ms: int) -> str:
    """Return an instant for a message: as text, and in ms."""
    return f"{ms_to_text(time_ms)} ({time_ms})"


def ms_to_s(ms: int) -> int:
    """Return whole seconds, rounded down."""
    return ms // 1000


def s_to_ms(seconds: int) -> int:
    """Return seconds as ms."""
    return seconds * 1000


def ns_to_ms(ns: int) -> int:
    """Return nanoseconds as ms, rounded down."""
    return ns // 1_000_000


def duration_to_text(ms: int) -> str:
    """Return a duration in the largest unit that divides it, as `parse_duration_ms` accepts it: `24h`, `90m`."""
    factors = {"h": HOUR_MS, "m": MINUTE_MS, "s": 1000}
    return next((f"{ms // factor}{unit}" for unit, factor in factors.items() if ms and ms % factor == 0), f"{ms}ms")


def us_to_ms(us: int) -> int:
    """Return microseconds as ms, rounded down."""
    return us // 1000


def parse_bytes(value: str | int, *, name: str = "size") -> int:
    """Return a positive number of bytes.

    Parameters
    ----------
    value : `64m`, `1g`, `512k`, `64MiB`, or a plain number; factors are powers of 1024
    name : the option, for error messages

    Raises
    ------
    OptionError
        The value has another form or is not positive.
    """
    match = _SIZE.fullmatch(_stripped(value, name)) if isinstance(value, str) else None
    number = whole_number(value)
    if match is not None:
        size = int(match[1]) * _UNIT_BYTES[match[2].lower()]
    elif number is not None:
        size = number
    else:
        raise OptionError(f"{name}: {value!r} is not a size.", todo="Write 64m, 512k, 1g, or a number of bytes.")
    if not 0 < size <= MAX_MS:
        raise OptionError(f"{name}: {value!r} is out of range.", todo="A size must be at least one byte.")
    return size


def bytes_to_text(size: int) -> str:
    """Return a human-readable size: `1.5 MiB`."""
    if size < 1024:
        return f"{size} B"
    amount = float(size)
    for unit in ("KiB", "MiB", "GiB"):
        amount /= 1024
        if amount < 1024:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1024:.1f} TiB"
