"""The command `compact`."""

from __future__ import annotations

from typing import Annotated

import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import (
    AsJson,
    MergeOperator,
    Storage,
    TablePath,
    WalPath,
    WriteOption,
    open_store,
    write_options,
)
from slatespark.cli.output import EXIT_FAILED, failing_with, json_document, progress_bar
from slatespark.display.compaction_text import compaction_text


@app.command()
@failing_with(EXIT_FAILED)
def compact(
    table: TablePath,
    full: Annotated[bool, typer.Option("--full", help="Merge everything into one run.")] = False,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="CONDITION",
            help="Merge everything in an interval of keys: \"tenant = 'a' AND day < '2026-01-01'\".",
            show_default=False,
        ),
    ] = None,
    l0_only: Annotated[bool, typer.Option("--l0-only", help="Merge the L0 views alone.")] = False,
    due: Annotated[
        bool,
        typer.Option("--due", help="Rewrite files with expiring rows that are older than periodicCompactionInterval."),
    ] = False,
    now: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Instant at which expiry is judged, ISO-8601 or epoch ms.", show_default=False
        ),
    ] = None,
    merge_operator: MergeOperator = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be merged.")] = False,
    option: WriteOption = None,
    wal_path: WalPath = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Merge layers into sorted runs, as the size-tiered scheduler of a SlateDB client would.

    Exit code 0: done, or nothing to do; 1: it failed, and the table is as it was after the last job.
    """
    options = write_options(table, {"mergeOperator": merge_operator}, option)
    store = open_store(table, storage=storage, wal_path=wal_path)
    with progress_bar() as progress:
        report = store.compact(
            full, where, now=now, l0Only=l0_only, due=due, dryRun=dry_run, progress=progress, **options
        )
    typer.echo(json_document(report) if as_json else compaction_text(report))
