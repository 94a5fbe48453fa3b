"""The `slatespark` command: one function a command, which parses, calls `slatespark.table`, and displays."""

from __future__ import annotations

from slatespark.cli import (
    changing,
    checking,
    checkpoints,
    compacting,
    looking,
    moving,
    reading,
    reaping,
    sequences,
    showing,
    vacuuming,
)
from slatespark.cli.app import app

__all__ = [
    "app",
    "changing",
    "checking",
    "checkpoints",
    "compacting",
    "looking",
    "main",
    "moving",
    "reading",
    "reaping",
    "sequences",
    "showing",
    "vacuuming",
]

ORDER = (  # in which --help lists the commands
    "describe",
    "history",
    "files",
    "timeline",
    "expiry",
    "get-timestamp-for-seq",
    "get-seq-for-timestamp",
    "scan",
    "get",
    "put",
    "delete",
    "import",
    "export",
    "restore",
    "trim",
    "clone",
    "compact",
    "reap",
    "vacuum",
    "verify",
    "demo",
)
app.registered_commands.sort(
    key=lambda command: (
        command.hidden,  # other names of a command
        0 if command.hidden else ORDER.index(command.name or getattr(command.callback, "__name__", "")),
    )
)


def main() -> None:
    """Run the command line."""
    app(prog_name="slatespark")
