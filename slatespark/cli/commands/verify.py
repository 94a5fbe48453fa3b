"""The command `verify`."""

from __future__ import annotations

from typing import Annotated

import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import AsJson
from slatespark.cli.output import EXIT_FAILED, EXIT_UNCHECKED, failing_with, json_document, progress_bar
from slatespark.cli.parameter_groups import located_table, taking
from slatespark.cli.table_arguments import TableArguments
from slatespark.display.verify_text import verify_text
from slatespark.table.progress import Step
from slatespark.table.verify.run import verify_table


@app.command()
@failing_with(EXIT_UNCHECKED)
@taking(located_table)
def verify(
    table: TableArguments,
    all_versions: Annotated[
        bool, typer.Option("--all-versions", help="Check every existing version, not only the newest.")
    ] = False,
    parallelism: Annotated[
        int | None, typer.Option(metavar="N", help="Threads that read and check; by default one per processor.", min=1)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read every byte of a table and list all damage.

    Exit code 0: no damage; 1: damage was found; 2: something could not be checked.
    """
    stores = table.open_stores()
    with progress_bar(Step.CHECKING, as_json=as_json) as progress:
        report = verify_table(
            stores, table.clock, all_versions=all_versions, parallelism=parallelism, progress=progress
        )
    typer.echo(json_document(report) if as_json else verify_text(report))
    if report.has_damage:
        raise typer.Exit(EXIT_FAILED)
    if not report.is_complete:
        raise typer.Exit(EXIT_UNCHECKED)
