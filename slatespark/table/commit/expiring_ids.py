"""New ids for files that wait long for their commit, so that no collector removes them first.

A client's collector judges files by the age of their ids, slatespark's by the lease of the job. Both keep the files of
a compaction that is listed as running.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias

from slatespark.errors import CommitConflictError, CorruptDataError, SnapshotExpiredError
from slatespark.format.paths import sst_path
from slatespark.format.references import SstHandle
from slatespark.storage import run_concurrently
from slatespark.table.clock import Clock, new_ulid
from slatespark.table.commit.job import WriteJob
from slatespark.table.records.leases import LEASE_LIFETIME_MS, fetch_lease, lease_path, renew_lease
from slatespark.table.rows.sst_upload import NewFile
from slatespark.table.stores import TableStores
from slatespark.units import HOUR_MS

LEASE_MARGIN_MS: Final = HOUR_MS  # a collector's clock may be ahead of the local one

Refresh: TypeAlias = Callable[[Iterable[NewFile]], tuple[NewFile, ...]]  # replaces files by those to publish


@dataclass(slots=True)
class FileGuard:
    """Keeps the files of a job from collectors until its commit.

    Attributes
    ----------
    gc_min_age_ms : the age at which collectors of clients may delete files
    count_lapses : for a compaction, which renews its lease and its entry itself: returns how often its files have been
        without their protection; None for other jobs
    lapses : number of lapses that were dealt with
    """

    stores: TableStores
    clock: Clock
    job: WriteJob
    gc_min_age_ms: int
    count_lapses: Callable[[], int] | None = None
    lapses: int = 0

    def check(self, *, renews_lease: bool) -> Refresh:
        """Return the function that replaces files of the job by those to publish: copies, where one may be collected.

        All are copied if a collector may have listed them as abandoned.
        """
        if self._has_lapsed(renews_lease=renews_lease):
            return partial(copy_under_new_ids, self.stores, self.clock)
        if self.job.compaction is not None and self.job.compaction.spec.sorted_runs:  # it is listed
            return tuple
        return partial(refresh_expiring_ids, self.stores, self.clock, gc_min_age_ms=self.gc_min_age_ms)

    def _has_lapsed(self, *, renews_lease: bool) -> bool:
        if self.count_lapses is not None:
            before, self.lapses = self.lapses, self.count_lapses()
            return self.lapses > before
        now_ms = self.clock.now_ms()
        if not renews_lease or now_ms - self.job.planned_ms < LEASE_LIFETIME_MS // 2:
            return False
        return not renew_and_check_lease(self.stores, self.job.write_id, self.job.planned_ms, now_ms)


def renew_and_check_lease(stores: TableStores, write_id: str, created_ms: int, now_ms: int) -> bool:
    """Renew the lease of a job, and tell whether it was valid until now; if not, its files may be being removed."""
    was_valid = is_lease_valid(stores, write_id, now_ms)
    renew_lease(stores.main, write_id, created_ms, now_ms)
    return was_valid


def is_lease_valid(stores: TableStores, write_id: str, now_ms: int) -> bool:
    """Tell whether the lease of a job keeps collectors off its files, whatever their clocks say."""
    try:
        lease = fetch_lease(stores.main, lease_path(write_id))
    except CorruptDataError:
        return False
    return lease is not None and now_ms < lease.expires_ms - LEASE_MARGIN_MS


def copy_under_new_ids(stores: TableStores, clock: Clock, files: Iterable[NewFile]) -> tuple[NewFile, ...]:
    """Return copies of files whose lease had expired. Requires: the lease was renewed.

    A collector that missed the new lease listed the files earlier, so it does not know the copies.

    Raises
    ------
    CommitConflictError
        When one was collected.
    """
    try:
        return _copied(stores, clock, list(files))
    except SnapshotExpiredError as exc:
        raise CommitConflictError(
            f"{stores.url}: files of this write were collected before its commit.",
            why=f"Its lease of {LEASE_LIFETIME_MS // HOUR_MS} hours expired.",
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
    oldest_ms, given = clock.now_ms() - gc_min_age_ms // 2, list(files)
    copies = iter(_copied(stores, clock, [file for file in given if file.handle.id.timestamp_ms < oldest_ms]))
    return tuple(file if file.handle.id.timestamp_ms >= oldest_ms else next(copies) for file in given)


def refresh_groups(refresh: Refresh, groups: Sequence[Sequence[NewFile]]) -> tuple[tuple[NewFile, ...], ...]:
    """Return groups of files with their files replaced, all together: a copy of each takes seconds on a remote store.

    Parameters
    ----------
    refresh : what `FileGuard.check` returns, or the like
    """
    fresh = iter(refresh([file for files in groups for file in files]))
    return tuple(tuple(next(fresh) for _ in files) for files in groups)


def _copied(stores: TableStores, clock: Clock, files: Sequence[NewFile]) -> tuple[NewFile, ...]:
    def copied(file: NewFile) -> NewFile:
        return file.renamed(copy_sst(stores, clock, file.handle, clock.now_ms()).id)

    return tuple(run_concurrently([partial(copied, file) for file in files], is_remote=stores.main.is_remote))


def copy_sst(stores: TableStores, clock: Clock, handle: SstHandle, at_ms: int) -> SstHandle:
    """Copy an SST of the table under a new id with the time `at_ms`; raises `SnapshotExpiredError` when it is gone."""
    renamed = replace(handle, id=new_ulid(clock, at_ms))
    try:
        stores.main.copy(sst_path(handle.id), sst_path(renamed.id))
    except FileNotFoundError as exc:
        raise SnapshotExpiredError(
            f"{stores.main.url}/{sst_path(handle.id)} is gone.",
            why="A garbage collector removed a file of this write, or one that it replaces, before its commit.",
            todo="Write again, with gcMinAge at most the age at which the collector removes files.",
        ) from exc
    return renamed
