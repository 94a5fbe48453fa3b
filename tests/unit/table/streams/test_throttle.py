"""One look in each interval, however often a stream is asked; in between it sleeps a little."""

from __future__ import annotations

import itertools

from slatespark.table.streams.throttle import PAUSE_MS, Throttle
from tests.support.fake_clock import FakeClock


def test_one_look_in_each_interval() -> None:
    clock = FakeClock(10_000)
    throttle = Throttle(clock, 1000)
    looks = []
    while clock.now_ms() < 20_000:
        if throttle.allows():
            looks.append(clock.now_ms())
        clock.advance(10)  # Spark's own pause
    assert looks[0] == 10_000
    assert all(later - earlier >= 1000 for earlier, later in itertools.pairwise(looks))
    assert len(looks) >= 9
    assert max(clock.slept_ms) <= PAUSE_MS
    assert len(clock.slept_ms) < 110, "a tenth of the calls that come without a pause"


def test_a_clock_that_was_set_back_stops_no_look() -> None:
    clock = FakeClock(10_000)
    throttle = Throttle(clock, 1000)
    assert throttle.allows()
    clock.advance(-5000)
    assert throttle.allows()
    assert not throttle.allows()
