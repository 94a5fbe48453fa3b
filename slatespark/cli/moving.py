"""Commands that move many rows: `import`, `export`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import (
    AsJson,
    AsText,
    Checkpoint,
    Columns,
    IgnoreUndecodable,
    IncludeExpired,
    MergeOperator,
    MergeSchema,
    Now,
    SeqAsOf,
    Storage,
    TablePath,
    TimestampAsOf,
    VersionAsOf,
    WalPath,
    Where,
    WriteOption,
    column_types,
    open_store,
    open_table,
    read_options,
    storage_options,
    store_arguments,
    table_codec,
    write_options,
)
from slatespark.cli.changing import wanted_columns
from slatespark.cli.file_formats import FileFormat, format_of
from slatespark.cli.output import EXIT_FAILED, failing_with, progress_bar, show_commit
from slatespark.cli.read_files import CountedRows, read_files
from slatespark.cli.wanted import Wanted
from slatespark.cli.write_files import write_file
from slatespark.display.text import plural
from slatespark.encoding.row_codec import RAW_CODEC
from slatespark.errors import TableNotFoundError
from slatespark.options import WriteOptions
from slatespark.table.clock import SystemClock
from slatespark.table.read.materialise import Tally
from slatespark.table.read.reader import ReadPlan, plan_read
from slatespark.table.read.scan import scan_split
from slatespark.table.slate_store import SlateStore
from slatespark.table.stores import TableStores, open_stores
from slatespark.table.verify.files import ProgressListener
from slatespark.units import bytes_to_text

Format = Annotated[
    FileFormat | None, typer.Option("--format", help="Format of the files, if not as their suffix says.")
]


@app.command(name="import")
@failing_with(EXIT_FAILED)
def import_rows(
    table: TablePath,
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Files with the same columns; - is stdin.")],
    file_format: Format = None,
    key_columns: Annotated[
        str | None, typer.Option(metavar="A,B", help="Creates a typed table with this key, if there is none.")
    ] = None,
    key_format: Annotated[str | None, typer.Option(metavar="NAME", help="At creation: tuple, utf8 or raw.")] = None,
    value_format: Annotated[
        str | None, typer.Option(metavar="NAME", help="At creation: avro, json, utf8 or raw.")
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="COLUMN=TYPE", help="SQL type of a column, if not guessed; may be repeated."),
    ] = None,
    null: Annotated[
        str | None, typer.Option(metavar="TEXT", help="CSV: what stands for null, besides nothing.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace all rows of the table.")] = False,
    merge_schema: MergeSchema = False,
    option: WriteOption = None,
    wal_path: WalPath = None,
    storage: Storage = None,
    as_text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """Write the rows of Parquet, CSV or JSON lines files into a table, in one commit; creates the table if needed."""
    named = {
        "keyColumns": key_columns,
        "keyFormat": key_format,
        "valueFormat": value_format,
        "mergeSchema": merge_schema or None,
    }
    options = write_options(table, named, option)
    file_format = format_of(files[0], file_format)
    wanted = _wanted(table, options, column_types(types), storage=storage, wal_path=wal_path)
    wanted = replace(wanted, adds_columns=merge_schema, as_text=as_text, null_text=null)
    with progress_bar() as progress, read_files(files, file_format, wanted, progress) as given:
        rows = CountedRows(given)
        reader = rows.reader()
        store, options = _store(table, reader.schema, options, storage=storage, wal_path=wal_path)
        version = store.write(reader, mode="overwrite" if overwrite else "append", **options)
    show_commit(version, rows.count, as_json=as_json)


def _wanted(
    table: str,
    options: dict[str, Any],
    types: dict[str, pa.DataType],
    *,
    storage: list[str] | None,
    wal_path: str | None,
) -> Wanted:
    """Return the columns of the table, or what is known of them before it is there."""
    try:
        codec = table_codec(open_stores(table, storage=storage_options(storage), wal_path=wal_path))
    except TableNotFoundError:
        return Wanted(None if "keyColumns" in options else RAW_CODEC.schema, types)
    wanted = wanted_columns(codec, options, adds_columns=False, as_text=False)
    return replace(wanted, types={**types, **wanted.types})


def _store(
    table: str, schema: pa.Schema, options: dict[str, Any], *, storage: list[str] | None, wal_path: str | None
) -> tuple[SlateStore, dict[str, Any]]:
    """Return the table, created where there is none, and the options of the write."""
    try:
        return open_store(table, storage=storage, wal_path=wal_path), options
    except TableNotFoundError:
        parsed = WriteOptions.parse({"path": table, **options})
    given: dict[str, Any] = {**parsed.properties, **store_arguments(storage, wal_path)}
    if parsed.key_columns is not None:
        named = (parsed.op_column, parsed.ttl_column, parsed.expire_at_column)  # not stored
        passing = {name.lower() for name in named if name is not None}
        given["schema"] = pa.schema([item for item in schema if item.name.lower() not in passing])
        given["keyColumns"] = list(parsed.key_columns)
        formats = {"keyFormat": parsed.key_format, "valueFormat": parsed.value_format}
        given.update({name: value for name, value in formats.items() if value is not None})
    store = SlateStore.create(table, **given)
    return store, {name: value for name, value in options.items() if name not in parsed.properties}


@app.command()
@failing_with(EXIT_FAILED)
def export(
    table: TablePath,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where the rows go.", show_default=False)],
    file_format: Format = None,
    columns: Columns = None,
    where: Where = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
    version_as_of: VersionAsOf = None,
    timestamp_as_of: TimestampAsOf = None,
    seq_as_of: SeqAsOf = None,
    checkpoint: Checkpoint = None,
    now: Now = None,
    include_expired: IncludeExpired = False,
    ignore_undecodable: IgnoreUndecodable = False,
    merge_operator: MergeOperator = None,
    wal_path: WalPath = None,
    storage: Storage = None,
    as_text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """Write the rows of a table, in key order, to a Parquet, CSV or JSON lines file."""
    given = {
        "columns": columns,
        "filter": where,
        "versionAsOf": version_as_of,
        "timestampAsOf": timestamp_as_of,
        "seqAsOf": seq_as_of,
        "checkpoint": checkpoint,
        "now": now,
        "includeExpired": include_expired,
        "ignoreUndecodable": ignore_undecodable,
        "mergeOperator": merge_operator,
        "walPath": wal_path,
    }
    options = read_options(table, given, storage=storage)
    file_format = format_of(file, file_format)
    stores = open_table(options)
    plan = plan_read(stores, options, SystemClock())
    with progress_bar() as progress:
        batches = scanned(stores, plan, progress)
        rows = write_file(file, file_format, batches, plan.schema, as_text=as_text, overwrite=overwrite)
    stored_bytes = Path(file).stat().st_size
    if as_json:
        typer.echo(json.dumps({"version": plan.manifest_id, "rows": rows, "file": file, "bytes": stored_bytes}))
    else:
        typer.echo(f"Wrote {plural(rows, 'row')} of version {plan.manifest_id}, {bytes_to_text(stored_bytes)}.")


def scanned(stores: TableStores, plan: ReadPlan, progress: ProgressListener | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a plan, telling after each split how much of the stored bytes is done."""
    files = {part.file for split in plan.splits for layer in split.layers for part in layer.slices}
    total = sum(file.data_bytes for file in files)
    tally = Tally()
    try:
        for done, split in enumerate(plan.splits):
            if progress is not None:
                progress("export", total * done // len(plan.splits), total)
            yield from scan_split(stores, split, plan.settings, tally)
    finally:
        tally.warn(stores.url)
