"""New ids for files that wait long for their commit, so that no collector removes them first.

A client's collector judges files by the age of their ids, ours by the lease of the job.
"""

from __future__ import annotations

from collections.abc import Iterable

from slatespark.errors import CommitConflictError, CorruptDataError, SnapshotExpiredError
from slatespark.format.paths import sst_path
from slatespark.table.clock import Clock, new_ulid
from slatespark.table.records.leases import LEASE_LIFETIME_MS, fetch_lease, lease_path, renew_lease
from slatespark.table.rows.sst_upload import NewFile
from slatespark.table.stores import TableStores

_LEASE_MARGIN_MS = 3_600_000  # a collector's clock may be ahead of ours


def hold_lease(stores: TableStores, write_id: str, created_ms: int, now_ms: int) -> bool:
    """Renew the lease of a job, and tell whether it was valid until now; if not, its files may be being removed."""
    try:
        lease = fetch_lease(stores.main, lease_path(write_id))
    except CorruptDataError:
        lease = None
    renew_lease(stores.main, write_id, created_ms, now_ms)
    return lease is not None and now_ms < lease.expires_ms - _LEASE_MARGIN_MS


def copy_under_new_ids(stores: TableStores, clock: Clock, files: Iterable[NewFile]) -> tuple[NewFile, ...]:
    """Return copies of files whose lease had expired. Requires: the lease was renewed.

    A collector that missed the new lease listed the files earlier, so it does not know the copies.

    Raises
    ------
    CommitConflictError
        When one was collected.
    """
    try:
        return tuple(_copied(stores, clock, file) for file in files)
    except SnapshotExpiredError as exc:
        raise CommitConflictError(
            f"{stores.url}: files of this write were collected before its commit.",
            why=f"Its lease of {LEASE_LIFETIME_MS // 3_600_000} hours expired.",
            todo="Write again, and commit within that time.",
        ) from exc


def refresh_expiring_ids(
    stores: TableStores, clock: Clock, files: Iterable[NewFile], gc_min_age_ms: int
) -> tuple[NewFile, ...]:
    """Return the files; those past half the collectors' age limit are copied under new ids.

    Raises
    ------
    SnapshotExpiredError
        When one was collected already.
    """
    oldest_ms = clock.now_ms() - gc_min_age_ms // 2
    return tuple(file if file.handle.id.timestamp_ms >= oldest_ms else _copied(stores, clock, file) for file in files)


def _copied(stores: TableStores, clock: Clock, file: NewFile) -> NewFile:
    renamed = file.renamed(new_ulid(clock, clock.now_ms()))
    try:
        stores.main.copy(sst_path(file.handle.id), sst_path(renamed.handle.id))
    except FileNotFoundError as exc:
        raise SnapshotExpiredError(
            f"{stores.main.url}/{sst_path(file.handle.id)} is gone.",
            why="A garbage collector removed a file of this write before its commit.",
            todo="Write again, with gcMinAge at most the age at which the collector removes files.",
        ) from exc
    return renamed
