"""The `storage.*` options of one backend, without leaking secrets."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterator, Mapping

from slatespark.errors import InvalidRequestError, OptionError

# Options whose values may be shown; all others are treated as secrets.
_SHOWABLE = frozenset(
    {
        "account_name",
        "addressing_style",
        "anon",
        "connect_timeout",
        "consistency",
        "driver",
        "endpoint_url",
        "project",
        "protocol",
        "read_timeout",
        "region",
        "requester_pays",
        "server_side_encryption",
        "service_account",
        "timeout",
        "use_ssl",
        "verify",
    }
)
_SECRET_VARIABLES = (
    "AZURE_CLIENT_SECRET",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_CONNECTION_STRING",
    "AZURE_STORAGE_SAS_TOKEN",
)
_USER_INFO = re.compile(r"(?<=://)[^/?#\s]*:[^/?#\s]*@")
# The same at the start of a URL, where a password may contain a slash. A port or an ARN is not a credential.
_CREDENTIALS_IN_URL = re.compile(r"\w*://(?!arn:)[^/@]*:(?!\d+(?:/|$))[^@]*@")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SHORTEST_SECRET = 4  # masking shorter values would garble messages


class BackendOptions(Mapping[str, str]):
    """Options by lower-case name. Neither `repr` nor a printed pickle shows secrets.

    Parameters
    ----------
    options : the `storage.*` options without that prefix; `root` is omitted, it is for the table only. Numbers and
        booleans of Python become the text that Spark and the shell pass for them; None counts as not given.

    Raises
    ------
    OptionError
        When a value is neither text nor one of those.
    """

    __slots__ = ("_values",)

    def __init__(self, options: Mapping[str, object] | None = None) -> None:
        self._values = {
            name.lower(): _as_text(value, name)
            for name, value in (options or {}).items()
            if name.lower() != "root" and value is not None
        }

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"BackendOptions({', '.join(self._values)})"

    def __reduce__(self) -> tuple[object, tuple[bytes]]:
        # No protection, but a pickle dumped into a log shows no secret in clear text.
        return _unsealed, (base64.b85encode(json.dumps(self._values).encode()),)

    def without(self, name: str) -> BackendOptions:
        """Return the options without one of them."""
        return BackendOptions({key: value for key, value in self._values.items() if key != name})

    def identity(self) -> tuple[tuple[str, str], ...]:
        """Return a key that identifies the options; contains the secrets."""
        return tuple(sorted(self._values.items()))

    def mask(self, text: str) -> str:
        """Return `text` with every secret replaced by `***`."""
        for secret in self._secrets():
            text = text.replace(secret, "***")
        return _USER_INFO.sub("***@", text)

    def shows_secret(self, error: BaseException) -> bool:
        """Tell whether the text of `error`, or of its causes, contains a secret."""
        links: list[BaseException] = []
        link: BaseException | None = error
        while link is not None and link not in links:
            links.append(link)
            link = link.__cause__ or link.__context__
        return any(self.mask(text) != text for link in links for text in (str(link), repr(link)))

    def _secrets(self) -> list[str]:
        values = [value for name, value in self._values.items() if name not in _SHOWABLE]
        values += [os.environ.get(name, "") for name in _SECRET_VARIABLES]
        # Longest first: one secret may be part of another.
        return sorted((value for value in values if len(value) >= _SHORTEST_SECRET), key=len, reverse=True)


def refuse_user_info(url: str) -> None:
    """Raise `InvalidRequestError` if `url` has a user name and a password; the message shows neither."""
    if _CREDENTIALS_IN_URL.match(url):
        raise InvalidRequestError(
            f"The URL {url.partition('://')[0]}://*** contains credentials.",
            why="URLs are shown in plans and messages.",
            todo="Pass them as options, such as storage.key and storage.secret, or in the environment.",
        )


def refuse_control_characters(values: Mapping[str, str]) -> None:
    """Raise `OptionError` for a value with a line break or the like, which no header of a request may have.

    Parameters
    ----------
    values : values by their names in messages, which show none of them
    """
    for name, value in values.items():
        if _CONTROL.search(value):
            raise OptionError(
                f"{name} has a line break or another control character.",
                why="A value that was read from a file often ends with one.",
                todo="Remove it.",
            )


def _as_text(value: object, name: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    path = os.fspath(value) if isinstance(value, os.PathLike) else None
    if not isinstance(path, str):  # the value may be a secret
        found = type(value).__name__
        raise OptionError(f"storage.{name.lower()}: a value of type {found} is not text.", todo="Give text.")
    return path


def _unsealed(sealed: bytes) -> BackendOptions:
    return BackendOptions(json.loads(base64.b85decode(sealed)))
