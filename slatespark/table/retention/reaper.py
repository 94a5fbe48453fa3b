"""Reaper: one loop that reaps many tables, each when its next row becomes due."""

from __future__ import annotations

import heapq
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from slatespark.errors import InvalidRequestError, OptionError, SlateError
from slatespark.options import WriteOptions
from slatespark.options.values import STORAGE_PREFIX, parse_count, refuse_misspelt
from slatespark.table.clock import Clock, SystemClock, check_clock, read_clock
from slatespark.table.commit.foreign_clients import OTHER_MODES, refuse_cooperation
from slatespark.table.read.cursor import window_size
from slatespark.table.retention.destructive_now import SKEW_MS
from slatespark.table.retention.reap_report import ReapReport
from slatespark.table.retention.reap_run import Progress, reap_table
from slatespark.table.retention.reap_survey import ReapSurvey
from slatespark.table.stores import open_stores
from slatespark.units import parse_bytes, parse_duration_ms, parse_time_ms

MAX_SLEEP_MS = 10_000  # a waiting reaper checks for new tables and for a stop this often

_ROWS = parse_count(1, 2**63 - 1)
_ARGUMENTS = ("minInterval", "maxInterval", "maxBatchRows", "maxBatchBytes", "clock", "options", "progress")


@dataclass(frozen=True, slots=True)
class ReapLimits:
    """Bounds of a pass; None means the default of `reap_table`."""

    batch_rows: int | None = None
    batch_bytes: int | None = None

    @classmethod
    def parse(cls, rows: int | str | None, size: int | str | None) -> ReapLimits:
        """Return the bounds given as `maxBatchRows` and `maxBatchBytes`; raises `OptionError`."""
        return cls(
            None if rows is None else _ROWS(rows, "maxBatchRows"),
            None if size is None else parse_bytes(size, name="maxBatchBytes"),
        )


@dataclass(frozen=True, slots=True)
class ReapOutcome:
    """The outcome for a table: a report or an error.

    Attributes
    ----------
    url : of the table
    report, error : exactly one of them is set
    next_ms : when the table is next reaped, by the reaper's clock
    """

    url: str
    report: ReapReport | None
    error: SlateError | None
    next_ms: int


@dataclass(slots=True)
class _Table:
    """A registered table.

    Attributes
    ----------
    storage : `walPath`, and options of the storage backend
    survey : facts of its files
    failures : consecutive ones
    """

    path: str
    storage: Mapping[str, Any]
    survey: ReapSurvey | None = None
    failures: int = 0
    is_removed: bool = False


@dataclass(order=True, slots=True)
class _Due:
    """When a table is due; `number` breaks ties by age."""

    at_ms: int
    number: int
    table: _Table = field(compare=False)


