"""The duties of upkeep: what each one does to a table, in one step, and when it is due again.

A step is one commit or none, but for a vacuum, and for files that are due for a periodic compaction. A table that did
not change needs no check before the time that a duty names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from slatespark.options import WriteOptions
from slatespark.table.clock import Clock, read_clock
from slatespark.table.compaction.report import CompactionReport
from slatespark.table.compaction.request import CompactionRequest
from slatespark.table.compaction.run import compact_table
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.gc.report import DELETED, VacuumReport
from slatespark.table.gc.run import vacuum_table
from slatespark.table.retention.deletion_time import SKEW_MS
from slatespark.table.retention.history_floor import STEPS, follow_history_retention
from slatespark.table.retention.reap_arguments import ReapLimits
from slatespark.table.retention.reap_report import ReapReport
from slatespark.table.retention.reap_run import Reaping
from slatespark.table.stores import TableStores

# A periodic compaction looks for due files this often within the interval.
CHECKS_PER_INTERVAL: Final = 10
VACUUMS_PER_MIN_AGE: Final = 4

DutyReport: TypeAlias = ReapReport | CompactionReport | VacuumReport | int | None


@dataclass(frozen=True, slots=True)
class DutyContext:
    """A table at the moment of a step, and how upkeep works on it.

    Attributes
    ----------
    changed_ms : when a new version was last seen, by `clock`
    limits : bounds of a step of the reaper
    min_age_ms : the least age of objects that a vacuum deletes
    takes_fences : whether a vacuum deletes WAL fences too
    reaping : the reap under way, if any
    """

    stores: TableStores
    clock: Clock
    definition: TableDefinition
    changed_ms: int
    limits: ReapLimits
    min_age_ms: int
    takes_fences: bool
    options: WriteOptions
    reaping: Reaping | None = None


@dataclass(frozen=True, slots=True)
class DutyOutcome:
    """What a step did.

    Attributes
    ----------
    report : the report of the step; None if nothing was to be done
    is_done : whether it changed anything
    goes_on : there is more to do, at once or at `next_ms`
    reaping : the reap that goes on
    next_ms : when the duty is due even if the table does not change, by the clock of upkeep; None for never
    """

    report: DutyReport
    is_done: bool = False
    goes_on: bool = False
    next_ms: int | None = None
    reaping: Reaping | None = None


Duty: TypeAlias = Callable[[DutyContext], DutyOutcome]


def raise_floor(context: DutyContext) -> DutyOutcome:
    """Let the stored history floor follow `historyRetention`."""
    retention_ms, before_ms = context.definition.history_retention_ms, context.definition.full_history_ts_low_ms
    if retention_ms is None:
        return DutyOutcome(None)
    floor_ms = follow_history_retention(context.stores, context.clock)
    next_ms = read_clock(context.clock) + max(1, retention_ms // STEPS)
    return DutyOutcome(floor_ms, is_done=floor_ms != before_ms, next_ms=next_ms)


def reap(context: DutyContext) -> DutyOutcome:
    """Do a pass of a reap; beside a live client compactions leave out what is past retention as they merge."""
    if context.definition.retention_ms is None or context.options.cooperates:
        return DutyOutcome(None)
    reaping = context.reaping or Reaping.begin(
        context.stores,
        context.clock,
        limits=context.limits,
        options=context.options,
    )
    passes = reaping.report.passes
    wait_ms = reaping.step()
    report = reaping.report
    is_done = report.passes > passes
    if wait_ms is not None:
        return DutyOutcome(report, is_done, goes_on=True, next_ms=read_clock(context.clock) + wait_ms, reaping=reaping)
    # The deadline of a table with a clock of its own is not comparable; its time passes with its writes.
    deadline_ms = None if report.has_own_time else report.next_deadline_ms
    next_ms = None if deadline_ms is None else deadline_ms + SKEW_MS
    return DutyOutcome(report, is_done, next_ms=next_ms)


def compact(context: DutyContext) -> DutyOutcome:
    """Merge runs of similar size, one merge a step; then rewrite files that are due."""
    report = compact_table(context.stores, context.clock, CompactionRequest(max_jobs=1), context.options)
    if report.jobs:
        return DutyOutcome(report, is_done=True, goes_on=True)
    interval_ms = context.definition.periodic_compaction_ms
    if interval_ms is None:
        return DutyOutcome(report)
    report = compact_table(context.stores, context.clock, CompactionRequest(due=True), context.options)
    next_ms = read_clock(context.clock) + max(1, interval_ms // CHECKS_PER_INTERVAL)
    return DutyOutcome(report, is_done=bool(report.jobs), next_ms=next_ms)


def vacuum(context: DutyContext) -> DutyOutcome:
    """Delete unreferenced objects; often as long as objects of the last change may become old enough."""
    report = vacuum_table(context.stores, context.clock, min_age_ms=context.min_age_ms, fences=context.takes_fences)
    now_ms = read_clock(context.clock)
    pause_ms = max(1, context.min_age_ms // VACUUMS_PER_MIN_AGE)
    kept_ms = context.min_age_ms + (context.definition.version_retention_ms or 0)
    if now_ms - context.changed_ms > kept_ms + pause_ms:  # only checkpoints and clones keep anything now
        pause_ms = max(pause_ms, kept_ms)
    is_done = report.views_removed > 0 or any(file.action == DELETED for file in report.files)
    return DutyOutcome(report, is_done=is_done, next_ms=now_ms + pause_ms)


# In the order in which they come at first: each one leaves work for those below.
DUTIES: Final[Mapping[str, Duty]] = MappingProxyType(
    {"historyFloor": raise_floor, "reap": reap, "compact": compact, "vacuum": vacuum}
)

# Due again as soon as the table has changed; a vacuum only at the times that it names.
FOLLOWS_CHANGES: Final = frozenset({"historyFloor", "reap", "compact"})
