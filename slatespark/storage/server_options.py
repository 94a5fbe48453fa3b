"""What options and environment say about a server, checked before any request: its URL, and trusted certificates."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from slatespark.errors import OptionError
from slatespark.options.values import parse_flag

_CERTIFICATE: Final = b"CERTIFICATE-----"

# obstore ends in a panic for most other characters.
_HOST: Final = r"[A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\]"
_SERVER: Final = re.compile(
    rf"https?://(?:[!-?A-~]+@)?(?:{_HOST})(?::(\d{{1,5}}))?(?:/[^\s\x00-\x20\x7f?#]*)?", re.IGNORECASE
)
_LAST_PORT: Final = 65_535


def server_endpoint(options: Mapping[str, str], others: Mapping[str, str | None]) -> str | None:
    """Return the URL of a server other than the provider's own; None if nothing names one.

    Parameters
    ----------
    others : URLs that are taken in this order where the options have none, by what they are called in messages

    Raises
    ------
    OptionError
        When it is not a URL, or the option is empty, as that of a variable which a program has not found: the
        credentials of another server would go to the provider.
    """
    given = options.get("endpoint_url")
    if given == "":
        raise OptionError(
            "storage.endpoint_url is empty.",
            why="Without a URL the credentials would be sent to the provider's own servers.",
            todo="Give the URL of the server, or leave the option out if the provider's own are meant.",
        )
    for name, url in {"storage.endpoint_url": given, **others}.items():
        if url:
            return _checked_url(url, name)
    return None


def _checked_url(url: str, name: str) -> str:
    found = _SERVER.fullmatch(url)
    if found is None or int(found[1] or 0) > _LAST_PORT:
        shown = "the value" if "@" in url or "?" in url else repr(url)  # without credentials
        raise OptionError(
            f"{name}: {shown} is not the URL of a server.", todo="Write its protocol and its host: http://minio:9000."
        )
    protocol, _, place = url.partition("://")
    return f"{protocol.lower()}://{place}"


def is_address(endpoint: str) -> bool:
    """Tell whether a server is named by its IP address, below which there are no names of buckets."""
    host = urlsplit(endpoint).hostname or ""
    return ":" in host or host.rpartition(".")[2].isdigit()


def trusted_certificates(options: Mapping[str, str], variable: str | None = None) -> bool | Path | None:
    """Return whether certificates are checked, or the file of those that are trusted; None if nothing says so.

    Parameters
    ----------
    variable : environment variable that names a file where the options do not

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
