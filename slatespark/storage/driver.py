"""The requests of a remote store, and which library sends them.

obstore is what the SlateDB client's own storage is built on, and the default for S3, Google and Azure. It cannot be
used in a forked child of a process that has used it; there, S3 goes through fsspec. The option `driver` says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from slatespark.errors import OptionError
from slatespark.options.values import parse_flag
from slatespark.ranges import ByteRange
from slatespark.storage.addressing import PROVIDERS
from slatespark.storage.credentials import BackendOptions, refuse_control_characters
from slatespark.storage.object_store import Buffer, ObjectMeta
from slatespark.storage.obstore_users import is_forked_user

OBSTORE: Final = "obstore"
FSSPEC: Final = "fsspec"

_SEVERAL_LINES: Final = ("service_account_key", "connection_string")  # no header is made of these as they are


class Driver(Protocol):
    """The requests of a `RemoteStore`; paths are relative to its root."""

    def read(self, path: str) -> bytes:
        """Return a whole object."""

    def read_span(self, path: str, span: ByteRange) -> bytes:
        """Return a non-empty range; fewer bytes if the object ends before it."""

    def read_spans(self, path: str, spans: Sequence[ByteRange]) -> list[bytes | BaseException]:
        """Return several ranges, one request each; failed ones as their exceptions."""

    def head(self, path: str) -> ObjectMeta:
        """Return size and modification time."""

    def list(self, prefix: str, start_after: str) -> list[ObjectMeta]:
        """Return the objects directly in the folder, in any order; may include some up to `start_after`."""

    def list_below(self, prefix: str) -> Sequence[ObjectMeta]:
        """Return the objects in the folder and in all folders below it, in any order."""

    def create(self, path: str, data: bytes) -> None:
        """Create an object atomically, or raise an error that `classify_error` maps to EXISTS."""

    def replace(self, path: str, data: bytes, expected: bytes) -> None:
        """Replace the content `expected` by `data` atomically, or raise an error that maps to EXISTS."""

    def write(self, path: str, parts: Sequence[Buffer]) -> None:
        """Store the concatenation of `parts`."""

    def copy(self, source: str, target: str) -> None:
        """Copy an object."""

    def delete(self, path: str) -> None:
        """Delete an object."""

    def delete_many(self, paths: Sequence[str]) -> bool:
        """Delete up to `MOST_DELETED` objects with one request; return False if they must be deleted one by one."""


def driver_name(url: str, options: BackendOptions) -> str:
    """Return which library sends the requests to a URL; raises `OptionError`."""
    protocol = url.partition("://")[0]
    name = options.get("driver") or _default_driver(url, options)
    if name not in (OBSTORE, FSSPEC) or (name == OBSTORE and protocol not in PROVIDERS):
        known = f"{OBSTORE} or {FSSPEC}" if protocol in PROVIDERS else FSSPEC
        raise OptionError(f"storage.driver: {name!r} cannot be used for {protocol}://.", todo=f"Use {known}.")
    return name


def _default_driver(url: str, options: BackendOptions) -> str:
    protocol, _, place = url.partition("://")
    if protocol == "s3" and (is_forked_user() or _needs_botocore(place, options)):
        return FSSPEC
    return OBSTORE if protocol in PROVIDERS else FSSPEC


def _needs_botocore(place: str, options: BackendOptions) -> bool:
    """Tell whether only botocore can address a bucket: an access point by its ARN, or Amazon without TLS."""
    is_plain = "use_ssl" in options and not parse_flag(options["use_ssl"], "storage.use_ssl")
    return place.startswith("arn:") or (is_plain and "endpoint_url" not in options)


def check_options(url: str, options: BackendOptions) -> None:
    """Refuse unknown and malformed options of S3, Google and Azure; other drivers tell when they connect."""
    name = driver_name(url, options)
    if url.partition("://")[0] in PROVIDERS:
        lines = {f"storage.{key}": value for key, value in options.items() if key not in _SEVERAL_LINES}
        refuse_control_characters(lines)
    if name == OBSTORE:
        from slatespark.storage import obstore_config

        obstore_config.check_options(obstore_config.parse_url(url), options)
    elif url.startswith("s3://"):
        from slatespark.storage.s3_driver import s3_arguments

        s3_arguments(options)


def make_driver(url: str, options: BackendOptions) -> Driver:
    """Return the driver of a URL; connects on the first request."""
    if driver_name(url, options) == OBSTORE:
        from slatespark.storage.obstore_driver import ObstoreDriver

        return ObstoreDriver(url, options)
    if url.startswith("s3://"):
        from slatespark.storage.s3_driver import S3Driver

        return S3Driver(url, options)
    from slatespark.storage.fsspec_driver import FsspecDriver

    return FsspecDriver(url, options.without("driver"))
