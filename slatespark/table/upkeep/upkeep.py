"""Upkeep: one loop that does the regular work of many tables, a step of one table and then of the next."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from slatespark.errors import OptionError, SlateError, as_slate_error
from slatespark.format.manifest import Manifest
from slatespark.options import WriteOptions
from slatespark.options.values import parse_min_age, parse_names, refuse_misspelt
from slatespark.table.clock import Clock, SystemClock, check_clock, read_clock
from slatespark.table.definition.versions import resolve_definition
from slatespark.table.gc.run import MIN_AGE_MS
from slatespark.table.log.manifests import fetch_latest_manifest, fetch_newest_since
from slatespark.table.log.versioned_object import Version
from slatespark.table.retention.reap_limits import ReapLimits
from slatespark.table.retention.reap_run import Reaping
from slatespark.table.stores import TableStores, table_path
from slatespark.table.upkeep.agenda import Agenda
from slatespark.table.upkeep.duties import DUTIES, FOLLOWS_CHANGES, DutyReport, Step, Visit
from slatespark.table.upkeep.intervals import parse_intervals
from slatespark.table.upkeep.place import Place
from slatespark.units import parse_time_ms

MAX_SLEEP_MS = 1_000  # a waiting loop looks for new tables and for a stop this often

_ARGUMENTS = (
    "minInterval",
    "maxInterval",
    "duties",
    "minAge",
    "maxBatchRows",
    "maxBatchBytes",
    "clock",
    "options",
)


@dataclass(frozen=True, slots=True)
class UpkeepOutcome:
    """What a step did.

    Attributes
    ----------
    url : of the table
    duty : `historyFloor`, `reap`, `compact` or `vacuum`; None if the table could not be opened
    report : of the duty: a `ReapReport`, `CompactionReport`, `VacuumReport`, or the stored history floor in ms
    is_done : whether anything was changed
    error : why the step failed; it is tried again, with a growing pause
    next_ms : when it is the table's turn again, by the clock of the upkeep
    """

    url: str
    duty: str | None
    report: DutyReport
    is_done: bool
    error: SlateError | None
    next_ms: int


@dataclass(slots=True)
class _Plan:
    """When a duty of a table is due; None for not before a change of the table."""

    due_ms: int | None
    failures: int = 0


class _Opened(NamedTuple):
    """A table's stores, and how commits are made there."""

    stores: TableStores
    options: WriteOptions


@dataclass(slots=True, eq=False)
class _Table:
    """A registered table.

    Attributes
    ----------
    storage : `walPath`, and options of the storage backend
    known : its newest version, when it was last looked at
    changed_ms : when that changed
    checked_ms : when all duties that follow changes were last due without one
    plans : by duty, in the order in which they had their turn: that of the longest ago first
    failures : consecutive ones of looking at it
    reaping : the reap under way, if any
    """

    path: str
    storage: Mapping[str, Any]
    opened: _Opened | None = None
    known: Version[Manifest] | None = None
    changed_ms: int = 0
    checked_ms: int = 0
    plans: dict[str, _Plan] = field(default_factory=dict)
    failures: int = 0
    is_removed: bool = False
    reaping: Reaping | None = None


