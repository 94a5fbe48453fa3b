"""UnpublishedFiles: what a transaction has uploaded, protected from garbage collectors until a commit or a rollback."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from slatespark.format.ulid import Ulid
from slatespark.options import WriteOptions
from slatespark.table.clock import Clock
from slatespark.table.commit.discard import delete_files, delete_unshown
from slatespark.table.commit.expiring_ids import copy_under_new_ids, refresh_expiring_ids, refresh_groups
from slatespark.table.commit.held_lease import HeldLease
from slatespark.table.commit.job import WriteJob
from slatespark.table.commit.row_times import RowTimes
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.rows.sst_upload import NewFile
from slatespark.table.stores import TableStores
from slatespark.table.transaction.own_writes import MAX_LAYERS, OwnWrites, drop_hidden, join_small, move_writes


class UnpublishedFiles:
    """The files of a transaction that no manifest shows: those of its current writes, and those that these replaced.

    Parameters
    ----------
    job : the write job of the transaction, which has a lease
    """

    def __init__(self, stores: TableStores, clock: Clock, options: WriteOptions, job: WriteJob) -> None:
        self._stores, self._clock, self._options, self._segments = stores, clock, options, job.segments
        self._lease = HeldLease(stores, clock, job.write_id, job.planned_ms, job.planned_ms)
        self._settled_lapses = 0  # of the lease; all files were copied since
        self._uploaded: set[Ulid] = set()
        self._writes = OwnWrites()

    @property
    def writes(self) -> OwnWrites:
        """The current writes."""
        return self._writes

    def replace_writes(self, writes: OwnWrites) -> None:
        """Make `writes` the current ones. Files of the previous ones stay until the end of the transaction."""
        self._writes = self._noted(writes)

    def _noted(self, writes: OwnWrites) -> OwnWrites:
        self._uploaded |= {file.handle.id for file in writes.files}
        return writes

    def add_write(self, outputs: Sequence[tuple[NewFile, ...]], *, has_instants: bool) -> None:
        """Add the files of one more write, per task; those of many small writes are joined. After an error none is."""
        grown = self._noted(self._writes.adding(outputs, has_instants=has_instants))
        grown = self._noted(join_small(self._stores, self._clock, grown, self._options, self._segments))
        if len(grown.layers()) > MAX_LAYERS:
            grown = drop_hidden(self._stores, self._clock, grown, self._options, self._segments)
        self.replace_writes(grown)

    def drop_hidden_versions(self) -> None:
        """Drop row versions that later writes of the transaction hide."""
        self.replace_writes(drop_hidden(self._stores, self._clock, self._writes, self._options, self._segments))

    def move_to(self, job: WriteJob, time_ms: int, last_seq: int) -> WriteJob:
        """Give all rows the time of the commit, and sequence numbers above later commits; return the job with them.

        Parameters
        ----------
        job : by which they were written
        last_seq : the last number of the newest version
        """
        by_seq, by_ms = max(0, last_seq - job.base_seq), time_ms - job.create_ts_ms
        latest_ms = job.latest_expire_ms(self._clock.now_ms())
        if (by_seq or by_ms or latest_ms is not None) and self._writes.tasks:
            given = self._stores, self._clock, self._writes, self._options
            self.replace_writes(move_writes(*given, by_seq=by_seq, by_ms=by_ms, latest_expire_ms=latest_ms))
        times = RowTimes(fixed=self._writes.has_instants)
        return replace(job, base_seq=job.base_seq + by_seq, create_ts_ms=time_ms, times=times)

    def protect(self) -> None:
        """Renew the lease in time, and copy files under new ids before collectors may delete the old ones.

        Raises
        ------
        CommitConflictError
            When the lease had expired and a file was collected.
        SnapshotExpiredError
            When a file was collected because of its age.
        """
        self._renew_lease()
        age_ms = self._options.gc_min_age_ms
        refresh = partial(refresh_expiring_ids, self._stores, self._clock, gc_min_age_ms=age_ms)
        kept = refresh_groups(refresh, self._writes.outputs)
        self.replace_writes(self._writes.with_files(kept))

    def _renew_lease(self) -> None:
        """Renew the lease if it is due; if it has lapsed, copy all files under new ids."""
        self._lease.renew()
        if self._lease.lapses > self._settled_lapses:
            saved = refresh_groups(partial(copy_under_new_ids, self._stores, self._clock), self._writes.outputs)
            self.replace_writes(self._writes.with_files(saved))
            self._settled_lapses = self._lease.lapses

    def release(self) -> None:
        """End the lease."""
        self._lease.release()

    # --- deletion -----------------------------------------------------------------------------------------------------

    def delete_all(self) -> None:
        """Delete all files; for a transaction that never tried to commit."""
        delete_files(self._stores, self._uploaded)

    def delete_unshown(self, version: int) -> None:
        """Delete the files that no version after `version` shows."""
        delete_unshown(self._stores, self._uploaded, version)

    def delete_unpublished(self, record: CommitRecord, *, repeats: bool) -> None:
        """Delete the files that are not part of a commit.

        Parameters
        ----------
        record : the commit record; without its files when a repetition only found that it had landed
        repeats : an earlier attempt may have published any of the files
        """
        write_id = self._lease.write_id
        if record.write_id == write_id and record.first_seq is not None:
            delete_files(self._stores, (sst_id for sst_id in self._uploaded if str(sst_id) not in record.files))
        elif record.write_id != write_id and not repeats:  # another write was committed under the same pair
            self.delete_all()
