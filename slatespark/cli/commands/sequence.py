"""Commands that look up sequence numbers and times in the sequence tracker."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeAlias

import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import AsJson
from slatespark.cli.output import EXIT_FAILED, failing_with, json_document
from slatespark.cli.parameter_groups import located_table, taking
from slatespark.cli.table_arguments import TableArguments
from slatespark.table.inspection.sequences import SequenceMatch
from slatespark.units import ms_to_text


class Rounding(StrEnum):
    """The neighbour to return if the sequence tracker has no exact point."""

    DOWN = "down"
    UP = "up"


Round: TypeAlias = Annotated[
    Rounding, typer.Option("--round", help="Without an exact point, return the nearest one below or above.")
]


@app.command("get-timestamp-for-seq")
@app.command("seq-to-ts", hidden=True)
@failing_with(EXIT_FAILED)
@taking(located_table)
def get_timestamp_for_seq(
    table: TableArguments,
    seq: Annotated[str, typer.Argument(metavar="SEQ", help="A sequence number.", show_default=False)],
    rounding: Round = Rounding.DOWN,
    as_json: AsJson = False,
) -> None:
    """Print when a sequence number was reached; exit code 1 if it is unknown. Alias: seq-to-ts."""
    _show(
        table.open_store().seqToTimestamp(seq, round=rounding.value),
        f"sequence number {seq}",
        rounding,
        as_json=as_json,
    )


@app.command("get-seq-for-timestamp")
@app.command("ts-to-seq", hidden=True)
@failing_with(EXIT_FAILED)
@taking(located_table)
def get_seq_for_timestamp(
    table: TableArguments,
    time: Annotated[str, typer.Argument(metavar="TIME", help="An instant, ISO-8601 or epoch ms.", show_default=False)],
    rounding: Round = Rounding.DOWN,
    as_json: AsJson = False,
) -> None:
    """Print the sequence number reached at an instant; exit code 1 if it is unknown. Alias: ts-to-seq."""
    _show(table.open_store().timestampToSeq(time, round=rounding.value), time, rounding, as_json=as_json)


def _show(found: SequenceMatch | None, wanted: str, rounding: Rounding, *, as_json: bool) -> None:
    """Print the point found, and whether it is exact."""
    if found is None:
        if as_json:
            typer.echo("null")
        side = "at or above" if rounding is Rounding.UP else "at or below"
        typer.echo(f"The sequence tracker has no point {side} {wanted}.", err=True)
        raise typer.Exit(EXIT_FAILED)
    if as_json:
        typer.echo(json_document(found))
        return
    exact = f"rounded {rounding.value}" if found.rounded else "exact"
    typer.echo(f"seq {found.seq}  {ms_to_text(found.time_ms)}  {exact}")
