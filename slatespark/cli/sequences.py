"""Commands that look sequence numbers and times up in the sequence tracker."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeAlias

import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import AsJson, Storage, TablePath, WalPath, open_store
from slatespark.cli.output import EXIT_FAILED, failing_with, json_document
from slatespark.table.read.history.sequences import SequenceMatch
from slatespark.units import ms_to_text


class Rounding(StrEnum):
    """Which neighbour serves where there is no point for what was asked."""

    DOWN = "down"
    UP = "up"


Round: TypeAlias = Annotated[
    Rounding, typer.Option("--round", help="Take the nearest point at or below what is asked, or at or above it.")
]


@app.command("get-timestamp-for-seq")
@app.command("seq-to-ts", hidden=True)
@failing_with(EXIT_FAILED)
def get_timestamp_for_seq(
    table: TablePath,
    seq: Annotated[str, typer.Argument(metavar="SEQ", help="A sequence number.", show_default=False)],
    rounding: Round = Rounding.DOWN,
    wal_path: WalPath = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Print when a sequence number was reached (also: seq-to-ts); exit code 1 if nothing is known."""
    store = open_store(table, storage=storage, wal_path=wal_path)
    _show(store.seqToTimestamp(seq, round=rounding.value), f"sequence number {seq}", rounding, as_json=as_json)


@app.command("get-seq-for-timestamp")
@app.command("ts-to-seq", hidden=True)
@failing_with(EXIT_FAILED)
def get_seq_for_timestamp(
    table: TablePath,
    time: Annotated[str, typer.Argument(metavar="TIME", help="An instant, ISO-8601 or epoch ms.", show_default=False)],
    rounding: Round = Rounding.DOWN,
    wal_path: WalPath = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Print the sequence number reached at an instant (also: ts-to-seq); exit code 1 if nothing is known."""
    store = open_store(table, storage=storage, wal_path=wal_path)
    _show(store.timestampToSeq(time, round=rounding.value), time, rounding, as_json=as_json)


def _show(found: SequenceMatch | None, asked: str, rounding: Rounding, *, as_json: bool) -> None:
    """Print the pair that was found, and whether it is exact."""
    if found is None:
        if as_json:
            typer.echo("null")
        side = "at or above" if rounding is Rounding.UP else "at or below"
        typer.echo(f"The sequence tracker has no point {side} {asked}.", err=True)
        raise typer.Exit(EXIT_FAILED)
    if as_json:
        typer.echo(json_document(found))
        return
    exact = f"rounded {rounding.value}" if found.rounded else "exact"
    typer.echo(f"seq {found.seq}  {ms_to_text(found.time_ms)}  {exact}")
