"""Commands that show what an operation touches and costs: `explain read`, `changes`, `compact`, `vacuum`, ..."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, TypeAlias

import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import (
    NEGATIVE_KEYS,
    AsJson,
    AsText,
    ErasureOption,
    MaxBatchBytes,
    MaxBatchRows,
    OptionalKey,
    Storage,
    TablePath,
    Where,
)
from slatespark.cli.commands.absence import KeyFile, KeyRange, ReleaseVersions, choose_keys
from slatespark.cli.commands.compact import CompactionArguments, compaction
from slatespark.cli.commands.read import ChangesKind, Kind, LastVersion, PreImages, feed_options
from slatespark.cli.commands.vacuum import Fences, Force, MinAge, check_min_age
from slatespark.cli.output import EXIT_FAILED, failing_with, json_document
from slatespark.cli.parameter_groups import committed_table, located_table, table_changes, table_rows, taking
from slatespark.cli.table_arguments import ReadArguments, TableArguments, call_with, parse_named, write_arguments
from slatespark.display.explanation_text import explanation_text
from slatespark.options.defaults import MIN_AGE

explain_app = typer.Typer(
    help="Show what a read, change feed, compaction, vacuum, reap or erasure touches and costs, before or as it runs.",
    no_args_is_help=True,
)
app.add_typer(explain_app, name="explain")

Analyze: TypeAlias = Annotated[
    bool, typer.Option("--analyze", help="Run it, and show the measured requests beside the estimated ones.")
]
Price: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--price",
        metavar="NAME=PRICE",
        help="get, put, list or delete: the price of 1,000 requests; read or write: of 10^9 bytes. May be repeated.",
    ),
]


@explain_app.command("read")
@failing_with(EXIT_FAILED)
@taking(table_rows)
def explain_read(
    table: ReadArguments, where: Where = None, analyze: Analyze = False, price: Price = None, as_json: AsJson = False
) -> None:
    """Show which files a read needs, which it skips and why, and what it requests; no rows are printed."""
    arguments = table.located({"filter": where})
    _explain(arguments, "read", arguments.options, analyze=analyze, price=price, as_json=as_json)


@explain_app.command("changes")
@failing_with(EXIT_FAILED)
@taking(table_changes)
def explain_changes(
    table: ReadArguments,
    start: Annotated[
        str, typer.Option("--from", metavar="VERSION|TIME", help="The first version, or ISO-8601 time, of the changes.")
    ],
    end: LastVersion = None,
    kind: Kind = ChangesKind.NET,
    pre_images: PreImages = None,
    where: Where = None,
    analyze: Analyze = False,
    price: Price = None,
    as_json: AsJson = False,
) -> None:
    """Show which files a change feed needs, and what it requests; no changes are printed."""
    arguments = table.located({**feed_options(start, end, kind, pre_images), "filter": where})
    _explain(arguments, "changes", arguments.options, analyze=analyze, price=price, as_json=as_json)


@explain_app.command("compact")
@failing_with(EXIT_FAILED)
@taking(compaction)
def explain_compact(
    chosen: CompactionArguments, analyze: Analyze = False, price: Price = None, as_json: AsJson = False
) -> None:
    """Show what a compaction merges, and what it requests; of several merges the first one."""
    _explain(chosen.table, "compact", chosen.given, analyze=analyze, price=price, as_json=as_json)


@explain_app.command("vacuum")
@failing_with(EXIT_FAILED)
@taking(located_table)
def explain_vacuum(
    table: TableArguments,
    min_age: MinAge = MIN_AGE,
    fences: Fences = False,
    force: Force = False,
    analyze: Analyze = False,
    price: Price = None,
    as_json: AsJson = False,
) -> None:
    """Show what a vacuum deletes and keeps, and what it requests."""
    if analyze:  # otherwise nothing is deleted
        check_min_age(min_age, is_forced=force)
    given = {"minAge": min_age, "fences": fences, "force": force}
    _explain(table, "vacuum", given, analyze=analyze, price=price, as_json=as_json)


@explain_app.command("reap")
@failing_with(EXIT_FAILED)
@taking(committed_table)
def explain_reap(
    table: TableArguments,
    now: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Instant at which retention is evaluated, ISO-8601 or epoch ms.", show_default=False
        ),
    ] = None,
    max_batch_rows: MaxBatchRows = None,
    max_batch_bytes: MaxBatchBytes = None,
    analyze: Analyze = False,
    price: Price = None,
    as_json: AsJson = False,
) -> None:
    """Show which files a reap drops or searches, and what it requests at most."""
    given = {"now": now, "maxBatchRows": max_batch_rows, "maxBatchBytes": max_batch_bytes, **table.options}
    _explain(table, "reap", given, analyze=analyze, price=price, as_json=as_json)


@explain_app.command("erase", context_settings=NEGATIVE_KEYS)
@failing_with(EXIT_FAILED)
def explain_erase(
    table: TablePath,
    key: OptionalKey = None,
    where: KeyRange = None,
    file: KeyFile = None,
    release_versions: ReleaseVersions = False,
    option: ErasureOption = None,
    storage: Storage = None,
    as_text: AsText = False,
    analyze: Analyze = False,
    price: Price = None,
    as_json: AsJson = False,
) -> None:
    """Show which files an erasure rewrites, where copies are, and what it requests at most."""
    arguments = write_arguments(table, {}, option=option, storage=storage)
    chosen, _ = choose_keys(arguments, key, where, file, as_text=as_text)
    given = {**chosen, "releaseVersions": release_versions, **arguments.options}
    _explain(arguments, "erase", given, analyze=analyze, price=price, as_json=as_json)


def _explain(
    table: TableArguments,
    operation: str,
    options: Mapping[str, Any],
    *,
    analyze: bool,
    price: list[str] | None,
    as_json: bool,
) -> None:
    prices = parse_named(price, "--price", "get=0.0004") or None
    found = call_with([options], table.open_store().explain, operation, analyze=analyze, prices=prices)
    if as_json:
        prices_of = {"estimated_cost": found.estimated_cost, "measured_cost": found.measured_cost}
        typer.echo(json_document({**asdict(found), **prices_of}))
    else:
        typer.echo(explanation_text(found))