class Upkeep:
    """Does the regular work of many tables: retention, compaction, vacuum, and the history floor.

    A step is one commit of one table; then the next table has its turn, so that a backlog of one keeps none of the
    others waiting. A table that did not change costs one request per `minInterval`. What fails is tried again, with a
    growing pause, and stops neither the other duties of the table nor other tables.

    Parameters
    ----------
    tables : paths or URLs
    minInterval : between two looks for a new version of a table
    maxInterval : after this time all duties have a look at a table that did not change: its properties may have
    duties : which of `historyFloor`, `reap`, `compact` and `vacuum`; by default all
    minAge : of objects that a vacuum deletes, at least an hour
    maxBatchRows, maxBatchBytes : bounds of a commit of the reaper, as for `SlateStore.reap`
    clock : for waiting; the system clock by default
    options : write options for the commits. With `ifClientActive=cooperate` live clients commit the compactions, and
        nothing else is committed that could fence them
    storage : for all of `tables`, as for `SlateStore.open`

    Examples
    --------
    >>> from slatespark import SlateStore, Upkeep
    >>> store = SlateStore.create("memory://kept", retention="30d")
    >>> [outcome.duty for outcome in Upkeep(["memory://kept"]).runOnce()]
    ['historyFloor', 'reap', 'compact', 'vacuum']
    """

    def __init__(
        self,
        tables: Iterable[str | os.PathLike[str]] = (),
        *,
        minInterval: str | int | timedelta = "1m",
        maxInterval: str | int | timedelta = "1h",
        duties: Iterable[str] | str | None = None,
        minAge: str | timedelta | None = None,
        maxBatchRows: int | None = None,
        maxBatchBytes: int | str | None = None,
        clock: Clock | None = None,
        options: Mapping[str, Any] | None = None,
        **storage: Any,
    ) -> None:
        refuse_misspelt(storage, _ARGUMENTS)
        self._min_ms, self._max_ms = parse_intervals(minInterval, maxInterval)
        self._duties = _parse_duties(duties)
        self._min_age_ms = MIN_AGE_MS if minAge is None else parse_min_age(minAge, is_forced=False)
        self._limits = ReapLimits.parse(maxBatchRows, maxBatchBytes)
        self._clock: Clock = SystemClock() if clock is None else check_clock(clock)
        self._options = dict(options or {})
        self._tables: dict[str, _Table] = {}
        self._agenda: Agenda[_Table] = Agenda()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        WriteOptions.parse({"path": "?", **self._options})  # refuses invalid options early
        for path in tables:
            self.add(path, **storage)

    def add(self, table: str | os.PathLike[str], **storage: Any) -> None:
        """Register a table; if it is registered already, its `storage` is replaced.

        Parameters
        ----------
        table : path or URL; nothing is read yet
        storage : as for `SlateStore.open`
        """
        path = table_path(table)
        self.remove(path)
        now_ms = read_clock(self._clock)
        entry = _Table(path, dict(storage), plans={name: _Plan(now_ms) for name in self._duties})
        with self._lock:
            self._tables[path] = entry
            self._agenda.put(entry, now_ms)

    def remove(self, table: str | os.PathLike[str]) -> None:
        """Remove a table; does nothing if it is not registered."""
        with self._lock:
            entry = self._tables.pop(table_path(table), None)
            if entry is not None:
                entry.is_removed = True
                self._agenda.remove(entry)

    @property
    def deadlines(self) -> dict[str, int]:
        """When each table is next looked at, by path, earliest first."""
        return {entry.path: at_ms for entry, at_ms in self._agenda.entries()}

    def runOnce(self) -> tuple[UpkeepOutcome, ...]:
        """Do every duty of every table now, until nothing is left to do, and return the outcomes in their order.

        A duty that fails is not tried again.
        """
        with self._lock:
            left = deque((entry, deque(entry.plans)) for entry in self._tables.values())
        outcomes = []
        while left and not self._stop.is_set():
            entry, duties = left.popleft()
            failed = self._look(entry)
            if failed is not None:
                outcomes.append(failed)
                continue
            outcome, goes_on = self._do(entry, duties[0])
            outcomes.append(outcome)
            if not goes_on:
                duties.popleft()
            if duties:
                left.append((entry, duties))
        return tuple(outcomes)

    def run(
        self,
        until: int | str | datetime | None = None,
        *,
        listener: Callable[[UpkeepOutcome], None] | None = None,
    ) -> None:
        """Do each duty of each table whenever it is due, until an instant, or until `stop` is called.

        Parameters
        ----------
        until : by the clock of the upkeep; None runs forever
        listener : called with the outcome of each step
        """
        end_ms = None if until is None else parse_time_ms(until, name="until")
        while not self._stop.is_set():
            now_ms = read_clock(self._clock)
            if end_ms is not None and now_ms >= end_ms:
                return
            entry = self._agenda.pop_due(now_ms)
            if entry is None:
                next_ms = self._agenda.next_ms()
                instants = [now_ms + MAX_SLEEP_MS, *(at_ms for at_ms in (end_ms, next_ms) if at_ms is not None)]
                self._clock.sleep_ms(max(1, min(instants) - now_ms))
                continue
            outcome = self._turn(entry, now_ms)
            with self._lock:
                if not entry.is_removed:
                    self._agenda.put(entry, self._next_turn(entry))
            if outcome is not None and listener is not None:
                listener(outcome)
        self._stop.clear()

    def stop(self) -> None:
        """Let `run` or `runOnce`, in another thread, return after the current step; within a second if it waits."""
        self._stop.set()

    # --- a step -------------------------------------------------------------------------------------------------------

    def _turn(self, entry: _Table, now_ms: int) -> UpkeepOutcome | None:
        """Do the duty of a table that has waited longest of those that are due; None if none is."""
        if (failed := self._look(entry)) is not None:
            return failed
        name = next((name for name, plan in entry.plans.items() if _is_due(plan, now_ms)), None)
        return None if name is None else self._do(entry, name)[0]

    def _look(self, entry: _Table) -> UpkeepOutcome | None:
        """Find the newest version of a table; after a change, or a long time without, its duties are due.

        Returns the outcome if that fails.
        """
        known, now_ms = entry.known, read_clock(self._clock)
        try:
            stores = self._opened(entry).stores
            entry.known = fetch_latest_manifest(stores) if known is None else fetch_newest_since(stores, known)
        except Exception as exc:
            entry.failures += 1
            entry.opened = None
            return self._outcome(entry, None, Step(None), as_slate_error(exc, entry.path))
        entry.failures = 0
        if known is None or entry.known.number != known.number:
            entry.changed_ms = now_ms
        elif now_ms - entry.checked_ms < self._max_ms:
            return None
        entry.checked_ms = now_ms
        for name, plan in entry.plans.items():
            if plan.failures == 0 and (name in FOLLOWS_CHANGES or plan.due_ms is None):
                plan.due_ms = now_ms if plan.due_ms is None else min(plan.due_ms, now_ms)
        return None

    def _do(self, entry: _Table, name: str) -> tuple[UpkeepOutcome, bool]:
        """Do a step of a duty; return its outcome, and whether there is more to do at once."""
        plan = entry.plans[name] = entry.plans.pop(name)  # to the end of the line
        try:
            step = DUTIES[name](self._visit(entry))
        except Exception as exc:  # an unexpected error must not stop the other tables either
            plan.failures += 1
            plan.due_ms = read_clock(self._clock) + self._pause(plan.failures)
            entry.reaping = None if name == "reap" else entry.reaping
            return self._outcome(entry, name, Step(None), as_slate_error(exc, entry.path)), False
        now_ms = read_clock(self._clock)
        plan.failures = 0
        plan.due_ms = None if step.next_ms is None else max(step.next_ms, now_ms + self._min_ms)
        if name == "reap":
            entry.reaping = step.reaping
        if step.goes_on:
            plan.due_ms = now_ms if step.next_ms is None else step.next_ms
        return self._outcome(entry, name, step, None), step.goes_on

    def _opened(self, entry: _Table) -> _Opened:
        if entry.opened is None:
            entry.opened = _Opened(*Place(entry.path, entry.storage).open(self._options))
        return entry.opened

    def _visit(self, entry: _Table) -> Visit:
        assert entry.known is not None  # it was looked at
        stores, options = self._opened(entry)
        return Visit(
            stores=stores,
            clock=self._clock,
            definition=resolve_definition(stores, entry.known.value),
            changed_ms=entry.changed_ms,
            limits=self._limits,
            min_age_ms=self._min_age_ms,
            options=options,
            reaping=entry.reaping,
        )

    def _outcome(self, entry: _Table, duty: str | None, step: Step, error: SlateError | None) -> UpkeepOutcome:
        return UpkeepOutcome(entry.path, duty, step.report, step.is_done, error, self._next_turn(entry))

    def _next_turn(self, entry: _Table) -> int:
        """Return when to look at a table again: when a duty is due, or its newest version may have changed."""
        now_ms = read_clock(self._clock)
        if entry.failures:
            return now_ms + self._pause(entry.failures)
        due = (plan.due_ms for plan in entry.plans.values() if plan.due_ms is not None)
        return min([now_ms + self._min_ms, *due])

    def _pause(self, failures: int) -> int:
        return min(self._max_ms, self._min_ms << min(failures - 1, 30))


def _is_due(plan: _Plan, now_ms: int) -> bool:
    return plan.due_ms is not None and plan.due_ms <= now_ms


def _parse_duties(given: Iterable[str] | str | None) -> tuple[str, ...]:
    """Return the names of duties, in the order of `DUTIES`; raises `OptionError` for an unknown one."""
    if given is None:
        return tuple(DUTIES)
    names = parse_names(given, "duties")
    unknown = [name for name in names if name not in DUTIES]
    if unknown or not names:
        raise OptionError(f"duties: {unknown or given!r} are unknown.", todo=f"Use some of {', '.join(DUTIES)}.")
    return tuple(name for name in DUTIES if name in names)
