"""Commands that change a few rows: `put`, `delete`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Annotated, Any

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
from slatespark.cli.committed_rows import committed_rows
from slatespark.cli.files.file_formats import FileFormat
from slatespark.cli.files.json_rows import batch_of_objects, parse_object, schema_of_objects
from slatespark.cli.files.read_files import CountedRows, read_files
from slatespark.cli.files.target_columns import TargetColumns, target_columns
from slatespark.cli.key_arguments import key_arrays, key_values
from slatespark.cli.output import (
    EXIT_FAILED,
    asked_progress,
    failing_with,
    progress_bar,
    show_commit,
)
from slatespark.cli.table_arguments import TableArguments, call_with, table_codec, write_arguments
from slatespark.errors import OptionError
from slatespark.options import Call, ReadOptions, WriteOptions
from slatespark.slate_store import SlateStore
from slatespark.table.commit.idempotence import is_committed
from slatespark.table.definition.versions import resolve_codec, resolve_definition
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.progress import Step
from slatespark.table.read.reader import look_up
from slatespark.table.stores import TableStores
from slatespark.table.write.change_options import parse_change
from slatespark.table.write.history_replace import choose_instant
from slatespark.texts import plural


@app.command()
@failing_with(EXIT_FAILED)
def put(
    table: TablePath,
    objects: Annotated[
        list[str] | None,
        typer.Argument(metavar="[OBJECT]...", help="Rows as JSON objects.", show_default=False),
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
    codec = table_codec(arguments.open_stores())
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
    rows = [(number, parse_object(text, f"OBJECT {number}")) for number, text in enumerate(objects, 1)]
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
    if key:
        _delete_key(arguments, key, as_text=as_text, as_json=as_json)
        return
    store = arguments.open_store()
    if by_range:
        version = call_with([arguments.options], store.deleteRange, where, progress=asked_progress(as_json=as_json))
        _show_deletion(version, None, as_json=as_json)
    else:
        _delete_where(store, where or "", arguments.options, as_json=as_json)


def _delete_key(arguments: TableArguments, key: list[str], *, as_text: bool, as_json: bool) -> None:
    """Delete the row of one key; commit nothing if no such row is visible."""
    write = parse_change(Call.DELETE, arguments.common, arguments.options)
    store, stores = arguments.open_store(), arguments.open_stores()
    manifest_id, manifest = fetch_latest_manifest(stores)
    codec = resolve_codec(stores, manifest)
    arrays = key_arrays(key, codec, as_text=as_text)
    if is_committed(stores, write):
        _show_deletion(manifest_id, 0, as_json=as_json)
    elif _is_visible(stores, arguments, write, key_values(arrays)):
        rows = pa.RecordBatch.from_arrays(arrays, names=list(codec.key_columns))
        _show_deletion(
            call_with([arguments.options, {"operation": write.operation}], store.write, rows, progress=False),
            1,
            as_json=as_json,
        )
    elif as_json:
        _show_deletion(manifest_id, 0, as_json=True)
    else:
        typer.echo("There was no row with this key; nothing was deleted.")


def _is_visible(stores: TableStores, arguments: TableArguments, write: WriteOptions, key: list[Any]) -> bool:
    """Tell whether a row with this key is visible at the time of the deletion; its value is not decoded."""
    clock, definition = arguments.clock, resolve_definition(stores)
    instant: Mapping[str, Any] = {} if write.timestamp_ms is None else {"now": write.timestamp_ms}
    if definition.has_history:
        chosen = choose_instant(stores, clock, write)
        if chosen.empty is not None:
            return False
        instant = chosen.read
    named = {"columns": list(definition.codec().key_columns), "mergeOperator": _empty_value, **instant}
    return look_up(stores, key, ReadOptions.parse({**arguments.common, **named}), clock) is not None


def _empty_value(base: bytes | None, operands: list[bytes]) -> bytes:
    """Return a value for any operands: a row with operands is visible whatever they fold to."""
    del base, operands
    return b""


def _delete_where(store: SlateStore, where: str, options: Mapping[str, Any], *, as_json: bool) -> None:
    """Delete rows by a filter."""
    version = call_with([options], store.delete, where, progress=asked_progress(as_json=as_json))
    _show_deletion(version, committed_rows(store, "delete"), as_json=as_json)


def _show_deletion(version: int, rows: int | None, *, as_json: bool) -> None:
    """Print the result of a deletion; `rows` is None if their number is unknown."""
    if as_json:
        typer.echo(json.dumps({"version": version, "deleted": rows}))
    else:
        typer.echo(f"Version {version}." if rows is None else f"Deleted {plural(rows, 'row')}; version {version}.")
