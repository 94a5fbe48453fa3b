"""The entry point of the `slatespark` command."""

from __future__ import annotations

import sys
from typing import Final

from slatespark.cli.app import app

_EXIT_MISUSED: Final = 2  # as of a wrong option


def main() -> None:
    """Run the command line."""
    if sys.stdout is None:  # else Python drops what is printed, and the next file to be opened gets its number
        print("InvalidRequestError: Standard output is closed. Redirect it, to /dev/null if unread.", file=sys.stderr)
        sys.exit(_EXIT_MISUSED)
    try:
        app(prog_name="slatespark")
    except OSError as exc:  # commands show theirs: it is of --help or --version
        from slatespark.cli.output import EXIT_FAILED, show_error

        show_error(exc)
        sys.exit(EXIT_FAILED)
