"""The end of a job that has nothing to commit."""

from __future__ import annotations

from slatespark.errors import CommitConflictError
from slatespark.options import WriteOptions
from slatespark.table.clock import Clock
from slatespark.table.commit.idempotence import is_committed, outcome_of
from slatespark.table.commit.job import WriteJob
from slatespark.table.commit.requirements import LastSeq
from slatespark.table.records.idempotent_writes import publish_txn_record
from slatespark.table.records.leases import delete_lease
from slatespark.table.stores import TableStores


def record_empty(stores: TableStores, clock: Clock, job: WriteJob, options: WriteOptions) -> None:
    """Record that a job has nothing to commit: no version is published, and no client is fenced.

    Raises
    ------
    CommitConflictError
        When rows were committed above `ifLastSeq`: that there is nothing to write may follow from an outdated read.
    """
    if options.if_last_seq is not None and not is_committed(stores, options):
        try:
            LastSeq(options.if_last_seq).check_newest(stores)
        except CommitConflictError:  # perhaps with an earlier attempt of this write, committed since we looked for it
            if not is_committed(stores, options):
                raise
    outcome = outcome_of(options, job.baseline.manifest_id, job.write_id, clock.now_ms())
    if outcome is not None:  # a repeated job may produce rows, from its own later writes
        publish_txn_record(stores.main, outcome)


def end_without_commit(stores: TableStores, clock: Clock, job: WriteJob, options: WriteOptions) -> None:
    """End a job that has published its lease, as `record_empty` does."""
    record_empty(stores, clock, job, options)
    delete_lease(stores.main, job.write_id)
