"""Reaper: one loop that reaps many tables, each when its next row becomes due."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from slatespark.errors import SlateError, as_slate_error
from slatespark.options.defaults import MAX_INTERVAL, MIN_INTERVAL
from slatespark.options.values import argument_names, refuse_misspelt
from slatespark.shown import Listing, Shown
from slatespark.table.clock import Clock, read_clock
from slatespark.table.commit.cooperate_option import refuse_cooperation
from slatespark.table.progress import Progress
from slatespark.table.read.merge.cursor import window_size
from slatespark.table.retention.deletion_time import SKEW_MS
from slatespark.table.retention.reap_arguments import ReapLimits, parse_reap
from slatespark.table.retention.reap_report import ReapReport
from slatespark.table.retention.reap_run import Reaping
from slatespark.table.retention.reap_survey import ReapSurvey, outline_cache
from slatespark.table.stores import table_paths
from slatespark.table.upkeep.registered_table import RegisteredTable
from slatespark.table.upkeep.service import TableService
from slatespark.table.upkeep.table_loop import StepResult


@dataclass(frozen=True, slots=True, repr=False)
class ReapOutcome(Shown):
    """The outcome for a table: a report or an error.

    Attributes
    ----------
    url : the location of the table
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
    survey : facts of its files
    reaping : under way
    failures : consecutive ones
    """

    registered: RegisteredTable
    survey: ReapSurvey | None = None
    reaping: Reaping | None = None
    failures: int = 0


class Reaper(TableService[_Table, ReapOutcome]):
    """Reaps many tables, each when its next row is past retention.

    A table is reaped again when its oldest row is due: not before `minInterval` has passed, so that rows are deleted in
    batches, and at the latest after `maxInterval`, since its retention may have changed. A table that fails does not
    stop the others: it is retried, with a growing pause.

    Parameters
    ----------
    tables : paths or URLs, or one of them
    minInterval, maxInterval : durations, `1m` and `1h` by default
    maxBatchRows, maxBatchBytes : bounds of a pass, as for `SlateStore.reap`
    clock : clock for waiting, or `module:function`; the system clock by default
    options : write options for the commits, such as `ifClientActive`
    progress : called with the step, how much is done, and how much there is in all, 0 if unknown
    storage : options for all of `tables`, as for `SlateStore.open`

    Raises
    ------
    OptionError
        When an argument or an option is wrong.

    Examples
    --------
    >>> from slatespark import Reaper, SlateStore
    >>> store = SlateStore.create("memory://visits", retention="30d")
    >>> [outcome.report.rows for outcome in Reaper(["memory://visits"]).runOnce()]
    [0]
    """

    def __init__(
        self,
        tables: Iterable[str | os.PathLike[str]] | str | os.PathLike[str] = (),
        *,
        minInterval: str | int | timedelta = MIN_INTERVAL,
        maxInterval: str | int | timedelta = MAX_INTERVAL,
        maxBatchRows: int | None = None,
        maxBatchBytes: int | str | None = None,
        clock: Clock | str | None = None,
        options: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
        **storage: Any,
    ) -> None:
        refuse_misspelt(storage, argument_names(Reaper))
        super().__init__(minInterval, maxInterval, clock, options or {})
        self._limits = ReapLimits.parse(maxBatchRows, maxBatchBytes)
        self._progress, self._outlines = progress, outline_cache()
        refuse_cooperation(parse_reap({"path": "?"}, self._options), "a reap")  # early
        for path in table_paths(tables):
            self.add(path, **storage)

    def runOnce(self) -> Listing[ReapOutcome]:
        """Reap every table now, one pass of each in turn.

        Returns
        -------
        The outcomes in the order in which the tables were added; after a `stop` only of those that are finished.
        """
        found: dict[str, ReapOutcome | None] = {}

        def begin(table: _Table) -> None:
            table.reaping = None
            found[table.registered.path] = None

        self._loop.run_once(begin, lambda outcome: found.update({outcome.url: outcome}))
        return Listing(outcome for outcome in found.values() if outcome is not None)

    def _new_table(self, registered: RegisteredTable, now_ms: int) -> _Table:
        return _Table(registered)

    def _serve(self, table: _Table) -> StepResult[ReapOutcome]:
        """Do one pass for a table."""
        try:
            if table.reaping is None:
                table.reaping = self._begin(table)
            wait_ms = table.reaping.step()
        except Exception as exc:  # an unexpected error must not stop the other tables
            table.reaping, table.failures = None, table.failures + 1
            next_ms = read_clock(self._clock) + self._pause_ms(table.failures)
            error = as_slate_error(exc, table.registered.path)
            outcome = ReapOutcome(table.registered.path, None, error, next_ms)
            return StepResult(outcome.next_ms, outcome)
        if wait_ms is not None:
            return StepResult(read_clock(self._clock) + wait_ms, goes_on=True)
        report, table.reaping, table.failures = table.reaping.report, None, 0
        outcome = ReapOutcome(table.registered.path, report, None, self._next_ms(report))
        return StepResult(outcome.next_ms, outcome)

    def _begin(self, table: _Table) -> Reaping:
        """Return a new reap of a table."""
        stores, options = table.registered.open(self._options)
        window_bytes = window_size(options.write_buffer_bytes, 1)
        if table.survey is None:
            table.survey = ReapSurvey(stores, window_bytes, outlines=self._outlines)
        else:
            table.survey = replace(table.survey, stores=stores)
        return Reaping.begin(
            stores,
            self._clock,
            limits=self._limits,
            options=options,
            survey=table.survey,
            progress=self._progress,
        )

    def _next_ms(self, report: ReapReport) -> int:
        """Return when to reap a table again; the deadline of a table with a clock of its own is not comparable."""
        now_ms = read_clock(self._clock)
        earliest_ms, latest_ms = now_ms + self._min_ms, now_ms + self._max_ms
        if report.has_own_time:
            return earliest_ms
        if report.next_deadline_ms is None:
            return latest_ms
        return min(max(report.next_deadline_ms + SKEW_MS, earliest_ms), latest_ms)
