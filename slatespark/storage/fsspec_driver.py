"""Single requests to any file system of fsspec: no retries, errors as raised by the driver."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final

from slatespark.errors import InvalidRequestError
from slatespark.ranges import ByteRange
from slatespark.storage.addressing import PROVIDERS
from slatespark.storage.credentials import BackendOptions
from slatespark.storage.known_options import constructor_options, refuse_unknown_options
from slatespark.storage.object_store import Buffer, ObjectMeta, tag_of
from slatespark.storage.shared_clients import SharedClients
from slatespark.units import ns_to_ms, parse_time_ms

# Concurrent requests of one call, for drivers that support it.
CONCURRENCY = 16

_FILE_SYSTEMS: Final = SharedClients[Any]()


def shared_file_system(protocol: str, options: BackendOptions, make: Callable[[], Any]) -> Any:
    """Return the file system of this process for a protocol and options; `make` creates it on the first call."""
    return _FILE_SYSTEMS.get((protocol, options.identity()), make)


class FsspecDriver:
    """Requests through fsspec's common interface.

    Parameters
    ----------
    url : root, with its protocol
    options : options for the driver; `true` and `false` become booleans
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
            # Listing a file returns the file itself.
            if info["type"] == "file" and name and parent.strip("/") == folder.strip("/"):
                found.append(_meta(prefix + name, info))
        return found

    def list_below(self, prefix: str) -> Sequence[ObjectMeta]:
        """Return the objects in the folder and in all folders below it."""
        self._fs.invalidate_cache()
        found = self._fs.find(self._key(prefix).rstrip("/"), detail=True)
        root = f"{self._root.strip('/')}/"
        metas = [_meta(name.strip("/").removeprefix(root), info) for name, info in found.items()]
        return [meta for meta in metas if meta.path.startswith(prefix)]  # the name of a file finds that file

    def create(self, path: str, data: bytes) -> None:
        """Create an object atomically; refused if the driver does not support it."""
        # If-None-Match on S3 and Azure, ifGenerationMatch on Google. Other drivers check first and then write.
        if self._protocol not in PROVIDERS:
            raise InvalidRequestError(
                f"Tables on {self._protocol}:// are read-only.",
                why="The driver has no atomic creation: two concurrent writers could both succeed.",
                todo="Write to a local folder, s3://, gs:// or abfs://.",
            )
        self._fs.pipe_file(self._key(path), data, **self._exclusive())

    def replace(self, path: str, data: bytes, expected: bytes) -> None:
        """Raise `InvalidRequestError`: fsspec has no conditional replacement."""
        raise InvalidRequestError(f"Objects on {self._protocol}:// cannot be replaced conditionally.")

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

    def delete_many(self, paths: Sequence[str]) -> bool:
        """Return False: most drivers send a request for each, and do not say which of them failed."""
        return False

    def _key(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _exclusive(self) -> dict[str, Any]:
        """Return the argument for conditional creation in the installed version of the driver."""
        known = inspect.signature(getattr(self._fs, "_pipe_file", self._fs.pipe_file)).parameters
        if "mode" in known:
            return {"mode": "create"}
        if "overwrite" in known:  # Azure
            return {"overwrite": False}
        raise InvalidRequestError(
            f"The installed driver of {self._protocol}:// is too old.",
            why="It cannot create an object only if it is absent.",
            todo="Install a newer version.",
        )


def _open_root(url: str, protocol: str, options: BackendOptions) -> tuple[Any, str]:
    import fsspec

    switches = {"true": True, "false": False}
    arguments = {name: switches.get(value.lower(), value) for name, value in options.items()}
    host = url.partition("://")[2].partition("/")[0]  # some protocols connect to it
    try:
        refuse_unknown_options(protocol, options, constructor_options(fsspec.get_filesystem_class(protocol)))
        fs = shared_file_system(
            f"{protocol}://{host}",
            options,
            lambda: fsspec.core.url_to_fs(url, skip_instance_cache=True, **arguments)[0],
        )
    except ImportError as exc:
        raise InvalidRequestError(
            f"The driver of {protocol}:// is not installed.", why=str(exc), todo="Install it with pip."
        ) from exc
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as exc:  # of an archive, which is opened here
        raise InvalidRequestError(f"{url} cannot be opened.", why=str(exc), todo="Correct the URL.") from exc
    return fs, str(fs._strip_protocol(url)).rstrip("/")


def _meta(path: str, info: dict[str, Any]) -> ObjectMeta:
    names = ("LastModified", "last_modified", "mtime", "modified", "updated", "created")
    moment = next((info[name] for name in names if info.get(name)), 0)
    # A number is seconds since the epoch.
    modified_ms = ns_to_ms(round(moment * 1e9)) if isinstance(moment, int | float) else parse_time_ms(moment)
    return ObjectMeta(path, int(info["size"]), modified_ms, tag_of(info.get("ETag") or info.get("etag")))
