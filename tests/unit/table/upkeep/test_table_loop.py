"""TableLoop: who is served when."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from slatespark.table.clock import SystemClock
from slatespark.table.upkeep.table_loop import MAX_SLEEP_MS, StepResult, TableLoop
from tests.support.fake_clock import FakeClock

START_MS = 1_000_000


@dataclass
class Work:
    """A table whose rounds have so many steps; `wait_ms` apart, and `pause_ms` between rounds."""

    name: str
    steps: int = 1
    wait_ms: int = 0
    pause_ms: int = 1000
    done: int = 0


class Loop:
    """A loop, and what it served: name and time of each step, a star at the end of a round."""

    def __init__(self, *tables: Work, step_ms: int = 10) -> None:
        self.clock, self.step_ms, self.served = FakeClock(START_MS), step_ms, list[tuple[str, int]]()
        self.on_step: Callable[[Work], None] = lambda _: None
        self.loop: TableLoop[Work, str] = TableLoop(self.clock, self.serve)
        for table in tables:
            self.loop.add(table.name, table)

    def serve(self, work: Work) -> StepResult[str]:
        began_ms = self.clock.now_ms() - START_MS
        self.clock.advance(self.step_ms)
        self.on_step(work)
        work.done += 1
        if work.done < work.steps:
            self.served.append((work.name, began_ms))
            return StepResult(self.clock.now_ms() + work.wait_ms, goes_on=True)
        work.done = 0
        self.served.append((f"{work.name}*", began_ms))
        return StepResult(self.clock.now_ms() + work.pause_ms, f"{work.name} at {began_ms}")

    def run_once(self) -> list[str]:
        told: list[str] = []
        self.loop.run_once(begin, told.append)
        return told

    def names(self) -> str:
        return " ".join(name for name, _ in self.served)


def begin(work: Work) -> None:
    work.done = 0


def test_a_backlog_takes_turns_with_the_others() -> None:
    loop = Loop(Work("long", steps=5), Work("short"), Work("other", steps=2))
    assert loop.run_once() == ["short at 10", "other at 40", "long at 70"]
    assert loop.names() == "long short* other long other* long long long*"


def test_a_table_that_becomes_due_comes_before_the_next_step_of_a_backlog() -> None:
    loop = Loop(Work("long", steps=100), Work("short", pause_ms=35))
    loop.loop.run(START_MS + 200, None)
    times = [at for name, at in loop.served if name == "short*"]
    assert times == [10, 60, 110, 160]
    assert sum(name == "long" for name, _ in loop.served) == 16


def test_a_wait_blocks_no_other() -> None:
    loop = Loop(Work("waits", steps=2, wait_ms=500), Work("works", steps=4))
    loop.run_once()
    assert loop.served == [("waits", 0), ("works", 10), ("works", 20), ("works", 30), ("works*", 40), ("waits*", 510)]


def test_rounds_are_spaced() -> None:
    loop, told = Loop(Work("a", pause_ms=100), Work("b", pause_ms=250)), list[str]()
    loop.loop.run(START_MS + 500, told.append)
    assert told == ["a at 0", "b at 10", "a at 110", "a at 220", "b at 270", "a at 330", "a at 440"]
    assert loop.clock.now_ms() == START_MS + 500, "it waits until the end, and no longer"
    assert max(loop.clock.slept_ms) < MAX_SLEEP_MS


def test_a_clock_that_is_set_back_delays_no_table() -> None:
    loop, minutes_ms = Loop(Work("a", pause_ms=1000), Work("b", pause_ms=5000)), 600_000

    def set_back(work: Work) -> None:
        if len(loop.served) == 2:
            loop.clock.advance(-minutes_ms)
        elif len(loop.served) == 9:
            loop.loop.stop()

    loop.on_step = set_back
    loop.loop.run(None, None)
    assert ("b*", 5030) in [(name, at + minutes_ms) for name, at in loop.served[3:]], "as if it had not been"


def test_a_clock_that_is_set_back_between_two_runs_delays_no_table() -> None:
    loop = Loop(Work("a", pause_ms=1000))
    loop.loop.run(START_MS + 500, None)
    loop.clock.advance(-600_000)
    loop.loop.run(loop.clock.now_ms() + 5000, None)
    assert len(loop.served) > 4


def test_long_waits_are_cut() -> None:
    loop = Loop(Work("a", pause_ms=100_000))
    loop.loop.run(START_MS + 60_000, None)
    assert max(loop.clock.slept_ms) == MAX_SLEEP_MS
    assert loop.loop.deadlines == {"a": START_MS + 100_010}


def test_a_table_is_added_again_removed_and_replaced() -> None:
    loop = Loop(Work("a"), Work("b"))
    loop.loop.remove("a")
    loop.loop.remove("never there")
    loop.loop.add("b", Work("b, changed"))
    loop.run_once()
    assert loop.names() == "b, changed*"


def test_a_table_removed_during_its_round_does_not_come_back() -> None:
    loop = Loop(Work("a", steps=3), Work("b", steps=3))
    loop.on_step = lambda work: loop.loop.remove("a") if work.name == "b" else None
    assert loop.run_once() == ["b at 30"]
    assert list(loop.loop.deadlines) == ["b"]
    assert loop.names() == "a b b b*"


def test_a_stop_ends_it_after_the_step_in_hand() -> None:
    for run in ("run", "run_once"):
        loop = Loop(Work("a", steps=3), Work("b"))
        loop.on_step = lambda _, loop=loop: loop.loop.stop()  # type: ignore[misc]
        if run == "run":
            loop.loop.run(None, None)
        else:
            assert loop.run_once() == []
        assert loop.names() == "a"
        assert loop.loop.deadlines == {"a": START_MS + 10, "b": START_MS}, "both are still served by the next run"


def test_a_stop_before_the_run_ends_it_at_once() -> None:
    loop = Loop(Work("a"))
    loop.loop.stop()
    loop.loop.run(None, None)
    assert loop.served == []
    loop.loop.run(START_MS + 1, None)
    assert loop.names() == "a*"


def test_a_stop_as_a_run_ends_by_itself_ends_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop(Work("a"))

    def stop_and_read() -> int:  # after the run has looked for a stop
        loop.loop.stop()
        return START_MS

    monkeypatch.setattr(loop.clock, "now_ms", stop_and_read)
    loop.loop.run(START_MS, None)
    monkeypatch.undo()
    loop.loop.run(None, None)
    assert loop.served == []


def test_a_step_may_have_nothing_to_tell() -> None:
    clock, told = FakeClock(START_MS), list[str]()
    loop: TableLoop[Work, str] = TableLoop(clock, lambda work: StepResult(clock.now_ms() + 10, work.name or None))
    loop.add("quiet", Work(""))
    loop.add("loud", Work("loud"))
    loop.run_once(begin, told.append)
    assert told == ["loud"]
    loop.run(START_MS + 35, told.append)
    assert told == ["loud"] * 3 + ["loud"]


def test_by_the_system_clock_a_stop_ends_a_wait_at_once() -> None:
    loop: TableLoop[Work, str] = TableLoop(SystemClock(), lambda _: StepResult(SystemClock().now_ms() + 60_000, "done"))
    loop.add("a", Work("a"))
    told = threading.Event()
    thread = threading.Thread(target=loop.run, args=(None, lambda _: told.set()))
    thread.start()
    assert told.wait(30)
    began_s = time.monotonic()
    loop.stop()
    thread.join(MAX_SLEEP_MS / 1000)
    assert not thread.is_alive()
    assert time.monotonic() - began_s < MAX_SLEEP_MS / 1000


@pytest.mark.parametrize("run", ["run", "run_once"])
def test_after_an_interrupt_every_table_is_still_served(run: str) -> None:
    def interrupt(_: Work) -> None:
        raise KeyboardInterrupt

    loop = Loop(Work("a"), Work("b"))
    loop.on_step = interrupt
    with pytest.raises(KeyboardInterrupt):
        loop.loop.run(None, None) if run == "run" else loop.run_once()
    assert loop.loop.deadlines == {"a": START_MS, "b": START_MS}
    loop.on_step = lambda _: None
    loop.run_once()
    assert loop.names() in ("a* b*", "b* a*")


def test_after_an_interrupt_before_a_round_every_table_is_still_served() -> None:
    def interrupted(work: Work) -> None:
        if work.name == "b":
            raise KeyboardInterrupt

    loop = Loop(Work("a"), Work("b"))
    with pytest.raises(KeyboardInterrupt):
        loop.loop.run_once(interrupted, lambda _: None)
    assert loop.loop.deadlines == {"a": START_MS, "b": START_MS}
