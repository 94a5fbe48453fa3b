"""TableService: what `Reaper` and `Upkeep` have in common: the tables that a loop serves, until it is stopped."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from slatespark.errors import OptionError
from slatespark.table.clock import Clock, SystemClock, check_clock, read_clock
from slatespark.table.stores import table_path
from slatespark.table.upkeep.registered_table import RegisteredTable
from slatespark.table.upkeep.table_loop import StepResult, TableLoop
from slatespark.units import parse_duration_ms, parse_time_ms

T = TypeVar("T")  # what is known of a table
R = TypeVar("R")  # what comes of a step


class TableService(ABC, Generic[T, R]):
    """Serves many tables, each when it is due.

    Parameters
    ----------
    shortest, longest : `minInterval` and `maxInterval`
    clock : clock for waiting; the system clock by default
    options : write options for the commits
    """

    def __init__(
        self,
        shortest: str | int | timedelta,
        longest: str | int | timedelta,
        clock: Clock | str | None,
        options: Mapping[str, Any],
    ) -> None:
        self._min_ms, self._max_ms = _parse_intervals(shortest, longest)
        self._clock: Clock = SystemClock() if clock is None else check_clock(clock)
        self._options = dict(options)
        self._loop: TableLoop[T, R] = TableLoop(self._clock, self._serve)

    def add(self, table: str | os.PathLike[str], **storage: Any) -> None:
        """Register a table; if it is registered already, its `storage` is replaced.

        Parameters
        ----------
        table : path or URL; nothing is read yet
        storage : as for `SlateStore.open`

        Raises
        ------
        InvalidRequestError
            When `storage` has an unknown option, or the path cannot be used.
        """
        path, now_ms = table_path(table), read_clock(self._clock)
        self._loop.add(path, self._new_table(RegisteredTable.checked(path, storage, self._options), now_ms))

    def remove(self, table: str | os.PathLike[str]) -> None:
        """Remove a table; does nothing if it is not registered.

        Parameters
        ----------
        table : the table as it was added
        """
        self._loop.remove(table_path(table))

    @property
    def deadlines(self) -> dict[str, int]:
        """When each table is served next, by path, earliest first."""
        return self._loop.deadlines

    def run(self, until: int | str | datetime | None = None, *, listener: Callable[[R], None] | None = None) -> None:
        """Serve each table whenever it is due, until an instant, or until `stop` is called.

        Parameters
        ----------
        until : instant by the `clock`; None runs forever
        listener : called with each outcome

        Raises
        ------
        OptionError
            When `until` is not an instant.
        """
        self._loop.run(None if until is None else parse_time_ms(until, name="until"), listener)

    def stop(self) -> None:
        """Let `run` or `runOnce`, in another thread, return after the step in hand; the next `run` goes on from there.

        If neither is running, the next one returns at once.
        """
        self._loop.stop()

    @abstractmethod
    def _new_table(self, registered: RegisteredTable, now_ms: int) -> T:
        """Return what is known of a table that is registered now."""

    @abstractmethod
    def _serve(self, table: T) -> StepResult[R]:
        """Do one step for a table; raises nothing."""

    def _pause_ms(self, failures: int) -> int:
        """Return how long to leave alone what has failed so many times in a row; it doubles with each failure."""
        return min(self._max_ms, self._min_ms << min(failures - 1, 30))


def _parse_intervals(shortest: str | int | timedelta, longest: str | int | timedelta) -> tuple[int, int]:
    min_ms = parse_duration_ms(shortest, name="minInterval")
    max_ms = parse_duration_ms(longest, name="maxInterval")
    if not 0 < min_ms <= max_ms:
        raise OptionError(
            f"minInterval: {min_ms} ms is not between 1 ms and maxInterval, {max_ms} ms.",
            todo="Give a shorter minInterval, or a longer maxInterval.",
        )
    return min_ms, max_ms
