"""The command `upkeep`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import AsJson, CommitOption, MaxBatchBytes, MaxBatchRows, Storage
from slatespark.cli.outcomes import Outcomes, intervals_of, refuse_shared_wal
from slatespark.cli.output import EXIT_FAILED, failing_with
from slatespark.cli.signals import stopped_by_signals
from slatespark.cli.table_arguments import call_with, write_arguments
from slatespark.display.upkeep_text import upkeep_text
from slatespark.options.defaults import MIN_AGE, MIN_INTERVAL
from slatespark.table.upkeep.upkeep import Upkeep, UpkeepOutcome


@app.command()
@failing_with(EXIT_FAILED)
def upkeep(
    tables: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE", help="Locations of the tables: local paths, or fsspec URLs.", show_default=False
        ),
    ],
    once: Annotated[bool, typer.Option("--once", help="Do what is due now, and exit.")] = False,
    every: Annotated[
        str, typer.Option(metavar="DURATION", help="Time between two checks of a table for changes.")
    ] = MIN_INTERVAL,
    duty: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DUTY",
            help="historyFloor, reap, compact or vacuum; may be repeated. By default all.",
            show_default=False,
        ),
    ] = None,
    min_age: Annotated[
        str, typer.Option(metavar="DURATION", help="Minimum age of objects that a vacuum deletes.")
    ] = MIN_AGE,
    fences: Annotated[
        bool,
        typer.Option(
            "--fences",
            help="Let the vacuum delete old WAL fences too. Safe if no SlateDB client is ever suspended for --min-age.",
        ),
    ] = False,
    max_batch_rows: MaxBatchRows = None,
    max_batch_bytes: MaxBatchBytes = None,
    option: CommitOption = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Maintain tables until it is stopped: retention, compaction, vacuum, history floor.

    What fails is tried again, and stops nothing else. SIGTERM and SIGINT end it after the current step. Exit code 0:
    stopped, or with --once all was done; 1: with --once something failed.
    """
    arguments = write_arguments(tables[0], {}, option=option, storage=storage)
    refuse_shared_wal(tables, arguments.location)
    work = call_with(
        [arguments.location],
        Upkeep,
        tables,
        **intervals_of(every),
        duties=duty,
        minAge=min_age,
        fences=fences,
        maxBatchRows=max_batch_rows,
        maxBatchBytes=max_batch_bytes,
        clock=arguments.clock_name,
        options=arguments.options,
    )
    outcomes = Outcomes(_text, _fields, as_json, is_news=lambda outcome: outcome.is_done)
    with stopped_by_signals(work.stop):
        if once:
            outcomes.show_all(work.runOnce())
        else:
            work.run(listener=outcomes.show)


def _text(outcome: UpkeepOutcome) -> str | None:
    return upkeep_text(outcome) if outcome.is_done else None


def _fields(outcome: UpkeepOutcome) -> dict[str, Any]:
    return {"url": outcome.url, "duty": outcome.duty, "is_done": outcome.is_done, "report": outcome.report}
