"""Changes of a table's definition: its properties, its history floor, and its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from slatespark.encoding.row_codec import BYTES_TYPES
from slatespark.encoding.schema import find_name
from slatespark.errors import InvalidRequestError, OptionError, SchemaError
from slatespark.options import ReadOptions
from slatespark.options.properties import (
    FIXED_PROPERTIES,
    parse_properties,
    parse_property,
    refuse_hold,
    require_consistent_properties,
)
from slatespark.table.clock import Clock
from slatespark.table.definition.bounds import raise_bounds
from slatespark.table.definition.segmentation import check_extractor
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.definition.versions import (
    announce_definition,
    evolve_definition,
    fetch_defined,
)
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.reader import resolve_table
from slatespark.table.stores import TableStores
from slatespark.texts import listed
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
    if wrong := [name for name in given if not isinstance(name, str)]:
        raise InvalidRequestError(f"dropColumns: {wrong[0]!r} is not a name.", todo="Give each name as an argument.")
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
            raise SchemaError(f"Column {name} does not exist; the columns are {listed(current.schema.names)}.")
        if known in current.key_columns:
            raise SchemaError(f"Column {known} is part of the key.", todo="Write the rows to a new table.")
        found.append(known)
    schema = pa.schema([field for field in current.schema if field.name not in found])
    dropped = (*current.dropped_columns, *dict.fromkeys(found))
    return replace(current, schema=schema, dropped_columns=dropped).with_schema(schema)
