"""Commands that transfer many rows: `import`, `export`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import AsJson, AsText, MergeSchema, Storage, TablePath, Where, WriteOption
from slatespark.cli.column_types import column_types, refuse_unknown_types
from slatespark.cli.files.file_formats import FileFormat, format_of
from slatespark.cli.files.read_files import CountedRows, read_files
from slatespark.cli.files.target_columns import TargetColumns, target_columns
from slatespark.cli.files.write_files import write_file
from slatespark.cli.output import EXIT_FAILED, failing_with, progress_bar, show_commit, show_result
from slatespark.cli.parameter_groups import table_rows, taking
from slatespark.cli.signals import ending_at_sigterm
from slatespark.cli.table_arguments import (
    ReadArguments,
    TableArguments,
    call_with,
    write_arguments,
)
from slatespark.encoding.row_codec import RAW_CODEC
from slatespark.errors import OptionError, TableNotFoundError
from slatespark.options import WriteOptions
from slatespark.slate_store import SlateStore
from slatespark.table.clock import resolve_clock
from slatespark.table.definition.columns import resolve_op_column
from slatespark.table.definition.plan import plan_definition
from slatespark.table.definition.table_definition import NO_DEFINITION
from slatespark.table.definition.versions import fetch_codec
from slatespark.table.progress import Progress, Step
from slatespark.table.read.reader import PARALLEL_SPLIT_BYTES, ReadPlan, fetch_read_plan, numbered_batches
from slatespark.table.rows.encoder_plan import lasting_columns
from slatespark.table.stores import TableStores, stores_of
from slatespark.table.tasks import scan_threads
from slatespark.table.write.load_plan import plan_rows
from slatespark.texts import plural
from slatespark.units import bytes_to_text

Format = Annotated[
    FileFormat | None, typer.Option("--format", help="Format of the files; by default that of their suffix.")
]


@app.command(name="import")
@failing_with(EXIT_FAILED)
def import_rows(
    table: TablePath,
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="Files with the same columns; - is standard input.")
    ],
    file_format: Format = None,
    key_columns: Annotated[
        str | None, typer.Option(metavar="A,B", help="Create a typed table with this key if there is no table.")
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="COLUMN=TYPE", help="SQL type of a column, if not inferred; may be repeated."),
    ] = None,
    null: Annotated[
        str | None, typer.Option(metavar="TEXT", help="CSV: text that means null, besides an empty field.")
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option(metavar="CHARACTER", help="CSV: what separates fields instead of a comma; \\t is a tab."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace all rows of the table.")] = False,
    merge_schema: MergeSchema = False,
    parallelism: Annotated[
        int | None,
        typer.Option(metavar="N", help="Threads that sort and write; by default one per processor, up to two.", min=1),
    ] = None,
    option: WriteOption = None,
    storage: Storage = None,
    as_text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """Write the rows of Parquet, CSV or JSON lines files to a table in one commit; creates the table if needed.

    Options of a new table, such as keyFormat, valueFormat and defaultTtl, are given with --option.
    """
    named = {"keyColumns": key_columns, "mergeSchema": merge_schema or None}
    arguments = write_arguments(table, named, option=option, storage=storage)
    file_format = format_of(files[0], file_format)
    typed = column_types(types)
    _refuse_ignored(file_format, typed, {"--null": null, "--delimiter": delimiter})
    target = _import_columns(arguments, typed)
    target = replace(target, adds_columns=merge_schema, as_text=as_text, null_text=null)
    if delimiter is not None:
        target = replace(target, delimiter=_delimiter(delimiter))
    # While Arrow waits for more of a CSV stream, no Python code could run at a signal, which then ends the process.
    may_stall = file_format is FileFormat.CSV and not all(Path(file).is_file() for file in files)
    with (
        ending_at_sigterm() if may_stall else contextlib.nullcontext(),
        progress_bar(Step.IMPORTING, as_json=as_json) as progress,
        read_files(files, file_format, target, progress) as given,
    ):
        refuse_unknown_types(typed, given.schema.names)
        rows = CountedRows(given)
        reader = rows.reader()
        store, options = _open_or_create(arguments, reader.schema, overwrite=overwrite)
        mode = "overwrite" if overwrite else "append"
        version = call_with([options], store.write, reader, mode=mode, parallelism=parallelism, progress=False)
    show_commit(version, rows.count, as_json=as_json)


def _refuse_ignored(file_format: FileFormat, types: Mapping[str, pa.DataType], of_csv: Mapping[str, object]) -> None:
    """Refuse options that a format would ignore."""
    for name, value in of_csv.items():
        if value is not None and file_format is not FileFormat.CSV:
            raise OptionError(f"{name} is for CSV, and this is {file_format.upper()}.", todo="Leave it out.")
    if types and file_format is FileFormat.PARQUET:
        raise OptionError("--type is for CSV and JSON: a Parquet file has types.", todo="Leave it out.")


def _delimiter(given: str) -> str:
    """Return the character between fields; raises `OptionError` for text that cannot be one."""
    found = "\t" if given == "\\t" else given
    if len(found) != 1 or not found.isascii() or found.isalnum() or found in '"\r\n\0':
        raise OptionError(
            f"--delimiter: {given!r} is not valid.", todo=r"Give one character, such as ; or \t for a tab."
        )
    return found


def _import_columns(arguments: TableArguments, types: dict[str, pa.DataType]) -> TargetColumns:
    """Return the columns of the table, or those known before there is a table."""
    try:
        codec, is_new = fetch_codec(arguments.open_stores()), False
    except TableNotFoundError:
        keys = WriteOptions.parse({**arguments.common, **arguments.options}).key_columns
        if keys is not None:
            return TargetColumns(None, types, frozenset(map(str.lower, keys)), is_new=True)
        codec, is_new = RAW_CODEC, True
    target = target_columns(codec, arguments.options, adds_columns=False, as_text=False)
    return replace(target, types={**types, **target.types}, is_new=is_new)


def _open_or_create(
    arguments: TableArguments, schema: pa.Schema, *, overwrite: bool
) -> tuple[SlateStore, dict[str, Any]]:
    """Return the table, created if there is none, and the remaining options of the write.

    What the write would refuse is refused before: it would leave an empty table behind.
    """
    try:
        return arguments.open_store(), dict(arguments.options)
    except TableNotFoundError:
        parsed = WriteOptions.parse({**arguments.common, **arguments.options})
        if parsed.cooperates:
            raise
    lasting = lasting_columns(schema, parsed, NO_DEFINITION)
    definition = plan_definition(NO_DEFINITION, lasting, parsed, is_new=True)
    # The write finds the table that is created here.
    plan_rows(arguments.open_stores(), schema, parsed, definition, overwrite=overwrite, is_new=False)
    given: dict[str, Any] = dict(parsed.properties)
    if parsed.key_columns is not None:
        op_column = resolve_op_column(schema, parsed)
        given["schema"] = pa.schema([item for item in lasting if item.name != op_column])
        given["keyColumns"] = list(parsed.key_columns)
        formats = {"keyFormat": parsed.key_format, "valueFormat": parsed.value_format}
        given.update({name: value for name, value in formats.items() if value is not None})
    settled = (*parsed.properties, "ifExists")
    options = {name: value for name, value in arguments.options.items() if name not in settled}
    return arguments.create_store(given), options


@app.command()
@failing_with(EXIT_FAILED)
@taking(table_rows)
def export(
    table: ReadArguments,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to write.", show_default=False)],
    file_format: Format = None,
    where: Where = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    parallelism: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Threads that read; by default one per processor, or two on a remote store.", min=1
        ),
    ] = None,
    as_text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """Write the rows of a table, in key order, to a Parquet, CSV or JSON lines file."""
    file_format = format_of(file, file_format)
    stores = stores_of(table.options({}))
    threads = scan_threads(parallelism, is_remote=stores.main.is_remote)
    options = table.options({"filter": where}, defaults={"splitSize": PARALLEL_SPLIT_BYTES if threads > 1 else None})
    plan = fetch_read_plan(stores, options, resolve_clock(options.clock))
    with progress_bar(Step.EXPORTING, as_json=as_json) as progress:
        batches = scanned(stores, plan, progress, threads=threads)
        rows = write_file(file, file_format, batches, plan.schema, as_text=as_text, overwrite=overwrite)
    stored_bytes = Path(file).stat().st_size
    facts = {"version": plan.manifest_id, "rows": rows, "file": file, "bytes": stored_bytes}
    text = f"Wrote {plural(rows, 'row')} of version {plan.manifest_id}, {bytes_to_text(stored_bytes)}."
    show_result(facts, text, as_json=as_json)


def scanned(
    stores: TableStores, plan: ReadPlan, progress: Progress | None, *, threads: int = 1
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a plan; report progress in stored bytes with each split."""
    files = {part.file for split in plan.splits for layer in split.layers for part in layer.slices}
    total, reached = sum(file.data_bytes for file in files), -1
    for number, batch in numbered_batches(stores, plan, plan.splits, threads=threads):
        if progress is not None and number != reached:
            progress(Step.EXPORTING, total * number // len(plan.splits), total)
            reached = number
        yield batch
