"""The application with which commands register, and the options before the command name."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from slatespark import __version__
from slatespark.cli.command_table import COMMANDS

_built: dict[str, Any] = {}


def built_command(name: str) -> Any:
    """Return a command for the parser; it is imported and built when it is first asked for."""
    if name not in _built:
        import_module(f"slatespark.cli.commands.{COMMANDS[name].module}")  # registers its commands
        group: Any = typer.main.get_command(app)
        _built.update(group.commands)
        app.registered_commands.clear()  # else each call would build all of them again
        app.registered_groups.clear()
    return _built[name]


class _Commands(TyperGroup):
    """Imports a command when it is called; until then it has only a line of help."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        line = COMMANDS.get(cmd_name)
        if cmd_name in self.commands or line is None:
            return super().get_command(ctx, cmd_name)
        return TyperCommand(cmd_name, help=line.help, hidden=line.hidden)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        names = [args[0]] if args[0] in COMMANDS else COMMANDS  # an unknown name is compared with all of them
        self.commands = {name: built_command(name) for name in names}
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_Commands,
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
