"""The command `dump`."""

from __future__ import annotations

from typing import Annotated

import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import AsJson, AsText
from slatespark.cli.output import EXIT_FAILED, failing_with, json_document
from slatespark.cli.parameter_groups import located_table, taking
from slatespark.cli.table_arguments import TableArguments
from slatespark.display.dump_text import dump_document, dump_text
from slatespark.table.inspection.dump import NEWEST, dump_object


@app.command()
@failing_with(EXIT_FAILED)
@taking(located_table)
def dump(
    table: TableArguments,
    name: Annotated[
        str,
        typer.Argument(
            metavar="OBJECT",
            help="manifest, manifest/5, compactions, compactions/5, wal/5, the id of an SST, or a path in the table.",
        ),
    ] = NEWEST,
    rows: Annotated[
        int, typer.Option(min=0, metavar="ROWS", help="Of an SST or WAL file, show the first row versions too.")
    ] = 0,
    is_whole: Annotated[
        bool, typer.Option("--all", help="Show all entries of long lists; --json always does.")
    ] = False,
    as_text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """Show the contents of one object of a table, and verify them: a manifest, .compactions file, WAL file or SST.

    Without OBJECT, show the newest manifest.
    """
    found = dump_object(table.open_stores(), name, rows=rows)
    if as_json:
        typer.echo(json_document(dump_document(found), as_text=as_text))
    else:
        typer.echo(dump_text(found, as_text=as_text, is_whole=is_whole))
