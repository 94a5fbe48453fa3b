"""SstWriter: rows -> one sorted file, made anywhere, without access to the table that will ingest it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from slatespark.encoding.column_list import parse_columns
from slatespark.encoding.row_codec import RAW_CODEC
from slatespark.errors import InvalidRequestError, OptionError
from slatespark.format.external_sst import label_sst
from slatespark.format.paths import sst_path
from slatespark.options import WriteOptions
from slatespark.options.fields import Call
from slatespark.options.values import DEFAULT_TTL_MS, STORAGE_PREFIX, parse_location
from slatespark.storage import absolute_location, open_scratch, open_store, scratch_folder
from slatespark.storage.object_store import ObjectStore
from slatespark.table.clock import Clock, SystemClock, check_clock, read_clock
from slatespark.table.definition.plan import plan_creation, plan_definition
from slatespark.table.definition.table_definition import NO_DEFINITION, TableDefinition
from slatespark.table.read.merge.merge_function import resolve_operator
from slatespark.table.rows.batches import Rows, as_batches, require_schema
from slatespark.table.rows.encoder import Stamp
from slatespark.table.rows.encoder_plan import lasting_columns, plan_encoder
from slatespark.table.rows.external_label import ExternalLabel
from slatespark.table.rows.lost_versions import loses_parts
from slatespark.table.rows.sst_upload import upload_task
from slatespark.table.rows.task_sorter import TaskSorter
from slatespark.table.stores import TableStores
from slatespark.units import MAX_MS


class SstWriter:
    """Writes an external SST, which `SlateStore.ingest` makes visible in a table.

    Parameters
    ----------
    path : of the file, a local path or URL; nothing may be there
    schema : columns of the table, with types and nullability, as for `SlateStore.create`; by default those of the rows
    keyColumns : which of them make the key, in order; None for a table of `key` and `value`
    clock : where time comes from, the system clock by default
    keyFormat, valueFormat : as for `SlateStore.create`
    storage : options of the storage backend

    Examples
    --------
    >>> import pyarrow as pa
    >>> from slatespark import SlateStore, SstWriter
    >>> rows = pa.table({"id": [2, 1], "name": ["b", "a"]})
    >>> SstWriter("memory://files/names.sst", keyColumns="id").write(rows)
    2
    >>> store = SlateStore.create("memory://names", rows.schema, "id")
    >>> version = store.ingest(["memory://files/names.sst"])
    >>> store.get(1)
    {'id': 1, 'name': 'a'}
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        schema: pa.Schema | str | None = None,
        keyColumns: str | Sequence[str] | None = None,
        *,
        clock: Clock | None = None,
        keyFormat: str | None = None,
        valueFormat: str | None = None,
        **storage: Any,
    ) -> None:
        given = parse_location(path, "path")
        self._path = given if given.endswith("/") else absolute_location(given)  # one that names no file is refused
        self._schema = parse_columns(schema) if isinstance(schema, str) else schema
        self._clock = SystemClock() if clock is None else check_clock(clock)
        self._formats = {"keyColumns": keyColumns, "keyFormat": keyFormat, "valueFormat": valueFormat}
        self._storage = {name.removeprefix(STORAGE_PREFIX): value for name, value in storage.items()}

    def __repr__(self) -> str:
        return f"SstWriter({self._path!r})"

    def write(self, batches: Rows, **options: Any) -> int:
        """Write the file, and return how many row versions are in it. It is held in memory until it is whole.

        Parameters
        ----------
        batches : in any order; they are sorted, on disk beyond `writeBuffer`
        options : write options about rows or the file. `ttl=default` is none here: what the default
            of a table is says only the table

        Raises
        ------
        SchemaError, OptionError, InvalidRequestError
            When rows or options do not fit, when there are no rows, or when the file exists.
        """
        common, why = {"path": self._path, **self._formats}, "Others go to ingest."
        parsed = WriteOptions.of_call("SstWriter", Call.SST_WRITER, common, options, why=why)
        schema, rows = as_batches(batches)
        definition = self._definition(schema, parsed)
        data, count = _build(definition, require_schema(rows, schema), schema, parsed, self._clock)
        store, name = open_file(self._path, self._storage)
        try:
            store.create(name, data)
        except FileExistsError as exc:
            raise InvalidRequestError(f"{self._path} exists already.", todo="Choose another path.") from exc
        return count

    def _definition(self, schema: pa.Schema, options: WriteOptions) -> TableDefinition:
        if self._schema is not None:
            return plan_creation(self._schema, options, {})
        lasting = lasting_columns(schema, options, NO_DEFINITION)
        return plan_definition(NO_DEFINITION, lasting, options, is_new=True)


