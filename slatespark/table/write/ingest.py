"""Ingests: external SSTs become part of a table in one commit, with new sequence numbers and times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from slatespark.encoding.schema import find_misread
from slatespark.errors import ConflictError, CorruptDataError, InvalidRequestError, OptionError, SchemaError
from slatespark.format.external_sst import ExternalSst, decode_external_end, decode_external_sst
from slatespark.format.paths import sst_path
from slatespark.format.references import SstHandle
from slatespark.format.ulid import make_ulid
from slatespark.kernels import merge_all, new_key_mask, take_rows
from slatespark.kernels.columns import HAS_CREATE, MERGE, RowColumns
from slatespark.options import Call, WriteOptions
from slatespark.storage import open_scratch, scratch_folder
from slatespark.table.clock import Clock
from slatespark.table.commit.commit import commit_write
from slatespark.table.commit.cooperate_option import refuse_cooperation
from slatespark.table.commit.idempotence import is_committed
from slatespark.table.commit.job import WriteJob, abandoned_on_error, begin_write
from slatespark.table.commit.rebase import RowShift, expire_by, move_rows
from slatespark.table.commit.row_times import RowTimes
from slatespark.table.definition.plan import grow_definition
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.definition.versions import resolve_definition
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.merge.cursor import LayerCursor, layer_windows, window_size
from slatespark.table.read.merge.merge_function import resolve_operator
from slatespark.table.read.merge.windows import version_windows
from slatespark.table.read.planning.plan import FileSlice, Layer, SstFile
from slatespark.table.read.versions.sst_end import fetch_end
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.records.operations import Operation
from slatespark.table.rows.encoder import RowEncoder
from slatespark.table.rows.external_label import ExternalLabel
from slatespark.table.rows.overlaps import find_overlapping, merge_overlaps
from slatespark.table.rows.spill import Spill, numbered
from slatespark.table.rows.sst_upload import NewFile, new_layer, upload_sorted
from slatespark.table.rows.sst_writer import open_file
from slatespark.table.rows.throughput import clear_marks, marked_pace, resolve_throughput
from slatespark.table.stores import TableStores, object_context, real_url
from slatespark.table.tasks import THREADS, TaskRunner
from slatespark.table.write.load_plan import check_times
from slatespark.texts import listed

_SOME_COLUMN: Final = "_create_ts"  # in place of the column of times, which no table has as its own


@dataclass(frozen=True, slots=True)
class ExternalSstFile:
    """An external SST that is to be ingested, by its end.

    Attributes
    ----------
    path : path as given, for messages
    url : where other processes find it too
    """

    path: str
    url: str
    label: ExternalLabel
    end: ExternalSst


def parse_ingest(common: Mapping[str, Any], given: Mapping[str, Any]) -> WriteOptions:
    """Return the options of an ingest; raises `OptionError` for one that belongs to `SstWriter`."""
    why = "SstWriter takes the options of rows and their expiry."
    return WriteOptions.of_call("ingest", Call.INGEST, common, given, why=why)


def ingest_files(
    stores: TableStores,
    clock: Clock,
    paths: Sequence[str],
    options: WriteOptions,
    *,
    runner: TaskRunner = THREADS,
) -> CommitRecord | None:
    """Publish the rows of external SSTs in one commit, and return its record; None when it was committed before.

    The caller reads the ends of the files only. Each file is a task, which checks its rows and writes them anew with
    the numbers and times of this commit.

    Parameters
    ----------
    paths : paths of files that `SstWriter` wrote, in any order; those of a plain table may not share keys
    options : how the new files are written, `timestamp`, `mergeSchema`, and those of the commit
    runner : runs the tasks; by default threads of this process

    Raises
    ------
    InvalidRequestError, SchemaError, OptionError
        When files do not fit the table, or share keys on a plain table; nothing was changed.
    CommitConflictError
        When a history table has newer versions of their keys; also as `commit_write`.
    CorruptDataError
        When a file is damaged.
    """
    if not paths:
        raise InvalidRequestError("ingest: no file is given.", todo="Give the path of at least one file.")
    refuse_cooperation(options, "ingest", "Write the rows.")
    if is_committed(stores, options):
        return None
    found = fetch_latest_manifest(stores)
    definition = resolve_definition(stores, found.value).declaring(options.properties)
    files = [*THREADS(partial(_read_end, stores.storage), paths)]
    _refuse_repeated(files)
    for file in files:
        definition = _admit(definition, file, merge=options.merge_schema)
    times = _row_times(definition, files, options)
    check_times(stores, definition, options, overwrite=False, per_row=times.per_row)
    _check_ttls(stores, definition, files)
    job = begin_write(
        stores,
        clock,
        operation=Operation.INGEST,
        found=found,
        definition=definition,
        timestamp_ms=options.timestamp_ms,
    )
    job = replace(job, times=times)
    with abandoned_on_error(stores, job):
        outputs = _upload_all(stores, clock, files, job, options, runner)
        return commit_write(stores, clock, job, outputs, options)


# --- files ----------------------------------------------------------------------------------------------------------


def _read_end(storage: Mapping[str, str], path: str) -> ExternalSstFile:
    """Read the end of a file: its label, properties and info."""
    store, name = open_file(path, storage)
    try:
        found = fetch_end(store, name)
    except FileNotFoundError as exc:
        raise InvalidRequestError(f"{path} does not exist.", todo="Write it with SstWriter.") from exc
    with object_context(store, name):
        end = decode_external_end(found.info, found.footer.version, found.gap)
        label = None if end is None else ExternalLabel.from_json(end.label)
    if end is None or label is None:
        raise InvalidRequestError(f"{path} is not an external SST.", todo="Write it with SstWriter.")
    return ExternalSstFile(path, f"{store.url}/{name}", label, end)


def _refuse_repeated(files: Sequence[ExternalSstFile]) -> None:
    """Refuse a file that is given twice, under whatever path: a history table would get its operands twice."""
    seen: dict[str, str] = {}
    for file in files:
        place = real_url(file.url)
        if place in seen:
            also = "" if seen[place] == file.path else f", also as {seen[place]}"
            raise InvalidRequestError(
                f"ingest: {file.path} is given twice{also}.", todo="Give the path of each file once."
            )
        seen[place] = file.path


def _admit(current: TableDefinition, file: ExternalSstFile, *, merge: bool) -> TableDefinition:
    """Return the definition that a table needs to accept a file; raises `SchemaError` when it cannot."""
    theirs = file.label.definition
    if not current.same_keys(theirs):
        raise SchemaError(
            f"{file.path} was written for {_keys(theirs)}, but the table has {_keys(current)}.",
            todo="Write the file again, with the key columns and formats of the table.",
        )
    if current.schema is None or theirs.schema is None:
        return current
    grown = grow_definition(current, theirs.schema)
    same = current.schema.names == theirs.schema.names and grown == current
    if not merge and not same:
        raise SchemaError(
            f"{file.path} has the columns {listed(theirs.schema.names)}, the table "
            f"{listed(current.schema.names)}, or their types differ.",
            todo="Write the file with the schema of the table, or set mergeSchema=true.",
        )
    _check_stored(file, grown)
    return replace(grown, writer_schemas={**theirs.writer_schemas, **grown.writer_schemas})


def _check_stored(file: ExternalSstFile, grown: TableDefinition) -> None:
    """Raise `SchemaError` if the table would read values of a file as others: an ingest casts nothing."""
    stored, known, properties = file.label.definition.schema, grown.schema, file.end.properties
    assert stored is not None  # the caller's condition
    assert known is not None
    if not properties.puts and not properties.merges:  # deletions have only keys
        known = pa.schema([field for field in known if field.name in stored.names])
    column = find_misread(stored, known, key_columns=grown.key_columns, value_format=grown.value_format)
    if column is not None:
        raise SchemaError(
            f"{file.path}: column {column} is not stored as the table stores it.",
            why="Its type, its spelling or its nulls differ, or it is missing, and an ingest casts nothing.",
            todo="Give SstWriter the schema of the table.",
        )


def _keys(definition: TableDefinition) -> str:
    names = ", ".join(definition.key_columns) or "key and value"
    return f"{names} ({definition.key_format} keys, {definition.value_format} values)"


def _row_times(definition: TableDefinition, files: Sequence[ExternalSstFile], options: WriteOptions) -> RowTimes:
    """Return the kind of times that the rows have: the commit moves no times that the user gave."""
    timed = [file.path for file in files if file.label.stamp_ms is None]
    if timed and not definition.has_history:
        raise InvalidRequestError(
            f"{timed[0]} has row timestamps, and the table is not a history table.",
            todo="Write the file without timestamps, or create the table with history=true.",
        )
    if timed and options.timestamp_ms is not None:
        raise OptionError(f"timestamp is given, but {timed[0]} has row timestamps.", todo="Omit timestamp.")
    instants = any(file.label.has_instants for file in files)
    return RowTimes(per_row=bool(timed), fixed=bool(timed) or instants)


def _check_ttls(stores: TableStores, definition: TableDefinition, files: Sequence[ExternalSstFile]) -> None:
    """Refuse TTLs that count from an instant which the clock of the table does not tell, as in a write."""
    found = [file.path for file in files if file.label.ttl_from_write]
    if found and definition.has_own_time:
        raise OptionError(
            f"{found[0]} was written with ttlFrom=write, and {stores.url} has clock=custom, so no clock tells the "
            "time of the write.",
            todo="Write the file without ttlFrom.",
        )


# --- rows -----------------------------------------------------------------------------------------------------------


def _upload_all(
    stores: TableStores,
    clock: Clock,
    files: Sequence[ExternalSstFile],
    job: WriteJob,
    options: WriteOptions,
    runner: TaskRunner,
) -> tuple[tuple[NewFile, ...], ...]:
    """Upload the rows of all files with new sequence numbers and times; on history tables merged by key."""
    bytes_per_s = resolve_throughput(stores.main, options.throughput_bytes_per_s)
    outputs = tuple(runner(IngestTask(stores, clock, job, options, bytes_per_s), [*enumerate(files)]))
    if bytes_per_s is not None:
        clear_marks(stores.main, job.write_id)
    if not job.definition.has_history:
        _refuse_shared_keys(stores, outputs, files, options)
        return outputs
    encoder = RowEncoder(job.definition.codec(), timestamp_column=_time_column(files))
    fold = resolve_operator(options.merge_operator or job.definition.merge_operator)
    return merge_overlaps(
        stores, clock, outputs, encoder, options, first_seq=job.base_seq + 1, fold=fold, segments=job.segments
    )


def _time_column(files: Sequence[ExternalSstFile]) -> str:
    """Return the column that the times of all files come from, if there is one: their lost parts are read from it."""
    columns = [file.label.time_column for file in files]
    [name, *others] = {name and name.lower(): name for name in columns}.values()  # a file spells it as its rows do
    return _SOME_COLUMN if name is None or others else name


@dataclass(frozen=True, slots=True)
class IngestTask:
    """Checks the rows of a file and uploads them with new sequence numbers and times, in any process.

    Attributes
    ----------
    bytes_per_s : upload limit of all tasks together; None for no limit
    """

    stores: TableStores
    clock: Clock
    job: WriteJob
    options: WriteOptions
    bytes_per_s: int | None

    def __call__(self, numbered_file: tuple[int, ExternalSstFile]) -> tuple[NewFile, ...]:
        """Return the new files, in key order."""
        (task, file), job, options = numbered_file, self.job, self.options
        with (
            scratch_folder("ingest") as folder,
            marked_pace(self.stores.main, self.clock, self.bytes_per_s, write_id=job.write_id, task=task) as pace,
        ):
            pieces = _dated(*_copy(folder, file, self.stores.storage), file, job, options)
            rows = numbered(pieces, job.base_seq + 1, Spill(folder, by_time=True), options.write_buffer_bytes)
            made = upload_sorted(
                self.stores.main, rows, options, self.clock, job.planned_ms, segments=job.segments, pace=pace
            )
            return tuple(replace(new, has_remainders=file.label.has_remainders) for new in made)


def _copy(folder: str, file: ExternalSstFile, storage: Mapping[str, str]) -> tuple[TableStores, FileSlice]:
    """Copy a file to a folder of this machine, where it can be read like any other."""
    store, name = open_file(file.url, storage)
    try:
        data = store.get(name)
    except FileNotFoundError as exc:
        raise InvalidRequestError(
            f"{file.path} is not there any more, or not on this machine.",
            todo="Put the files where all executors can read them.",
        ) from exc
    with object_context(store, name):
        end = decode_external_sst(data)
    if end != file.end:
        raise ConflictError(f"{file.path} changed while it was being ingested.", todo="Ingest it again.")
    scratch, ulid = open_scratch(folder), make_ulid(0, 0)
    scratch.put(sst_path(ulid), [data])
    whole = SstHandle(ulid, file.end.info, file.end.format_version)
    part = FileSlice(SstFile.of(whole), whole.key_range())
    return TableStores(main=scratch, wal=scratch), part


def _dated(
    stores: TableStores, part: FileSlice, file: ExternalSstFile, job: WriteJob, options: WriteOptions
) -> Iterator[RowColumns]:
    """Yield the rows of a copied file with their times, a window at a time."""
    previous: RowColumns | None = None
    for rows in _read(stores, part, file.path, options):
        _move(rows, job, file.label)
        expire_by(rows, job.latest_expire_ms(job.planned_ms))
        _check_rows(file, rows, previous, has_history=job.definition.has_history)
        previous = take_rows([rows], np.array([len(rows) - 1], np.int64))
        yield rows


def _read(stores: TableStores, part: FileSlice, path: str, options: WriteOptions) -> Iterator[RowColumns]:
    try:
        for window in layer_windows(stores, Layer("external", (part,)), window_size(options.write_buffer_bytes, 1)):
            yield take_rows([window.rows], window.indices)
    except CorruptDataError as exc:  # name the given file, not the copy
        raise CorruptDataError(
            str(exc.args[0]), why=exc.why, todo="Write the file again.", path=path, offset=exc.offset
        ) from exc


def _move(rows: RowColumns, job: WriteJob, label: ExternalLabel) -> None:
    """Give rows the time of the ingest, unless the user gave them times.

    TTLs count from their time, or from the clock; fixed expiries stay.
    """
    if label.stamp_ms is not None:
        rows.create_ts[:] = job.create_ts_ms
    counted_ms = label.stamp_ms if label.made_ms is None else label.made_ms
    if label.has_instants or counted_ms is None:
        return
    begin_ms = job.planned_ms if label.ttl_from_write else job.create_ts_ms
    move_rows(rows, 0, len(rows), RowShift(seq=0, create_ms=0, expire_ms=begin_ms - counted_ms))


def _check_rows(file: ExternalSstFile, rows: RowColumns, previous: RowColumns | None, *, has_history: bool) -> None:
    """Refuse rows that `SstWriter` never writes: without a time or a key, out of order, or operands of columns."""
    if not (rows.flags & HAS_CREATE).all():
        raise CorruptDataError("a row has no create_ts.", path=file.path)
    if previous is None and not rows.key(0):
        raise CorruptDataError("a key is empty; SlateDB has no empty keys.", path=file.path)
    if (rows.flags & MERGE).any() and file.label.definition.value_format != "raw":
        raise CorruptDataError("a row is a merge operand, and values are not plain bytes.", path=file.path)
    first = new_key_mask([rows], np.arange(len(rows), dtype=np.int64))
    first[0] = previous is None or previous.key(0) != rows.key(0)
    if not first.all() and not has_history:
        raise InvalidRequestError(
            f"{file.path} has several versions of the key {rows.key(int(np.flatnonzero(~first)[0])).hex()}.",
            why="Only history tables accept them in one commit.",
            todo="Write the file without timestampColumn.",
        )
    older = np.append(rows.create_ts[:1] if previous is None else previous.create_ts, rows.create_ts[:-1])
    if (~first & (rows.create_ts > older)).any():
        raise CorruptDataError("versions of a key are not in the order of their times.", path=file.path)


def _refuse_shared_keys(
    stores: TableStores, outputs: Sequence[tuple[NewFile, ...]], files: Sequence[ExternalSstFile], options: WriteOptions
) -> None:
    """Refuse files that share a key: no order tells which version is newer."""
    shared = find_overlapping(outputs)
    layers = [new_layer(*group) for group in shared if group]
    window_bytes = window_size(options.write_buffer_bytes, max(1, len(layers)))
    cursors = [LayerCursor(layer_windows(stores, layer, window_bytes)) for layer in layers]
    for window in version_windows(cursors):
        sources, rows = window.sources, merge_all(window.sources, window.lows, window.highs)
        repeated = np.flatnonzero(~new_key_mask(sources, rows))
        if len(repeated):
            key = take_rows(sources, rows[repeated[:1]]).key(0)
            raise InvalidRequestError(
                f"Two of the {len(files)} files hold the key {key.hex()}.",
                why="All rows of this commit have the same time, so neither version is newer.",
                todo="Ingest the files one after the other, or write them as one file.",
            )
