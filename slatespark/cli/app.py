"""The application that commands register with, and the options that stand before any of them."""

from __future__ import annotations

from typing import Annotated

import typer

from slatespark import __version__

app = typer.Typer(
    help="SlateDB databases as tables: look into them, read them, write them, check them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"slatespark {__version__}")
        raise typer.Exit


@app.callback()
def _every_command(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Take the options that stand before a command."""
