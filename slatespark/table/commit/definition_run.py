"""The definition of a commit, published before the manifest that needs it, so that a crash in between is harmless."""

from __future__ import annotations

from slatespark.errors import ConflictError
from slatespark.format.manifest import Manifest
from slatespark.table.clock import Clock
from slatespark.table.definition.plan import join_created, join_creation, join_growth, require_key_types
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.definition.versions import evolve_definition, fetch_definition, publish_definition
from slatespark.table.log.manifests import manifest_log
from slatespark.table.log.versioned_object import RaceLostError, Version, retry_lost_races
from slatespark.table.records.leases import has_lease
from slatespark.table.stores import TableStores


def publish_growth(
    stores: TableStores,
    clock: Clock,
    manifest: Manifest,
    planned: TableDefinition,
    *,
    created: bool,
    merge: bool,
    fixed_keys: bool = False,
    found: Version[TableDefinition] | None = None,
) -> TableDefinition:
    """Make sure that the definition of an existing table accepts rows encoded by `planned`, and return it.

    Parameters
    ----------
    manifest : the newest one
    created : whether the write planned to create the table, and another process was faster
    merge : `mergeSchema`
    fixed_keys : whether the types of the key columns must be those of `planned`, as key ranges were planned by them
    found : the newest definition, if that was looked for just now

    Raises
    ------
    TableExistsError, SchemaError, ConflictError
        When another table has replaced it, or it has changed so that the rows do not fit.
    """

    def change(current: TableDefinition) -> TableDefinition:
        joined = join_created(current, planned, merge_schema=merge) if created else join_growth(current, planned)
        if fixed_keys:
            require_key_types(joined, planned)
        return joined

    return evolve_definition(stores, clock, manifest, change, found)


def publish_creation(stores: TableStores, clock: Clock, planned: TableDefinition, *, merge: bool) -> None:
    """Make `planned` the definition of a table that has no manifest yet, or join another creator.

    Every creator calls this right before manifest 1, so that its checks still hold then.

    Raises
    ------
    RaceLostError
        When another process has created the table.
    TableExistsError
        When another process is creating a different table here, or left its definition behind.
    ConflictError
        When the lease of this creator has expired, so that another process may have started again.
    """

    def attempt(number: int) -> bool:
        """Return True once the definition is published; False if another job has created the table."""
        newest, current = fetch_definition(stores)
        wanted = planned
        if newest:
            joined = _join(stores, clock, current, planned, merge=merge)
            if joined is None:
                return False
            if joined == current:
                _check_lease(stores, planned, clock.now_ms())
                return True
            wanted = joined
        publish_definition(stores, Version(newest + 1, wanted))
        return attempt(number)  # another creator may have published the next version already

    if not retry_lost_races(clock, attempt, f"{stores.url}: the definition"):
        raise RaceLostError("another job created the table and released its lease")


def check_creation(stores: TableStores, clock: Clock, planned: TableDefinition, *, merge: bool) -> None:
    """Refuse early what `publish_creation` would refuse at the commit; it raises the same errors."""
    number, current = fetch_definition(stores)
    if number and _join(stores, clock, current, planned, merge=merge) is None:
        raise RaceLostError("another job created the table and released its lease")


def _join(
    stores: TableStores, clock: Clock, current: TableDefinition, planned: TableDefinition, *, merge: bool
) -> TableDefinition | None:
    """Return the definition that both creators can use; None if the other one has created the table."""
    owner_alive = has_lease(stores.main, current.created_by, clock.now_ms())
    if not owner_alive and _is_created(stores):
        return None
    return join_creation(current, planned, owner_alive=owner_alive, merge_schema=merge)


def _is_created(stores: TableStores) -> bool:
    """Tell whether there is a manifest, which comes before the end of its creator's lease."""
    return manifest_log(stores).latest() is not None


def _check_lease(stores: TableStores, planned: TableDefinition, now_ms: int) -> None:
    if not has_lease(stores.main, planned.created_by, now_ms):
        raise ConflictError(
            f"{stores.url}: the lease of this job expired before its commit.",
            why="Another job may have begun to create the table.",
            todo="Write again.",
        )
