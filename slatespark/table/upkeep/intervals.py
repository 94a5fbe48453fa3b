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


def pause_after(failures: int, shortest_ms: int, longest_ms: int) -> int:
    """Return how long to leave alone what has failed so many times in a row, in ms; it doubles with each failure."""
    return min(longest_ms, shortest_ms << min(failures - 1, 30))
