"""Replacing an interval of a history table: no view is cut; previous rows are deleted as of the write's time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain

from slatespark.options import ReadOptions, WriteOptions
from slatespark.options.values import with_storage_prefix
from slatespark.table.clock import Clock
from slatespark.table.commit.job import WriteJob
from slatespark.table.commit.read_set import ReadSet
from slatespark.table.read.planning.plan import Split
from slatespark.table.read.reader import ReadPlan, fetch_read_plan, resolve_table
from slatespark.table.read.scan import scan_split
from slatespark.table.read.scan_settings import ScanSettings
from slatespark.table.read.versions.floor import find_later_beginning, history_floor
from slatespark.table.rows.encoder import RowEncoder
from slatespark.table.rows.encoder_plan import plan_encoder
from slatespark.table.rows.key_bounds import KeyBounds
from slatespark.table.rows.sst_upload import NewFile, upload_task
from slatespark.table.rows.task_sorter import TaskSorter
from slatespark.table.snapshot import Snapshot
from slatespark.table.stores import TableStores
from slatespark.table.tasks import THREADS
from slatespark.table.write.load import TOMBSTONE_TASK


def upload_tombstones(
    stores: TableStores,
    clock: Clock,
    job: WriteJob,
    options: WriteOptions,
    bounds: KeyBounds,
) -> tuple[tuple[NewFile, ...], ReadSet]:
    """Upload a tombstone for each row of some intervals that exists as of the write's time.

    Parameters
    ----------
    bounds : the intervals; threads of this process search them and write the tombstones, a split in each task

    Returns
    -------
    The files in key order, and the read set of their commit: the intervals must not have changed.

    Raises
    ------
    HistoryTrimmedError
        When some rows of that instant may be gone.
    """
    if job.creates:  # there are no rows, but another creator may commit some first
        return (), ReadSet(0, 0, ranges=bounds.ranges, written=())
    state = choose_state_at_write(stores, clock, options)
    if state.empty is not None:
        return (), ReadSet.of(state.empty, ranges=bounds.ranges, written=())
    plan = _plan_intervals(stores, clock, job, options, bounds, state)
    deletes = WriteOptions(path=options.path, operation="delete")
    encoder = plan_encoder(plan.schema, job.definition.codec(), deletes)
    upload = partial(_upload_split, stores, clock, job, options, encoder, plan.settings)
    files = tuple(chain.from_iterable(THREADS(upload, plan.splits)))  # the splits are in key order
    return files, ReadSet.of_plan(plan)


def _upload_split(
    stores: TableStores,
    clock: Clock,
    job: WriteJob,
    options: WriteOptions,
    encoder: RowEncoder,
    settings: ScanSettings,
    split: Split,
) -> tuple[NewFile, ...]:
    """Upload the tombstones of the rows of a split. All have one number, since no key is in two splits."""
    stamp, rows = job.stamp(TOMBSTONE_TASK, options), scan_split(stores, split, settings)
    sorter = TaskSorter(rows, encoder, stamp, None, buffer_bytes=options.write_buffer_bytes)
    return upload_task(stores, clock, sorter, options, job.planned_ms, segments=job.segments)


@dataclass(frozen=True, slots=True)
class StateAtWrite:
    """How to read a history table as of the time of a write.

    Attributes
    ----------
    read : the read options
    empty : the snapshot, if its first row version is later: a read as of then would be refused, although there is
        nothing to delete; None if rows may exist
    """

    read: Mapping[str, int]
    empty: Snapshot | None = None


def choose_state_at_write(stores: TableStores, clock: Clock, options: WriteOptions) -> StateAtWrite:
    """Return how to read a history table as of the time of a write.

    A write may move the clock of a table with its own time past the last tick. No row is later then, so the newest
    state is read with `now`.
    """
    time_ms = options.timestamp_ms
    if time_ms is None:
        return StateAtWrite({})
    snapshot, definition = resolve_table(stores, ReadOptions(path=options.path, wal_path=options.wal_path), clock)
    if definition.has_own_time and time_ms > snapshot.tick_ms:
        return StateAtWrite({"now": time_ms})
    is_whole = definition.has_history and history_floor(stores, snapshot.manifest, definition) is None
    if is_whole and find_later_beginning(stores, snapshot, time_ms) is not None:
        return StateAtWrite({}, empty=snapshot)
    return StateAtWrite({"timestampAsOf": time_ms})


def _plan_intervals(
    stores: TableStores, clock: Clock, job: WriteJob, options: WriteOptions, bounds: KeyBounds, state: StateAtWrite
) -> ReadPlan:
    """Return the plan of a read of the existing keys."""
    read = {
        "path": options.path,
        "columns": job.definition.codec().key_columns,
        "mergeOperator": options.merge_operator,
        "includeExpired": True,  # a client, or a longer retention, would show hidden rows
        **state.read,
        "walPath": options.wal_path,
        **with_storage_prefix(options.storage),
    }
    return fetch_read_plan(stores, ReadOptions.parse(read), clock, keys=bounds.ranges)
