"""TimedWait: a wait with an end, in turns."""

from __future__ import annotations

from dataclasses import dataclass, field

from slatespark.table.clock import Clock


@dataclass(slots=True)
class TimedWait:
    """A wait for something that is looked at in turns; a clock that is set back does not prolong it.

    Attributes
    ----------
    timeout_ms : its longest duration
    """

    clock: Clock
    timeout_ms: int
    _began_ms: int = field(init=False)
    _slept_ms: int = 0

    def __post_init__(self) -> None:
        self._began_ms = self.clock.now_ms()

    @property
    def is_over(self) -> bool:
        """Whether so much time has passed."""
        return max(self._slept_ms, self.clock.now_ms() - self._began_ms) >= self.timeout_ms

    def pause(self, duration_ms: int) -> None:
        """Sleep until the next look."""
        self.clock.sleep_ms(duration_ms)
        self._slept_ms += duration_ms
