"""The entry point of the `slatespark` command."""

from __future__ import annotations

from slatespark.cli.app import app

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line."""
    app(prog_name="slatespark")
