"""The command line as tests call it: in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from slatespark.cli.app import app


def run(*arguments: str | Path, stdin: str | bytes | None = None) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def done(*arguments: str | Path, stdin: str | bytes | None = None) -> str:
    """What a command prints that must succeed."""
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def answer(*arguments: str | Path, stdin: str | bytes | None = None) -> Any:
    """The JSON document that a command prints."""
    return json.loads(done(*arguments, "--json", stdin=stdin))


def rows(*arguments: str | Path) -> list[dict[str, Any]]:
    """What `scan` prints."""
    return [json.loads(line) for line in done("scan", *arguments, "--json").splitlines()]


def refused(error: str, *arguments: str | Path, stdin: str | bytes | None = None) -> str:
    """The one line that a command prints which must fail with an error of ours."""
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    assert result.stderr.startswith(f"{error}: "), result.stderr
    assert result.stderr.count("\n") == 1
    return result.stderr
