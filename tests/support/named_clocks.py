"""Functions that the option `clock` can name."""

from __future__ import annotations

from typing import Final

NOON_MS: Final = 1_700_000_000_000
HOUR_MS: Final = 3_600_000


def noon() -> int:
    return NOON_MS


def hour_later() -> int:
    return NOON_MS + HOUR_MS


def in_seconds() -> float:
    return NOON_MS / 1000


def broken() -> int:
    raise ZeroDivisionError("no battery")