def open_file(path: str, storage: Mapping[str, str]) -> tuple[ObjectStore, str]:
    """Return the store of the folder that a file is in, and the file's name in it."""
    folder, separator, name = path.rpartition("/")
    if not name:
        raise OptionError(f"{path!r} names no file.", todo="Give the path of a file.")
    return open_store(folder or ("/" if separator else "."), storage), name


def _build(
    definition: TableDefinition,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    options: WriteOptions,
    clock: Clock,
) -> tuple[bytes, int]:
    """Return the file and the number of its rows."""
    codec = definition.codec() if definition.is_typed else RAW_CODEC
    encoder, now_ms = plan_encoder(schema, codec, options), read_clock(clock)
    stamp = Stamp(
        seq=1,
        create_ts_ms=now_ms if options.timestamp_ms is None else options.timestamp_ms,
        ttl_ms=None if options.ttl_ms == DEFAULT_TTL_MS else options.ttl_ms,
        ttl_from_ms=now_ms if options.ttl_from == "write" else None,
    )
    has_times = options.timestamp_ms is not None or encoder.has_times
    from_ingest = not has_times or options.ttl_from == "write"
    if from_ingest and options.expire_at_column is not None and stamp.ttl_ms is not None:
        raise OptionError(
            "SstWriter takes no ttl beside expireAtColumn.",
            why="A TTL counts from the ingest, an instant stays, and a file does not tell which one a row has.",
            todo="Give the instant of each row, or the time of the rows with timestamp, and no ttlFrom.",
        )
    fold = resolve_operator(options.merge_operator)
    watched = _WatchedTimes(batches, encoder.timestamp_column)
    sorter = TaskSorter(watched, encoder, stamp, fold, buffer_bytes=options.write_buffer_bytes)
    with scratch_folder("sst") as folder:
        scratch = open_scratch(folder)
        stores = TableStores(main=scratch, wal=scratch)
        files = upload_task(stores, clock, sorter, replace(options, sst_bytes=MAX_MS), now_ms)
        if not files:
            raise InvalidRequestError("There are no rows, and an SST has at least one.", todo="Write no file then.")
        [file] = files
        label = ExternalLabel(
            definition,
            None if has_times else now_ms,
            has_instants=options.expire_at_column is not None,
            ttl_from_write=options.ttl_from == "write",
            made_ms=now_ms if has_times and options.ttl_from == "write" else None,
            time_column=encoder.timestamp_column,
            has_remainders=watched.has_remainders,
        )
        data = label_sst(scratch.get(sst_path(file.handle.id)), label.to_json())
        return data, file.properties.num_rows


@dataclass(slots=True)
class _WatchedTimes:
    """Batches of rows, and whether times among those passed on so far have parts of a millisecond.

    A file keeps milliseconds, and an ingest has to know: another file may have a version less than one apart. What
    `sequenceColumn` decides in this file it does not decide there.
    """

    batches: Iterable[pa.RecordBatch]
    column: str | None
    has_remainders: bool = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self.batches:
            if self.column is not None and not self.has_remainders:
                self.has_remainders = loses_parts(batch.column(self.column))
            yield batch
