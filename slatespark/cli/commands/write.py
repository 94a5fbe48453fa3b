"""Commands that change a few rows: `put`, `delete`."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import pyarrow as pa
import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import (
    NEGATIVE_KEYS,
    AsJson,
    AsText,
    DeleteOption,
    MergeSchema,
    OptionalKey,
    Storage,
    TablePath,
    Where,
    WriteOption,
)
from slatespark.cli.files.file_formats import FileFormat
from slatespark.cli.files.json_rows import as_table_spells, batch_of_objects, parse_object, schema_of_objects
from slatespark.cli.files.read_files import CountedRows, read_files
from slatespark.cli.files.target_columns import TargetColumns, target_columns
from slatespark.cli.key_arguments import key_row
from slatespark.cli.output import (
    EXIT_FAILED,
    asked_progress,
    failing_with,
    progress_bar,
    rows_text,
    show_commit,
    show_result,
)
from slatespark.cli.table_arguments import call_with, committed_rows, write_arguments
from slatespark.errors import OptionError
from slatespark.table.definition.versions import fetch_codec
from slatespark.table.progress import Step


@app.command()
@failing_with(EXIT_FAILED)
def put(
    table: TablePath,
    objects: Annotated[
        list[str] | None,
        typer.Argument(metavar="OBJECT", help="Rows as JSON objects.", show_default=False),
    ] = None,
    file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Read the rows from a file of JSON lines; - is standard input.")
    ] = None,
    merge_schema: MergeSchema = False,
    option: WriteOption = None,
    storage: Storage = None,
    as_text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """Insert rows, or replace those with the same keys, in one commit."""
    if bool(objects) == (file is not None):
        raise OptionError("put takes rows as arguments, or --file.", todo="Give one of them.")
    arguments = write_arguments(table, {"mergeSchema": merge_schema or None}, option=option, storage=storage)
    codec = fetch_codec(arguments.open_stores())
    target = target_columns(codec, arguments.options, adds_columns=merge_schema, as_text=as_text)
    store = arguments.open_store()
    with progress_bar(Step.IMPORTING, as_json=as_json) as progress, ExitStack() as stack:
        given = _rows(objects or [], target)
        if file is not None:
            given = stack.enter_context(read_files([file], FileFormat.JSON, target, progress))
        rows = CountedRows(given)
        version = call_with([arguments.options], store.write, rows.reader(), progress=False)
    show_commit(version, rows.count, as_json=as_json)


def _rows(objects: list[str], target: TargetColumns) -> pa.RecordBatchReader:
    given = [(number, parse_object(text, f"OBJECT {number}")) for number, text in enumerate(objects, 1)]
    rows = as_table_spells(given, target, "OBJECT ")
    batch = batch_of_objects(rows, schema_of_objects([row for _, row in rows], target), target, "OBJECT ")
    return pa.RecordBatchReader.from_batches(batch.schema, [batch])


@app.command(context_settings=NEGATIVE_KEYS)
@failing_with(EXIT_FAILED)
def delete(
    table: TablePath,
    key: OptionalKey = None,
    where: Where = None,
    by_range: Annotated[
        bool,
        typer.Option(
            "--range",
            help="Delete a key range without reading rows: that of --where on leading key columns, or for a raw table "
            "that of --option startKey, endKey or keyPrefix.",
        ),
    ] = False,
    option: DeleteOption = None,
    storage: Storage = None,
    as_text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """Delete the row of one key, or with --where all rows that match."""
    if by_range and key:
        raise OptionError(
            "delete --range takes no key as argument.", todo="Give --where, or --option keyPrefix of a raw table."
        )
    if not by_range and bool(key) == (where is not None):
        raise OptionError("delete takes a key as arguments, or --where.", todo="Give one of them.")
    arguments = write_arguments(table, {}, option=option, storage=storage)
    store, keys = arguments.open_store(), None
    if key:
        keys = key_row(key, fetch_codec(arguments.open_stores()), as_text=as_text)
    progress = asked_progress(as_json=as_json)
    if by_range:
        version, rows = call_with([arguments.options], store.deleteRange, where, progress=progress), None
    else:
        version = call_with([arguments.options], store.delete, where, keys, progress=progress)
        rows = committed_rows(store, "delete")
    show_result({"version": version, "deleted": rows}, rows_text("Deleted", rows, version), as_json=as_json)
