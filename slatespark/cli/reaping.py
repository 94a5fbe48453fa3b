"""The command `reap`."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import AsJson, Storage, WalPath, WriteOption, store_arguments, write_options
from slatespark.cli.output import EXIT_FAILED, failing_with, json_document, one_line, progress_bar
from slatespark.display.reap_text import reap_text
from slatespark.errors import OptionError
from slatespark.table.retention.reaper import Reaper, ReapOutcome
from slatespark.units import parse_duration_ms


@app.command()
@failing_with(EXIT_FAILED)
def reap(
    tables: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE...", help="Where the tables are: local paths, or fsspec URLs.", show_default=False
        ),
    ],
    once: Annotated[bool, typer.Option("--once", help="Go through the tables once and end; the default.")] = False,
    every: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Stay, and reap each table when its next row is due, but not more often than this, like 10m.",
            show_default=False,
        ),
    ] = None,
    max_batch_rows: Annotated[
        int | None, typer.Option(metavar="N", help="Rows that one commit puts under tombstones, at most.")
    ] = None,
    max_batch_bytes: Annotated[
        str | None, typer.Option(metavar="SIZE", help="What one commit reads and rewrites, at most, like 256m.")
    ] = None,
    option: WriteOption = None,
    wal_path: WalPath = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Delete the rows that are past their table's retention.

    A table that fails does not stop the others. Exit code 0: all went well; 1: a table failed.
    """
    if once and every is not None:
        raise OptionError("--once and --every are both given.", todo="Give one of them.")
    if wal_path is not None and len(tables) > 1:
        raise OptionError("--wal-path is of one table, and several are given.", todo="Reap them one by one.")
    common: dict[str, Any] = {
        "maxBatchRows": max_batch_rows,
        "maxBatchBytes": max_batch_bytes,
        "options": write_options(tables[0], {}, option),
        **store_arguments(storage, wal_path),
    }
    if every is not None:
        _check_interval(every)
        with contextlib.suppress(KeyboardInterrupt):
            reaper = Reaper(tables, minInterval=every, maxInterval=_longest(every), **common)
            reaper.run(listener=lambda outcome: _show_passing(outcome, as_json=as_json))
        return
    with progress_bar() as progress:
        outcomes = Reaper(tables, progress=progress, **common).runOnce()
    _show_all(outcomes, as_json=as_json)


def _longest(every: str) -> int:
    """Return the longest interval between two looks at a table: an hour, or the shortest one if that is longer."""
    return max(3_600_000, parse_duration_ms(every, name="--every"))


def _check_interval(every: str) -> None:
    if parse_duration_ms(every, name="--every") <= 0:
        raise OptionError(f"--every: {every!r} is not acceptable.", todo="Give a duration like 10m.")


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


def _show_passing(outcome: ReapOutcome, *, as_json: bool) -> None:
    """Show what came of one look: a line of JSON; for people only what went, or failed."""
    if as_json:
        typer.echo(json.dumps(_plain(outcome)))
    elif outcome.error is not None:
        typer.echo(one_line(outcome.error), err=True)
    elif outcome.report is not None and outcome.report.passes:
        typer.echo(f"{reap_text(outcome.report)}\n")


def _plain(outcome: ReapOutcome) -> dict[str, Any]:
    """Return an outcome as JSON has it: the fields of the report, or the error as one line."""
    if outcome.report is None:
        return {"url": outcome.url, "error": None if outcome.error is None else one_line(outcome.error)}
    return {**asdict(outcome.report), "error": None}
