"""The `slatespark` command. One function a command: parse, call `slatespark.table`, display."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from slatespark import __version__
from slatespark.cli.arguments import (
    AsJson,
    AsText,
    Checkpoint,
    CountRows,
    IncludeDeleted,
    IncludeExpired,
    MergeOperator,
    Metadata,
    Now,
    Storage,
    TablePath,
    VersionAsOf,
    WalPath,
    key_bytes,
    read_options,
    storage_options,
)
from slatespark.cli.output import EXIT_FAILED, EXIT_UNCHECKED, demo_lines, failing_with, json_document, progress_bar
from slatespark.cli.rows import json_lines, limit_batches, text_lines
from slatespark.display.text import describe_text, files_text, verify_text
from slatespark.options import ReadOptions
from slatespark.table.clock import SystemClock
from slatespark.table.describe import describe_table
from slatespark.table.describe_files import list_files
from slatespark.table.maintenance.verify_run import verify_table
from slatespark.table.read.reader import look_up, plan_read, run_read, run_read_descending
from slatespark.table.slate_store import DESCENDING_SPLIT_BYTES
from slatespark.table.stores import TableStores, open_stores

SMALL_SPLIT_BYTES = 1 << 20  # of a scan that stops after a few rows

app = typer.Typer(
    help="SlateDB databases as tables: look into them, read them, check them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class Versions(StrEnum):
    """Which versions of a row a scan shows."""

    LATEST = "latest"
    ALL = "all"


def main() -> None:
    """Run the command line."""
    app(prog_name="slatespark")


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"slatespark {__version__}")
        raise typer.Exit


@app.callback()
def _every_command(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Take the options that stand before a command."""


def _open(options: ReadOptions) -> TableStores:
    return open_stores(options.path, storage=options.storage, wal_path=options.wal_path)


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(line)


# --- looking --------------------------------------------------------------------------------------------------------


