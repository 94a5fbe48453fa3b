"""A clock that is set back in the middle of a wait."""

from __future__ import annotations

from tests.support.fake_clock import FakeClock

BACK_MS = 3_600_000


class ClockSetBack(FakeClock):
    """It is set back by an hour after the first sleep."""

    def sleep_ms(self, duration_ms: int) -> None:
        super().sleep_ms(duration_ms)
        if len(self.slept_ms) == 1:
            self.advance(-BACK_MS)
