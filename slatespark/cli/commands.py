"""The `slatespark` command: one function a command, which parses, calls `slatespark.table`, and displays."""

from __future__ import annotations

from slatespark.cli import (
    changing,
    checking,
    looking,
    moving,
    reading,
    showing,
)
from slatespark.cli.app import app

__all__ = ["app", "changing", "checking", "looking", "main", "moving", "reading", "showing"]


def main() -> None:
    """Run the command line."""
    app(prog_name="slatespark")