class Reaper:
    """Reaps many tables, each when its next row is past retention.

    A table is reaped again when its oldest row is due: not before `minInterval` has passed, so that rows are deleted in
    batches, and at the latest after `maxInterval`, since its retention may have changed. A table that fails does not
    stop the others: it is retried, with a growing pause.

    Parameters
    ----------
    tables : paths or URLs
    minInterval, maxInterval : durations
    maxBatchRows, maxBatchBytes : bounds of a pass, as for `SlateStore.reap`
    clock : for waiting; the system clock by default
    options : write options for the commits, such as `ifClientActive`
    storage : for all of `tables`, as for `SlateStore.open`

    Examples
    --------
    >>> from slatespark import Reaper, SlateStore
    >>> store = SlateStore.create("memory://visits", retention="30d")
    >>> [outcome.report.rows for outcome in Reaper(["memory://visits"]).runOnce()]
    [0]
    """

    def __init__(
        self,
        tables: Iterable[str | os.PathLike[str]] = (),
        *,
        minInterval: str | int | timedelta = "1m",
        maxInterval: str | int | timedelta = "1h",
        maxBatchRows: int | None = None,
        maxBatchBytes: int | str | None = None,
        clock: Clock | None = None,
        options: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
        **storage: Any,
    ) -> None:
        refuse_misspelt(storage, _ARGUMENTS)
        self._min_ms = parse_duration_ms(minInterval, name="minInterval")
        self._max_ms = parse_duration_ms(maxInterval, name="maxInterval")
        if not 0 < self._min_ms <= self._max_ms:
            raise OptionError(
                f"minInterval: {self._min_ms} ms is not between 1 ms and maxInterval, {self._max_ms} ms.",
                todo="Give a shorter minInterval, or a longer maxInterval.",
            )
        self._limits = ReapLimits.parse(maxBatchRows, maxBatchBytes)
        self._clock: Clock = SystemClock() if clock is None else check_clock(clock)
        self._options, self._progress = dict(options or {}), progress
        self._tables: dict[str, _Table] = {}
        self._heap: list[_Due] = []
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        refuse_cooperation(WriteOptions.parse({"path": "?", **self._options}), "a reap", OTHER_MODES)  # early
        for path in tables:
            self.add(path, **storage)

    def add(self, table: str | os.PathLike[str], **storage: Any) -> None:
        """Register a table; if it is registered already, its `storage` is replaced.

        Parameters
        ----------
        table : path or URL; nothing is read yet
        storage : as for `SlateStore.open`
        """
        try:
            path = os.fspath(table)
        except TypeError as exc:
            raise InvalidRequestError(f"{table!r} is not the path of a table.", todo="Give a path or a URL.") from exc
        self.remove(path)
        entry = _Table(path, dict(storage))
        with self._lock:
            self._tables[path] = entry
            heapq.heappush(self._heap, _Due(read_clock(self._clock), next(self._numbers), entry))

    def remove(self, table: str | os.PathLike[str]) -> None:
        """Remove a table; does nothing if it is not registered."""
        with self._lock:
            entry = self._tables.pop(str(os.fspath(table)), None)
            if entry is not None:
                entry.is_removed = True
                self._heap = [due for due in self._heap if due.table is not entry]
                heapq.heapify(self._heap)

    @property
    def deadlines(self) -> dict[str, int]:
        """When each table is next reaped, by path, earliest first."""
        with self._lock:
            return {due.table.path: due.at_ms for due in sorted(self._heap)}

    def runOnce(self) -> tuple[ReapOutcome, ...]:
        """Reap every table now, and return the outcomes in the order in which the tables were added."""
        with self._lock:
            entries = list(self._tables.values())
            self._heap = []
        return tuple(self._reap(entry) for entry in entries)

    def run(
        self,
        until: int | str | datetime | None = None,
        *,
        listener: Callable[[ReapOutcome], None] | None = None,
    ) -> None:
        """Reap each table whenever it is due, until an instant, or until `stop` is called.

        Parameters
        ----------
        until : by the reaper's clock; None runs forever
        listener : called with the outcome of each reap
        """
        end_ms = None if until is None else parse_time_ms(until, name="until")
        self._stop.clear()
        while not self._stop.is_set():
            now_ms = read_clock(self._clock)
            if end_ms is not None and now_ms >= end_ms:
                return
            entry = self._pop_due(now_ms)
            if entry is not None:
                outcome = self._reap(entry)
                if listener is not None:
                    listener(outcome)
                continue
            waits = [MAX_SLEEP_MS, *([] if end_ms is None else [end_ms - now_ms])]
            with self._lock:
                waits += [self._heap[0].at_ms - now_ms] if self._heap else []
            self._clock.sleep_ms(max(1, min(waits)))

    def stop(self) -> None:
        """Let `run`, in another thread, return after the current table; within ten seconds if it waits."""
        self._stop.set()

    def _pop_due(self, now_ms: int) -> _Table | None:
        with self._lock:
            return heapq.heappop(self._heap).table if self._heap and self._heap[0].at_ms <= now_ms else None

    def _reap(self, entry: _Table) -> ReapOutcome:
        """Reap a table, and schedule it again."""
        outcome = self._attempt(entry)
        with self._lock:
            if not entry.is_removed:
                heapq.heappush(self._heap, _Due(outcome.next_ms, next(self._numbers), entry))
        return outcome

    def _attempt(self, entry: _Table) -> ReapOutcome:
        try:
            report = self._reap_table(entry)
        except SlateError as exc:
            error = exc
        except Exception as exc:  # an unexpected error must not stop the other tables
            error = SlateError(f"{entry.path}: {type(exc).__name__}: {exc}")
            error.__cause__ = exc
        else:
            entry.failures = 0
            return ReapOutcome(entry.path, report, None, self._next_look(report))
        entry.failures += 1
        pause_ms = min(self._max_ms, self._min_ms << min(entry.failures - 1, 30))
        return ReapOutcome(entry.path, None, error, read_clock(self._clock) + pause_ms)

    def _reap_table(self, entry: _Table) -> ReapReport:
        storage = dict(entry.storage)
        wal_path = storage.pop("walPath", storage.pop("wal_path", None))
        common = {"path": entry.path, **{f"{STORAGE_PREFIX}{name}": value for name, value in storage.items()}}
        options = WriteOptions.parse({**common, **self._options})
        stores = open_stores(entry.path, storage=storage, wal_path=wal_path)
        window_bytes = window_size(options.write_buffer_bytes, 1)
        entry.survey = (
            ReapSurvey(stores, window_bytes) if entry.survey is None else replace(entry.survey, stores=stores)
        )
        try:
            return reap_table(
                stores,
                self._clock,
                max_batch_rows=self._limits.batch_rows,
                max_batch_bytes=self._limits.batch_bytes,
                options=options,
                survey=entry.survey,
                progress=self._progress,
            )
        finally:
            entry.survey.outlines.clear()  # properties are kept; outlines of many tables would take too much memory

    def _next_look(self, report: ReapReport) -> int:
        """Return when to reap a table again; the deadline of a table with a clock of its own is not comparable."""
        now_ms = read_clock(self._clock)
        earliest_ms, latest_ms = now_ms + self._min_ms, now_ms + self._max_ms
        if report.has_own_time:
            return earliest_ms
        if report.next_deadline_ms is None:
            return latest_ms
        return min(max(report.next_deadline_ms + SKEW_MS, earliest_ms), latest_ms)
