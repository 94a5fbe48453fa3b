"""A batch of a stream: a load that takes effect once, however often its query is killed and repeats it.

A query repeats only its last batch, under the number that it had. So a batch is known by the name of the stream and its
number, as idempotent writes are by `txnAppId` and `txnVersion`, and only the last number counts: a smaller one comes
from a query whose checkpoint is gone or was set back, and whose batches may hold other rows. Such a batch is refused:
skipped, its rows could be lost, and written, older rows could replace newer ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from slatespark.options.values import STREAM_APPS
from slatespark.table.clock import Clock
from slatespark.table.commit.idempotence import refuse_passed_batch
from slatespark.table.log.manifests import find_latest_manifest
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.records.idempotent_writes import delete_txn_records
from slatespark.table.records.streams import claim_stream_name
from slatespark.table.rows.sst_upload import NewFile
from slatespark.table.stores import TableStores
from slatespark.table.write.load import Load
from slatespark.table.write.load_commit import commit_load

CLEAN_EVERY: Final = 64  # batches: the records of those before are deleted together

# Each version that is kept costs every later commit 170 bytes, and time to encode them. A thousand, which other tables
# keep, would make the manifests of a batch larger than most batches.
MAX_RETAINED: Final = 128


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """A batch of a stream.

    Attributes
    ----------
    query : id of the query, which belongs to its checkpoint location; None where no task told it; with a name only
    number : number of the batch; each is one more than the one before
    name : name of the stream, its `txnAppId`; by default that of its query
    """

    query: str | None
    number: int
    name: str | None = None

    @property
    def app(self) -> str:
        """The `txnAppId` of its commits; writes that are no streams have other ones."""
        return f"{STREAM_APPS}{self.name or self.query}"


def commit_batch(
    stores: TableStores, clock: Clock, load: Load, outputs: Sequence[tuple[NewFile, ...]], batch: StreamBatch
) -> CommitRecord | None:
    """Publish the files of all tasks of a batch in one manifest, unless it was committed before.

    Parameters
    ----------
    outputs : per task, in key order; a later task is newer

    Returns
    -------
    As `commit_load`.

    Raises
    ------
    InvalidRequestError
        When a later batch of the stream was committed, or another query has its name.
    """
    if batch.name is not None and batch.query is not None:
        claim_stream_name(stores.main, batch.name, batch.query)
    txn = replace(load.options, txn_app_id=batch.app, txn_version=batch.number)
    if (newest := find_latest_manifest(stores)) is not None:  # the commit looks again, at the version that it follows
        refuse_passed_batch(stores, newest.value, batch.app, batch.number)
    job = replace(load.job, max_retained=MAX_RETAINED)
    record = commit_load(stores, clock, replace(load, job=job, options=txn), outputs)
    if batch.number % CLEAN_EVERY == 0:
        delete_txn_records(stores.main, batch.app, batch.number)
    return record
