"""Clocks of a program: valid times, and the effect of a clock that goes back."""

from __future__ import annotations

from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from slatespark import Clock, ClockRegressionError, InvalidRequestError, OptionError, SlateStore
from slatespark.table.clock import SystemClock
from slatespark.table.log.manifests import MAX_AHEAD_MS
from tests.support.our_reads import our_rows

NOW_MS = 1_700_000_000_000

_numbers = count()


class OwnClock(Clock):
    """The least that a clock needs."""

    def __init__(self, now_ms: Any = NOW_MS) -> None:
        self.shows = now_ms

    def now_ms(self) -> int:
        return self.shows  # type: ignore[no-any-return]


def new_store(clock: OwnClock) -> SlateStore:
    return SlateStore.create(f"memory://own-clock-{next(_numbers)}", clock=clock)


def rows(key: bytes) -> pa.Table:
    return pa.table({"key": [key], "value": [key]})


def created(store: SlateStore, **options: Any) -> dict[bytes, int | None]:
    return {row.key: row.create_ts for row in our_rows(store, **options)}


def test_times_of_writes_and_reads_are_those_of_the_clock() -> None:
    clock = OwnClock()
    store = new_store(clock)
    store.write(rows(b"a"), ttl=100)
    clock.shows += 99
    store.write(rows(b"b"))
    assert created(store) == {b"a": NOW_MS, b"b": NOW_MS + 99}
    clock.shows += 1
    assert created(store) == {b"b": NOW_MS + 99}
    assert store.history(1)[0].committed_ms == NOW_MS + 99


@pytest.mark.parametrize("back_ms", [1, MAX_AHEAD_MS])
def test_a_clock_set_back_a_little_stamps_the_tick(back_ms: int) -> None:
    clock = OwnClock()
    store = new_store(clock)
    store.write(rows(b"a"), ttl=5)
    clock.shows -= back_ms
    store.write(rows(b"b"), ttl=5)
    assert created(store) == {b"a": NOW_MS, b"b": NOW_MS}
    clock.shows = NOW_MS + 5
    assert created(store) == {}


def test_a_clock_set_back_further_cannot_write() -> None:
    clock = OwnClock()
    store = new_store(clock)
    store.write(rows(b"a"), ttl=5)
    clock.shows -= MAX_AHEAD_MS + 1
    message = rf"\({NOW_MS}\).*\({clock.shows}\)"
    with pytest.raises(ClockRegressionError, match=message):
        store.write(rows(b"b"))
    assert created(store) == {b"a": NOW_MS}, "reads go on at the tick"
    clock.shows = NOW_MS - MAX_AHEAD_MS
    store.write(rows(b"b"))


@pytest.mark.parametrize("shows", [-1, 1 << 48, 1.5, None, "now", True])
def test_invalid_times_cannot_write(shows: Any) -> None:
    clock = OwnClock()
    store = new_store(clock)
    store.write(rows(b"a"))
    clock.shows = shows
    with pytest.raises(InvalidRequestError, match="clock"):
        store.write(rows(b"b"))
    clock.shows = NOW_MS
    assert created(store) == {b"a": NOW_MS}


@pytest.mark.parametrize("clock", [5, object(), SystemClock().now_ms])
def test_other_objects_are_not_clocks(clock: Any) -> None:
    with pytest.raises(OptionError, match="clock"):
        SlateStore.create("memory://no-clock", clock=clock)
    with pytest.raises(OptionError, match="clock"):
        SlateStore.open("memory://no-clock", clock=clock)
    with pytest.raises(TypeError, match="abstract"):
        Clock()  # type: ignore[misc]
