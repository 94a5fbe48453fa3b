"""Checks of names of buckets, object paths, folders and byte ranges, and the errors of missing or truncated objects."""

from __future__ import annotations

import errno
import re
import urllib.parse
from collections.abc import Mapping
from typing import Final

from slatespark.errors import CorruptDataError, InvalidRequestError
from slatespark.ranges import ByteRange
from slatespark.texts import is_encodable

# What providers and other servers have. obstore ends in a panic for some other names, and sends the rest elsewhere.
_BUCKET: Final = re.compile(r"(?!\.)[A-Za-z0-9._-]{1,255}")
_CONTAINER: Final = re.compile(r"[A-Za-z0-9$_-]{1,255}(@[A-Za-z0-9._:-]+)?")  # with the host of its account

S3: Final = "s3"
GOOGLE: Final = "gs"
AZURE: Final = "az"

# The protocols of the providers whose servers create an object only if it is absent: what URLs are called, and whose
# they are.
PROVIDERS: Final[Mapping[str, str]] = {
    "s3": S3,
    "gs": GOOGLE,
    "gcs": GOOGLE,
    "az": AZURE,
    "abfs": AZURE,
    "abfss": AZURE,
}
_NAMES: Final = {S3: _BUCKET, GOOGLE: _BUCKET, AZURE: _CONTAINER}

# What the client's library, `object_store`, leaves as it is in a part of a path: `PathPart` in its src/path/parts.rs.
_KEPT: Final = "".join(sorted(set(map(chr, range(32, 127))) - set('\\/{^}%`]">[~<#|*?')))


def client_name(path: str) -> str:
    """Return the path of the objects of a database that SlateDB's client has opened by a path."""
    # The safe characters of `quote` do not end the tilde, which it always keeps.
    return urllib.parse.quote(path, safe=_KEPT + "/").replace("~", "%7E")


def client_urls(url: str) -> list[str]:
    """Return where the client may keep a database that it was given as this table, if not there; mostly nowhere.

    Its store may be rooted at any of the folders above, and only names below that root are encoded.
    """
    protocol, separator, place = url.partition("://")
    if protocol == "memory" or not is_encodable(url):
        return []  # of this process alone, or a name that no client takes
    bucket, *parts = place.split("/")
    encoded = [client_name(part) for part in parts]
    starts = (at for at in reversed(range(len(parts))) if encoded[at] != parts[at])
    return [f"{protocol}{separator}{'/'.join([bucket, *parts[:at], *encoded[at:]])}" for at in starts]


def check_bucket(protocol: str, place: str) -> None:
    """Raise `InvalidRequestError` unless `place`, what follows `protocol://`, is a bucket by name, or a path in it."""
    name, _, root = place.rstrip("/").partition("/")
    if protocol in PROVIDERS and root and not _is_path(root):
        raise InvalidRequestError(
            f"{protocol}://{place!r} has an empty part, '.', '..' or a null character.",
            why="Drivers and other programs do not agree on the objects that it means.",
            todo=f"Use {protocol}://bucket/path.",
        )
    if PROVIDERS.get(protocol) == AZURE and "\\" in root:
        raise InvalidRequestError(
            f"{protocol}://{place} has a backslash.",
            why="Azure stores a slash instead, and then finds nothing under the name that was asked for.",
            todo="Use a slash.",
        )
    is_access_point = place.startswith("arn:")  # of Amazon
    if protocol in PROVIDERS and not is_access_point and not _NAMES[PROVIDERS[protocol]].fullmatch(name):
        raise InvalidRequestError(
            f"{protocol}://{name!r} is not a bucket or container.",
            why="Names have letters, digits, hyphens, underscores and dots only.",
            todo=f"Use {protocol}://bucket/path.",
        )


def check_path(path: str) -> str:
    """Return `path` if it is a valid object path: parts joined by `/`, none of them empty, `.` or `..`."""
    if not _is_path(path):
        raise InvalidRequestError(
            f"{path!r} is not an object path.",
            why="Paths are relative to the root of the store, without empty parts, '.' or '..'.",
        )
    return path


def _is_path(path: str) -> bool:
    return "\0" not in path and {"", ".", ".."}.isdisjoint(path.split("/"))


def check_folder(prefix: str) -> str:
    """Return `prefix` if it is a valid folder: empty for the root, otherwise a path with a trailing `/`."""
    if prefix:
        if not prefix.endswith("/"):
            raise InvalidRequestError(f"{prefix!r} is not a folder.", why="A folder ends with '/'.")
        check_path(prefix[:-1])
    return prefix


def check_span(path: str, span: ByteRange, size: int) -> None:
    """Raise `CorruptDataError` unless `span` lies within the `size` bytes of the object `path`."""
    if not 0 <= span.start <= span.end:
        raise CorruptDataError(
            f"[{span.start}, {span.end}) is not a byte range.", why="A stored offset or length is damaged.", path=path
        )
    if span.end > size:
        raise past_end(path, span, size)


def past_end(path: str, span: ByteRange, size: int) -> CorruptDataError:
    """Return the error for an object that ends before the requested range."""
    return CorruptDataError(
        f"Bytes up to {span.end} were requested, but the object has {size}.",
        why="The object is truncated, or an offset into it is damaged.",
        todo="Run `slatespark verify` on the table.",
        path=path,
        offset=span.start,
    )


def no_such_object(location: str) -> FileNotFoundError:
    """Return the error for an object that does not exist; `location` is its full URL."""
    return FileNotFoundError(errno.ENOENT, "No such object", location)


def object_exists(location: str) -> FileExistsError:
    """Return the error for an object that already exists; `location` is its full URL."""
    return FileExistsError(errno.EEXIST, "The object already exists", location)
