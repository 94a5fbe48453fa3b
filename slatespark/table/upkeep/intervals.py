"""How often a table is looked at."""

from __future__ import annotations

from datetime import timedelta

from slatespark.errors import OptionError
from slatespark.units import parse_duration_ms


def parse_intervals(shortest: str | int | timedelta, longest: str | int | timedelta) -> tuple[int, int]:
    """Return `minInterval` and `maxInterval` in ms; raises `OptionError`."""
    min_ms = parse_duration_ms(shortest, name="minInterval")
    max_ms = parse_duration_ms(longest, name="maxInterval")
    if not 0 < min_ms <= max_ms:
        raise OptionError(
            f"minInterval: {min_ms} ms is not between 1 ms and maxInterval, {max_ms} ms.",
            todo="Give a shorter minInterval, or a longer maxInterval.",
        )
    return min_ms, max_ms
