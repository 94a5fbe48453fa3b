"""The ranges of a compaction: how a plan is cut into tasks, and who merges them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

from slatespark.options import WriteOptions
from slatespark.table.clock import Clock
from slatespark.table.columns.write import CopyRule
from slatespark.table.compaction.filter_plan import FilterPlan
from slatespark.table.compaction.merge import MergedRange, RangeTask, merge_range
from slatespark.table.compaction.plan import CompactionPlan
from slatespark.table.read.fetch import sample_indexes
from slatespark.table.read.planning.plan import plan_splits, range_size
from slatespark.table.stores import TableStores
from slatespark.table.tasks import THREADS

RANGE_FILES: Final = 4  # size of a range, in files of `sstSize`

Runner: TypeAlias = Callable[[Sequence[RangeTask]], Iterable[MergedRange]]


def plan_tasks(
    stores: TableStores,
    plan: CompactionPlan,
    filter_plan: FilterPlan,
    options: WriteOptions,
    *,
    planned_ms: int,
    range_bytes: int,
    parallelism: int,
    copies: CopyRule | None = None,
) -> list[RangeTask]:
    """Return the tasks of a plan, in key order.

    Parameters
    ----------
    filter_plan : rules, and filters to call
    options : options of the files
    planned_ms : time part of their ids
    range_bytes : approximate maximum that one task reads
    parallelism : how many are merged at a time
    copies : how columnar copies of the files are written; None for none
    """
    target_bytes = range_size(
        plan.stored_bytes, most_bytes=range_bytes, least_bytes=options.sst_bytes, parallelism=parallelism
    )
    splits = (
        split
        for keys in plan.keys
        for split in plan_splits(plan.layers, keys, target_bytes=target_bytes, sample=partial(sample_indexes, stores))
    )
    options = replace(options, path=stores.url, wal_path=stores.wal_url)  # tasks may have another working folder
    return [
        RangeTask(split.keys, split.layers, filter_plan.rules, options, planned_ms, filter_plan.called, copies)
        for split in splits
        if split.layers
    ]


def run_here(stores: TableStores, clock: Clock, tasks: Sequence[RangeTask]) -> Iterator[MergedRange]:
    """Yield the merged ranges in order; a few are merged at a time, on threads of this process."""
    return THREADS(partial(merge_range, stores, clock), tasks)


def parallelism_of(runner: Runner | None, threads: int) -> int:
    """Return how many ranges a runner merges at a time; without one as many as there are threads."""
    return threads if runner is None else getattr(runner, "parallelism", 1)
