"""Throttle: how often a stream looks for a new version, however often it is asked for one."""

from __future__ import annotations

from typing import Final

from slatespark.table.clock import Clock

# Spark asks about 77 times a second. A short sleep makes that ten times, and stops no other source of the query.
PAUSE_MS: Final = 100


class Throttle:
    """Allows one poll in each interval.

    Parameters
    ----------
    clock : the clock of the machine
    interval_ms : time from one poll to the next
    """

    def __init__(self, clock: Clock, interval_ms: int) -> None:
        self._clock, self._interval_ms = clock, interval_ms
        self._looked_ms: int | None = None

    def allows(self) -> bool:
        """Return whether it is time for another poll, and count it; else sleep for a moment."""
        now_ms = self._clock.now_ms()
        if self._looked_ms is None or not 0 <= now_ms - self._looked_ms < self._interval_ms:
            self._looked_ms = now_ms
            return True
        self._clock.sleep_ms(min(PAUSE_MS, self._looked_ms + self._interval_ms - now_ms))
        return False
