"""Whether a compaction may drop rows past retention: a merge operand above them would make them young again.

A commit of slatespark checks once more, under its claim, that no operand has come. What a live client commits is out of
slatespark's hands from the hand-over on: the client may write an operand, and flush it, until the very moment of its
commit. So rows past retention go beside a client only where nobody uses operands: no merge operator is known, and
neither a file nor the WAL holds an operand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from slatespark.format.ulid import Ulid
from slatespark.kernels.columns import MERGE
from slatespark.options.values import MergeOperator
from slatespark.ranges import ALL_KEYS
from slatespark.table.commit.requirements import operands_came
from slatespark.table.compaction.filter import CompactionFilter, RetentionFilter
from slatespark.table.compaction.filter_plan import FilterPlan
from slatespark.table.compaction.merge import MergeRules
from slatespark.table.compaction.plan import CompactionPlan
from slatespark.table.compaction.state import CompactionState, count_operands, hold_no_operands
from slatespark.table.read.fetch import fetch_wal_rows
from slatespark.table.read.planning.layers import distinct_files, fetch_layers
from slatespark.table.stores import TableStores


def with_allowed_retirement(
    planned: FilterPlan, filters: Sequence[CompactionFilter], may_retire: Callable[[], bool]
) -> FilterPlan:
    """Return the plan of a merge, without retirement if rows past retention may not be dropped now.

    Operands may make them young again. A retention filter that has to wait is reported; the table's own retention waits
    for the next compaction.

    Parameters
    ----------
    filters : the plan is theirs
    may_retire : costs requests, so it is only asked if the merge would drop such rows
    """
    if planned.rules.retired_ms is None or may_retire():
        return planned
    waits = planned.waits or any(isinstance(chosen, RetentionFilter) for chosen in filters)
    return replace(planned, rules=replace(planned.rules, retired_ms=None), waits=waits, retires=False)


def may_retire(stores: TableStores, state: CompactionState, plan: CompactionPlan) -> bool:
    """Tell whether a compaction that we commit may drop rows past retention."""
    return hold_no_operands(plan.above, state.known) and _has_no_wal_operands(stores, state)


def may_retire_beside_client(
    stores: TableStores, state: CompactionState, operator: MergeOperator | None, plain: set[Ulid]
) -> bool:
    """Tell whether a compaction that a live client commits may drop rows past retention.

    Parameters
    ----------
    state : asked for when the merge is planned, and anew right before it is handed over
    operator : the given merge operator; None for that of the table
    plain : files known to hold no operands from earlier questions, which are not asked again; it is brought up to date
    """
    if operator is not None or state.definition.merge_operator is not None:
        return False
    files = distinct_files(fetch_layers(stores, state.snapshot.manifest))
    if count_operands(stores, (file for file in files if file.id not in plain), state.known) != 0:
        return False
    ids = {file.id for file in files}
    plain |= ids
    plain &= ids
    return _has_no_wal_operands(stores, state)


def _has_no_wal_operands(stores: TableStores, state: CompactionState) -> bool:
    snapshot = state.snapshot
    wal = fetch_wal_rows(stores, snapshot.wal, snapshot.manifest.last_l0_seq, ALL_KEYS)
    return wal is None or not (wal.flags & MERGE).any()


def refuse_operands(table: str, rules: MergeRules, may_retire: Callable[[], bool]) -> None:
    """Refuse a merge that dropped rows past retention, if they may not be dropped any more.

    Parameters
    ----------
    may_retire : as for `with_allowed_retirement`

    Raises
    ------
    CommitConflictError
    """
    if rules.retired_ms is not None and not may_retire():
        raise operands_came(table)
