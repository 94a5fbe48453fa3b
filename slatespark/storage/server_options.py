"""What options and environment say about a server, checked before any request: which certificates are trusted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from slatespark.errors import OptionError
from slatespark.options.values import parse_flag

_CERTIFICATE: Final = b"CERTIFICATE-----"


def trusted_certificates(options: Mapping[str, str], variable: str | None = None) -> bool | Path | None:
    """Return whether certificates are checked, or the file of those that are trusted; None if nothing says so.

    Parameters
    ----------
    variable : of the environment, which names a file where the options do not

    Raises
    ------
    OptionError
        When the file cannot be used. Some libraries report that as a connection that failed, which would be retried.
    """
    name, value = "storage.verify", options.get("verify")
    if not value and variable is not None:
        name, value = variable, os.environ.get(variable)
    if not value:
        return None
    if value.lower() in ("true", "false"):
        return parse_flag(value, name)
    todo = "Give the path of a certificate bundle, true, or false."
    try:
        content = Path(value).read_bytes()
    except (OSError, ValueError) as exc:  # the second of a null byte
        raise OptionError(f"{name}: {value!r} cannot be read.", why=str(exc), todo=todo) from exc
    if _CERTIFICATE not in content:
        raise OptionError(f"{name}: {value!r} has no certificate.", why="None is there in the PEM format.", todo=todo)
    return Path(value)
