from __future__ import annotations

import typer
from typer.testing import CliRunner

from slatespark.cli.parameter_groups import taking


def place(table: str, option: list[str] | None = None) -> tuple[str, list[str]]:
    return table, option or []


def test_a_command_takes_what_a_group_returns() -> None:
    app = typer.Typer()

    @app.command()
    @taking(place)
    def show(found: tuple[str, list[str]], key: str, limit: int = 3) -> None:
        """Show it."""
        typer.echo(f"{found} {key} {limit}")

    run = CliRunner()
    assert run.invoke(app, ["t", "k"]).stdout == "('t', []) k 3\n"
    assert run.invoke(app, ["t", "k", "--option", "a=1", "--limit", "4"]).stdout == "('t', ['a=1']) k 4\n"
    text = run.invoke(app, ["--help"]).stdout.lower()
    assert "show it." in text
    assert text.index("table") < text.index("key") < text.index("--limit") < text.index("--option")
    assert run.invoke(app, ["t"]).exit_code == 2
