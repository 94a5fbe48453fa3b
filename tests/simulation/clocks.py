"""Clocks of actors: each goes its own way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from slatespark.table.clock import Clock
from tests.simulation.chance import Chance
from tests.simulation.scheduler import Scheduler

START_MS: Final = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class Drift:
    """How a clock differs from the time.

    Attributes
    ----------
    offset_ms : it is ahead by that at the beginning
    per_mille : it runs faster by that
    stands_ms : from this time on (since the beginning) it stands, for `stood_ms`, and is right again afterwards
    jumps_ms : at this time it is set forward by `jump_ms`, for good
    """

    offset_ms: int = 0
    per_mille: int = 0
    stands_ms: int = 0
    stood_ms: int = 0
    jumps_ms: int = 0
    jump_ms: int = 0

    @classmethod
    def draw(cls, rng: Chance) -> Drift:
        """Return a clock as machines have them: mostly right."""
        match rng.randrange(8):
            case 0:
                return cls(offset_ms=rng.randint(-1500, 1500))
            case 1:
                return cls(offset_ms=rng.randint(-200, 200), per_mille=rng.randint(-20, 20))
            case 2:
                return cls(stands_ms=rng.randrange(20_000), stood_ms=rng.randrange(30_000))
            case 3:
                return cls(jumps_ms=rng.randrange(20_000), jump_ms=rng.randint(-5_000, 5_000))
        return cls()

    def read_ms(self, true_ms: int) -> int:
        """Return what the clock shows."""
        since_ms = true_ms - START_MS
        if self.stands_ms <= since_ms < self.stands_ms + self.stood_ms:
            since_ms = self.stands_ms
        jump_ms = self.jump_ms if since_ms >= self.jumps_ms else 0
        return START_MS + since_ms + self.offset_ms + since_ms * self.per_mille // 1000 + jump_ms


class ActorClock(Clock):
    """The clock of one process, with its random numbers."""

    def __init__(self, scheduler: Scheduler, rng: Chance, drift: Drift) -> None:
        self._scheduler, self._rng, self._drift = scheduler, rng, drift

    def now_ms(self) -> int:
        """Return the time by this clock."""
        return self._drift.read_ms(self._scheduler.now_ms)

    def random_bits(self, count: int) -> int:
        """Return random bits of the seed."""
        return self._rng.getrandbits(count)

    def sleep_ms(self, duration_ms: int) -> None:
        """Let time pass."""
        if self._scheduler.current is not None:  # what is no fiber makes no call either
            self._scheduler.sleep(duration_ms)
