"""Commands that keep, restore, trim or copy versions: `checkpoint ...`, `restore`, `trim`, `clone`, `copy-to`."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from slatespark.cli.app import app
from slatespark.cli.arguments import AsJson
from slatespark.cli.output import EXIT_FAILED, asked_progress, failing_with, json_document, show_result
from slatespark.cli.parameter_groups import committed_table, located_table, taking
from slatespark.cli.table_arguments import TableArguments, call_with, parse_storage
from slatespark.display.checkpoints_text import checkpoints_text, expiry_clause
from slatespark.errors import InvalidRequestError, OptionError
from slatespark.slate_store.base import last_commit
from slatespark.table.checkpoints.store import CheckpointFacts
from slatespark.table.commit.version_retention import is_retained
from slatespark.texts import is_encodable, plural

checkpoint_app = typer.Typer(help="Protect versions of a table from garbage collection.", no_args_is_help=True)
app.add_typer(checkpoint_app, name="checkpoint")

CheckpointName: TypeAlias = Annotated[
    str, typer.Argument(metavar="CHECKPOINT", help="Its id or name.", show_default=False)
]
Lifetime: TypeAlias = Annotated[
    str | None, typer.Option(metavar="DURATION", help="How long it lasts from now, like 7d; forever if not given.")
]
Version: TypeAlias = Annotated[int | None, typer.Option(metavar="ID", help="A version, as listed by history.")]
Timestamp: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="The newest version committed at or before this, ISO-8601 or epoch ms."),
]


@checkpoint_app.command("create")
@failing_with(EXIT_FAILED)
@taking(located_table)
def create(
    table: TableArguments,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="A name that no other checkpoint has.")] = None,
    lifetime: Lifetime = None,
    version: Version = None,
    as_json: AsJson = False,
) -> None:
    """Keep a version; by default the newest state, including the WAL."""
    store = table.open_store()
    _show("Created", store.createCheckpoint(name, lifetime, version), as_json=as_json)


@checkpoint_app.command("list")
@failing_with(EXIT_FAILED)
@taking(located_table)
def list_all(
    table: TableArguments,
    everything: Annotated[
        bool, typer.Option("--all", help="Also list those that commits keep for versionRetention.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the checkpoints of a table."""
    found = table.open_store().checkpoints()
    shown = [point for point in found if everything or not is_retained(point.name)]
    typer.echo(json_document(shown) if as_json else checkpoints_text(shown, len(found) - len(shown)))


@checkpoint_app.command("refresh")
@failing_with(EXIT_FAILED)
@taking(located_table)
def refresh(
    table: TableArguments,
    checkpoint: CheckpointName,
    lifetime: Lifetime = None,
    as_json: AsJson = False,
) -> None:
    """Set how long a checkpoint lasts from now, or keep it forever."""
    store = table.open_store()
    _show("Refreshed", store.refreshCheckpoint(checkpoint, lifetime), as_json=as_json)


@checkpoint_app.command("delete")
@failing_with(EXIT_FAILED)
@taking(located_table)
def delete(
    table: TableArguments,
    checkpoint: CheckpointName,
    as_json: AsJson = False,
) -> None:
    """Delete a checkpoint; versions and files that only it kept may then be garbage-collected."""
    table.open_store().deleteCheckpoint(checkpoint)
    show_result({"deleted": checkpoint}, f"Deleted checkpoint {checkpoint}.", as_json=as_json)


def _show(verb: str, point: CheckpointFacts, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json_document(point))
        return
    typer.echo(f"{verb} checkpoint {point.id} of version {point.version}; it {expiry_clause(point)}.")


@app.command()
@failing_with(EXIT_FAILED)
@taking(committed_table)
def restore(
    table: TableArguments,
    version: Version = None,
    timestamp: Timestamp = None,
    as_json: AsJson = False,
) -> None:
    """Make an earlier version the newest one, in one commit that can be undone."""
    if (version is None) == (timestamp is None):
        raise OptionError("restore takes --version or --timestamp.", todo="Give one of them.")
    store, asked = table.open_store(), asked_progress(as_json=as_json)
    if version is not None:
        made = call_with([table.options], store.restoreToVersion, version, progress=asked)
    else:
        made = call_with([table.options], store.restoreToTimestamp, timestamp, progress=asked)
    text = f"Restored; version {made}. To undo it, restore version {made - 1}."
    show_result({"version": made, "undo": made - 1}, text, as_json=as_json)


@app.command()
@failing_with(EXIT_FAILED)
@taking(committed_table)
def trim(
    table: TableArguments,
    after: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="Remove row versions created after this, ISO-8601 or epoch ms.", show_default=False
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Remove the row versions of a history table created after an instant, in one commit that can be undone."""
    store = table.open_store()
    made = call_with([table.options], store.trimHistory, after, progress=asked_progress(as_json=as_json))
    undo = None if last_commit(store) is None else made - 1
    text = f"Trimmed; version {made}. To undo it, restore version {undo}."
    if undo is None:
        text = f"No row version is later; nothing was removed. Version {made}."
    show_result({"version": made, "undo": undo}, text, as_json=as_json)


@app.command()
@failing_with(EXIT_FAILED)
@taking(located_table)
def clone(
    table: TableArguments,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="An empty location in the same store.", show_default=False)
    ],
    version: Version = None,
    checkpoint: Annotated[str | None, typer.Option(metavar="NAME", help="Checkpoint to clone, by id or name.")] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Make it a history table; rows are valid from their times on.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make a shallow clone: a separate table that initially shares the files of this one."""
    if not is_encodable(target):
        raise InvalidRequestError(f"TARGET: {target!r} is not UTF-8 text, and manifests store it as that.")
    progress = asked_progress(as_json=as_json)
    made = table.open_store().clone(target, version, checkpoint, history=history, progress=progress)
    show_result({"url": made.url}, f"Cloned to {made.url}.", as_json=as_json)


@app.command("copy-to")
@failing_with(EXIT_FAILED)
@taking(located_table)
def copy_to(
    table: TableArguments,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="An empty location in any store.", show_default=False)
    ],
    version: Version = None,
    timestamp: Timestamp = None,
    checkpoint: Annotated[str | None, typer.Option(metavar="NAME", help="Checkpoint to copy, by id or name.")] = None,
    target_storage: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Option of the target's storage backend; may be repeated. By default those of the table, if the store "
            "is of the same kind.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Copy a table, with all of its files, to another place; the copy does not depend on the original."""
    storage = None if target_storage is None else parse_storage(target_storage, "--target-storage")
    store = table.open_store()
    made = store.copyTo(
        target,
        storage=storage,
        versionAsOf=version,
        timestampAsOf=timestamp,
        checkpoint=checkpoint,
        progress=asked_progress(as_json=as_json),
    )
    files = len(made.files())
    text = f"Copied {plural(files, 'file')} to {made.url}."
    show_result({"url": made.url, "files": files}, text, as_json=as_json)
