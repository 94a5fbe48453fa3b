"""A task of a load: its rows become sorted files."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from slatespark.table.clock import Clock
from slatespark.table.read.merge.merge_function import resolve_operator
from slatespark.table.rows.sst_upload import NewFile, upload_task
from slatespark.table.rows.task_sorter import TaskSorter
from slatespark.table.rows.throughput import marked_pace
from slatespark.table.stores import TableStores
from slatespark.table.tasks import ONE_THREAD, ThreadRunner
from slatespark.table.write.load import TOMBSTONE_TASK, Load


def run_task(
    stores: TableStores,
    clock: Clock,
    load: Load,
    task: int,
    batches: Iterable[pa.RecordBatch],
    threads: ThreadRunner = ONE_THREAD,
) -> tuple[NewFile, ...]:
    """Upload the rows of task number `task` as sorted files, and return them in key order."""
    sorter = load_sorter(load, task, batches, load.options.write_buffer_bytes, threads)
    with marked_pace(stores.main, clock, load.bytes_per_s, write_id=load.job.write_id, task=task) as pace:
        return upload_task(
            stores,
            clock,
            sorter,
            load.options,
            load.job.planned_ms,
            segments=load.job.segments,
            pace=pace,
            threads=threads if pace is None else ONE_THREAD,
        )


def load_sorter(
    load: Load,
    task: int,
    batches: Iterable[pa.RecordBatch],
    buffer_bytes: int,
    threads: ThreadRunner = ONE_THREAD,
) -> TaskSorter:
    """Return the sorter of one task's rows."""
    first_task = TOMBSTONE_TASK + 1 if load.keeps_past else 0
    stamp, fold = load.job.stamp(first_task + task, load.options), resolve_operator(load.merge_operator)
    return TaskSorter(batches, load.encoder, stamp, fold, buffer_bytes=buffer_bytes, threads=threads)
