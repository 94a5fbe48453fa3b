"""Which filters of a compaction become rules of its merge, and whether the others may be called. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from slatespark.errors import InvalidRequestError, OptionError
from slatespark.format.manifest import Manifest
from slatespark.table.compaction.filter import (
    BUILT_IN,
    CompactionFilter,
    ExpireFilter,
    HistoryFloorFilter,
    RetentionFilter,
)
from slatespark.table.compaction.filter_rows import FilterStage
from slatespark.table.compaction.merge import MergedRange, MergeRules
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.read.merge.retention import retired_until_ms
from slatespark.units import ms_to_text


@dataclass(frozen=True, slots=True)
class FilterPlan:
    """The effect of the filters on one merge.

    Attributes
    ----------
    rules : rules of the merge, including those of built-in filters
    called : the filters that are called; None if there are none, or if they are deferred
    waits : filters are deferred, because an open snapshot may need any version, or operands may make rows young again
    retires : rows are past retention by a filter that are not by the rules without it
    """

    rules: MergeRules
    called: FilterStage | None = None
    waits: bool = False
    retires: bool = False

    def removed_visible(self, merged: MergedRange, *, is_late: bool = False) -> bool:
        """Tell whether the merge may have removed or changed rows that reads show.

        Versions that expired by the instant of reads count as well, where others may have: the merge does not tell them
        apart.

        Parameters
        ----------
        is_late : the rules judge by an instant later than that of reads
        """
        by_time = self.retires or is_late
        return merged.filtered > 0 or (by_time and merged.expired > 0)


def check_filters(given: object, definition: TableDefinition, table: str) -> tuple[CompactionFilter, ...]:
    """Return the given filters, checked.

    Raises
    ------
    OptionError
        When an item is not a filter, or two filters contradict each other.
    InvalidRequestError
        When a filter cannot be used on the table.
    """
    filters = check_kinds(given)
    for chosen in filters:
        _check_takes(chosen, definition, table)
    resolve_filter_now(filters, None)
    return filters


def check_kinds(given: object) -> tuple[CompactionFilter, ...]:
    """Return the given filters; raises `OptionError` when an item is none."""
    if isinstance(given, CompactionFilter) or not isinstance(given, Sequence):
        raise OptionError(f"filters: {type(given).__name__} is not a list.", todo="Give a list of filters.")
    for chosen in given:
        if isinstance(chosen, type) or not isinstance(chosen, CompactionFilter):
            name = chosen.__name__ if isinstance(chosen, type) else type(chosen).__name__
            raise OptionError(f"filters: {name} is not a filter.", todo="Give objects with a method decide(versions).")
    return tuple(given)


def _check_takes(chosen: CompactionFilter, definition: TableDefinition, table: str) -> None:
    name = type(chosen).__name__
    if isinstance(chosen, HistoryFloorFilter) and not definition.has_history:
        raise InvalidRequestError(
            f"{table}: {name} is for history tables.",
            todo="Leave it out: on other tables every compaction keeps only the newest version of a key.",
        )
    if isinstance(chosen, ExpireFilter | HistoryFloorFilter) or not definition.has_history:
        return
    raise InvalidRequestError(
        f"{table}: {name} cannot be used on a history table.",
        why="As-of reads show every version that a compaction keeps there, and filters may not change the past.",
        todo="Delete the rows, raise the history floor (setHistoryFloor), and compact.",
    )


def resolve_filter_now(filters: Sequence[CompactionFilter], now_ms: int | None) -> int | None:
    """Return the instant that a compaction and its filters were given; None without any.

    Raises
    ------
    OptionError
        When there are several.
    """
    named = {chosen.now_ms for chosen in filters if isinstance(chosen, ExpireFilter | RetentionFilter)}
    instants = sorted((named | {now_ms}) - {None}, key=str)
    if len(instants) > 1:
        given = " and ".join(ms_to_text(instant) for instant in instants if instant is not None)
        raise OptionError(f"now: {given} are both given.", todo="Give one instant, to the compaction alone.")
    return instants[0] if instants else None


def requested_floor(filters: Sequence[CompactionFilter], definition: TableDefinition) -> int | None:
    """Return the instant to which filters raise the floor of a history table; None if that is the floor already."""
    asked_ms = max((chosen.floor_ms for chosen in filters if isinstance(chosen, HistoryFloorFilter)), default=None)
    return None if asked_ms == definition.full_history_ts_low_ms else asked_ms


def plan_filters(
    filters: Sequence[CompactionFilter], rules: MergeRules, definition: TableDefinition, manifest: Manifest, table: str
) -> FilterPlan:
    """Return the effect of the filters on one merge.

    The user's filters are called only if every reader sees the newest state. While the manifest lists an open snapshot
    of a client, they are deferred: every version that the merge keeps is above that snapshot, or visible to it.

    Parameters
    ----------
    filters : checked
    """
    given_ms = rules.retired_ms
    for chosen in filters:
        if isinstance(chosen, RetentionFilter) and rules.now_ms is not None:
            rules = _retiring(rules, retired_until_ms(chosen.retention_ms, rules.now_ms))
    planned = FilterPlan(rules, retires=rules.retired_ms != given_ms)
    asked = tuple(chosen for chosen in filters if not isinstance(chosen, BUILT_IN))
    if not asked:
        return planned
    if manifest.recent_snapshot_min_seq != manifest.last_l0_seq:
        return replace(planned, waits=True)
    return replace(planned, called=FilterStage(asked, definition.codec(), table, rules.drops_tombstones))


def _retiring(rules: MergeRules, retired_ms: int | None) -> MergeRules:
    if retired_ms is None or (rules.retired_ms is not None and rules.retired_ms >= retired_ms):
        return rules
    return replace(rules, retired_ms=retired_ms)


def refuse_instants(filters: Sequence[CompactionFilter]) -> None:
    """Refuse built-in filters with an instant or a floor: jobs of a client are judged by its clock tick.

    Raises
    ------
    OptionError
    """
    if any(isinstance(chosen, HistoryFloorFilter) for chosen in filters):
        raise OptionError(
            "filters: a worker takes no HistoryFloorFilter.",
            why="It merges by the floor that the table has, and does not raise it.",
            todo="Raise the floor with setHistoryFloor, and leave the filter out.",
        )
    for chosen in filters:
        if isinstance(chosen, ExpireFilter | RetentionFilter) and chosen.now_ms is not None:
            raise OptionError(
                f"filters: {type(chosen).__name__} has now={ms_to_text(chosen.now_ms)}.",
                why="A worker evaluates expiry at the client's last clock tick.",
                todo="Leave out now.",
            )
