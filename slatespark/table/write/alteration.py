"""Changes of a table's definition, and deletions by a condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from slatespark.encoding.row_codec import BYTES_TYPES
from slatespark.encoding.schema import find_name
from slatespark.errors import InvalidRequestError, OptionError, SchemaError
from slatespark.options import Call, ReadOptions, WriteOptions
from slatespark.options.properties import (
    FIXED_PROPERTIES,
    parse_properties,
    parse_property,
    refuse_hold,
    require_consistent_properties,
)
from slatespark.ranges import KeyRange
from slatespark.table.clock import Clock
from slatespark.table.commit.cooperate_option import OTHER_MODES, refuse_cooperation
from slatespark.table.commit.idempotence import is_committed
from slatespark.table.commit.job import abandoned_on_error
from slatespark.table.commit.read_set import ReadSet
from slatespark.table.definition.bounds import raise_bounds
from slatespark.table.definition.segmentation import check_extractor
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.definition.versions import (
    announce_definition,
    evolve_definition,
    fetch_defined,
)
from slatespark.table.log.manifests import fetch_latest_manifest
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
from slatespark.table.write.history_replace import choose_instant
from slatespark.table.write.key_deletes import delete_listed_keys
from slatespark.table.write.load import Load
from slatespark.table.write.load_commit import commit_load
from slatespark.table.write.load_plan import begin_load
from slatespark.table.write.load_task import run_task
from slatespark.units import time_text


def current_definition(stores: TableStores) -> TableDefinition:
    """Return the definition of an existing table; that of a raw table if it stores none."""
    return fetch_defined(stores)[1]


def set_properties(stores: TableStores, clock: Clock, given: Mapping[str, Any]) -> TableDefinition:
    """Set properties of a table, in a new version of its definition; other properties stay.

    Raises
    ------
    OptionError
        When a property is unknown, does not take the value, or cannot change.
    """
    properties = parse_properties(given)
    manifest = fetch_latest_manifest(stores)[1]

    def change(known: TableDefinition) -> TableDefinition:
        for name in FIXED_PROPERTIES:
            if name in properties and _meaning(known.properties, name) != _meaning(properties, name):
                raise OptionError(f"{name} cannot change after a table was created.", todo="Create another table.")
        joined = {**known.properties, **properties}
        require_consistent_properties(joined)
        changed = replace(known, properties=joined)
        if changed.segment_extractor is not None:
            check_extractor(stores.url, manifest, changed.segment_extractor)
        if manifest.segment_extractor_name is not None:
            refuse_hold(joined)
        return changed

    changed = evolve_definition(stores, clock, manifest, change)
    announce_definition(stores, clock)
    return changed


def _meaning(properties: Mapping[str, str], name: str) -> object:
    return parse_property(name, properties.get(name, FIXED_PROPERTIES[name]))


def raise_history_floor(stores: TableStores, clock: Clock, floor_ms: int) -> TableDefinition:
    """Raise the history floor of a table: below it, only the newest version of each key at the floor is kept.

    Parameters
    ----------
    floor_ms : the earliest instant that reads can still ask for

    Raises
    ------
    InvalidRequestError
        When the table has no history, or its floor is higher already.
    OptionError
        When the instant is in the future.
    """
    present_ms = resolve_table(stores, ReadOptions.parse({"path": stores.url}), clock)[0].now_ms

    def change(known: TableDefinition) -> TableDefinition:
        _check_floor(stores, known, floor_ms)
        return replace(known, full_history_ts_low_ms=floor_ms)

    if floor_ms > present_ms:
        raise OptionError(
            f"{stores.url}: {time_text(floor_ms)} is in the future.",
            todo="Give an instant in the past.",
        )
    raised = raise_bounds(stores, clock, fetch_latest_manifest(stores), change)
    announce_definition(stores, clock)
    return raised


def _check_floor(stores: TableStores, definition: TableDefinition, floor_ms: int) -> None:
    if not definition.has_history:
        raise InvalidRequestError(
            f"{stores.url} is not a history table, and has no history floor.",
            todo="Set the table property versionRetention to limit how long replaced versions stay readable.",
        )
    known_ms = definition.full_history_ts_low_ms
    if known_ms is not None and floor_ms < known_ms:
        raise InvalidRequestError(
            f"{stores.url}: {time_text(floor_ms)} is below the history floor, {time_text(known_ms)}.",
            why="The floor can only rise: versions below it may be gone.",
            todo="Give a later instant.",
        )


def drop_columns(stores: TableStores, clock: Clock, names: tuple[str, ...]) -> TableDefinition:
    """Drop columns of a table; stored rows keep their values, but no read shows them again.

    Raises
    ------
    SchemaError
        When a column does not exist or is part of the key, or when the table's value format holds a single column.
    """
    if not names:
        raise InvalidRequestError("No column is given.", todo="Name the columns to drop.")
    given: Sequence[object] = names
    if wrong := next((name for name in given if not isinstance(name, str)), None):
        raise InvalidRequestError(f"dropColumns: {wrong!r} is not a name.", todo="Give each name as an argument.")
    manifest = fetch_latest_manifest(stores).value
    changed = evolve_definition(stores, clock, manifest, lambda current: _without(current, names))
    announce_definition(stores, clock)
    return changed


def _without(current: TableDefinition, names: tuple[str, ...]) -> TableDefinition:
    if current.schema is None or current.value_format in BYTES_TYPES:
        raise SchemaError(
            f"Columns of a table with valueFormat {current.value_format} cannot be dropped.",
            todo="Write the rows to a new table.",
        )
    found = []
    for name in names:
        known = find_name(current.schema, name)
        if known is None:
            raise SchemaError(f"Column {name} does not exist; the columns are {', '.join(current.schema.names)}.")
        if known in current.key_columns:
            raise SchemaError(f"Column {known} is part of the key.", todo="Write the rows to a new table.")
        found.append(known)
    schema = pa.schema([field for field in current.schema if field.name not in found])
    dropped = (*current.dropped_columns, *dict.fromkeys(found))
    return replace(current, schema=schema, dropped_columns=dropped).with_schema(schema)


def delete_where(
    stores: TableStores,
    clock: Clock,
    condition: str,
    common: Mapping[str, Any],
    options: Mapping[str, Any],
    *,
    progress: Progress | None = None,
) -> CommitRecord | None:
    """Delete the rows that fulfil a condition; None when there are none.

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
    if condition is None:  # perhaps a variable that was to hold one; without a filter a read has all rows
        raise OptionError("delete: no condition is given.", todo="Give one; overwrite the table to delete all rows.")
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
    refuse_cooperation(write, "a history table", OTHER_MODES)
    if is_committed(stores, write):
        return None
    keys = ranges_to_delete(where, write, current_definition(stores).codec())
    instant = choose_instant(stores, clock, write)
    # Hidden rows too: a client shows expired ones, and a longer retention would show those past the present one.
    plan = _fetch_deletion_plan(stores, clock, None, common, write, keys, includeExpired=True, **instant.read)
    if instant.empty is not None:  # no row that the plan shows existed then
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
    load = begin_load(stores, clock, plan.schema, write)
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
