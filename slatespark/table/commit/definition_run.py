"""The definition a commit needs, published before the manifest that needs it: a crash in between harms nobody."""

from __future__ import annotations

from collections.abc import Callable

from slatespark.errors import CommitConflictError, ConflictError
from slatespark.format.manifest import Manifest
from slatespark.table.clock import Clock, back_off
from slatespark.table.definition.plan import join_created, join_creation, join_growth
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.definition.versions import fetch_definition, publish_definition
from slatespark.table.log.manifests import RaceLostError, manifest_log
from slatespark.table.records.leases import has_lease
from slatespark.table.stores import TableStores

MAX_ATTEMPTS = 20

Found = tuple[int, TableDefinition] | None


def settle_growth(
    stores: TableStores,
    clock: Clock,
    manifest: Manifest,
    planned: TableDefinition | None,
    *,
    created: bool,
    merge: bool,
) -> TableDefinition | None:
    """Make sure that the definition of a table that stands admits rows encoded by `planned`, and return it.

    Parameters
    ----------
    manifest : the newest one
    created : whether the write was to create the table, which somebody else did meanwhile
    merge : `mergeSchema`

    Raises
    ------
    TableExistsError, SchemaError, ConflictError
        When the table is another one by now, or has changed in a way that does not go with the rows.
    """

    def change(current: TableDefinition | None) -> TableDefinition | None:
        return join_created(current, planned, merge_schema=merge) if created else join_growth(current, planned)

    return evolve_definition(stores, clock, manifest, change)


def evolve_definition(
    stores: TableStores,
    clock: Clock,
    manifest: Manifest,
    change: Callable[[TableDefinition | None], TableDefinition | None],
) -> TableDefinition | None:
    """Publish what `change` makes of the newest definition; who loses the race for a number changes the winner's.

    Parameters
    ----------
    manifest : of the table, so that a clone finds its parent's definition, of which it gets a copy
    change : pure; returns its argument where there is nothing to do

    Returns
    -------
    The definition that holds now.

    Raises
    ------
    CommitConflictError
        When others were faster again and again.
    """
    for attempt in range(MAX_ATTEMPTS):
        found = fetch_definition(stores, manifest)
        number, current = found or (0, None)
        wanted = change(current)
        if wanted is None or (wanted == current and number > 0):
            return wanted
        try:
            publish_definition(stores, number + 1, wanted)
        except FileExistsError:
            back_off(clock, attempt)
            continue
        return wanted
    raise CommitConflictError(
        f"{stores.url}: others changed the table's definition {MAX_ATTEMPTS} times in a row.", todo="Write again."
    )


def settle_creation(stores: TableStores, clock: Clock, planned: TableDefinition, *, merge: bool) -> None:
    """Make `planned` the definition of a table that has no manifest yet, or join who began to create it.

    Every creator passes here right before manifest 1, so that what it checks still stands then.

    Raises
    ------
    RaceLostError
        When somebody else has created the table by now.
    TableExistsError
        When somebody else creates another table at the place, or left its definition behind.
    ConflictError
        When the lease of this creator is over, so that somebody else may have begun anew.
    """
    for attempt in range(MAX_ATTEMPTS):
        now_ms = clock.now_ms()
        found = fetch_definition(stores)
        number, wanted = 0, planned
        if found is not None:
            number, current = found
            owner_alive = has_lease(stores.main, current.created_by, now_ms)
            if not owner_alive and _is_created(stores):
                raise RaceLostError("another job created the table, and took its lease away")
            wanted = join_creation(current, planned, owner_alive=owner_alive, merge_schema=merge)
            if wanted == current:
                _check_lease(stores, planned, now_ms)
                return
        try:
            publish_definition(stores, number + 1, wanted)
        except FileExistsError:
            back_off(clock, attempt)
    raise CommitConflictError(
        f"{stores.url}: others changed the table's definition {MAX_ATTEMPTS} times in a row.", todo="Write again."
    )


def check_creation(stores: TableStores, clock: Clock, planned: TableDefinition, *, merge: bool) -> None:
    """Refuse early what `settle_creation` would refuse at the commit; raises as that does."""
    found = fetch_definition(stores)
    if found is not None:
        alive = has_lease(stores.main, found[1].created_by, clock.now_ms())
        if not alive and _is_created(stores):
            raise RaceLostError("another job created the table, and took its lease away")
        join_creation(found[1], planned, owner_alive=alive, merge_schema=merge)


def _is_created(stores: TableStores) -> bool:
    """Tell whether there is a manifest, which comes before the end of its creator's lease."""
    return manifest_log(stores).latest() is not None


def _check_lease(stores: TableStores, planned: TableDefinition, now_ms: int) -> None:
    if not has_lease(stores.main, planned.created_by, now_ms):
        raise ConflictError(
            f"{stores.url}: this job took so long that its lease ended.",
            why="Another job may have begun to create the table.",
            todo="Write again.",
        )
