"""Commands that show facts of a table: `describe`, `files`, `history`, `timeline`, `expiry`."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated

import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import (
    AsJson,
    AsText,
    CountRows,
    LocationOption,
    Storage,
    TablePath,
    TimestampAsOf,
    VersionAsOf,
    VersionOption,
)
from slatespark.cli.output import EXIT_FAILED, failing_with, json_document
from slatespark.cli.table_arguments import open_table, read_options, table_arguments, table_codec
from slatespark.display.describe_text import describe_text
from slatespark.display.expiry_text import expiry_text
from slatespark.display.files_text import files_text
from slatespark.display.key_names import KeyNames
from slatespark.display.timeline_text import timeline_text
from slatespark.display.versions_text import versions_text
from slatespark.options import ReadOptions
from slatespark.table.clock import SystemClock
from slatespark.table.inspection.describe import describe_table
from slatespark.table.inspection.files import list_files
from slatespark.table.inspection.timeline import read_timeline
from slatespark.table.inspection.versions import list_versions
from slatespark.table.retention.expiry_run import report_expiry


@app.command()
@failing_with(EXIT_FAILED)
def describe(
    table: TablePath,
    rows: CountRows = False,
    version_as_of: VersionAsOf = None,
    timestamp_as_of: TimestampAsOf = None,
    option: VersionOption = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Show the facts of a table: columns, properties, version, layers, files, WAL, checkpoints."""
    options = _version_options(table, version_as_of, timestamp_as_of, option=option, storage=storage)
    facts = describe_table(open_table(options), options, SystemClock(), count_rows=rows)
    typer.echo(json_document(facts) if as_json else describe_text(facts))


@app.command()
@failing_with(EXIT_FAILED)
def files(
    table: TablePath,
    rows: CountRows = False,
    version_as_of: VersionAsOf = None,
    timestamp_as_of: TimestampAsOf = None,
    option: VersionOption = None,
    storage: Storage = None,
    as_text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """List the files of a table, layer by layer, newest first."""
    options = _version_options(table, version_as_of, timestamp_as_of, option=option, storage=storage)
    stores = open_table(options)
    found = list_files(stores, options, SystemClock(), count_rows=rows)
    if as_json:
        typer.echo(json_document(found, as_text=as_text))
        return
    codec = table_codec(stores)
    names = None if codec.is_raw else KeyNames(codec, (key for file in found for key in (file.start, file.end)))
    typer.echo(files_text(found, as_text=as_text, names=names))


@app.command()
@failing_with(EXIT_FAILED)
def history(
    table: TablePath,
    limit: Annotated[int, typer.Option(min=1, metavar="VERSIONS", help="Number of versions to list.")] = 20,
    option: LocationOption = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """List the versions of a table, newest first: time, writer and operation."""
    stores = table_arguments(table, option=option, storage=storage).open_stores()
    found = list_versions(stores, limit)
    typer.echo(json_document(found) if as_json else versions_text(found))


@app.command()
@failing_with(EXIT_FAILED)
def timeline(
    table: TablePath,
    version_as_of: VersionAsOf = None,
    timestamp_as_of: TimestampAsOf = None,
    option: VersionOption = None,
    storage: Storage = None,
    as_text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """Show, for each interval of keys, which files are visible or overshadowed, and since which version."""
    options = _version_options(table, version_as_of, timestamp_as_of, option=option, storage=storage)
    found = read_timeline(open_table(options), options, SystemClock())
    if as_json:
        facts = {item.name: getattr(found, item.name) for item in fields(found) if item.name != "codec"}
        typer.echo(json_document(facts, as_text=as_text))
        return
    typer.echo(timeline_text(found))


@app.command()
@failing_with(EXIT_FAILED)
def expiry(
    table: TablePath,
    per: Annotated[
        str | None, typer.Option(metavar="PERIOD", help="hour or day; by default the one that suits the data.")
    ] = None,
    version_as_of: VersionAsOf = None,
    timestamp_as_of: TimestampAsOf = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="NAME=VALUE",
            help="Another read option: now, the instant at which expiry is judged; checkpoint, walPath. "
            "May be repeated.",
        ),
    ] = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Show how much of the stored data expires when: by hour or day, already expired, never."""
    options = _version_options(table, version_as_of, timestamp_as_of, option=option, storage=storage)
    report = report_expiry(open_table(options), options, SystemClock(), per=per)
    typer.echo(json_document(report) if as_json else expiry_text(report))


def _version_options(
    table: str,
    version_as_of: int | None,
    timestamp_as_of: str | None,
    *,
    option: list[str] | None,
    storage: list[str] | None,
) -> ReadOptions:
    """Return the read options that select a version."""
    named = {"versionAsOf": version_as_of, "timestampAsOf": timestamp_as_of}
    return read_options(table, named, option=option, storage=storage)
