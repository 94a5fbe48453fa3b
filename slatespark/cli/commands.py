"""The `slatespark` command: one function a command, which parses, calls `slatespark.table`, and displays."""

from __future__ import annotations

from slatespark.cli import (
    changing,
    checking,
    looking,
    moving,
    reading,
    sequences,
    showing,
)
from slatespark.cli.app import app

__all__ = ["app", "changing", "checking", "looking", "main", "moving", "reading", "sequences", "showing"]

ORDER = (  # in which --help lists the commands
    "describe",
    "history",
    "files",
    "expiry",
    "get-timestamp-for-seq",
    "seq-to-ts",
    "get-seq-for-timestamp",
    "ts-to-seq",
    "scan",
    "get",
    "put",
    "delete",
    "import",
    "export",
    "verify",
    "demo",
)
app.registered_commands.sort(key=lambda command: ORDER.index(command.name or getattr(command.callback, "__name__", "")))


def main() -> None:
    """Run the command line."""
    app(prog_name="slatespark")
