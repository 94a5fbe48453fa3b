"""The command `vacuum`."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import AsJson
from slatespark.cli.output import EXIT_FAILED, failing_with, json_document, progress_bar
from slatespark.cli.parameter_groups import located_table, taking
from slatespark.cli.table_arguments import TableArguments
from slatespark.display.vacuum_text import vacuum_text
from slatespark.options.defaults import MIN_AGE
from slatespark.options.values import parse_min_age
from slatespark.table.gc.run import vacuum_table
from slatespark.table.progress import Step

MinAge: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="DURATION",
        help="Keep younger objects, and every version that was the newest at some point within this time.",
    ),
]
Fences: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--fences", help="Delete WAL fences too; they stop fenced writers that have not noticed the fence yet."
    ),
]
Force: TypeAlias = Annotated[
    bool, typer.Option("--force", help="Allow a --min-age below an hour; running jobs may lose files they need.")
]


@app.command()
@failing_with(EXIT_FAILED)
@taking(located_table)
def vacuum(
    table: TableArguments,
    min_age: MinAge = MIN_AGE,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show which objects would be deleted, and why.")
    ] = False,
    show_all: Annotated[bool, typer.Option("--all", help="List the kept objects too, and why they are kept.")] = False,
    fences: Fences = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Delete unreferenced objects, including leftovers of failed table creation.

    Exit code 0: done; 1: failed; all objects deleted before the failure were unreferenced.
    """
    stores = table.open_stores()
    min_age_ms = check_min_age(min_age, is_forced=force or dry_run)
    with progress_bar(Step.DELETING, as_json=as_json) as progress:
        report = vacuum_table(
            stores, table.clock, min_age_ms=min_age_ms, dry_run=dry_run, fences=fences, progress=progress
        )
    typer.echo(json_document(report) if as_json else vacuum_text(report, with_kept=show_all))


def check_min_age(min_age: str, *, is_forced: bool) -> int:
    """Return `--min-age` in ms; raises `OptionError` if it is below an hour and not forced."""
    return parse_min_age(min_age, is_forced=is_forced, force="Give --force")
