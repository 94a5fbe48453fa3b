"""What may be asked of a store: object paths, folders and byte ranges, and the errors for what cannot be answered."""

from __future__ import annotations

import errno

from slatespark.errors import CorruptDataError, InvalidRequestError
from slatespark.ranges import ByteRange


def check_path(path: str) -> str:
    """Return `path` if it names an object below a root: parts joined by `/`, none of them empty, `.` or `..`."""
    if "\0" in path or not {"", ".", ".."}.isdisjoint(path.split("/")):
        raise InvalidRequestError(
            f"{path!r} is no object path.",
            why="Paths are relative to the root of the store, their parts are not empty and not '.' or '..'.",
        )
    return path


def check_folder(prefix: str) -> str:
    """Return `prefix` if it names a folder below a root: empty for the root itself, else a path and a final `/`."""
    if prefix:
        if not prefix.endswith("/"):
            raise InvalidRequestError(f"{prefix!r} is no folder.", why="A folder ends with '/'.")
        check_path(prefix[:-1])
    return prefix


def check_span(path: str, span: ByteRange, size: int) -> None:
    """Raise `CorruptDataError` unless `span` lies within the `size` bytes of the object `path`."""
    if not 0 <= span.start <= span.end:
        raise CorruptDataError(
            f"[{span.start}, {span.end}) is no byte range.", why="A stored offset or length is damaged.", path=path
        )
    if span.end > size:
        raise past_end(path, span, size)


def past_end(path: str, span: ByteRange, size: int) -> CorruptDataError:
    """Return the error for an object that ends before the range that was asked for."""
    return CorruptDataError(
        f"Bytes up to {span.end} were asked for, but the object has {size}.",
        why="It is truncated, or what points into it is damaged.",
        todo="Run `slatespark verify` on the table.",
        path=path,
        offset=span.start,
    )


def no_such_object(location: str) -> FileNotFoundError:
    """Return the error for an object that does not exist; `location` is its full address."""
    return FileNotFoundError(errno.ENOENT, "No such object", location)


def object_exists(location: str) -> FileExistsError:
    """Return the error for an object that was to be created and exists already; `location` is its full address."""
    return FileExistsError(errno.EEXIST, "The object exists already", location)
