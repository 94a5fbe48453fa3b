"""Deletions of rows: by a condition, and of key ranges of a history table as of an instant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from slatespark.options import Call, ReadOptions, WriteOptions
from slatespark.ranges import KeyRange
from slatespark.table.clock import Clock
from slatespark.table.commit.cooperate_option import refuse_cooperation
from slatespark.table.commit.idempotence import is_committed
from slatespark.table.commit.job import abandoned_on_error
from slatespark.table.commit.read_set import ReadSet
from slatespark.table.definition.versions import fetch_defined
from slatespark.table.progress import Progress, Step, reporting_tasks
from slatespark.table.read.planning.plan import Split
from slatespark.table.read.reader import ReadPlan, fetch_read_plan, resolve_table
from slatespark.table.read.scan import scan_split
from slatespark.table.read.scan_settings import ScanSettings
from slatespark.table.read.versions.read_point import ReadPoint
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.rows.sst_upload import NewFile
from slatespark.table.stores import TableStores
from slatespark.table.tasks import THREADS, TaskRunner
from slatespark.table.write.change_options import parse_change
from slatespark.table.write.exact_ranges import ranges_to_delete
from slatespark.table.write.history_replace import choose_state_at_write
from slatespark.table.write.key_deletes import delete_listed_keys
from slatespark.table.write.load import Load
from slatespark.table.write.load_commit import commit_load
from slatespark.table.write.load_plan import begin_load
from slatespark.table.write.load_task import run_task


def delete_where(
    stores: TableStores,
    clock: Clock,
    condition: str,
    common: Mapping[str, Any],
    options: Mapping[str, Any],
    *,
    progress: Progress | None = None,
) -> CommitRecord | None:
    """Delete the rows that match a condition; None when there are none.

    Parameters
    ----------
    condition : condition in the grammar of the read option `filter`; with `ifClientActive=cooperate` one that lists
        keys
    common : options of reads and writes: path and storage
    options : further write options

    Raises
    ------
    OptionError
        When the condition is missing, or cannot be parsed; or when an option does not apply to a deletion.
    TransactionConflictError
        When another commit changed the searched keys after the searched snapshot.
    CommitConflictError
        When a SlateDB client is active on the table, or other writers won every race.
    """
    write = parse_change(Call.DELETE, common, options)
    if is_committed(stores, write):
        return None
    if write.cooperates:
        return delete_listed_keys(stores, clock, condition, write)
    plan = _fetch_deletion_plan(stores, clock, condition, common, write)
    return _delete_rows(stores, clock, plan, write, reporting_tasks(THREADS, progress, Step.REMOVING))


def delete_history_range(
    stores: TableStores,
    clock: Clock,
    where: str | None,
    common: Mapping[str, Any],
    options: WriteOptions,
    *,
    runner: TaskRunner = THREADS,
) -> CommitRecord | None:
    """Delete key ranges of a history table as of an instant; None when they had no rows then.

    Each row that a read as of that instant shows in the ranges gets a tombstone with that time, so as-of reads stay
    exact before and after it.

    Parameters
    ----------
    where : a condition on leading key columns; None for a raw table, where options give the keys
    common : options of reads: path and storage
    options : options of the deletion; `timestamp` is its instant, by default that of the commit
    runner : searches the ranges and writes the tombstones, a split in each task; by default threads of this process

    Raises
    ------
    OptionError
        When the condition is not exactly a set of key ranges.
    TransactionConflictError
        When another commit changed the ranges after the searched snapshot.
    CommitConflictError
        When a row has a later version.
    HistoryTrimmedError
        When some rows of that instant may be gone.
    """
    write = replace(options, operation="delete")
    refuse_cooperation(write, "a history table")
    if is_committed(stores, write):
        return None
    keys = ranges_to_delete(where, write, fetch_defined(stores)[1].codec())
    state = choose_state_at_write(stores, clock, write)
    # Hidden rows too: a client shows expired ones, and a longer retention would show those past the present one.
    plan = _fetch_deletion_plan(stores, clock, None, common, write, keys, includeExpired=True, **state.read)
    if state.empty is not None:  # no row that the plan shows existed then
        plan = replace(plan, splits=())
    rows_alone = replace(write, start_key=None, end_key=None, key_prefix=None)  # only these rows are replaced
    return _delete_rows(stores, clock, plan, rows_alone, runner)


def _fetch_deletion_plan(
    stores: TableStores,
    clock: Clock,
    condition: str | None,
    common: Mapping[str, Any],
    write: WriteOptions,
    ranges: Sequence[KeyRange] | None = None,
    **more: Any,
) -> ReadPlan:
    """Return the plan of a read of the keys to be deleted."""
    wanted = {"filter": condition, "mergeOperator": write.merge_operator, **more}
    point = ReadPoint(*resolve_table(stores, ReadOptions.parse({**common, **wanted}), clock))
    options = ReadOptions.parse({**common, **wanted, "columns": list(point.definition.codec().key_columns)})
    return fetch_read_plan(stores, options, clock, point=point, keys=ranges)


def _delete_rows(
    stores: TableStores, clock: Clock, plan: ReadPlan, write: WriteOptions, runner: TaskRunner
) -> CommitRecord | None:
    """Delete the rows that a read shows, unless another commit changed the keys that it searched.

    Each split is a task: it reads the keys, and uploads their tombstones.
    """
    load = begin_load(stores, clock, plan.schema, write, creates=False)
    if load is None:
        return None
    with abandoned_on_error(stores, load.job):
        delete = partial(_delete_split, stores, clock, load, plan.settings)
        outputs = runner(delete, [*enumerate(plan.splits)])
        return commit_load(stores, clock, load, tuple(outputs), depends_on=ReadSet.of_plan(plan))


def _delete_split(
    stores: TableStores, clock: Clock, load: Load, settings: ScanSettings, numbered: tuple[int, Split]
) -> tuple[NewFile, ...]:
    """Upload the tombstones of the rows of a split, and return their files."""
    number, split = numbered
    return run_task(stores, clock, load, number, scan_split(stores, split, settings))
