"""Commands that look at a table as a whole: `describe`, `files`, `history`, `timeline`, `expiry`."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated

import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import (
    AsJson,
    AsText,
    Checkpoint,
    CountRows,
    Now,
    SeqAsOf,
    Storage,
    TablePath,
    TimestampAsOf,
    VersionAsOf,
    WalPath,
    open_table,
    read_options,
    storage_options,
    table_codec,
)
from slatespark.cli.output import EXIT_FAILED, failing_with, json_document
from slatespark.display.describe_text import describe_text
from slatespark.display.expiry_text import expiry_text
from slatespark.display.files_text import files_text
from slatespark.display.key_names import KeyNames
from slatespark.display.timeline_text import timeline_text
from slatespark.display.versions_text import versions_text
from slatespark.table.clock import SystemClock
from slatespark.table.read.describe import describe_table
from slatespark.table.read.files import list_files
from slatespark.table.read.history.key_timeline import read_timeline
from slatespark.table.read.history.timeline import list_versions
from slatespark.table.retention.expiry_run import report_expiry
from slatespark.table.stores import open_stores


@app.command()
@failing_with(EXIT_FAILED)
def describe(
    table: TablePath,
    version_as_of: VersionAsOf = None,
    timestamp_as_of: TimestampAsOf = None,
    seq_as_of: SeqAsOf = None,
    checkpoint: Checkpoint = None,
    rows: CountRows = False,
    wal_path: WalPath = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Show what a table is: columns, properties, version, layers, files, WAL, checkpoints."""
    given = {
        "versionAsOf": version_as_of,
        "timestampAsOf": timestamp_as_of,
        "seqAsOf": seq_as_of,
        "checkpoint": checkpoint,
        "walPath": wal_path,
    }
    options = read_options(table, given, storage=storage)
    facts = describe_table(open_table(options), options, SystemClock(), count_rows=rows)
    typer.echo(json_document(facts) if as_json else describe_text(facts))


@app.command()
@failing_with(EXIT_FAILED)
def files(
    table: TablePath,
    version_as_of: VersionAsOf = None,
    timestamp_as_of: TimestampAsOf = None,
    seq_as_of: SeqAsOf = None,
    checkpoint: Checkpoint = None,
    rows: CountRows = False,
    wal_path: WalPath = None,
    storage: Storage = None,
    as_text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """List the files of a table, layer by layer, newest first."""
    given = {
        "versionAsOf": version_as_of,
        "timestampAsOf": timestamp_as_of,
        "seqAsOf": seq_as_of,
        "checkpoint": checkpoint,
        "walPath": wal_path,
    }
    options = read_options(table, given, storage=storage)
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
    limit: Annotated[int, typer.Option(min=1, metavar="VERSIONS", help="How many versions to list.")] = 20,
    wal_path: WalPath = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """List the versions of a table, newest first: when, by whom, and what was done."""
    found = list_versions(open_stores(table, storage=storage_options(storage), wal_path=wal_path), limit)
    typer.echo(json_document(found) if as_json else versions_text(found))


@app.command()
@failing_with(EXIT_FAILED)
def timeline(
    table: TablePath,
    version_as_of: VersionAsOf = None,
    timestamp_as_of: TimestampAsOf = None,
    checkpoint: Checkpoint = None,
    wal_path: WalPath = None,
    storage: Storage = None,
    as_text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """Show along the keys which files are visible, which are overshadowed, and since which version."""
    given = {
        "versionAsOf": version_as_of,
        "timestampAsOf": timestamp_as_of,
        "checkpoint": checkpoint,
        "walPath": wal_path,
    }
    options = read_options(table, given, storage=storage)
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
    per: Annotated[str | None, typer.Option(metavar="PERIOD", help="hour or day; by default what suits.")] = None,
    version_as_of: VersionAsOf = None,
    timestamp_as_of: TimestampAsOf = None,
    checkpoint: Checkpoint = None,
    now: Now = None,
    wal_path: WalPath = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Show how much expires when, of all that is stored: by hour or day, expired already, never."""
    given = {
        "versionAsOf": version_as_of,
        "timestampAsOf": timestamp_as_of,
        "checkpoint": checkpoint,
        "now": now,
        "walPath": wal_path,
    }
    options = read_options(table, given, storage=storage)
    report = report_expiry(open_table(options), options, SystemClock(), per=per)
    typer.echo(json_document(report) if as_json else expiry_text(report))
