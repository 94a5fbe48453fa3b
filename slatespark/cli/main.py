"""The entry point of the `slatespark` command."""

from __future__ import annotations

import codecs
import io
import json
import sys
from typing import Final

from slatespark.cli.app import app

_EXIT_MISUSED: Final = 2  # as of a wrong option
_ESCAPED: Final = "slatespark.escaped"


def main() -> None:
    """Run the command line."""
    if sys.stdout is None:  # else Python drops what is printed, and the next file to be opened gets its number
        print("InvalidRequestError: Standard output is closed. Redirect it, to /dev/null if unread.", file=sys.stderr)
        sys.exit(_EXIT_MISUSED)
    _escape_what_it_lacks(sys.stdout)
    try:
        app(prog_name="slatespark")
    except OSError as exc:  # commands show theirs: it is of --help or --version
        from slatespark.cli.output import EXIT_FAILED, show_error

        show_error(exc)
        sys.exit(EXIT_FAILED)


def _escape_what_it_lacks(output: object) -> None:
    """Let an output in another encoding than UTF-8 escape what that cannot say as JSON does, so JSON stays JSON."""
    if isinstance(output, io.TextIOWrapper) and codecs.lookup(output.encoding).name != "utf-8":
        codecs.register_error(_ESCAPED, _escaped)
        output.reconfigure(errors=_ESCAPED)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end
