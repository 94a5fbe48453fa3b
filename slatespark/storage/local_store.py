"""Objects as files below a folder."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from slatespark.errors import MAKE_ROOM, InvalidRequestError, UnavailableError, is_disk_full
from slatespark.ranges import ByteRange
from slatespark.storage.addressing import (
    check_folder,
    check_path,
    check_span,
    no_such_object,
    object_exists,
    past_end,
)
from slatespark.storage.durable_files import (
    compare_and_swap_file,
    copy_file,
    create_file,
    is_temporary,
    replace_file,
    sync_folder,
)
from slatespark.storage.mapped_files import MappedFiles
from slatespark.storage.object_store import Buffer, ObjectMeta
from slatespark.units import ns_to_ms

# Below these sizes, pread is cheaper than the page faults of a map. The map of a whole object serves nobody again.
MAP_BYTES = 128 << 10
MAP_OBJECT_BYTES = 1 << 20

_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)
_NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)


class LocalStore:
    """Files below `root`; folders are created on demand.

    Large ranges are views of memory maps, without a copy; a view outlives the store and the file's name. A file must
    not be truncated in place while it is read. No writer does so: objects are replaced, never changed.

    Parameters
    ----------
    root : folder, which need not exist; a relative path is resolved now
    is_scratch : whether objects stored by `put` need not be durable, so it does not wait for the disk
    """

    def __init__(self, root: str | Path, *, is_scratch: bool = False) -> None:
        self._root = Path(root).absolute()
        self._is_scratch = is_scratch
        self._maps = MappedFiles()

    def __repr__(self) -> str:
        return f"LocalStore({str(self._root)!r})"

    def __reduce__(self) -> tuple[type[LocalStore], tuple[str]]:
        return LocalStore, (str(self._root),)

    @property
    def url(self) -> str:
        """URL of the root."""
        return f"file://{self._root}"

    @property
    def is_remote(self) -> bool:
        """False: reads have no network latency."""
        return False

    @property
    def lists_whole_folders(self) -> bool:
        """True: an operating system begins with any name."""
        return True

    def get(self, path: str) -> Buffer:
        """Return a whole object."""
        with self._translated_errors("read", path), self._opened(path) as (descriptor, status):
            return self._read(path, ByteRange(0, status.st_size), descriptor, status, MAP_OBJECT_BYTES)

    def get_range(self, path: str, span: ByteRange) -> Buffer:
        """Return the bytes `[span.start, span.end)`."""
        return self.get_ranges(path, [span])[0]

    def get_ranges(self, path: str, spans: Sequence[ByteRange]) -> list[Buffer]:
        """Return several ranges of one object, in the given order."""
        with self._translated_errors("read", path), self._opened(path) as (descriptor, status):
            return [self._read(path, span, descriptor, status, MAP_BYTES) for span in spans]

    def head(self, path: str) -> ObjectMeta:
        """Return size and modification time of an object."""
        with self._translated_errors("look up", path):
            meta = _meta_of(self._file(path), path)
        if meta is None:
            raise no_such_object(f"{self.url}/{path}")
        return meta

    def list(self, prefix: str, start_after: str = "") -> list[ObjectMeta]:
        """Return the objects directly in the folder `prefix`, ascending by path."""
        is_inside = start_after.startswith(prefix)
        if start_after > prefix and not is_inside:
            return []
        last = start_after.removeprefix(prefix) if is_inside else ""
        later = [name for name in self._names(prefix) if name > last]  # of thousands mostly few
        return [*self._metas(prefix, [name for name in later if not is_temporary(name)])]

    def list_below(self, prefix: str) -> Sequence[ObjectMeta]:
        """Return the objects in the folder `prefix` and in all folders below it, ascending by path."""
        found = [meta for folder in self._folders(prefix) for meta in self.list(folder)]
        return sorted(found, key=lambda meta: meta.path)

    def list_unfinished(self, prefix: str) -> Sequence[ObjectMeta]:
        """Return the temporary files below the folder `prefix`."""
        unfinished = {folder: filter(is_temporary, self._names(folder)) for folder in self._folders(prefix)}
        found = [meta for folder, names in unfinished.items() for meta in self._metas(folder, names)]
        return sorted(found, key=lambda meta: meta.path)

    def create(self, path: str, data: Buffer) -> None:
        """Create an object atomically and durably, or raise `FileExistsError`."""
        with self._translated_errors("create", path):
            create_file(self._file(path), data)

    def replace(self, path: str, data: Buffer, expected: Buffer) -> None:
        """Replace the content `expected` by `data`, or raise `FileExistsError`."""
        with self._translated_errors("replace", path):
            compare_and_swap_file(self._file(path), data, expected)

    def put(self, path: str, parts: Sequence[Buffer]) -> None:
        """Store the concatenation of `parts`, replacing an existing object; durable on return."""
        with self._translated_errors("write", path):
            replace_file(self._file(path), parts, is_scratch=self._is_scratch)

    def copy(self, source: str, target: str) -> None:
        """Copy an object by a hard link; it keeps the modification time of the source."""
        with self._translated_errors("copy", source):
            copy_file(self._file(source), self._file(target))

    def delete(self, path: str) -> None:
        """Delete an object; a missing object is not an error."""
        file = self._file(path)
        with self._translated_errors("delete", path):
            try:
                file.unlink()
                sync_folder(file.parent)  # which may be pruned by now
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return

    def delete_many(self, paths: Sequence[str]) -> None:
        """Delete objects, one after the other; missing ones are not an error."""
        for path in paths:
            self.delete(path)

    def prune(self, folders: Sequence[str]) -> None:
        """Remove folders that hold nothing, with all below them, and then the root."""
        below = [folder for prefix in folders for folder in self._folders(prefix)]
        for folder in (*reversed(below), ""):
            with contextlib.suppress(OSError):  # it holds something, or is gone
                (self._root / folder).rmdir()

    def _folders(self, prefix: str) -> Iterator[str]:
        """Yield a folder, whether or not it exists, and all below it; links to folders are not followed."""
        yield check_folder(prefix)
        for folder, _, _ in os.walk(self._root / prefix, onerror=partial(self._refuse_unread, prefix)):
            below = f"{Path(folder).relative_to(self._root).as_posix()}/"
            if below not in (prefix, "./"):
                yield below

    def _refuse_unread(self, prefix: str, error: OSError) -> None:
        """Raise the error of a folder that cannot be listed, unless it is not there."""
        with self._translated_errors("list", prefix):
            if not isinstance(error, FileNotFoundError | NotADirectoryError):
                raise error

    def _file(self, path: str) -> Path:
        return self._root / check_path(path)

    def _names(self, prefix: str) -> Sequence[str]:
        """Return the names in a folder, in any order."""
        check_folder(prefix)
        with self._translated_errors("list", prefix):
            try:
                return os.listdir(self._root / prefix)  # noqa: PTH208  # iterdir makes objects of all of them
            except (FileNotFoundError, NotADirectoryError):
                return []

    def _metas(self, prefix: str, names: Iterable[str]) -> Sequence[ObjectMeta]:
        """Return the files of these names that are still there, ascending by path."""
        folder = f"{self._root / prefix}/"  # a `Path` of each name would take three times as long as its status
        with self._translated_errors("list", prefix):
            metas = [_meta_of(folder + name, prefix + name) for name in sorted(names)]
        return [meta for meta in metas if meta is not None]

    @contextmanager
    def _opened(self, path: str) -> Iterator[tuple[int, os.stat_result]]:
        descriptor = os.open(self._file(path), os.O_RDONLY)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise IsADirectoryError(errno.EISDIR, "not a file", path)
            yield descriptor, status
        finally:
            os.close(descriptor)

    def _read(self, path: str, span: ByteRange, descriptor: int, status: os.stat_result, map_bytes: int) -> Buffer:
        check_span(path, span, status.st_size)
        if len(span) >= map_bytes:
            return self._maps.view(self._file(path), descriptor, status)[span.start : span.end]
        data = os.pread(descriptor, len(span), span.start)
        if len(data) < len(span):
            raise past_end(path, span, span.start + len(data))
        return data

    @contextmanager
    def _translated_errors(self, operation: str, path: str) -> Iterator[None]:
        """Translate system errors to the errors of `ObjectStore`."""
        location = f"{self.url}/{path}"
        try:
            yield
        except FileExistsError as exc:
            raise object_exists(location) from exc
        except OSError as exc:
            if exc.errno in _NOT_THERE and operation not in ("create", "write", "list"):
                raise no_such_object(location) from exc
            what, why = f"Cannot {operation} {location}.", f"The operating system reports: {exc.strerror}."
            if exc.errno in _NOT_ALLOWED:
                raise InvalidRequestError(what, why=why, todo="Check the permissions of the folder.") from exc
            if exc.errno in _NOT_THERE and exc.errno != errno.ENOENT:  # the path is a folder, or a parent is a file
                raise InvalidRequestError(what, why=why, todo="Choose another path.") from exc
            raise UnavailableError(what, why=why, todo=MAKE_ROOM if is_disk_full(exc) else "") from exc


def _meta_of(file: str | Path, path: str) -> ObjectMeta | None:
    try:
        status = os.stat(file)  # noqa: PTH116  # as text where there are many
    except FileNotFoundError:  # deleted meanwhile, or a dangling link
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return ObjectMeta(path, status.st_size, ns_to_ms(status.st_mtime_ns))
