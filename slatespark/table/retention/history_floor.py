"""The table property `historyRetention`: compactions and the reaper move the stored history floor along.

Reads need no stored floor: for them the floor is `historyRetention` before the present. What is dropped from files goes
by the stored one, which follows in steps, since each of them is a version of the definition, and a bound that older
versions keep.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from slatespark.options import ReadOptions
from slatespark.table.clock import Clock
from slatespark.table.definition.bounds import raise_bounds
from slatespark.table.definition.table_definition import TableDefinition, floor_by_retention
from slatespark.table.definition.versions import fetch_definition
from slatespark.table.read.versions.resolve import resolve_snapshot
from slatespark.table.retention.deletion_time import default_deletion_time
from slatespark.table.stores import TableStores

STEPS: Final = 100  # of the stored floor within `historyRetention`


def follow_history_retention(stores: TableStores, clock: Clock, now_ms: int | None = None) -> int | None:
    """Raise the stored history floor of a table to where `historyRetention` has it, and return the stored floor.

    It moves by a hundredth of `historyRetention` at least. None if the table has no floor.

    Parameters
    ----------
    now_ms : the instant for which to raise it, not in the future; by default the present

    Raises
    ------
    TableNotFoundError
        When there is no table.
    CommitConflictError
        When other processes changed the definition too often.
    """
    snapshot = resolve_snapshot(stores, ReadOptions(path=stores.url), clock)
    number, definition = fetch_definition(stores, snapshot.manifest)
    if number == 0:  # that of the parent: a change there must not drop versions of the clone
        return definition.full_history_ts_low_ms

    def change(known: TableDefinition) -> TableDefinition:
        judged_ms = default_deletion_time(snapshot.tick_ms, known, clock) if now_ms is None else now_ms
        return followed(known, judged_ms)

    if change(definition) == definition:
        return definition.full_history_ts_low_ms
    return raise_bounds(stores, clock, snapshot.version, change).full_history_ts_low_ms


def followed(definition: TableDefinition, now_ms: int) -> TableDefinition:
    """Return the own definition of a table with the floor that `historyRetention` asks for; unchanged for a small step.

    Parameters
    ----------
    now_ms : the instant for which the floor is raised
    """
    retention_ms, stored_ms = definition.history_retention_ms, definition.full_history_ts_low_ms
    floor_ms = floor_by_retention(retention_ms, now_ms)
    if floor_ms is None or retention_ms is None:
        return definition
    if stored_ms is not None and floor_ms - stored_ms < max(1, retention_ms // STEPS):
        return definition
    return replace(definition, full_history_ts_low_ms=floor_ms)
