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

from slatespark.errors import InvalidRequestError
from slatespark.options.values import STREAM_APPS
from slatespark.table.clock import Clock
from slatespark.table.commit.idempotence import find_last_version
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

    def __str__(self) -> str:
        """Return whose batch it is, for messages."""
        whose = f"the stream {self.name}" if self.query is None else f"query {self.query}"
        return f"batch {self.number} of {whose}"

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
    _refuse_passed(stores, batch)
    txn = replace(load.options, txn_app_id=batch.app, txn_version=batch.number)
    job = replace(load.job, max_retained=MAX_RETAINED)
    record = commit_load(stores, clock, replace(load, job=job, options=txn), outputs)
    if batch.number % CLEAN_EVERY == 0:
        delete_txn_records(stores.main, batch.app, batch.number)
    return record


def _refuse_passed(stores: TableStores, batch: StreamBatch) -> None:
    found = find_latest_manifest(stores)
    last = None if found is None else find_last_version(stores, found.value, batch.app, batch.number)
    if last is not None and last > batch.number:
        raise InvalidRequestError(
            f"{stores.url}: {batch} comes after its batch {last}.",
            why="The checkpoint location of the query was set back to an earlier state, or is used by two queries.",
            todo="Start the query with a new checkpointLocation"
            + ("." if batch.name is None else ", and with another txnAppId."),
        )
