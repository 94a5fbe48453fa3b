"""Raising the bounds of a history table's past, so that older versions keep the bounds that they had.

What goes below a new bound goes by a commit after its publication. So the versions that exist before the publication
hold everything above the bounds until then. See docs/explanation/history-and-the-floor.md.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace

from slatespark.format.manifest import Manifest
from slatespark.table.clock import Clock
from slatespark.table.definition.table_definition import EarlierBounds, TableDefinition
from slatespark.table.definition.versions import evolve_definition
from slatespark.table.log.manifests import list_manifests
from slatespark.table.log.versioned_object import Version
from slatespark.table.stores import TableStores


def raise_bounds(
    stores: TableStores,
    clock: Clock,
    newest: Version[Manifest],
    change: Callable[[TableDefinition], TableDefinition],
) -> TableDefinition:
    """Publish a definition with higher bounds of the past, and return the definition now in force.

    Parameters
    ----------
    newest : the newest version; versions up to it keep the bounds that they have
    change : pure; returns its argument if there is nothing to do

    Raises
    ------
    CommitConflictError
        When too many races were lost.
    """

    def changed(current: TableDefinition) -> TableDefinition:
        raised = change(current)
        if raised == current:
            return current
        return keep_earlier_bounds(current, raised, newest.number, list_manifests(stores))

    return evolve_definition(stores, clock, newest.value, changed)


def keep_earlier_bounds(
    before: TableDefinition, raised: TableDefinition, newest: int, kept: Sequence[int]
) -> TableDefinition:
    """Return `raised` with the bounds of the versions up to `newest`.

    Parameters
    ----------
    before : the definition in force
    newest : the newest version at some time before `raised` is published
    kept : the versions that exist, ascending; bounds of others are left out
    """
    earlier = list(before.earlier_bounds)
    if not earlier or earlier[-1].through < newest:
        earlier.append(EarlierBounds(newest, before.full_history_ts_low_ms, before.lost_through_ms))
    ends = [bisect_right(kept, each.through) for each in earlier]
    needed = [each for each, start, end in zip(earlier, [0, *ends], ends, strict=False) if start < end]
    return replace(raised, earlier_bounds=tuple(needed))
