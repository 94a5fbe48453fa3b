"""The command `prove-absent`."""

from __future__ import annotations

from typing import Annotated

import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import NEGATIVE_KEYS, AsJson, AsText, OptionalKey, Storage, TablePath
from slatespark.cli.key_arguments import key_arrays, key_values
from slatespark.cli.output import EXIT_FAILED, EXIT_UNCHECKED, failing_with, json_document
from slatespark.cli.table_arguments import table_codec, write_arguments
from slatespark.display.absence_text import absence_text
from slatespark.display.key_names import KeyNames


@app.command("prove-absent", context_settings=NEGATIVE_KEYS)
@failing_with(EXIT_UNCHECKED)
def prove_absent(
    table: TablePath,
    key: OptionalKey = None,
    where: Annotated[
        str | None,
        typer.Option(metavar="FILTER", help="Instead of a key: conditions on leading key columns.", show_default=False),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="NAME=VALUE",
            help="startKey, endKey or keyPrefix instead of the key of a raw table; walPath. May be repeated.",
        ),
    ] = None,
    storage: Storage = None,
    as_text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """Search every object of a table for rows of a key, or of a key range, and list where they are still stored.

    Exit code 0: they are gone; 1: some are stored; 2: something could not be searched.
    """
    arguments = write_arguments(table, {}, option=option, storage=storage)
    codec = table_codec(arguments.open_stores())
    values = key_values(key_arrays(key, codec, as_text=as_text)) if key else []
    report = arguments.open_store().proveAbsent(*values, where=where, **arguments.options)
    if as_json:
        typer.echo(json_document(report, as_text=as_text))
    else:
        typer.echo(absence_text(report, KeyNames(codec, [place.first_key for place in report.found])))
    if not report.gone:
        raise typer.Exit(EXIT_FAILED if report.found else EXIT_UNCHECKED)
