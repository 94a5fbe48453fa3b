"""What options and environment say about a server and the way to it: URL, timeouts, certificates. Sends no request."""

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

_S3_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")  # the first that is set counts
_DEFAULT_TIMEOUTS_S: Final = {"connect_timeout": "10", "read_timeout": "30"}


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


def s3_endpoint(options: Mapping[str, str]) -> str | None:
    """Return the URL of a server other than Amazon's, from the options or the environment; raises `OptionError`."""
    return server_endpoint(options, {name: os.environ.get(name) for name in _S3_ENDPOINTS})


def _checked_url(url: str, name: str) -> str:
    found = _SERVER.fullmatch(url)
    if found is None or int(found[1] or 0) > _LAST_PORT:
        shown = "the value" if "@" in url or "?" in url else repr(url)  # without credentials
        raise OptionError(
            f"{name}: {shown} is not the URL of a server.", todo="Write its protocol and its host: http://minio:9000."
        )
    protocol, _, place = url.partition("://")
    return f"{protocol.lower()}://{place}"


def is_amazon(endpoint: str) -> bool:
    """Tell whether a server is one of Amazon's, which need not prove what they can do."""
    host = endpoint.partition("://")[2].partition("/")[0].partition(":")[0]
    return host.endswith((".amazonaws.com", ".amazonaws.com.cn"))


def is_address(endpoint: str) -> bool:
    """Tell whether a server is named by its IP address, below which there are no names of buckets."""
    host = urlsplit(endpoint).hostname or ""
    return ":" in host or host.rpartition(".")[2].isdigit()


def addressing_style(options: Mapping[str, str]) -> str | None:
    """Return whether the bucket is in the path or the host of an address, if the options say; raises `OptionError`."""
    style = options.get("addressing_style")
    if style not in (None, "path", "virtual", "auto"):
        raise OptionError(f"storage.addressing_style: {style!r} is unknown.", todo="Use path, virtual or auto.")
    return style


def timeout_s(options: Mapping[str, str], name: str) -> float:
    """Return a timeout in seconds; raises `OptionError`."""
    text = options.get(name, _DEFAULT_TIMEOUTS_S[name])
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 86_400:
        raise OptionError(f"storage.{name}: {text!r} is not a valid timeout.", todo="Use seconds above 0.")
    return seconds


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