@app.command()
@failing_with(EXIT_FAILED)
def describe(
    table: TablePath,
    version_as_of: VersionAsOf = None,
    checkpoint: Checkpoint = None,
    rows: CountRows = False,
    wal_path: WalPath = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Show what a table is: version, layers, files, WAL, checkpoints."""
    given = {"versionAsOf": version_as_of, "checkpoint": checkpoint, "walPath": wal_path}
    options = read_options(table, given, storage=storage)
    facts = describe_table(_open(options), options, SystemClock(), count_rows=rows)
    typer.echo(json_document(facts) if as_json else describe_text(facts))


@app.command()
@failing_with(EXIT_FAILED)
def files(
    table: TablePath,
    version_as_of: VersionAsOf = None,
    checkpoint: Checkpoint = None,
    rows: CountRows = False,
    wal_path: WalPath = None,
    storage: Storage = None,
    as_text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """List the files of a table, layer by layer, newest first."""
    given = {"versionAsOf": version_as_of, "checkpoint": checkpoint, "walPath": wal_path}
    options = read_options(table, given, storage=storage)
    found = list_files(_open(options), options, SystemClock(), count_rows=rows)
    typer.echo(json_document(found, as_text=as_text) if as_json else files_text(found, as_text=as_text))


# --- reading --------------------------------------------------------------------------------------------------------


@app.command()
@failing_with(EXIT_FAILED)
def scan(
    table: TablePath,
    prefix: Annotated[str | None, typer.Option(metavar="KEY", help="Only keys that start with it.")] = None,
    start: Annotated[str | None, typer.Option(metavar="KEY", help="First key, inclusive.")] = None,
    end: Annotated[str | None, typer.Option(metavar="KEY", help="End of the keys, exclusive.")] = None,
    limit: Annotated[int | None, typer.Option(min=0, metavar="ROWS", help="Stop after so many rows.")] = None,
    desc: Annotated[bool, typer.Option("--desc", help="Highest key first.")] = False,
    versions: Annotated[Versions, typer.Option(help="Show each row's latest version, or all.")] = Versions.LATEST,
    metadata: Metadata = False,
    version_as_of: VersionAsOf = None,
    checkpoint: Checkpoint = None,
    now: Now = None,
    include_expired: IncludeExpired = False,
    include_deleted: IncludeDeleted = False,
    merge_operator: MergeOperator = None,
    wal_path: WalPath = None,
    storage: Storage = None,
    as_text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """Print rows in key order; with --json, one JSON object a line."""
    given: dict[str, Any] = {
        "keyPrefix": prefix and key_bytes(prefix, "--prefix", as_text=as_text),
        "startKey": start and key_bytes(start, "--start", as_text=as_text),
        "endKey": end and key_bytes(end, "--end", as_text=as_text),
        "readVersions": versions.value,
        "metadataColumns": "seq,op,create_ts,expire_ts" if metadata or versions is Versions.ALL else None,
        "versionAsOf": version_as_of,
        "checkpoint": checkpoint,
        "now": now,
        "includeExpired": include_expired,
        "includeDeleted": include_deleted,
        "mergeOperator": merge_operator,
        "walPath": wal_path,
        "splitSize": SMALL_SPLIT_BYTES if limit is not None else DESCENDING_SPLIT_BYTES if desc else None,
    }
    options = read_options(table, given, storage=storage)
    stores = _open(options)
    plan = plan_read(stores, options, SystemClock())
    batches = limit_batches((run_read_descending if desc else run_read)(stores, plan), limit)
    _print_lines((json_lines if as_json else text_lines)(batches, as_text=as_text))


@app.command()
@failing_with(EXIT_FAILED)
def get(
    table: TablePath,
    key: Annotated[str, typer.Argument(metavar="KEY", help="In hexadecimal, or as text with --text.")],
    metadata: Metadata = False,
    version_as_of: VersionAsOf = None,
    checkpoint: Checkpoint = None,
    now: Now = None,
    include_expired: IncludeExpired = False,
    merge_operator: MergeOperator = None,
    wal_path: WalPath = None,
    storage: Storage = None,
    as_text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """Print the row of one key; exit code 1 if there is none."""
    given = {
        "metadataColumns": "seq,op,create_ts,expire_ts" if metadata else None,
        "versionAsOf": version_as_of,
        "checkpoint": checkpoint,
        "now": now,
        "includeExpired": include_expired,
        "mergeOperator": merge_operator,
        "walPath": wal_path,
    }
    options = read_options(table, given, storage=storage)
    found = look_up(_open(options), [key_bytes(key, "KEY", as_text=as_text)], options, SystemClock())
    if found is None:
        if as_json:
            typer.echo("null")
        typer.echo(f"There is no row with the key {key}.", err=True)
        raise typer.Exit(EXIT_FAILED)
    _print_lines((json_lines if as_json else text_lines)([found], as_text=as_text))


# --- checking -------------------------------------------------------------------------------------------------------


@app.command()
@failing_with(EXIT_UNCHECKED)
def verify(
    table: TablePath,
    all_versions: Annotated[
        bool, typer.Option("--all-versions", help="Check every version that exists, not the newest alone.")
    ] = False,
    wal_path: WalPath = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Read every byte of a table and list what is wrong.

    Exit code 0: everything is sound; 1: damage was found; 2: something could not be checked.
    """
    stores = open_stores(table, storage=storage_options(storage), wal_path=wal_path)
    with progress_bar() as progress:
        report = verify_table(stores, SystemClock(), all_versions=all_versions, progress=progress)
    typer.echo(json_document(report) if as_json else verify_text(report))
    if report.has_damage:
        raise typer.Exit(EXIT_FAILED)
    if not report.is_complete:
        raise typer.Exit(EXIT_UNCHECKED)


# --- showing --------------------------------------------------------------------------------------------------------


@app.command()
@failing_with(EXIT_FAILED)
def demo(
    path: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the demo's table goes.")] = Path(
        "slatespark-demo"
    ),
    as_json: AsJson = False,
) -> None:
    """Load a year of flights into a SlateDB database with Spark, step by step, and leave it to explore."""
    from slatespark.spark.demo import run_demo  # here, since it alone starts Spark

    events = run_demo(path)
    if as_json:
        typer.echo(json_document(list(events)))
    else:
        _print_lines(demo_lines(events))
