"""Upkeep: one loop that does the regular work of many tables, a step of one table and then of the next."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from slatespark.errors import OptionError, SlateError, as_slate_error
from slatespark.format.manifest import Manifest
from slatespark.options import Call, WriteOptions
from slatespark.options.defaults import MAX_INTERVAL, MIN_AGE, MIN_INTERVAL
from slatespark.options.flags import parsing_flags
from slatespark.options.values import argument_names, parse_min_age, parse_names, refuse_misspelt
from slatespark.shown import Listing, Shown
from slatespark.table.clock import Clock, read_clock
from slatespark.table.definition.versions import resolve_definition
from slatespark.table.log.manifests import fetch_latest_manifest, fetch_newest_since
from slatespark.table.log.versioned_object import Version
from slatespark.table.retention.reap_arguments import ReapLimits
from slatespark.table.retention.reap_run import Reaping
from slatespark.table.stores import table_paths
from slatespark.table.upkeep.duties import DUTIES, FOLLOWS_CHANGES, DutyContext, DutyOutcome, DutyReport
from slatespark.table.upkeep.registered_table import OpenedTable, RegisteredTable
from slatespark.table.upkeep.service import TableService
from slatespark.table.upkeep.table_loop import StepResult, set_back_by


@dataclass(frozen=True, slots=True, repr=False)
class UpkeepOutcome(Shown):
    """What a step did.

    Attributes
    ----------
    url : the location of the table
    duty : `historyFloor`, `reap`, `compact` or `vacuum`; None if the table could not be opened
    report : what the duty returned: a `ReapReport`, `CompactionReport`, `VacuumReport`, or the stored history floor in
        ms
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
    """When a duty of a table is due; None for not before a change of the table.

    Attributes
    ----------
    goes_on : it is in the middle of its work, and no change lets it go on earlier
    failures : consecutive ones
    """

    due_ms: int | None
    goes_on: bool = False
    failures: int = 0


@dataclass(slots=True)
class _Table:
    """A registered table.

    Attributes
    ----------
    known : its newest version, when it was last looked at
    changed_ms : when that changed
    checked_ms : when all duties that follow changes were last due without one
    seen_ms : when it last had its turn
    plans : plans by duty, in the order in which they had their turn: that of the longest ago first
    round : the duties that are left of a `runOnce`; empty at other times
    failures : consecutive ones of looking at it
    reaping : the reap under way, if any
    """

    registered: RegisteredTable
    opened: OpenedTable | None = None
    known: Version[Manifest] | None = None
    changed_ms: int = 0
    checked_ms: int = 0
    seen_ms: int = 0
    plans: dict[str, _Plan] = field(default_factory=dict)
    round: deque[str] = field(default_factory=deque)
    failures: int = 0
    reaping: Reaping | None = None

    def follow_clock(self, now_ms: int) -> None:
        """Move its times with a clock that was set back: no duty waits until it is as late again."""
        by_ms, self.seen_ms = set_back_by(now_ms, self.seen_ms), now_ms
        self.changed_ms, self.checked_ms = self.changed_ms + by_ms, self.checked_ms + by_ms
        for plan in self.plans.values():
            plan.due_ms = None if plan.due_ms is None else plan.due_ms + by_ms


