"""A clock that stands until it is told to go on; what it draws is the same in every run."""

from __future__ import annotations

import threading

import numpy as np

from slatespark.table.clock import SystemClock


class FakeClock:
    """A `Clock` for tests.

    Parameters
    ----------
    now_ms : where it stands; None is the present, which a real client on the same database needs
    seed : of what it draws; two clocks on one database need two seeds, lest their ids meet
    """

    def __init__(self, now_ms: int | None = None, *, seed: int = 0) -> None:
        self._now_ms = SystemClock().now_ms() if now_ms is None else now_ms
        self._generator = np.random.default_rng(seed)
        self._lock = threading.Lock()
        self.slept_ms: list[int] = []

    def now_ms(self) -> int:
        return self._now_ms

    def advance(self, by_ms: int) -> None:
        """Let time pass; a negative number sets the clock back."""
        self._now_ms += by_ms

    def random_bits(self, count: int) -> int:
        with self._lock:
            return int.from_bytes(self._generator.bytes(-(-count // 8)), "little") >> (-count % 8)

    def sleep_ms(self, duration_ms: int) -> None:
        self.slept_ms.append(duration_ms)
        self._now_ms += duration_ms
