"""Commands that keep versions, bring them back or cut them off: `checkpoint ...`, `restore`, `trim`, `clone`."""

from __future__ import annotations

import json
from typing import Annotated, TypeAlias

import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import (
    AsJson,
    Storage,
    TablePath,
    WalPath,
    WriteOption,
    open_store,
    write_options,
)
from slatespark.cli.output import EXIT_FAILED, failing_with, json_document
from slatespark.display.checkpoints_text import checkpoint_expiry, checkpoints_text
from slatespark.errors import OptionError
from slatespark.table.checkpoints.store import CheckpointFacts
from slatespark.table.commit.version_retention import is_retained

checkpoint_app = typer.Typer(help="Keep versions of a table from being collected.", no_args_is_help=True)
app.add_typer(checkpoint_app, name="checkpoint")

CheckpointName: TypeAlias = Annotated[
    str, typer.Argument(metavar="CHECKPOINT", help="Its id or name.", show_default=False)
]
Lifetime: TypeAlias = Annotated[
    str | None, typer.Option(metavar="DURATION", help="How long from now, like 7d; for ever if not given.")
]
Version: TypeAlias = Annotated[int | None, typer.Option(metavar="ID", help="A version, as history lists them.")]


@checkpoint_app.command("create")
@failing_with(EXIT_FAILED)
def create(
    table: TablePath,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="A name that no other checkpoint has.")] = None,
    lifetime: Lifetime = None,
    version: Version = None,
    wal_path: WalPath = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Keep a version, by default the newest state with all that the WAL holds."""
    store = open_store(table, storage=storage, wal_path=wal_path)
    _show("Created", store.createCheckpoint(name, lifetime, version), as_json=as_json)


@checkpoint_app.command("list")
@failing_with(EXIT_FAILED)
def list_all(
    table: TablePath,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that commits left for versionRetention.")
    ] = False,
    wal_path: WalPath = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """List the checkpoints of a table."""
    found = open_store(table, storage=storage, wal_path=wal_path).checkpoints()
    shown = [point for point in found if everything or not is_retained(point.name)]
    typer.echo(json_document(shown) if as_json else checkpoints_text(shown, len(found) - len(shown)))


@checkpoint_app.command("refresh")
@failing_with(EXIT_FAILED)
def refresh(
    table: TablePath,
    checkpoint: CheckpointName,
    lifetime: Lifetime = None,
    wal_path: WalPath = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Let a checkpoint last for another while from now, or for ever."""
    store = open_store(table, storage=storage, wal_path=wal_path)
    _show("Refreshed", store.refreshCheckpoint(checkpoint, lifetime), as_json=as_json)


@checkpoint_app.command("delete")
@failing_with(EXIT_FAILED)
def delete(
    table: TablePath,
    checkpoint: CheckpointName,
    wal_path: WalPath = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Release a checkpoint: what it alone kept may be collected."""
    open_store(table, storage=storage, wal_path=wal_path).deleteCheckpoint(checkpoint)
    typer.echo(json.dumps({"deleted": checkpoint}) if as_json else f"Deleted checkpoint {checkpoint}.")


def _show(verb: str, point: CheckpointFacts, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json_document(point))
        return
    expiry = "stays" if point.expires_ms is None else f"expires {checkpoint_expiry(point)}"
    typer.echo(f"{verb} checkpoint {point.id} of version {point.version}; it {expiry}.")


@app.command()
@failing_with(EXIT_FAILED)
def restore(
    table: TablePath,
    version: Version = None,
    timestamp: Annotated[
        str | None, typer.Option(metavar="TIME", help="The newest version committed by then, ISO-8601 or epoch ms.")
    ] = None,
    option: WriteOption = None,
    wal_path: WalPath = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Make the state of an earlier version the newest one, in one commit that can be undone."""
    if (version is None) == (timestamp is None):
        raise OptionError("restore takes --version or --timestamp.", todo="Give one of them.")
    options = write_options(table, {}, option)
    store = open_store(table, storage=storage, wal_path=wal_path)
    if version is not None:
        made = store.restoreToVersion(version, **options)
    else:
        made = store.restoreToTimestamp(timestamp or "", **options)
    if as_json:
        typer.echo(json.dumps({"version": made, "undo": made - 1}))
    else:
        typer.echo(f"Restored; version {made}. To undo it, restore version {made - 1}.")


@app.command()
@failing_with(EXIT_FAILED)
def trim(
    table: TablePath,
    after: Annotated[
        str,
        typer.Option(metavar="TIME", help="Row versions created later go; ISO-8601 or epoch ms.", show_default=False),
    ],
    option: WriteOption = None,
    wal_path: WalPath = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Remove what a history table learnt after an instant, in one commit that can be undone."""
    store = open_store(table, storage=storage, wal_path=wal_path)
    before = store.detail().version
    made = store.trimHistory(after, **write_options(table, {}, option))
    undo = made - 1 if made > before else None
    if as_json:
        typer.echo(json.dumps({"version": made, "undo": undo}))
    elif undo is None:
        typer.echo(f"There is nothing later; version {made}.")
    else:
        typer.echo(f"Trimmed; version {made}. To undo it, restore version {undo}.")


@app.command()
@failing_with(EXIT_FAILED)
def clone(
    table: TablePath,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="An empty place in the same store.", show_default=False)
    ],
    version: Version = None,
    checkpoint: Annotated[str | None, typer.Option(metavar="NAME", help="Checkpoint to clone, by id or name.")] = None,
    wal_path: WalPath = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Make a shallow clone: a table of its own that begins with the files of this one."""
    made = open_store(table, storage=storage, wal_path=wal_path).clone(target, version, checkpoint)
    typer.echo(json.dumps({"url": made.url}) if as_json else f"Cloned to {made.url}.")
