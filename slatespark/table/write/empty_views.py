"""Removing views that show no row from the newest version: they only keep files from being collected.

Commits of slatespark leave none where they know. Others come from earlier versions of slatespark, from replacements of
many intervals at once, and from other clients.
"""

from __future__ import annotations

from slatespark.errors import (
    ConflictError,
    CorruptDataError,
    InvalidRequestError,
    SnapshotExpiredError,
    UnsupportedFormatError,
)
from slatespark.format.manifest import Manifest
from slatespark.options import WriteOptions
from slatespark.table.clock import Clock
from slatespark.table.commit.claim import refuse_unwritable
from slatespark.table.commit.commit import commit_write
from slatespark.table.commit.foreign_clients import are_epochs_ours
from slatespark.table.commit.job import abandoned_on_error, begin_write
from slatespark.table.commit.publication import without_l0
from slatespark.table.commit.tree_edit import SEED_BITS, CutViews
from slatespark.table.definition.versions import resolve_definition
from slatespark.table.log.versioned_object import Version
from slatespark.table.read.gaps import find_empty_views
from slatespark.table.records.operations import Operation
from slatespark.table.stores import TableStores


def remove_empty_views(stores: TableStores, clock: Clock, found: Version[Manifest], *, dry_run: bool = False) -> int:
    """Publish the newest version without the views that show no row; return their number.

    Nothing is published if there are none, if the table cannot be written now, or if another client may have it open:
    a commit would fence that client.

    Parameters
    ----------
    found : the newest version
    dry_run : only count them
    """
    try:
        refuse_unwritable(stores.url, found.value)
        codec = resolve_definition(stores, found.value).codec()
        gaps = find_empty_views(stores, found.value, codec)
    except (UnsupportedFormatError, CorruptDataError, SnapshotExpiredError):  # for `verify` to report
        return 0
    edit = CutViews((), clock.random_bits(SEED_BITS), gaps=gaps)
    count = len(list(found.value.views())) - len(list(edit.apply(without_l0(found.value)).views()))
    if not count or dry_run:
        return count
    return count if are_epochs_ours(stores, found) and _commit(stores, clock, found, edit) else 0


def _commit(stores: TableStores, clock: Clock, found: Version[Manifest], edit: CutViews) -> bool:
    """Publish the edit; return whether that was possible."""
    definition = resolve_definition(stores, found.value)
    time_ms = found.value.last_l0_clock_tick if definition.has_own_time else None
    try:
        job = begin_write(
            stores, clock, operation=Operation.VACUUM, found=found, definition=definition, timestamp_ms=time_ms
        )
        with abandoned_on_error(stores, job):
            commit_write(stores, clock, job, (), WriteOptions(path=stores.url), edit=edit)
    except (ConflictError, InvalidRequestError):  # another writer is active, or the clock is behind: the next one does
        return False
    return True
