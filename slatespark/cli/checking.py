"""The command `verify`."""

from __future__ import annotations

from typing import Annotated

import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import AsJson, Storage, TablePath, WalPath, storage_options
from slatespark.cli.output import EXIT_FAILED, EXIT_UNCHECKED, failing_with, json_document, progress_bar
from slatespark.display.verify_text import verify_text
from slatespark.table.clock import SystemClock
from slatespark.table.stores import open_stores
from slatespark.table.verify.run import verify_table


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
