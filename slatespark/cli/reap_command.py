"""The command `reap`."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import AsJson, CommitOption, Storage
from slatespark.cli.output import EXIT_FAILED, failing_with, json_document, one_line, progress_bar
from slatespark.cli.table_arguments import write_arguments
from slatespark.display.reap_text import reap_text
from slatespark.errors import OptionError
from slatespark.table.upkeep.reaper import Reaper, ReapOutcome
from slatespark.units import parse_duration_ms


@app.command()
@failing_with(EXIT_FAILED)
def reap(
    tables: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE...", help="Locations of the tables: local paths, or fsspec URLs.", show_default=False
        ),
    ],
    once: Annotated[bool, typer.Option("--once", help="Reap each table once and exit; the default.")] = False,
    every: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Keep running, and reap each table when its next row is due, at most once per this time, like 10m.",
            show_default=False,
        ),
    ] = None,
    max_batch_rows: Annotated[
        int | None, typer.Option(metavar="N", help="Maximum number of rows that one commit deletes by tombstones.")
    ] = None,
    max_batch_bytes: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Maximum size that one commit reads and rewrites, like 256m.")
    ] = None,
    option: CommitOption = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Delete the rows that are past their table's retention.

    If one table fails, the others are still reaped. Exit code 0: all tables were reaped; 1: a table failed.
    """
    if once and every is not None:
        raise OptionError("--once and --every are both given.", todo="Give one of them.")
    arguments = write_arguments(tables[0], {}, option=option, storage=storage)
    if "walPath" in arguments.location and len(tables) > 1:
        raise OptionError("walPath applies to one table, but several are given.", todo="Reap them one by one.")
    common: dict[str, Any] = {
        "maxBatchRows": max_batch_rows,
        "maxBatchBytes": max_batch_bytes,
        "options": arguments.options,
        **arguments.location,
    }
    if every is not None:
        _check_interval(every)
        with contextlib.suppress(KeyboardInterrupt):
            reaper = Reaper(tables, minInterval=every, maxInterval=_longest(every), **common)
            reaper.run(listener=lambda outcome: _show_outcome(outcome, as_json=as_json))
        return
    with progress_bar() as progress:
        outcomes = Reaper(tables, progress=progress, **common).runOnce()
    _show_all(outcomes, as_json=as_json)


def _longest(every: str) -> int:
    """Return the maximum interval between two checks of a table: an hour, or the minimum interval if longer."""
    return max(3_600_000, parse_duration_ms(every, name="--every"))


def _check_interval(every: str) -> None:
    if parse_duration_ms(every, name="--every") <= 0:
        raise OptionError(f"--every: {every!r} is not a positive duration.", todo="Give a duration like 10m.")


def _show_all(outcomes: tuple[ReapOutcome, ...], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json_document([_plain(outcome) for outcome in outcomes]))
    else:
        reports = [reap_text(outcome.report) for outcome in outcomes if outcome.report is not None]
        typer.echo("\n\n".join(reports), nl=bool(reports))
    for outcome in outcomes:
        if outcome.error is not None:
            typer.echo(one_line(outcome.error), err=True)
    if any(outcome.error is not None for outcome in outcomes):
        raise typer.Exit(EXIT_FAILED)


def _show_outcome(outcome: ReapOutcome, *, as_json: bool) -> None:
    """Show the outcome for one table: as a line of JSON, or as text if rows were deleted or the reap failed."""
    if as_json:
        typer.echo(json.dumps(_plain(outcome)))
    elif outcome.error is not None:
        typer.echo(one_line(outcome.error), err=True)
    elif outcome.report is not None and outcome.report.passes:
        typer.echo(f"{reap_text(outcome.report)}\n")


def _plain(outcome: ReapOutcome) -> dict[str, Any]:
    """Return an outcome for JSON: the fields of the report, or the error as one line."""
    if outcome.report is None:
        return {"url": outcome.url, "error": None if outcome.error is None else one_line(outcome.error)}
    return {**asdict(outcome.report), "error": None}
