"""One request each to any file system that fsspec knows: no retries, errors as the driver raises them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from slatespark.errors import InvalidRequestError
from slatespark.ranges import ByteRange
from slatespark.storage.credentials import BackendOptions
from slatespark.storage.object_store import Buffer, ObjectMeta
from slatespark.units import ns_to_ms, parse_time_ms

# Requests in flight for one call, for drivers that can do several at once.
CONCURRENCY = 16

# Where creating an object is one request that the server itself refuses if the object exists: If-None-Match on S3 and
# Azure, ifGenerationMatch on Google. Elsewhere a driver looks first and then writes, and two writers may both win.
CONDITIONAL_CREATE = frozenset({"s3", "gs", "gcs", "abfs", "abfss", "az"})


class Driver(Protocol):
    """The requests that a `FsspecStore` sends; paths are relative to its root."""

    def read(self, path: str) -> bytes:
        """Return a whole object."""

    def read_span(self, path: str, span: ByteRange) -> bytes:
        """Return a range, which is not empty; fewer bytes if the object ends before."""

    def read_spans(self, path: str, spans: Sequence[ByteRange]) -> list[bytes | BaseException]:
        """Return several ranges, each by a request of its own, with the errors among them."""

    def head(self, path: str) -> ObjectMeta:
        """Return size and modification time."""

    def list(self, prefix: str, start_after: str) -> list[ObjectMeta]:
        """Return the objects directly in the folder, in any order; some up to `start_after` may be among them."""

    def create(self, path: str, data: bytes) -> None:
        """Create an object atomically, or raise what `judge` takes for EXISTS."""

    def replace(self, path: str, data: bytes, expected: bytes) -> None:
        """Put `data` in the place of `expected` atomically, or raise what `judge` takes for EXISTS."""

    def write(self, path: str, parts: Sequence[Buffer]) -> None:
        """Store the concatenation of `parts`."""

    def copy(self, source: str, target: str) -> None:
        """Copy an object."""

    def delete(self, path: str) -> None:
        """Delete an object."""


# By process (a child must not use its parent's connections), protocol and options. Entries stay for the life of the
# process, so that all tables of one place share connections. No lock: in a race both get the one that was first.
_FILE_SYSTEMS: dict[tuple[int, str, object], Any] = {}


def shared_file_system(protocol: str, options: BackendOptions, make: Callable[[], Any]) -> Any:
    """Return the file system of this process for a protocol and options, made by `make` at the first call."""
    key = (os.getpid(), protocol, options.identity())
    if key not in _FILE_SYSTEMS:
        _FILE_SYSTEMS.setdefault(key, make())
    return _FILE_SYSTEMS[key]


class FsspecDriver:
    """Requests through fsspec's common interface.

    Parameters
    ----------
    url : root, with its protocol
    options : handed to the driver as they are, but for `true` and `false`
    """

    def __init__(self, url: str, options: BackendOptions) -> None:
        self._protocol = url.partition("://")[0]
        self._fs, self._root = _open_root(url, self._protocol, options)

    def read(self, path: str) -> bytes:
        """Return a whole object."""
        return bytes(self._fs.cat_file(self._key(path)))

    def read_span(self, path: str, span: ByteRange) -> bytes:
        """Return a range."""
        return bytes(self._fs.cat_file(self._key(path), start=span.start, end=span.end))

    def read_spans(self, path: str, spans: Sequence[ByteRange]) -> list[bytes | BaseException]:
        """Return several ranges."""
        limit = {"batch_size": CONCURRENCY} if self._fs.async_impl else {}
        starts, ends = [span.start for span in spans], [span.end for span in spans]
        return list(self._fs.cat_ranges([self._key(path)] * len(spans), starts, ends, on_error="return", **limit))

    def head(self, path: str) -> ObjectMeta:
        """Return size and modification time."""
        self._fs.invalidate_cache()
        info = self._fs.info(self._key(path))
        if info["type"] != "file":
            raise IsADirectoryError(path)
        return _meta(path, info)

    def list(self, prefix: str, start_after: str) -> list[ObjectMeta]:
        """Return the objects directly in the folder."""
        self._fs.invalidate_cache()
        folder = self._key(prefix).rstrip("/")
        try:
            infos = self._fs.ls(folder, detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        found = []
        for info in infos:
            parent, _, name = str(info["name"]).rpartition("/")
            # A file asked for as a folder answers with itself.
            if info["type"] == "file" and name and parent.strip("/") == folder.strip("/"):
                found.append(_meta(prefix + name, info))
        return found

    def create(self, path: str, data: bytes) -> None:
        """Create an object atomically; refused where the driver cannot do that."""
        if self._protocol not in CONDITIONAL_CREATE:
            raise InvalidRequestError(
                f"No table can be written at {self._protocol}://.",
                why="Its driver looks whether an object exists and then writes it: of two writers both could succeed.",
                todo="Write to a local folder, s3://, gs:// or abfs://; reading works here too.",
            )
        self._fs.pipe_file(self._key(path), data, **self._exclusive())

    def replace(self, path: str, data: bytes, expected: bytes) -> None:
        """Refuse: the common interface knows no condition for it."""
        raise InvalidRequestError(f"No object can be replaced on a condition at {self._protocol}://.")

    def write(self, path: str, parts: Sequence[Buffer]) -> None:
        """Store the concatenation of `parts`."""
        self._fs.pipe_file(self._key(path), b"".join(parts))

    def copy(self, source: str, target: str) -> None:
        """Copy an object."""
        self._fs.cp_file(self._key(source), self._key(target))

    def delete(self, path: str) -> None:
        """Delete an object."""
        try:
            self._fs.rm_file(self._key(path))
        except FileNotFoundError:
            return

    def _key(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _exclusive(self) -> dict[str, Any]:
        """Return the argument that makes `pipe_file` create, as this release of the driver knows it."""
        known = inspect.signature(getattr(self._fs, "_pipe_file", self._fs.pipe_file)).parameters
        if "mode" in known:
            return {"mode": "create"}
        if "overwrite" in known:  # Azure
            return {"overwrite": False}
        raise InvalidRequestError(
            f"The installed driver of {self._protocol}:// is too old to create an object only if it is absent.",
            todo="Install a newer one.",
        )


def _open_root(url: str, protocol: str, options: BackendOptions) -> tuple[Any, str]:
    import fsspec

    switches = {"true": True, "false": False}
    arguments = {name: switches.get(value.lower(), value) for name, value in options.items()}
    host = url.partition("://")[2].partition("/")[0]  # what some protocols connect to
    try:
        fs = shared_file_system(
            f"{protocol}://{host}",
            options,
            lambda: fsspec.core.url_to_fs(url, skip_instance_cache=True, **arguments)[0],
        )
    except ImportError as exc:
        raise InvalidRequestError(
            f"The driver of {protocol}:// is not installed.", why=str(exc), todo="Install it with pip."
        ) from exc
    return fs, str(fs._strip_protocol(url)).rstrip("/")


def _meta(path: str, info: dict[str, Any]) -> ObjectMeta:
    names = ("LastModified", "last_modified", "mtime", "modified", "updated", "created")
    moment = next((info[name] for name in names if info.get(name)), 0)
    # Seconds since the epoch where it is a number.
    modified_ms = ns_to_ms(round(moment * 1e9)) if isinstance(moment, int | float) else parse_time_ms(moment)
    return ObjectMeta(path, int(info["size"]), modified_ms)
