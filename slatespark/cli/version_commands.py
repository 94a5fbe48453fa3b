"""Commands that keep, restore, trim or copy versions: `checkpoint ...`, `restore`, `trim`, `clone`."""

from __future__ import annotations

import json
from typing import Annotated, TypeAlias

import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import AsJson, CommitOption, LocationOption, Storage, TablePath
from slatespark.cli.output import EXIT_FAILED, failing_with, json_document
from slatespark.cli.table_arguments import table_arguments, write_arguments
from slatespark.display.checkpoints_text import checkpoint_expiry, checkpoints_text
from slatespark.errors import OptionError
from slatespark.table.checkpoints.store import CheckpointFacts
from slatespark.table.commit.version_retention import is_retained

checkpoint_app = typer.Typer(help="Protect versions of a table from garbage collection.", no_args_is_help=True)
app.add_typer(checkpoint_app, name="checkpoint")

CheckpointName: TypeAlias = Annotated[
    str, typer.Argument(metavar="CHECKPOINT", help="Its id or name.", show_default=False)
]
Lifetime: TypeAlias = Annotated[
    str | None, typer.Option(metavar="DURATION", help="How long it lasts from now, like 7d; forever if not given.")
]
Version: TypeAlias = Annotated[int | None, typer.Option(metavar="ID", help="A version, as listed by history.")]


@checkpoint_app.command("create")
@failing_with(EXIT_FAILED)
def create(
    table: TablePath,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="A name that no other checkpoint has.")] = None,
    lifetime: Lifetime = None,
    version: Version = None,
    option: LocationOption = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Keep a version; by default the newest state, including the WAL."""
    store = table_arguments(table, option=option, storage=storage).open_store()
    _show("Created", store.createCheckpoint(name, lifetime, version), as_json=as_json)


@checkpoint_app.command("list")
@failing_with(EXIT_FAILED)
def list_all(
    table: TablePath,
    everything: Annotated[
        bool, typer.Option("--all", help="Also list those that commits keep for versionRetention.")
    ] = False,
    option: LocationOption = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """List the checkpoints of a table."""
    found = table_arguments(table, option=option, storage=storage).open_store().checkpoints()
    shown = [point for point in found if everything or not is_retained(point.name)]
    typer.echo(json_document(shown) if as_json else checkpoints_text(shown, len(found) - len(shown)))


@checkpoint_app.command("refresh")
@failing_with(EXIT_FAILED)
def refresh(
    table: TablePath,
    checkpoint: CheckpointName,
    lifetime: Lifetime = None,
    option: LocationOption = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Set how long a checkpoint lasts from now, or keep it forever."""
    store = table_arguments(table, option=option, storage=storage).open_store()
    _show("Refreshed", store.refreshCheckpoint(checkpoint, lifetime), as_json=as_json)


@checkpoint_app.command("delete")
@failing_with(EXIT_FAILED)
def delete(
    table: TablePath,
    checkpoint: CheckpointName,
    option: LocationOption = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Delete a checkpoint; versions and files that only it kept may then be garbage-collected."""
    table_arguments(table, option=option, storage=storage).open_store().deleteCheckpoint(checkpoint)
    typer.echo(json.dumps({"deleted": checkpoint}) if as_json else f"Deleted checkpoint {checkpoint}.")


def _show(verb: str, point: CheckpointFacts, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json_document(point))
        return
    expiry = "does not expire" if point.expires_ms is None else f"expires {checkpoint_expiry(point)}"
    typer.echo(f"{verb} checkpoint {point.id} of version {point.version}; it {expiry}.")


@app.command()
@failing_with(EXIT_FAILED)
def restore(
    table: TablePath,
    version: Version = None,
    timestamp: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="The newest version committed at or before this, ISO-8601 or epoch ms."),
    ] = None,
    option: CommitOption = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Make an earlier version the newest one, in one commit that can be undone."""
    if (version is None) == (timestamp is None):
        raise OptionError("restore takes --version or --timestamp.", todo="Give one of them.")
    arguments = write_arguments(table, {}, option=option, storage=storage)
    store = arguments.open_store()
    if version is not None:
        made = store.restoreToVersion(version, **arguments.options)
    else:
        made = store.restoreToTimestamp(timestamp or "", **arguments.options)
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
        typer.Option(
            metavar="TIME", help="Remove row versions created after this, ISO-8601 or epoch ms.", show_default=False
        ),
    ],
    option: CommitOption = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Remove the row versions of a history table created after an instant, in one commit that can be undone."""
    arguments = write_arguments(table, {}, option=option, storage=storage)
    store = arguments.open_store()
    before = store.detail().version
    made = store.trimHistory(after, **arguments.options)
    undo = made - 1 if made > before else None
    if as_json:
        typer.echo(json.dumps({"version": made, "undo": undo}))
    elif undo is None:
        typer.echo(f"No row version is later; nothing was removed. Version {made}.")
    else:
        typer.echo(f"Trimmed; version {made}. To undo it, restore version {undo}.")


@app.command()
@failing_with(EXIT_FAILED)
def clone(
    table: TablePath,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="An empty location in the same store.", show_default=False)
    ],
    version: Version = None,
    checkpoint: Annotated[str | None, typer.Option(metavar="NAME", help="Checkpoint to clone, by id or name.")] = None,
    option: LocationOption = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Make a shallow clone: a separate table that initially shares the files of this one."""
    made = table_arguments(table, option=option, storage=storage).open_store().clone(target, version, checkpoint)
    typer.echo(json.dumps({"url": made.url}) if as_json else f"Cloned to {made.url}.")
