"""Object stores: a local folder, S3, and other stores through fsspec.

Contains the `ObjectStore` protocol, its implementations, and the rules for retries. May import `fsspec` and its drivers
(inside functions only: opening a local table loads none of them), `options`, `units`, `ranges`, `errors`. Must not know
tables, manifests or SSTs, and must not connect at import time.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from slatespark.errors import InvalidRequestError, UnavailableError
from slatespark.storage.addressing import client_urls
from slatespark.storage.credentials import refuse_user_info
from slatespark.storage.known_options import LOCAL_OPTIONS, refuse_unknown_options
from slatespark.storage.local_store import LocalStore
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import Buffer, ObjectMeta, ObjectStore
from slatespark.storage.readahead import (
    Begun,
    begin_in_order,
    may_read_ahead,
    read_ahead,
    run_ahead,
    run_concurrently,
    run_in_groups,
    run_in_order,
)

__all__ = [
    "Begun",
    "Buffer",
    "ObjectMeta",
    "ObjectStore",
    "absolute_location",
    "begin_in_order",
    "client_urls",
    "may_read_ahead",
    "open_scratch",
    "open_store",
    "read_ahead",
    "refuse_few_slashes",
    "run_ahead",
    "run_concurrently",
    "run_in_groups",
    "run_in_order",
    "scratch_folder",
]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_FEW_SLASHES = re.compile(r"(s3a?|gc?s|az|abfss?|wasbs?|dbfs|hdfs|memory|https?):/?(?!/)", re.IGNORECASE)


def open_store(url: str, options: Mapping[str, object] | None = None) -> ObjectStore:
    """Return the store with the root `url`; connects on the first request.

    Parameters
    ----------
    url : a local path, `file://`, `memory://name` (one process, for tests), `s3://` or `s3a://` (equivalent), or any
        other URL for which fsspec has a driver. The parents of a clone are opened by separate calls with the same
        options.
    options : the `storage.*` options without that prefix, as text or Python values; `root` is ignored by this layer

    Raises
    ------
    InvalidRequestError : the URL cannot be used, or an option is unknown. Messages never contain credentials.
    """
    scheme = _SCHEME.match(url)
    if scheme is None and "://" in url:  # as in `simplecache::s3://`
        refuse_user_info(url)
        raise InvalidRequestError(f"{url} is not a URL.", todo="Use a path or protocol://location.")
    refuse_few_slashes(url)
    protocol = "file" if scheme is None else scheme[1].lower()
    if protocol in ("file", "local", "memory"):
        refuse_unknown_options(protocol, options or (), LOCAL_OPTIONS)
    if protocol in ("file", "local"):
        if "\0" in url:
            raise InvalidRequestError(f"{url!r} has a null character.", todo="Choose another path.")
        return LocalStore(_absolute(_local_folder(url)))
    if protocol == "memory":
        return MemoryStore(url[len("memory://") :])
    from slatespark.storage.remote_store import RemoteStore

    return RemoteStore(url, options)


def absolute_location(location: str, folder: str = "") -> str:
    """Return a location that means the same in a process with another working folder.

    Parameters
    ----------
    folder : where a relative path begins; by default the working folder of this process
    """
    scheme = _SCHEME.match(location)
    is_local = "://" not in location if scheme is None else scheme[1].lower() in ("file", "local")
    if not is_local or not location.strip() or _FEW_SLASHES.match(location):  # the last two are refused
        return location
    return str(_absolute(Path(folder) / _local_folder(location)))


def _absolute(path: Path) -> Path:
    try:
        return path.absolute()
    except FileNotFoundError as exc:
        raise InvalidRequestError(
            f"{path} is relative to a working folder that does not exist any more.", todo="Give the whole path."
        ) from exc


def open_scratch(folder: str) -> ObjectStore:
    """Return a store for temporary files of this process."""
    return LocalStore(folder, is_scratch=True)


@contextmanager
def scratch_folder(purpose: str) -> Iterator[str]:
    """Make a folder on the local disk, which is removed at the end.

    Raises
    ------
    UnavailableError
        When no folder for temporary files can be written.
    """
    try:
        folder = tempfile.TemporaryDirectory(prefix=f"slatespark-{purpose}-")
    except OSError as error:
        raise UnavailableError(
            "There is no folder for temporary files.",
            why=str(error),
            todo="Point TMPDIR to one that can be written, before Python starts.",
        ) from error
    with folder as name:
        yield name


def refuse_few_slashes(url: str) -> None:
    """Refuse `s3:/bucket` and `s3:bucket`, which would be local folders; `pathlib.Path` makes them of `s3://bucket`."""
    few = _FEW_SLASHES.match(url)
    if few is not None:
        meant = f"{few[1].lower()}://{url[few.end() :]}"
        refuse_user_info(meant)
        raise InvalidRequestError(
            f"{url} is neither a URL nor a path.",
            why="A URL has two slashes after the protocol, of which pathlib.Path leaves one.",
            todo=f"Give {meant} as text, or ./{url} for a local folder of that name.",
        )


def _local_folder(url: str) -> Path:
    """Return the folder of a plain path or of `file:/path`, `file:///path`, `file://localhost/path`."""
    if not re.match(r"(file|local):", url, re.IGNORECASE):
        try:
            return Path(url).expanduser()
        except RuntimeError as exc:
            raise InvalidRequestError(f"{url} names a home that does not exist.", todo="Give the whole path.") from exc
    place = url.partition(":")[2]
    if place.startswith("//"):
        host, slash, rest = place[2:].partition("/")
        if host not in ("", "localhost"):
            raise InvalidRequestError(
                f"{url} has a host.",
                why="A local URL has three slashes.",
                todo=f"Use file:///{host}{slash}{rest}.",
            )
        place = slash + rest
    if not place.strip():  # else it would be the working folder
        raise InvalidRequestError(f"{url} names no folder.", todo="Give a path, or a URL like file:///path.")
    return Path(place)
