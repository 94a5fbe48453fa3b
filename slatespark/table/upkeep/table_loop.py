"""TableLoop: serves many tables, each when it is due, one step at a time.

A table that has more to do goes back behind those that are due already. So a backlog of one table keeps
no other waiting for longer than a step.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from slatespark.table.clock import Clock, SystemClock, read_clock
from slatespark.table.upkeep.agenda import Agenda
from slatespark.table.upkeep.stop import StopRequest

MAX_SLEEP_MS: Final = 10_000  # a loop that waits looks for new tables, and with any clock for a stop, this often

T = TypeVar("T")  # what is known of a table
R = TypeVar("R")  # what comes of a step


def set_back_by(now_ms: int, latest_ms: int) -> int:
    """Return by how much a clock was set back, as a number below 0; 0 if it was not, or only a little.

    Parameters
    ----------
    now_ms, latest_ms : the present, and that time
    """
    return now_ms - latest_ms if now_ms < latest_ms - MAX_SLEEP_MS else 0


@dataclass(frozen=True, slots=True)
class StepResult(Generic[R]):
    """What a step left.

    Attributes
    ----------
    next_ms : when the table is served again
    outcome : what is told of it; None if there is nothing to tell
    goes_on : whether the round goes on; `run_once` does one round of each table
    """

    next_ms: int
    outcome: R | None = None
    goes_on: bool = False


@dataclass(slots=True)
class _Entry(Generic[T]):
    path: str
    table: T
    is_removed: bool = False


class TableLoop(Generic[T, R]):
    """The tables of a loop, and when each of them is due.

    Parameters
    ----------
    serve : does one step for a table; raises nothing
    """

    def __init__(self, clock: Clock, serve: Callable[[T], StepResult[R]]) -> None:
        self._clock, self._serve = clock, serve
        self._entries: dict[str, _Entry[T]] = {}
        self._agenda: Agenda[_Entry[T]] = Agenda()
        self._lock = threading.Lock()
        self._stop = StopRequest()
        self._latest_ms = 0  # when a step was last looked for

    def add(self, path: str, table: T) -> None:
        """Register a table, which is due at once; it replaces one of the same path."""
        self.remove(path)
        entry = _Entry(path, table)
        with self._lock:
            self._entries[path] = entry
            self._agenda.put(entry, read_clock(self._clock))

    def remove(self, path: str) -> None:
        """Remove a table; does nothing if it is not registered."""
        with self._lock:
            entry = self._entries.pop(path, None)
            if entry is not None:
                entry.is_removed = True
                self._agenda.remove(entry)

    @property
    def deadlines(self) -> dict[str, int]:
        """When each table is served next, by path, earliest first."""
        return {entry.path: at_ms for entry, at_ms in self._agenda.entries()}

    def run_once(self, begin: Callable[[T], None], listener: Callable[[R], None]) -> None:
        """Do one round for every table now.

        A stop ends it early, after the step in hand.

        Parameters
        ----------
        begin : called with each table first, in the order in which they were added
        listener : called with the outcome of each step that has one
        """
        rounds: Agenda[_Entry[T]] = Agenda()
        try:
            with self._lock:
                for entry in self._entries.values():
                    begin(entry.table)
                    rounds.put(entry, read_clock(self._clock))
                    self._agenda.remove(entry)
            self._work(rounds, lambda: rounds.next_ms() is None, listener)
        finally:
            for entry, at_ms in rounds.entries():
                self._put(self._agenda, entry, at_ms)

    def run(self, end_ms: int | None, listener: Callable[[R], None] | None) -> None:
        """Serve each table whenever it is due, until an instant, or until `stop` is called.

        Parameters
        ----------
        end_ms : instant by the loop's clock; None runs forever
        listener : called with the outcome of each step that has one
        """
        self._work(
            self._agenda, lambda: end_ms is not None and read_clock(self._clock) >= end_ms, listener, end_ms=end_ms
        )

    def stop(self) -> None:
        """End `run` or `run_once`, in another thread or from a signal, after the step in hand.

        Each stop ends one of them: where none is running, or one ends by itself just then, the next one ends at once.
        """
        self._stop.request()

    def _work(
        self,
        agenda: Agenda[_Entry[T]],
        is_over: Callable[[], bool],
        listener: Callable[[R], None] | None,
        *,
        end_ms: int | None = None,
    ) -> None:
        """Serve the tables of an agenda; a table whose round has ended goes into the loop's own."""
        while not self._stop.consume() and not is_over():
            now_ms = read_clock(self._clock)
            if (by_ms := set_back_by(now_ms, self._latest_ms)) < 0:  # no table waits until it is as late again
                for waiting in {agenda, self._agenda}:
                    waiting.shift(by_ms)
            self._latest_ms = now_ms
            entry = agenda.pop_due(now_ms)
            if entry is None:
                self._wait(agenda, end_ms)
                continue
            if entry.is_removed:
                continue
            try:
                served = self._serve(entry.table)
                self._put(agenda if served.goes_on else self._agenda, entry, served.next_ms)
            except BaseException:  # an interrupt: the loop may be run again, and serves all of its tables then
                agenda.remove(entry)
                self._put(self._agenda, entry, now_ms)
                raise
            if served.outcome is not None and listener is not None:
                listener(served.outcome)

    def _put(self, agenda: Agenda[_Entry[T]], entry: _Entry[T], at_ms: int) -> None:
        with self._lock:  # so that no removal comes in between
            if not entry.is_removed:
                agenda.remove(entry)  # an interrupt may have come just after it was put
                agenda.put(entry, at_ms)

    def _wait(self, agenda: Agenda[_Entry[T]], end_ms: int | None) -> None:
        """Wait until the next table is due, but not for long."""
        now_ms, next_ms = read_clock(self._clock), agenda.next_ms()
        waits = [MAX_SLEEP_MS] if next_ms is None else [MAX_SLEEP_MS, next_ms - now_ms]
        waits += [] if end_ms is None else [end_ms - now_ms]
        if isinstance(self._clock, SystemClock):
            self._stop.wait(max(1, min(waits)) / 1000)  # so that a stop ends it at once
        else:
            self._clock.sleep_ms(max(1, min(waits)))
