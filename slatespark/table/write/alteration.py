"""Changes of a table that write no rows, and rows deleted by a condition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from slatespark.encoding.schema import find_name
from slatespark.errors import InvalidRequestError, OptionError, SchemaError
from slatespark.options import ReadOptions, WriteOptions
from slatespark.options.properties import (
    FIXED_PROPERTIES,
    parse_properties,
    parse_property,
    require_consistent_properties,
)
from slatespark.table.clock import Clock
from slatespark.table.commit.idempotence import is_committed
from slatespark.table.commit.read_set import ReadSet
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.definition.versions import evolve_definition, resolve_codec, resolve_definition
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.reader import ReadPlan, plan_read, resolve_table, run_read
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.stores import TableStores
from slatespark.table.write.history_replace import choose_instant
from slatespark.table.write.load import load_batches
from slatespark.units import ms_to_text


def current_definition(stores: TableStores) -> TableDefinition:
    """Return the definition of a table that stands; that of a raw table if it has none."""
    return resolve_definition(stores, fetch_latest_manifest(stores).value)


def set_properties(stores: TableStores, clock: Clock, given: Mapping[str, Any]) -> TableDefinition:
    """Set properties of a table, in a new version of its definition; others stay.

    Raises
    ------
    OptionError
        When a property is unknown, has no such value, or cannot change.
    """
    properties = parse_properties(given)

    def change(known: TableDefinition) -> TableDefinition:
        for name in FIXED_PROPERTIES:
            if name in properties and _meaning(known.properties, name) != _meaning(properties, name):
                raise OptionError(f"{name} cannot change once a table exists.", todo="Write to another path.")
        joined = {**known.properties, **properties}
        require_consistent_properties(joined)
        return replace(known, properties=joined)

    return _evolve(stores, clock, change)


def _meaning(properties: Mapping[str, str], name: str) -> object:
    return parse_property(name, properties.get(name, FIXED_PROPERTIES[name]))


def raise_history_floor(stores: TableStores, clock: Clock, floor_ms: int) -> TableDefinition:
    """Give up the past of a history table below an instant: of each key only the newest version of then need stay.

    Parameters
    ----------
    floor_ms : the earliest instant that reads can still ask for

    Raises
    ------
    InvalidRequestError
        When the table has no history, or the floor is higher already.
    OptionError
        When the instant lies in the future.
    """
    present_ms = resolve_table(stores, ReadOptions.parse({"path": stores.url}), clock)[0].now_ms

    def change(known: TableDefinition) -> TableDefinition:
        _check_floor(stores, known, floor_ms)
        return replace(known, full_history_ts_low_ms=floor_ms)

    if floor_ms > present_ms:
        raise OptionError(
            f"{stores.url}: {ms_to_text(floor_ms)} ({floor_ms}) lies in the future.",
            todo="Give an instant of the past: what is yet to come cannot be given up.",
        )
    return _evolve(stores, clock, change)


def _check_floor(stores: TableStores, definition: TableDefinition, floor_ms: int) -> None:
    if not definition.has_history:
        raise InvalidRequestError(
            f"{stores.url} is no history table, and has no history floor.",
            todo="How long replaced versions stay readable says the table property versionRetention.",
        )
    known_ms = definition.full_history_ts_low_ms
    if known_ms is not None and floor_ms < known_ms:
        raise InvalidRequestError(
            f"{stores.url}: the history floor is {ms_to_text(known_ms)} ({known_ms}), and {ms_to_text(floor_ms)} "
            f"({floor_ms}) lies below it.",
            why="A floor only rises: versions below it may be gone.",
            todo="Give a later instant.",
        )


def drop_columns(stores: TableStores, clock: Clock, names: tuple[str, ...]) -> TableDefinition:
    """Take columns out of a table; rows keep their values of them, but no read shows these again.

    Raises
    ------
    SchemaError
        When a column does not exist or is part of the key, or when the value is one column as it is.
    """
    if not names:
        raise InvalidRequestError("No column is named.", todo="Name the columns to drop.")
    return _evolve(stores, clock, lambda current: _without(current, names))


def _without(current: TableDefinition, names: tuple[str, ...]) -> TableDefinition:
    if current.schema is None or current.value_format in ("raw", "utf8"):
        raise SchemaError(
            f"Columns of a table with valueFormat {current.value_format} cannot be dropped.",
            todo="Write the rows to a new table.",
        )
    found = []
    for name in names:
        known = find_name(current.schema, name)
        if known is None:
            raise SchemaError(f"There is no column {name} among {', '.join(current.schema.names)}.")
        if known in current.key_columns:
            raise SchemaError(f"Column {known} is part of the key.", todo="Write the rows to a new table.")
        found.append(known)
    schema = pa.schema([field for field in current.schema if field.name not in found])
    dropped = (*current.dropped_columns, *dict.fromkeys(found))
    return replace(current, schema=schema, dropped_columns=dropped).with_schema(schema)


def _evolve(stores: TableStores, clock: Clock, change: Callable[[TableDefinition], TableDefinition]) -> TableDefinition:
    manifest = fetch_latest_manifest(stores)[1]
    return evolve_definition(stores, clock, manifest, change)


def delete_where(
    stores: TableStores, clock: Clock, condition: str, common: Mapping[str, Any], options: Mapping[str, Any]
) -> CommitRecord | None:
    """Delete the rows for which a condition holds; None when there are none.

    Parameters
    ----------
    condition : in the grammar of the read option `filter`
    common : options of reads and writes: path and storage
    options : further write options

    Raises
    ------
    OptionError
        When the condition cannot be understood.
    TransactionConflictError
        When anything was committed to the keys that were searched after the snapshot that was.
    CommitConflictError
        When a SlateDB client is at work on the table, or other writers kept winning.
    """
    write = WriteOptions.parse({**common, **options, "operation": "delete"})
    if is_committed(stores, write):
        return None
    plan = _plan_deletion(stores, clock, condition, common, write)
    return _delete_rows(stores, clock, plan, write)


def delete_history_range(
    stores: TableStores, clock: Clock, where: str | None, common: Mapping[str, Any], options: Mapping[str, Any]
) -> CommitRecord | None:
    """Delete a range of keys of a history table as of an instant; None when no row was there then.

    A tombstone with that time is written for each row that a read as of then shows in the range, so as-of reads stay
    exact before and after.

    Parameters
    ----------
    where : in the grammar of the read option `filter`, on leading key columns; None for a raw table, of which options
        name the keys
    common, options : as for `delete_where`; the option `timestamp` is the instant, by default that of the commit

    Raises
    ------
    OptionError
        When the condition is not one of key ranges alone.
    TransactionConflictError
        When anything was committed to the range after the snapshot that was searched.
    CommitConflictError
        When a row has a later version.
    HistoryTrimmedError
        When the rows of that instant are not all known any more.
    """
    write = WriteOptions.parse({**common, **options, "operation": "delete"})
    keys = write.given_keys
    if (where is None) == (not keys):
        given = f"where and {next(iter(keys))} are both given" if keys else "no range is given"
        raise OptionError(
            f"deleteRange: {given}.", todo="Give a condition on leading key columns, or keys of a raw table."
        )
    if is_committed(stores, write):
        return None
    instant = choose_instant(stores, clock, write)
    # Hidden rows too: a client shows expired ones, and a longer retention those that are past the one of now.
    shown = {"includeExpired": True, **instant.read, **keys}
    plan = _plan_deletion(stores, clock, where, common, write, **shown)
    if plan.settings.residual is not None:
        raise OptionError(
            f"deleteRange: `{where}` is more than a range of keys.",
            todo="Give conditions on leading key columns, or delete the rows with delete(condition).",
        )
    if instant.empty is not None:
        return None
    rows_alone = replace(write, start_key=None, end_key=None, key_prefix=None)  # nothing else of the range is replaced
    return _delete_rows(stores, clock, plan, rows_alone)


def _plan_deletion(
    stores: TableStores,
    clock: Clock,
    condition: str | None,
    common: Mapping[str, Any],
    write: WriteOptions,
    **more: Any,
) -> ReadPlan:
    """Return the plan of a read of the keys to be deleted."""
    keys = resolve_codec(stores, fetch_latest_manifest(stores)[1]).key_columns
    wanted = {"filter": condition, "columns": list(keys), "mergeOperator": write.merge_operator, **more}
    return plan_read(stores, ReadOptions.parse({**common, **wanted}), clock)


def _delete_rows(stores: TableStores, clock: Clock, plan: ReadPlan, write: WriteOptions) -> CommitRecord | None:
    """Delete the rows that a read shows, if nothing was committed to the keys it looked through by then."""
    rows = run_read(stores, plan)
    return load_batches(stores, clock, plan.schema, rows, write, depends_on=ReadSet.of_plan(plan))
