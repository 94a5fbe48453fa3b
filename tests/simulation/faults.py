"""Which calls fail, and how; who dies, and who sleeps."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Self

from tests.simulation.chance import Chance


class Fault(Enum):
    """What happens to one call."""

    BEFORE = "fails before the store sees it"
    LOST = "takes effect, and its answer is lost"
    LATE = "fails, and takes effect later"
    KILL_BEFORE = "the process dies before the call"
    KILL_AFTER = "the process dies after the call"
    SLEEP = "the process sleeps before the call"
    OUTAGE = "fails, and so do the next ones of the process"


OUTAGE_CALLS: Final = 12
_SLEEPS_MS: Final = (300, 3_000, 20_000, 120_000, 3_600_000, 100_000_000)  # the last one is longer than a lease


@dataclass(slots=True)
class FaultPlan:
    """The faults of one seed.

    Attributes
    ----------
    error_rate, kill_rate, sleep_rate : how likely they are at a call
    counts : how many there were
    """

    rng: Chance
    error_rate: float = 0.0
    kill_rate: float = 0.0
    sleep_rate: float = 0.0
    may_be_late: bool = False
    counts: Counter[Fault] = field(default_factory=Counter)

    @classmethod
    def draw(cls, rng: Chance) -> Self:
        """Return the plan of a seed: every third has no faults at all."""
        return cls(
            Chance(rng.getrandbits(64)),
            error_rate=rng.choice([0, 0, 0.003, 0.02, 0.06]),
            kill_rate=rng.choice([0, 0, 0.002, 0.01]),
            sleep_rate=rng.choice([0, 0, 0.001, 0.005]),
            may_be_late=rng.random() < 0.5,
        )

    def draw_fault(self, *, is_write: bool) -> Fault | None:
        """Return what happens to a call."""
        chance = self.rng.random()
        fault: Fault | None = None
        if chance < self.error_rate:
            fault = self.rng.choice([Fault.BEFORE, Fault.LOST, Fault.LOST, Fault.OUTAGE, Fault.LATE])
            if fault is Fault.LATE and not (self.may_be_late and is_write):
                fault = Fault.LOST
        elif chance < self.error_rate + self.kill_rate:
            fault = self.rng.choice([Fault.KILL_BEFORE, Fault.KILL_AFTER])
        elif chance < self.error_rate + self.kill_rate + self.sleep_rate:
            fault = Fault.SLEEP
        if fault is not None:
            self.counts[fault] += 1
        return fault

    def draw_sleep_ms(self) -> int:
        """Return how long a process sleeps."""
        return self.rng.randrange(self.rng.choice(_SLEEPS_MS))
