"""The application with which commands register, and the options before the command name."""

from __future__ import annotations

from typing import Annotated

import typer

from slatespark import __version__

app = typer.Typer(
    help="Inspect, read, write, maintain and check SlateDB databases as tables.",
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
        bool, typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Handle the options before the command name."""
