"""A load whose only task runs in the process that plans and commits it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from slatespark.errors import InternalError, TableExistsError
from slatespark.options import WriteOptions
from slatespark.table.clock import Clock
from slatespark.table.commit.commit import commit_write
from slatespark.table.commit.job import abandoned_on_error, begin_write
from slatespark.table.commit.read_set import ReadSet
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.log.manifests import find_latest_manifest
from slatespark.table.log.versioned_object import RaceLostError
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.records.operations import Operation
from slatespark.table.rows.batches import require_schema
from slatespark.table.rows.chunk_upload import MOST_BYTES, TOGETHER, Chunks, upload_chunks, with_scratch
from slatespark.table.stores import TableStores
from slatespark.table.tasks import ONE_THREAD, TWO_THREADS, ThreadRunner
from slatespark.table.write.load import Load
from slatespark.table.write.load_commit import commit_load
from slatespark.table.write.load_plan import begin_load
from slatespark.table.write.load_task import load_sorter, run_task

# With the default sizes each takes some 300 MiB, so few of them, whatever the number of processors.
WRITE_THREADS: Final = TWO_THREADS


def load_batches(
    stores: TableStores,
    clock: Clock,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    options: WriteOptions,
    *,
    overwrite: bool = False,
    depends_on: ReadSet | None = None,
) -> CommitRecord | None:
    """Write batches as a single task, in one commit; None when there was nothing to do.

    Parameters
    ----------
    depends_on : the read set, which must be unchanged; None for a write that depends on no read
    """
    creates = depends_on is None  # what was read is there, or was removed since
    load = begin_load(stores, clock, schema, options, overwrite=overwrite, creates=creates)
    return None if load is None else run_load(stores, clock, load, schema, batches, depends_on=depends_on)


def run_load(
    stores: TableStores,
    clock: Clock,
    load: Load,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    depends_on: ReadSet | None = None,
    threads: ThreadRunner = WRITE_THREADS,
) -> CommitRecord | None:
    """Write batches as the single task of a load that was begun, and commit it; as `load_batches`.

    Parameters
    ----------
    threads : sort, merge and upload, unless a live client commits the rows
    """
    with abandoned_on_error(stores, load.job):
        rows = require_schema(batches, schema)
        if load.is_merged:
            with with_scratch(stores) as near:
                chunks = _run_in_chunks(near, clock, load, rows)
                return commit_load(near, clock, load, chunks, depends_on=depends_on)
        files = run_task(stores, clock, load, 0, rows, ONE_THREAD if load.options.cooperates else threads)
        return commit_load(stores, clock, load, (files,), depends_on=depends_on)


def _run_in_chunks(stores: TableStores, clock: Clock, load: Load, batches: Iterable[pa.RecordBatch]) -> Chunks:
    job, options = load.job, load.options
    sorter = load_sorter(load, 0, batches, options.write_buffer_bytes // TOGETHER)
    most_bytes = min(MOST_BYTES, options.rewrite_limit_bytes)
    return upload_chunks(stores, clock, sorter, options, job.planned_ms, segments=job.segments, most_bytes=most_bytes)


def create_table(stores: TableStores, clock: Clock, definition: TableDefinition, options: WriteOptions) -> int:
    """Create an empty table, and return its version; raises `TableExistsError` when one exists."""
    try:
        job = begin_write(
            stores, clock, operation=Operation.CREATE, found=find_latest_manifest(stores), definition=definition
        )
    except RaceLostError as exc:
        raise TableExistsError(f"{stores.url} exists already.", todo="Open it, or choose another path.") from exc
    with abandoned_on_error(stores, job):
        record = commit_write(stores, clock, job, (), options)
    if record is None:
        raise InternalError("A table was created without a commit.")
    return record.manifest_id