class Upkeep(TableService[_Table, UpkeepOutcome]):
    """Does the regular work of many tables: retention, compaction, vacuum, and the history floor.

    A step is one commit of one table; then the next table has its turn, so that a backlog of one keeps none of the
    others waiting. A table that did not change costs one request per `minInterval`. What fails is tried again, with a
    growing pause, and stops neither the other duties of the table nor other tables.

    Parameters
    ----------
    tables : paths or URLs, or one of them
    minInterval : between two looks for a new version of a table, `1m` by default
    maxInterval : duration after which all duties look at a table that did not change: its properties may have; `1h` by
        default
    duties : which of `historyFloor`, `reap`, `compact` and `vacuum`; by default all
    minAge : the least age of objects that a vacuum deletes, an hour or more; `24h` by default
    fences : a vacuum deletes WAL fences too; see `SlateStore.vacuum`
    maxBatchRows, maxBatchBytes : bounds of a commit of the reaper, as for `SlateStore.reap`
    clock : clock for waiting, or `module:function`; the system clock by default
    options : write options for the commits: those of `reap` and of `compact`, without key ranges. With
        `ifClientActive=cooperate` live clients commit the compactions, and nothing else is committed that could fence
        them
    storage : options for all of `tables`, as for `SlateStore.open`

    Raises
    ------
    OptionError
        When an argument or an option is wrong.

    Examples
    --------
    >>> from slatespark import SlateStore, Upkeep
    >>> store = SlateStore.create("memory://kept", retention="30d")
    >>> [outcome.duty for outcome in Upkeep(["memory://kept"]).runOnce()]
    ['historyFloor', 'reap', 'compact', 'vacuum']
    """

    @parsing_flags
    def __init__(
        self,
        tables: Iterable[str | os.PathLike[str]] | str | os.PathLike[str] = (),
        *,
        minInterval: str | int | timedelta = MIN_INTERVAL,
        maxInterval: str | int | timedelta = MAX_INTERVAL,
        duties: Iterable[str] | str | None = None,
        minAge: str | timedelta = MIN_AGE,
        fences: bool = False,
        maxBatchRows: int | None = None,
        maxBatchBytes: int | str | None = None,
        clock: Clock | str | None = None,
        options: Mapping[str, Any] | None = None,
        **storage: Any,
    ) -> None:
        refuse_misspelt(storage, argument_names(Upkeep))
        super().__init__(minInterval, maxInterval, clock, _parse_options(options))
        self._duties = _parse_duties(duties)
        self._min_age_ms = parse_min_age(minAge, is_forced=False, force=None)
        self._fences = fences
        self._limits = ReapLimits.parse(maxBatchRows, maxBatchBytes)
        for path in table_paths(tables):
            self.add(path, **storage)

    def runOnce(self) -> Listing[UpkeepOutcome]:
        """Do every duty of every table now, until nothing is left to do, and return the outcomes in their order.

        A duty that fails is not tried again; its error is in its outcome.
        """
        outcomes: list[UpkeepOutcome] = []

        def begin(table: _Table) -> None:
            table.round, table.reaping = deque(self._duties), None

        self._loop.run_once(begin, outcomes.append)
        return Listing(outcomes)

    # --- a step -------------------------------------------------------------------------------------------------------

    def _new_table(self, registered: RegisteredTable, now_ms: int) -> _Table:
        return _Table(registered, plans={name: _Plan(now_ms) for name in self._duties})

    def _serve(self, table: _Table) -> StepResult[UpkeepOutcome]:
        """Do a step of the duty whose turn it is: of a round the next one, else that which has waited longest."""
        if (failed := self._inspect(table)) is not None:
            table.round.clear()
            return StepResult(failed.next_ms, failed)
        now_ms = read_clock(self._clock)
        due = (name for name, plan in table.plans.items() if _is_due(plan, now_ms))
        name = table.round[0] if table.round else next(due, None)
        if name is None:
            return StepResult(self._next_turn(table))
        outcome = self._do(table, name)
        return StepResult(outcome.next_ms, outcome, goes_on=bool(table.round))

    def _inspect(self, table: _Table) -> UpkeepOutcome | None:
        """Find the newest version of a table; after a change, or a long time without, its duties are due.

        Returns the outcome if that fails.
        """
        known, now_ms = table.known, read_clock(self._clock)
        table.follow_clock(now_ms)
        try:
            stores = self._opened(table).stores
            # Looked for again now and then: a table that was dropped and created again may have lower versions.
            if known is None or now_ms - table.checked_ms >= self._max_ms:
                table.known = fetch_latest_manifest(stores)
            else:
                table.known = fetch_newest_since(stores, known)
        except Exception as exc:
            table.failures += 1
            table.opened = None
            return self._outcome(table, None, DutyOutcome(None), as_slate_error(exc, table.registered.path))
        table.failures = 0
        if known is None or table.known != known:
            table.changed_ms = now_ms
        elif now_ms - table.checked_ms < self._max_ms:
            return None
        table.checked_ms = now_ms
        for name, plan in table.plans.items():
            if plan.failures == 0 and not plan.goes_on and (name in FOLLOWS_CHANGES or plan.due_ms is None):
                plan.due_ms = now_ms if plan.due_ms is None else min(plan.due_ms, now_ms)
        return None

    def _do(self, table: _Table, name: str) -> UpkeepOutcome:
        """Do a step of a duty, and say when it is due again."""
        plan = table.plans[name] = table.plans.pop(name)  # to the end of the line
        step, error = DutyOutcome(None), None
        try:
            step = DUTIES[name](self._context(table))
        except Exception as exc:  # an unexpected error must not stop the other tables either
            error = as_slate_error(exc, table.registered.path)
        now_ms = read_clock(self._clock)
        plan.goes_on, plan.failures = step.goes_on, 0 if error is None else plan.failures + 1
        if error is not None:
            plan.due_ms = now_ms + self._pause_ms(plan.failures)
        elif step.goes_on:
            plan.due_ms = now_ms if step.next_ms is None else step.next_ms
        else:
            plan.due_ms = None if step.next_ms is None else max(step.next_ms, now_ms + self._min_ms)
        if name == "reap":
            table.reaping = step.reaping
        if table.round and not step.goes_on:
            table.round.popleft()
            if table.round:
                table.plans[table.round[0]].due_ms = now_ms
        return self._outcome(table, name, step, error)

    def _opened(self, table: _Table) -> OpenedTable:
        if table.opened is None:
            table.opened = table.registered.open(self._options)
        return table.opened

    def _context(self, table: _Table) -> DutyContext:
        assert table.known is not None  # it was looked at
        stores, options = self._opened(table)
        return DutyContext(
            stores=stores,
            clock=self._clock,
            definition=resolve_definition(stores, table.known.value),
            changed_ms=table.changed_ms,
            limits=self._limits,
            min_age_ms=self._min_age_ms,
            takes_fences=self._fences,
            options=options,
            reaping=table.reaping,
        )

    def _outcome(self, table: _Table, duty: str | None, step: DutyOutcome, error: SlateError | None) -> UpkeepOutcome:
        return UpkeepOutcome(table.registered.path, duty, step.report, step.is_done, error, self._next_turn(table))

    def _next_turn(self, table: _Table) -> int:
        """Return when to look at a table again: when a duty is due, or its newest version may have changed."""
        now_ms = read_clock(self._clock)
        if table.failures:
            return now_ms + self._pause_ms(table.failures)
        plans = [table.plans[table.round[0]]] if table.round else table.plans.values()
        due = (plan.due_ms for plan in plans if plan.due_ms is not None)
        return min([now_ms + self._min_ms, *due])


def _is_due(plan: _Plan, now_ms: int) -> bool:
    return plan.due_ms is not None and plan.due_ms <= now_ms


def _parse_options(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the options of the commits of upkeep; raises `OptionError` for one that no duty takes."""
    options = dict(given or {})
    WriteOptions.of_call("upkeep", Call.UPKEEP, {"path": "?"}, options, why="Upkeep reaps and compacts whole tables.")
    return options


def _parse_duties(given: Iterable[str] | str | None) -> tuple[str, ...]:
    """Return the names of duties, in the order of `DUTIES`; raises `OptionError` for an unknown one."""
    if given is None:
        return tuple(DUTIES)
    names = parse_names(given, "duties")
    unknown = [name for name in names if name not in DUTIES]
    if unknown or not names:
        raise OptionError(f"duties: {unknown or given!r} are unknown.", todo=f"Use some of {', '.join(DUTIES)}.")
    return tuple(name for name in DUTIES if name in names)
