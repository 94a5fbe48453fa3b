"""A write of Arrow batches: one process plans and commits it, any process can run its tasks, with or without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from slatespark.errors import InternalError, OptionError, TableExistsError, TableNotFoundError
from slatespark.options import WriteOptions
from slatespark.options.values import MergeOperator
from slatespark.storage import run_ahead
from slatespark.table.clock import Clock, read_clock
from slatespark.table.commit.commit import commit_write, end_without_commit
from slatespark.table.commit.conflicts import ReadSet
from slatespark.table.commit.definition_run import check_creation
from slatespark.table.commit.foreign_clients import OTHER_MODES, refuse_cooperation
from slatespark.table.commit.idempotence import find_outcome
from slatespark.table.commit.job import (
    WriteJob,
    abandoned_on_error,
    begin_write,
    draw_write_id,
    plan_write,
    publish_job,
)
from slatespark.table.commit.tree_edit import DROP_TREES, KEEP_TREES
from slatespark.table.commit.wal_place import fetch_state_with_wal, find_state_with_wal
from slatespark.table.cooperation.load_commit import commit_beside_client
from slatespark.table.definition.plan import plan_definition
from slatespark.table.definition.table_definition import NO_DEFINITION, TableDefinition
from slatespark.table.definition.versions import DefinitionLook
from slatespark.table.log.manifests import find_latest_manifest
from slatespark.table.log.versioned_object import RaceLostError, Version, retry_lost_races
from slatespark.table.read.merge_function import resolve_operator
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.records.leases import delete_lease, publish_lease
from slatespark.table.records.operations import Operation
from slatespark.table.rows.batches import require_schema
from slatespark.table.rows.chunk_upload import MOST_BYTES, TOGETHER, Chunks, upload_chunks, with_scratch
from slatespark.table.rows.encoder import RowEncoder
from slatespark.table.rows.encoder_plan import (
    lasting_columns,
    plan_encoder,
)
from slatespark.table.rows.overlaps import merge_overlaps
from slatespark.table.rows.sst_upload import NewFile, upload_task
from slatespark.table.rows.task_sorter import TaskSorter
from slatespark.table.rows.throughput import clear_marks, marked_pace, resolve_throughput
from slatespark.table.stores import TableStores
from slatespark.table.write.history_replace import TOMBSTONE_TASK, upload_tombstones
from slatespark.table.write.range_replace import commit_cut, plan_bounds


@dataclass(frozen=True, slots=True)
class Load:
    """A write that was checked against its table; small and picklable.

    Attributes
    ----------
    job : input of the commit
    encoder : encodes batches as rows
    options : of the write
    bytes_per_s : upload limit of all tasks together; None for no limit
    """

    job: WriteJob
    encoder: RowEncoder
    options: WriteOptions
    bytes_per_s: int | None = None

    @property
    def keeps_past(self) -> bool:
        """Whether it replaces an interval of a history table: each old row gets a tombstone, and no view is cut."""
        definition = self.job.definition
        return self.encoder.bounds is not None and definition.has_history

    @property
    def is_merged(self) -> bool:
        """Whether its rows are merged with others before their commit: those of a live client."""
        return self.options.cooperates and self.encoder.sequence_column is None and self.bytes_per_s is None

    @property
    def merge_operator(self) -> MergeOperator | None:
        """How operands of one key fold within a task: by the options, else by the table property."""
        if self.options.merge_operator is not None:
            return self.options.merge_operator
        return self.job.definition.merge_operator


def begin_load(
    stores: TableStores,
    clock: Clock,
    schema: pa.Schema,
    options: WriteOptions,
    *,
    overwrite: bool = False,
    creates: bool = True,
) -> Load | None:
    """Check a write against its table, plan its tasks, and publish a lease; parameters and result of `plan_load`.

    The lease is there before the first file, whatever its age: an erasure collects files of any age.
    """
    # What is created first in a store shows whether that can be written to at all.
    if not (stores.main.is_remote and stores.heads.creations):
        load = plan_load(stores, clock, schema, options, overwrite=overwrite, creates=creates)
        if load is not None:
            publish_job(stores, load.job)
        return load
    write_id = draw_write_id(clock)
    published = run_ahead(partial(publish_lease, stores.main, write_id, read_clock(clock)), is_remote=True)
    load = None
    try:
        load = plan_load(stores, clock, schema, options, overwrite=overwrite, creates=creates, write_id=write_id)
    finally:
        published()
        if load is None:
            delete_lease(stores.main, write_id)
    return load


def plan_load(
    stores: TableStores,
    clock: Clock,
    schema: pa.Schema,
    options: WriteOptions,
    *,
    overwrite: bool = False,
    creates: bool = True,
    write_id: str | None = None,
) -> Load | None:
    """Check a write against its table and plan its tasks; None when there is nothing to do.

    There is nothing to do if the table exists and `ifExists=ignore`, or if the write was committed before under its
    `txnAppId`. It leaves no object behind.

    Parameters
    ----------
    creates : create the table if there is none; else that is an error
    write_id : names the job; by default a new name

    Raises
    ------
    TableNotFoundError
        When there is no table, and the write does not create it.
    TableExistsError
        When the table exists and `ifExists=error`.
    SchemaError, OptionError, InvalidRequestError, UnsupportedFormatError, ClockRegressionError
        When the write does not fit the table.
    """

    def attempt(_: int) -> Load | None:
        return _plan_once(stores, clock, schema, options, overwrite=overwrite, creates=creates, write_id=write_id)

    return retry_lost_races(clock, attempt, f"{stores.url}: the table")


def _plan_once(
    stores: TableStores,
    clock: Clock,
    schema: pa.Schema,
    options: WriteOptions,
    *,
    overwrite: bool,
    creates: bool,
    write_id: str | None,
) -> Load | None:
    _refuse_cooperation(options, overwrite=overwrite)
    look = DefinitionLook(stores)
    state = find_state_with_wal(stores) if creates else fetch_state_with_wal(stores)
    found = None if state is None else Version(*state[:2])
    if found is not None and find_outcome(stores, found[1], options) is not None:
        return None
    if options.if_exists is not None and found is not None:
        if options.if_exists == "ignore":
            return None
        raise TableExistsError(f"{stores.url} exists already.", todo="Omit ifExists, or choose another path.")
    resolve_operator(options.merge_operator)
    if found is None and options.cooperates:
        raise TableNotFoundError(
            f"{stores.url}: there is no table, so no client has it open.",
            todo="Create it with a client, or write with ifClientActive=fail.",
        )
    known = NO_DEFINITION if found is None else look.resolve(found).value
    if known.has_history:
        refuse_cooperation(options, "a history table", OTHER_MODES)
    lasting = lasting_columns(schema, options, known)
    definition = plan_definition(known, lasting, options, is_new=found is None)
    if found is None:
        check_creation(stores, clock, definition, merge=options.merge_schema)
    encoder = plan_encoder(schema, definition.codec(), options, own_time=definition.has_own_time)
    encoder = replace(encoder, bounds=plan_bounds(options, encoder.codec, overwrite=overwrite))
    if found is None and encoder.bounds is None and definition.has_history:
        overwrite = False  # there is nothing to replace, and rows of a concurrent creator must stay
    operation = _operation(overwrite=overwrite, is_interval=encoder.bounds is not None)
    timestamp_ms = options.timestamp_ms
    check_times(stores, definition, options, overwrite=overwrite and encoder.bounds is None)
    if encoder.bounds is not None and encoder.has_times:
        raise OptionError(
            "timestampColumn: the rows of an interval are replaced at one time, that of the write.",
            todo="Give the write a timestamp, or delete the range and then write the rows.",
        )
    bytes_per_s = resolve_throughput(stores.main, options.throughput_bytes_per_s)
    job = plan_write(
        stores,
        clock,
        operation=operation,
        found=found,
        definition=definition,
        timestamp_ms=timestamp_ms,
        state=state,
        write_id=write_id,
    )
    return Load(job, encoder, options, bytes_per_s)


def _refuse_cooperation(options: WriteOptions, *, overwrite: bool) -> None:
    """Refuse `ifClientActive=cooperate` for a write that needs cuts, checks, or times of its own."""
    if options.replace_where is not None or options.given_keys:
        refuse_cooperation(options, "a replacement of intervals", f"Upsert and delete rows by key. Or: {OTHER_MODES}")
    if overwrite:
        refuse_cooperation(options, "overwrite", f"Upsert and delete rows by key. Or: {OTHER_MODES}")
    if options.timestamp_column is not None:
        refuse_cooperation(options, "timestampColumn", OTHER_MODES)
    if options.if_last_seq is not None:
        refuse_cooperation(options, "ifLastSeq", f"Omit it. Or: {OTHER_MODES}")
    if options.read_set is not None:
        refuse_cooperation(options, "a write that depends on a read", OTHER_MODES)


def check_times(
    stores: TableStores,
    definition: TableDefinition,
    options: WriteOptions,
    *,
    overwrite: bool,
    per_row: bool | None = None,
) -> None:
    """Refuse times that the table does not accept; raises `OptionError`.

    Parameters
    ----------
    per_row : whether each row has its own time; by default, whether `timestampColumn` is given
    """
    per_row = options.timestamp_column is not None if per_row is None else per_row
    if options.timestamp_column is not None and not definition.has_history:
        raise OptionError(
            f"timestampColumn: {stores.url} is not a history table.",
            why="On plain tables all rows of a write have the same time.",
            todo="Create the table with history=true, or give the write a timestamp.",
        )
    if definition.has_own_time and options.timestamp_ms is None and not per_row:
        raise OptionError(f"{stores.url} has clock=custom, and no timestamp is given.", todo="Give the timestamp.")
    if definition.has_own_time and options.ttl_from == "write":
        raise OptionError(
            f"ttlFrom=write: {stores.url} has clock=custom, so no clock tells the time of the write.",
            todo="Omit ttlFrom.",
        )
    if definition.has_history and overwrite:
        raise OptionError(
            f"{stores.url} is a history table, and cannot be overwritten.",
            why="An overwrite would remove its past.",
            todo="Use replaceWhere, or delete the rows and write the new ones; their earlier versions stay readable.",
        )


def _operation(*, overwrite: bool, is_interval: bool) -> Operation:
    if not overwrite:
        return Operation.WRITE
    return Operation.REPLACE if is_interval else Operation.OVERWRITE


def run_task(
    stores: TableStores, clock: Clock, load: Load, task: int, batches: Iterable[pa.RecordBatch]
) -> tuple[NewFile, ...]:
    """Upload the rows of task number `task` as sorted files, and return them in key order."""
    sorter = _sorter(load, task, batches, load.options.write_buffer_bytes)
    with marked_pace(stores.main, clock, load.bytes_per_s, write_id=load.job.write_id, task=task) as pace:
        job = load.job
        return upload_task(stores, clock, sorter, load.options, job.planned_ms, segments=job.segments, pace=pace)


def _sorter(load: Load, task: int, batches: Iterable[pa.RecordBatch], buffer_bytes: int) -> TaskSorter:
    first_task = TOMBSTONE_TASK + 1 if load.keeps_past else 0
    stamp, fold = load.job.stamp(first_task + task, load.options), resolve_operator(load.merge_operator)
    return TaskSorter(batches, load.encoder, stamp, fold, buffer_bytes=buffer_bytes)


def commit_load(
    stores: TableStores,
    clock: Clock,
    load: Load,
    outputs: Sequence[tuple[NewFile, ...]],
    *,
    depends_on: ReadSet | None = None,
) -> CommitRecord | None:
    """Publish the files of all tasks in one manifest; see `commit_write` and `commit_beside_client`.

    Parameters
    ----------
    depends_on : the read set, which must be unchanged; by default the one in the options
    """
    if depends_on is None and load.options.read_set is not None:
        depends_on = ReadSet.from_text(load.options.read_set)
    if load.bytes_per_s is not None:
        clear_marks(stores.main, load.job.write_id)
    if load.encoder.sequence_column is not None or load.encoder.has_times or _shares_operands(load, outputs):
        first_seq, fold = load.job.stamp(0, load.options).seq, resolve_operator(load.merge_operator)
        outputs = merge_overlaps(
            stores,
            clock,
            outputs,
            load.encoder,
            load.options,
            first_seq=first_seq,
            fold=fold,
            segments=load.job.segments,
        )
    if load.keeps_past and load.encoder.bounds is not None:
        tombstones, interval = upload_tombstones(stores, clock, load.job, load.options, load.encoder.bounds)
        outputs = (tombstones, *outputs)
        depends_on = interval if depends_on is None else depends_on.adding(ranges=interval.ranges)
    if load.encoder.bounds is not None and not load.keeps_past:
        keys = load.encoder.bounds.ranges
        return commit_cut(stores, clock, load.job, outputs, load.options, keys, depends_on=depends_on)
    if load.options.cooperates:
        if any(outputs):
            return commit_beside_client(stores, clock, load.job, outputs, load.options)
        end_without_commit(stores, clock, load.job, load.options)
        return None
    edit = DROP_TREES if load.job.operation is Operation.OVERWRITE else KEEP_TREES
    return commit_write(stores, clock, load.job, outputs, load.options, edit=edit, depends_on=depends_on)


def _shares_operands(load: Load, outputs: Sequence[tuple[NewFile, ...]]) -> bool:
    """Tell whether operands of several tasks may have to be folded, as a live client takes one row of a key."""
    return load.options.cooperates and any(file.properties.merges for files in outputs for file in files)


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
    load = begin_load(stores, clock, schema, options, overwrite=overwrite)
    return None if load is None else run_load(stores, clock, load, schema, batches, depends_on=depends_on)


def run_load(
    stores: TableStores,
    clock: Clock,
    load: Load,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    depends_on: ReadSet | None = None,
) -> CommitRecord | None:
    """Write batches as the single task of a load that was begun, and commit it; as `load_batches`."""
    with abandoned_on_error(stores, load.job):
        rows = require_schema(batches, schema)
        if load.is_merged:
            with with_scratch(stores) as near:
                chunks = _run_in_chunks(near, clock, load, rows)
                return commit_load(near, clock, load, chunks, depends_on=depends_on)
        files = run_task(stores, clock, load, 0, rows)
        return commit_load(stores, clock, load, (files,), depends_on=depends_on)


def _run_in_chunks(stores: TableStores, clock: Clock, load: Load, batches: Iterable[pa.RecordBatch]) -> Chunks:
    job, options = load.job, load.options
    sorter = _sorter(load, 0, batches, options.write_buffer_bytes // TOGETHER)
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
