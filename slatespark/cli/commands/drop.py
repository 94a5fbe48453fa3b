"""The command `drop`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import AsJson
from slatespark.cli.output import EXIT_FAILED, failing_with, json_document, progress_bar
from slatespark.cli.parameter_groups import located_table, taking
from slatespark.cli.table_arguments import TableArguments
from slatespark.display.drop_text import drop_text
from slatespark.errors import OptionError
from slatespark.table.gc.drop import drop_table, refuse_blocked
from slatespark.table.gc.drop_plan import DropReport
from slatespark.table.progress import Step


@app.command()
@failing_with(EXIT_FAILED)
@taking(located_table)
def drop(
    table: TableArguments,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be deleted, and who may still need it.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Continue although checkpoints, jobs or a client may need the table; never where a clone may.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Delete a table for good, with all of its objects and nothing else. Asks first."""
    stores, clock = table.open_stores(), table.clock
    if not (dry_run or yes):
        plan = drop_table(stores, clock, force=force, dry_run=True)
        refuse_blocked(plan, force=force)
        _ask(plan)
    with progress_bar(Step.DELETING, as_json=as_json) as progress:
        report = drop_table(stores, clock, force=force, dry_run=dry_run, progress=progress)
    typer.echo(json_document(report) if as_json else drop_text(report))


def _ask(plan: DropReport) -> None:
    """Show what would be deleted, and ask; raises `OptionError` where nobody can answer."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise OptionError(
            "drop asks before it deletes a table, and standard input is not a terminal.",
            todo="Give --yes, or --dry-run to see what it deletes.",
        )
    typer.echo(drop_text(plan), err=True)
    typer.confirm("Delete it for good?", abort=True, err=True)
