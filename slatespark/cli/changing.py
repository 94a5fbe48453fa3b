"""Commands that change a few rows: `put`, `delete`."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated, Any

import pyarrow as pa
import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import (
    NEGATIVE_KEYS,
    AsJson,
    AsText,
    MergeSchema,
    Storage,
    TablePath,
    WalPath,
    Where,
    WriteOption,
    key_arrays,
    open_store,
    storage_options,
    table_codec,
    write_options,
)
from slatespark.cli.file_formats import FileFormat
from slatespark.cli.json_rows import batch_of_objects, parse_object, schema_of_objects
from slatespark.cli.output import EXIT_FAILED, failing_with, progress_bar, show_commit
from slatespark.cli.read_files import CountedRows, read_files
from slatespark.cli.wanted import Wanted
from slatespark.encoding.row_codec import RowCodec
from slatespark.encoding.schema import find_name
from slatespark.errors import OptionError
from slatespark.table.slate_store import SlateStore
from slatespark.table.stores import open_stores


@app.command()
@failing_with(EXIT_FAILED)
def put(
    table: TablePath,
    objects: Annotated[
        list[str] | None,
        typer.Argument(metavar="[OBJECT]...", help="Rows as JSON objects.", show_default=False),
    ] = None,
    file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Take the rows from a file of JSON lines; - is standard input.")
    ] = None,
    merge_schema: MergeSchema = False,
    option: WriteOption = None,
    wal_path: WalPath = None,
    storage: Storage = None,
    as_text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """Insert rows, or replace those with the same keys, in one commit."""
    if bool(objects) == (file is not None):
        raise OptionError("put takes rows as arguments, or --file.", todo="Give one of them.")
    options = write_options(table, {"mergeSchema": merge_schema or None}, option)
    codec = table_codec(open_stores(table, storage=storage_options(storage), wal_path=wal_path))
    wanted = wanted_columns(codec, options, adds_columns=merge_schema, as_text=as_text)
    store = open_store(table, storage=storage, wal_path=wal_path)
    with progress_bar() as progress, ExitStack() as stack:
        given = _rows(objects or [], wanted)
        if file is not None:
            given = stack.enter_context(read_files([file], FileFormat.JSON, wanted, progress))
        rows = CountedRows(given)
        version = store.write(rows.reader(), **options)
    show_commit(version, rows.count, as_json=as_json)


def _rows(objects: list[str], wanted: Wanted) -> pa.RecordBatchReader:
    rows = [(number, parse_object(text, f"OBJECT {number}")) for number, text in enumerate(objects, 1)]
    batch = batch_of_objects(rows, schema_of_objects([row for _, row in rows], wanted), wanted, "OBJECT ")
    return pa.RecordBatchReader.from_batches(batch.schema, [batch])


_INSTANT = pa.timestamp("us", "UTC")
_PASSING = {"opColumn": pa.string(), "ttlColumn": pa.int64(), "expireAtColumn": _INSTANT}


def wanted_columns(codec: RowCodec, options: dict[str, Any], *, adds_columns: bool, as_text: bool) -> Wanted:
    """Return the columns that rows for a table have, with those that options name and that are not stored."""
    types = {str(options[name]): kind for name, kind in _PASSING.items() if options.get(name) is not None}
    times = options.get("timestampColumn")
    if times is not None and find_name(codec.schema, str(times)) is None:  # a table of bytes has no such column
        types[str(times)] = _INSTANT
    return Wanted(codec.schema, types, adds_columns=adds_columns, as_text=as_text)


@app.command(context_settings=NEGATIVE_KEYS)
@failing_with(EXIT_FAILED)
def delete(
    table: TablePath,
    key: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY]...",
            help="A value for each key column; of a raw table the key in hexadecimal, or as text with --text.",
            show_default=False,
        ),
    ] = None,
    where: Where = None,
    by_range: Annotated[
        bool,
        typer.Option("--range", help="With --where on leading key columns: cut that interval out, looking at no row."),
    ] = False,
    option: WriteOption = None,
    wal_path: WalPath = None,
    storage: Storage = None,
    as_text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """Delete the row of one key, whether there is one or not; with --where, all rows like that."""
    if by_range and key:
        raise OptionError("delete --range takes no key as argument.", todo="Give --where.")
    if not by_range and bool(key) == (where is not None):
        raise OptionError("delete takes a key as arguments, or --where.", todo="Give one of them.")
    options = write_options(table, {}, option)
    store = open_store(table, storage=storage, wal_path=wal_path)
    if by_range:
        show_commit(store.deleteRange(where, **options), None, as_json=as_json, verb="Deleted")
        return
    if where is not None:
        _delete_where(store, where, options, as_json=as_json)
        return
    codec = table_codec(open_stores(table, storage=storage_options(storage), wal_path=wal_path))
    arrays = key_arrays(key or [], codec, as_text=as_text)
    rows = pa.RecordBatch.from_arrays(arrays, names=list(codec.key_columns))
    show_commit(store.write(rows, operation="delete", **options), 1, as_json=as_json, verb="Deleted")


def _delete_where(store: SlateStore, where: str, options: dict[str, Any], *, as_json: bool) -> None:
    """Delete rows by a filter; how many they were is known from the commit's record, if it could be written."""
    before = store.detail().version
    version = store.delete(where, **options)
    counts = {facts.version: facts.rows.get("delete", 0) for facts in store.history(1) if facts.operation is not None}
    rows = 0 if version == before else counts.get(version)
    show_commit(version, rows, as_json=as_json, verb="Deleted")
