"""The command `reap`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import AsJson, CommitOption, MaxBatchBytes, MaxBatchRows, Storage
from slatespark.cli.outcomes import Outcomes, intervals_of, refuse_shared_wal
from slatespark.cli.output import EXIT_FAILED, failing_with, progress_bar
from slatespark.cli.signals import stopped_by_signals
from slatespark.cli.table_arguments import call_with, write_arguments
from slatespark.display.reap_text import reap_text
from slatespark.options.values import both_given
from slatespark.table.progress import Step
from slatespark.table.upkeep.reaper import Reaper, ReapOutcome


@app.command()
@failing_with(EXIT_FAILED)
def reap(
    tables: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE", help="Locations of the tables: local paths, or fsspec URLs.", show_default=False
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
    max_batch_rows: MaxBatchRows = None,
    max_batch_bytes: MaxBatchBytes = None,
    option: CommitOption = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Delete the rows that are past their table's retention.

    If one table fails, the others are still reaped. Exit code 0: all tables were reaped; 1: a table failed.
    """
    if once and every is not None:
        raise both_given("--once", "--every")
    arguments = write_arguments(tables[0], {}, option=option, storage=storage)
    refuse_shared_wal(tables, arguments.location)
    common: dict[str, Any] = {
        "maxBatchRows": max_batch_rows,
        "maxBatchBytes": max_batch_bytes,
        "clock": arguments.clock_name,
        "options": arguments.options,
    }
    if every is None:
        with progress_bar(Step.REAPING, as_json=as_json) as progress:
            reaper = call_with([arguments.location], Reaper, tables, progress=progress, **common)
            _outcomes(_report_text, as_json=as_json).show_all(reaper.runOnce())
        return
    reaper = call_with([arguments.location], Reaper, tables, **intervals_of(every), **common)
    with stopped_by_signals(reaper.stop):
        reaper.run(listener=_outcomes(_news_text, as_json=as_json).show)


def _outcomes(text: Callable[[ReapOutcome], str | None], *, as_json: bool) -> Outcomes[ReapOutcome]:
    return Outcomes(text, _fields, as_json)


def _report_text(outcome: ReapOutcome) -> str | None:
    return None if outcome.report is None else reap_text(outcome.report)


def _news_text(outcome: ReapOutcome) -> str | None:
    """Return the report of a reap that deleted rows."""
    return _report_text(outcome) if outcome.report is not None and outcome.report.passes else None


def _fields(outcome: ReapOutcome) -> dict[str, Any]:
    return {"url": outcome.url} if outcome.report is None else asdict(outcome.report)
