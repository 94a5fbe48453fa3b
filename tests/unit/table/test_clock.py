"""Clocks of a program: valid times, and the effect of a clock that goes back."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from slatespark import Clock, ClockRegressionError, InvalidRequestError, OptionError, SlateStore
from slatespark.options import ReadOptions, WriteOptions
from slatespark.table import clock as clock_module
from slatespark.table.clock import HighWaterMark, SystemClock, resolve_clock
from slatespark.table.log.manifests import MAX_AHEAD_MS
from tests.support.named_clocks import NOON_MS
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


class MachineClock:
    """The clock of the machine, as a test sets it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shows_ms = NOW_MS
        monkeypatch.setattr(time, "time_ns", lambda: self.shows_ms * 1_000_000)
        monkeypatch.setattr(clock_module, "_read_until", HighWaterMark())  # those of other tests are later


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> MachineClock:
    return MachineClock(monkeypatch)


def test_rows_hidden_as_expired_stay_hidden_when_the_system_clock_is_set_back(machine: MachineClock) -> None:
    store = SlateStore.create(f"memory://system-clock-{next(_numbers)}")
    store.write(rows(b"a"), ttl=100)
    assert created(store) == {b"a": NOW_MS}
    machine.shows_ms += 100
    assert (created(store), store.get(b"a")) == ({}, None)
    machine.shows_ms -= 99
    assert (created(store), store.get(b"a")) == ({}, None)
    assert created(SlateStore.open(store.url)) == {}, "the process reads by one clock"
    assert store.begin().get(b"a") is None
    assert created(store, now=NOW_MS + 99) == {b"a": NOW_MS}, "an instant that is given counts"
    machine.shows_ms += 200
    assert store.resolve().now_ms == NOW_MS + 201


def test_an_instant_that_was_read_is_not_of_the_future_later(machine: MachineClock) -> None:
    store = SlateStore.create(f"memory://system-clock-{next(_numbers)}", history=True)
    store.write(rows(b"a"))
    machine.shows_ms += 1000
    assert created(store, timestampAsOf=NOW_MS + 1000) == {b"a": NOW_MS}
    machine.shows_ms -= 500
    assert created(store, timestampAsOf=NOW_MS + 1000) == {b"a": NOW_MS}
    with pytest.raises(OptionError, match="future"):
        created(store, timestampAsOf=NOW_MS + 1001)


def test_a_clock_of_the_program_may_go_back() -> None:
    clock = OwnClock()
    store = new_store(clock)
    store.write(rows(b"a"), ttl=100)
    clock.shows += 100
    assert created(store) == {}
    clock.shows -= 1
    assert created(store) == {b"a": NOW_MS}


# --- clocks by name -------------------------------------------------------------------------------------------------

CLOCKS = "tests.support.named_clocks"


def test_a_clock_may_be_named() -> None:
    url = f"memory://named-clock-{next(_numbers)}"
    store = SlateStore.create(url, clock=f"{CLOCKS}:noon")
    store.write(rows(b"a"), ttl="1h")
    assert created(store) == {b"a": NOON_MS}
    assert created(SlateStore.open(url, clock=f"{CLOCKS}:hour_later")) == {}
    assert dict(store.definition.properties) == {}, "a table keeps no name of code"


def test_a_named_clock_travels_to_other_processes() -> None:
    clock = resolve_clock(f"{CLOCKS}:noon")
    assert pickle.loads(pickle.dumps(clock)).now_ms() == NOON_MS


@pytest.mark.parametrize(
    "name",
    ["noon", "tests:", ":noon", "tests.support.nowhere:noon", f"{CLOCKS}:midnight", f"{CLOCKS}:NOON_MS", "a b:c"],
)
def test_names_of_no_clock(name: str) -> None:
    with pytest.raises(OptionError, match="clock"):
        SlateStore.open("memory://no-clock", clock=name)


@pytest.mark.parametrize(("function", "word"), [("in_seconds", "not a time"), ("broken", "ZeroDivisionError")])
def test_a_named_clock_that_tells_no_time(function: str, word: str) -> None:
    url = f"memory://named-clock-{next(_numbers)}"
    SlateStore.create(url)
    store = SlateStore.open(url, clock=f"{CLOCKS}:{function}")
    with pytest.raises(InvalidRequestError, match=word):
        store.scan()
    with pytest.raises(InvalidRequestError, match=word):
        store.write(rows(b"a"))


def test_the_calls_of_an_open_table_have_its_clock() -> None:
    store = SlateStore.create(f"memory://named-clock-{next(_numbers)}")
    store.write(rows(b"a"))
    named: dict[str, Any] = {"clock": f"{CLOCKS}:noon"}
    calls: list[Callable[[], object]] = [
        lambda: store.scan(**named),
        lambda: store.get(b"a", **named),
        lambda: store.write(rows(b"b"), **named),
        lambda: store.delete("key = X'61'", **named),
        lambda: store.deleteRange(startKey="61", **named),
        lambda: store.restoreToVersion(1, **named),
        lambda: store.compact(**named),
        lambda: store.begin(**named),
        lambda: store.begin().read(**named),
    ]
    for call in calls:
        with pytest.raises(OptionError, match="clock"):
            call()


def test_one_option_names_a_clock_or_sets_the_property() -> None:
    assert WriteOptions.parse({"path": "t", "clock": "custom"}).properties == {"clock": "custom"}
    assert WriteOptions.parse({"path": "t", "clock": f"{CLOCKS}:noon"}).properties == {}
    assert ReadOptions.parse({"path": "t", "clock": f" {CLOCKS}:noon "}).clock == f"{CLOCKS}:noon"
    for clock in ("custom", "later", "a:b:c"):
        with pytest.raises(OptionError, match="clock"):
            ReadOptions.parse({"path": "t", "clock": clock})
    with pytest.raises(OptionError, match="clock"):
        WriteOptions.parse({"path": "t", "clock": "later"})
