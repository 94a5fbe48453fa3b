"""The entry point of the `slatespark` command."""

from __future__ import annotations

import sys

from slatespark.cli.app import app

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line."""
    try:
        app(prog_name="slatespark")
    except OSError as exc:  # commands show theirs: it is of --help or --version
        from slatespark.cli.output import EXIT_FAILED, show_error

        show_error(exc)
        sys.exit(EXIT_FAILED)
