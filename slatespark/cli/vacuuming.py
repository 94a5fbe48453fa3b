"""The command `vacuum`."""

from __future__ import annotations

from typing import Annotated

import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import AsJson, Storage, TablePath, WalPath, storage_options
from slatespark.cli.output import EXIT_FAILED, failing_with, json_document, progress_bar
from slatespark.display.vacuum_text import vacuum_text
from slatespark.table.clock import SystemClock
from slatespark.table.gc.run import vacuum_table
from slatespark.table.stores import open_stores
from slatespark.units import parse_duration_ms


@app.command()
@failing_with(EXIT_FAILED)
def vacuum(
    table: TablePath,
    min_age: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="Nothing younger goes, and every version stays that was the newest one at some moment since.",
        ),
    ] = "24h",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would go, and why.")] = False,
    show_all: Annotated[bool, typer.Option("--all", help="Show what stays, too, and why.")] = False,
    fences: Annotated[
        bool,
        typer.Option("--fences", help="Take WAL fences, too; they stop writers that were shut out and do not know it."),
    ] = False,
    wal_path: WalPath = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Delete the objects that nobody needs any more, also what a job left that began to create a table.

    Exit code 0: done; 1: it failed, and whatever was deleted until then was needed by nobody.
    """
    stores = open_stores(table, storage=storage_options(storage), wal_path=wal_path)
    min_age_ms = parse_duration_ms(min_age, name="--min-age")
    with progress_bar() as progress:
        report = vacuum_table(
            stores, SystemClock(), min_age_ms=min_age_ms, dry_run=dry_run, fences=fences, progress=progress
        )
    typer.echo(json_document(report) if as_json else vacuum_text(report, with_kept=show_all))
