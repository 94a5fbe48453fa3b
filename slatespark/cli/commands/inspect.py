"""Commands that show facts of a table: `describe`, `files`, `history`, `timeline`, `expiry`."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated

import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import AsJson, AsText, CountRows
from slatespark.cli.output import EXIT_FAILED, failing_with, json_document
from slatespark.cli.parameter_groups import expiry_version, located_table, table_version, taking
from slatespark.cli.table_arguments import TableArguments
from slatespark.display.describe_text import describe_text
from slatespark.display.expiry_text import expiry_text
from slatespark.display.files_text import files_text
from slatespark.display.key_names import KeyNames
from slatespark.display.timeline_text import timeline_text
from slatespark.display.versions_text import versions_text
from slatespark.options import ReadOptions
from slatespark.table.clock import resolve_clock
from slatespark.table.definition.versions import fetch_codec
from slatespark.table.inspection.describe import describe_table
from slatespark.table.inspection.files import list_files
from slatespark.table.inspection.timeline import read_timeline
from slatespark.table.inspection.versions import list_versions
from slatespark.table.retention.expiry_run import report_expiry
from slatespark.table.stores import stores_of


@app.command()
@failing_with(EXIT_FAILED)
@taking(table_version)
def describe(
    options: ReadOptions,
    rows: CountRows = False,
    as_json: AsJson = False,
) -> None:
    """Describe a table: columns, properties, version, layers, files, WAL, checkpoints."""
    facts = describe_table(stores_of(options), options, resolve_clock(options.clock), count_rows=rows)
    typer.echo(json_document(facts) if as_json else describe_text(facts))


@app.command()
@failing_with(EXIT_FAILED)
@taking(table_version)
def files(
    options: ReadOptions,
    rows: CountRows = False,
    as_text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """List the files of a table, layer by layer, newest first."""
    stores = stores_of(options)
    found = list_files(stores, options, resolve_clock(options.clock), count_rows=rows)
    if as_json:
        typer.echo(json_document(found, as_text=as_text))
        return
    codec = fetch_codec(stores)
    names = None if codec.is_raw else KeyNames(codec, (key for file in found for key in (file.start, file.end)))
    typer.echo(files_text(found, as_text=as_text, names=names))


@app.command()
@failing_with(EXIT_FAILED)
@taking(located_table)
def history(
    table: TableArguments,
    limit: Annotated[int, typer.Option(min=1, metavar="VERSIONS", help="Number of versions to list.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List the versions of a table, newest first: time, writer and operation."""
    found = list_versions(table.open_stores(), limit)
    typer.echo(json_document(found) if as_json else versions_text(found))


@app.command()
@failing_with(EXIT_FAILED)
@taking(table_version)
def timeline(
    options: ReadOptions,
    as_text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """Show, for each interval of keys, which files are visible or overshadowed, and since which version."""
    found = read_timeline(stores_of(options), options, resolve_clock(options.clock))
    if as_json:
        facts = {item.name: getattr(found, item.name) for item in fields(found) if item.name != "codec"}
        typer.echo(json_document(facts, as_text=as_text))
        return
    typer.echo(timeline_text(found, as_text=as_text))


@app.command()
@failing_with(EXIT_FAILED)
@taking(expiry_version)
def expiry(
    options: ReadOptions,
    per: Annotated[
        str | None, typer.Option(metavar="PERIOD", help="hour or day; by default the one that suits the data.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show how much of the stored data has expired, and how much expires in each hour or day, or never."""
    report = report_expiry(stores_of(options), options, resolve_clock(options.clock), per=per)
    typer.echo(json_document(report) if as_json else expiry_text(report))
