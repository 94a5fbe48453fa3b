"""Restoring an earlier version: one commit makes its trees those of the newest version.

See docs/explanation/editing-a-manifest.md.

No file is copied. Later writes are hidden, not removed, and the version before the restore stays readable for a while;
so another restore can undo it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from slatespark.errors import InternalError, SlateError
from slatespark.format.manifest import Manifest
from slatespark.format.references import SstView
from slatespark.format.segments import KeySegments
from slatespark.format.ulid import Ulid
from slatespark.options import WriteOptions
from slatespark.table.checkpoints.released import refuse_released, used_databases
from slatespark.table.checkpoints.store import (
    COPY_NAME,
    OWN_NAMES,
    add_checkpoint,
    delete_checkpoint,
    expire_time_s,
    refuse_missing_version,
)
from slatespark.table.clock import Clock, new_ulid
from slatespark.table.commit.claim import refuse_unwritable
from slatespark.table.commit.commit import commit_write
from slatespark.table.commit.cooperate_option import refuse_cooperation
from slatespark.table.commit.drain import upload_tail
from slatespark.table.commit.idempotence import TXN_NAMES
from slatespark.table.commit.job import abandoned_on_error, begin_write
from slatespark.table.commit.requirements import LastSeq
from slatespark.table.commit.version_retention import RETAINED_NAMES
from slatespark.table.definition.versions import refuse_newer, resolve_definition
from slatespark.table.log.manifests import fetch_latest_manifest, fetch_manifest
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.records.operations import Operation
from slatespark.table.rows.sst_upload import NewFile
from slatespark.table.snapshot import fetch_wal_tail
from slatespark.table.stores import TableStores
from slatespark.table.write.restored_trees import RestoreTrees
from slatespark.units import HOUR_MS

NEEDED_MS: Final = HOUR_MS  # a version must be kept from collectors for longer than its restore takes
HOLD_NAMES: Final = f"{OWN_NAMES}restore/"
HOLD_MS: Final = 2 * NEEDED_MS  # so that the next restore of the same version needs no new checkpoint


def restore_to_version(
    stores: TableStores, clock: Clock, version: int, options: WriteOptions | None = None
) -> CommitRecord:
    """Make the state of an earlier version the newest one, and return the record of the commit.

    Rows that were only in the WAL of that version are written to a file. Rows of the present WAL are hidden, like all
    later writes. Schema and properties stay as they are. The version id just below the new one shows the state before
    the restore, for `versionRetention`, at least seven days.

    Parameters
    ----------
    version : a manifest id
    options : `ifClientActive`, and how files are written

    Raises
    ------
    InvalidRequestError
        When the version does not exist yet.
    HistoryTrimmedError
        When the version, or a file of it, was collected.
    CommitConflictError
        When another process commits at the same time, or a SlateDB client is active.
    UnsupportedFormatError
        When the database cannot be written.
    """
    options = options or WriteOptions(path=stores.url)
    refuse_cooperation(options, "a restore")
    refuse_unwritable(stores.url, fetch_latest_manifest(stores)[1])
    refuse_newer(stores)
    with _held(stores, clock, version):
        source, found = fetch_manifest(stores, version), fetch_latest_manifest(stores)
        refuse_released(stores, source, found[1])
        job = begin_write(
            stores,
            clock,
            operation=Operation.RESTORE,
            found=found,
            definition=resolve_definition(stores, found.value).declaring(options.properties),
        )
        with abandoned_on_error(stores, job):
            segments = job.segments.joined(KeySegments.of(source))
            tail = fetch_wal_tail(stores, source, source.wal_id_last_seen + 1)
            flushed = upload_tail(stores, clock, source, tail, target=stores.main, segments=segments, options=options)
            edit = plan_restore(source, flushed, lambda view: new_ulid(clock, view.sst_id.timestamp_ms))
            edit = replace(edit, version=version, segments=segments)
            nothing_since = LastSeq(job.base_seq)
            record = commit_write(stores, clock, job, (), options, edit=edit, requirements=(nothing_since,))
    if record is None:
        raise InternalError("A restore was not committed.")
    return record


def plan_restore(source: Manifest, flushed: tuple[NewFile, ...], new_id: Callable[[SstView], Ulid]) -> RestoreTrees:
    """Return the edit that replaces the present trees with those of a version.

    Parameters
    ----------
    flushed : files of the rows that were only in its WAL
    new_id : makes the id of a view whose own id occurs twice; with the time of the SST's id
    """
    seen: set[Ulid] = set()

    def own(view: SstView) -> SstView:
        if view.id in seen:
            return replace(view, id=new_id(view))
        seen.add(view.id)
        return view

    layers = [  # newest first within each tree
        views
        for tree in source.trees()
        for views in (*((view,) for view in tree.l0), *(r.views for r in tree.compacted))
    ]
    runs = tuple(tuple(own(view) for view in views) for views in reversed(layers))
    return RestoreTrees(runs, source.ssts, used_databases(source), flushed, KeySegments.of(source))


@contextlib.contextmanager
def _held(stores: TableStores, clock: Clock, version: int) -> Iterator[None]:
    """Keep a version from collectors while it is restored; raises when it, or a file of it, is gone.

    The checkpoint is not deleted, since that would be one more version: it expires, or the next commit drops it.
    Existing checkpoints that a commit may drop do not count, since the restore is itself a commit.
    """
    latest_id, latest = fetch_latest_manifest(stores)
    if is_kept(latest, version, expire_time_s(clock.now_ms(), NEEDED_MS)):
        refuse_missing_version(stores, version, latest_id, latest)
        yield
        return
    held = add_checkpoint(stores, clock, name=f"{HOLD_NAMES}{version}", lifetime_ms=HOLD_MS, manifest_id=version)
    try:
        yield
    except BaseException:
        with contextlib.suppress(SlateError):
            delete_checkpoint(stores, clock, held.id)
        raise


def is_kept(latest: Manifest, version: int, until_s: int) -> bool:
    """Tell whether a checkpoint that no commit drops, nor a copy at its end, keeps a version until some second."""
    return any(
        point.manifest_id == version and (point.expire_time_s == 0 or point.expire_time_s >= until_s)
        for point in latest.checkpoints
        if not (point.name or "").startswith((RETAINED_NAMES, TXN_NAMES, COPY_NAME))
    )
