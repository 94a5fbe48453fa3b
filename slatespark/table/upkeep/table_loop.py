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

MAX_SLEEP_MS: Final = 10_000  # a loop that waits looks for new tables, and with any clock for a stop, this often

T = TypeVar("T")  # what is known of a table
R = TypeVar("R")  # what comes of a round


@dataclass(frozen=True, slots=True)
class Served(Generic[R]):
    """What a step left.

    Attributes
    ----------
    next_ms : when the table is served again
    outcome : of the round that the step ended; None if the round goes on
    """

    next_ms: int
    outcome: R | None = None


@dataclass(slots=True)
class _Entry(Generic[T]):
    path: str
    table: T
    is_removed: bool = False


class TableLoop(Generic[T, R]):
    """The tables of a loop, and when each of them is due.

    Parameters
    ----------
    clock : for waiting
    serve : does one step for a table; raises nothing
    """

    def __init__(self, clock: Clock, serve: Callable[[T], Served[R]]) -> None:
        self._clock, self._serve = clock, serve
        self._entries: dict[str, _Entry[T]] = {}
        self._agenda: Agenda[_Entry[T]] = Agenda()
        self._lock = threading.Lock()
        self._stop = threading.Event()

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

    def run_once(self, begin: Callable[[T], None]) -> tuple[R, ...]:
        """Do one round for every table now, and return the outcomes in the order in which the tables were added.

        A stop ends it early, after the step in hand; rounds that have not ended are without an outcome.

        Parameters
        ----------
        begin : called with each table first
        """
        rounds: Agenda[_Entry[T]] = Agenda()
        found: dict[str, R] = {}
        with self._lock:
            entries = list(self._entries.values())
            for entry in entries:
                begin(entry.table)
                self._agenda.remove(entry)
                rounds.put(entry, read_clock(self._clock))
        self._work(rounds, lambda: rounds.next_ms() is None, lambda entry, outcome: found.update({entry.path: outcome}))
        for entry, at_ms in rounds.entries():
            self._put(self._agenda, entry, at_ms)
        return tuple(found[entry.path] for entry in entries if entry.path in found)

    def run(self, end_ms: int | None, listener: Callable[[R], None] | None) -> None:
        """Serve each table whenever it is due, until an instant, or until `stop` is called.

        Parameters
        ----------
        end_ms : by the loop's clock; None runs forever
        listener : called with the outcome of each round
        """

        def tell(_: _Entry[T], outcome: R) -> None:
            if listener is not None:
                listener(outcome)

        self._work(self._agenda, lambda: end_ms is not None and read_clock(self._clock) >= end_ms, tell, end_ms)

    def stop(self) -> None:
        """End `run` or `run_once`, in another thread or from a signal, after the step in hand.

        Called before, it lets that end at once.
        """
        self._stop.set()

    def _work(
        self,
        agenda: Agenda[_Entry[T]],
        is_over: Callable[[], bool],
        tell: Callable[[_Entry[T], R], None],
        end_ms: int | None = None,
    ) -> None:
        """Serve the tables of an agenda; a table whose round has ended goes into the loop's own."""
        try:
            while not self._stop.is_set() and not is_over():
                entry = agenda.pop_due(read_clock(self._clock))
                if entry is None:
                    self._wait(agenda, end_ms)
                    continue
                if entry.is_removed:
                    continue
                served = self._serve(entry.table)
                self._put(agenda if served.outcome is None else self._agenda, entry, served.next_ms)
                if served.outcome is not None:
                    tell(entry, served.outcome)
        finally:
            self._stop.clear()

    def _put(self, agenda: Agenda[_Entry[T]], entry: _Entry[T], at_ms: int) -> None:
        with self._lock:  # so that no removal comes in between
            if not entry.is_removed:
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
