"""The `storage.*` options that backends take; any other name is refused with the nearest known one."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable
from typing import Final

from slatespark.errors import OptionError

DRIVER_MEANING: Final = "obstore or fsspec: the library that sends the requests"

S3_OPTIONS: Final = {
    "addressing_style": "path, virtual or auto",
    "anon": "true: send no credentials",
    "connect_timeout": "seconds",
    "driver": DRIVER_MEANING,
    "endpoint_url": "URL of a server other than Amazon's",
    "key": "access key id",
    "kms_key_id": "key for server_side_encryption=aws:kms",
    "profile": "section of the AWS configuration file",
    "read_timeout": "seconds",
    "region": "region of the bucket",
    "requester_pays": "true: the requester pays for requests",
    "secret": "secret access key",
    "server_side_encryption": "AES256 or aws:kms",
    "token": "session token",
    "use_ssl": "false: plain HTTP",
    "verify": "false, or the path of a certificate bundle",
}

GOOGLE_OPTIONS: Final = {
    "anon": "true: send no credentials",
    "connect_timeout": "seconds",
    "driver": DRIVER_MEANING,
    "endpoint_url": "URL of a server other than Google's",
    "read_timeout": "seconds",
    "service_account": "path of the key file of a service account",
    "service_account_key": "content of such a file",
    "token": "access token",
    "verify": "false, or the path of a certificate bundle",
}

AZURE_OPTIONS: Final = {
    "account_key": "access key of the storage account",
    "account_name": "storage account, unless the URL names it",
    "anon": "true: send no credentials",
    "client_id": "application (client) id of a service principal or managed identity",
    "client_secret": "secret of a service principal",
    "connect_timeout": "seconds",
    "connection_string": "account, key or signature, and server, as Azure's portal shows them",
    "driver": DRIVER_MEANING,
    "endpoint_url": "URL of a server other than Azure's",
    "read_timeout": "seconds",
    "sas_token": "shared access signature",
    "tenant_id": "directory (tenant) id of a service principal",
    "verify": "false, or the path of a certificate bundle",
}

ROOT_OPTION: Final = "root"  # where external paths of clones start; for the table, not for a backend

# A program may pass the options of its bucket to every table that it opens, so local tables accept those.
LOCAL_OPTIONS: Final = tuple(S3_OPTIONS)


def refuse_unknown_options(protocol: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse a name that a backend does not take; raises `OptionError` with the nearest known name.

    Parameters
    ----------
    protocol : protocol of the backend, for the message
    given, known : names without the prefix `storage.`
    """
    names = [*known, ROOT_OPTION]
    for name in given:
        if name.lower() not in names:
            near = difflib.get_close_matches(name.lower(), names, n=1)
            todo = f"Did you mean storage.{near[0]}?" if near else f"Use one of: {', '.join(names)}."
            raise OptionError(
                f"There is no option storage.{name} for {protocol}://.",
                why="A name that is neither an option nor a table property is passed to the storage backend.",
                todo=todo,
            )


def constructor_options(kind: type) -> list[str]:
    """Return the names that the constructors of a file system and its base classes take."""
    found: dict[str, None] = {}
    for base in kind.__mro__:
        constructor = vars(base).get("__init__")
        if base is not object and constructor is not None:
            for name, parameter in inspect.signature(constructor).parameters.items():
                if name != "self" and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                    found[name] = None
    return list(found)
