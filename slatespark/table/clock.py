"""Where time, ids and randomness come from: the only module that asks the machine for them.

Everything else takes a `Clock`, so that a test replays exactly.
"""

from __future__ import annotations

import secrets
import time
from typing import Protocol
from uuid import UUID

from slatespark.format.ulid import Ulid, make_ulid
from slatespark.units import ns_to_ms


class Clock(Protocol):
    """Time in ms since the epoch, and random bits."""

    def now_ms(self) -> int:
        """Return the present instant."""

    def random_bits(self, count: int) -> int:
        """Return `count` random bits as a non-negative integer."""

    def sleep_ms(self, duration_ms: int) -> None:
        """Wait."""


class SystemClock:
    """The clock of this machine."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Return the system time."""
        return ns_to_ms(time.time_ns())

    def random_bits(self, count: int) -> int:
        """Return bits from the system's generator."""
        return secrets.randbits(count)

    def sleep_ms(self, duration_ms: int) -> None:
        """Sleep."""
        time.sleep(duration_ms / 1000)


def new_ulid(clock: Clock, at_ms: int | None = None) -> Ulid:
    """Return a fresh ULID of the present, or of the instant `at_ms`."""
    return make_ulid(clock.now_ms() if at_ms is None else at_ms, clock.random_bits(80))


def new_uuid(clock: Clock) -> UUID:
    """Return a random UUID (version 4)."""
    return UUID(int=clock.random_bits(128), version=4)


def back_off(clock: Clock, attempt: int) -> None:
    """Wait before retry number `attempt` (from 0): at most 50 ms at first, doubling up to 2 s, with full jitter."""
    ceiling_ms = min(2000, 50 << min(attempt, 6))
    clock.sleep_ms(clock.random_bits(16) % ceiling_ms + 1)
