"""Atomic and durable local files: temporary name, fsync, link or rename, fsync of the folder."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

from slatespark.errors import InvalidRequestError
from slatespark.storage.object_store import Buffer

# SlateDB ignores such names in every folder: the part before the first dot is empty, so it is neither a number nor a
# ULID.
TEMPORARY_PREFIX = ".slatespark-"
TEMPORARY_SUFFIX = ".tmp"

# The client uploads `x.sst` as `x.sst#1`, or with a higher number if that exists; its listings ignore these names.
_STAGED_BY_CLIENTS = re.compile(r"\.[a-z]+#\d+$", re.ASCII)

# Errors of file systems without hard links, or at the limit of links per file.
NO_HARD_LINK = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK})


def is_temporary(name: str) -> bool:
    """Tell whether `name` is a temporary file of slatespark or of a SlateDB client; listings omit it."""
    is_ours = name.startswith(TEMPORARY_PREFIX) and name.endswith(TEMPORARY_SUFFIX)
    return is_ours or _STAGED_BY_CLIENTS.search(name) is not None


def create_file(path: Path, data: Buffer) -> None:
    """Create `path` with the content `data`, atomically and durably; raises `FileExistsError` if it exists."""
    with _written_file(path.parent, [data]) as temporary:
        try:
            os.link(temporary, path)
        except FileExistsError:
            # A network file system may repeat the request and find its own link.
            if not temporary.samefile(path):
                raise
        except OSError as exc:
            if exc.errno not in NO_HARD_LINK:
                raise
            raise InvalidRequestError(
                f"{path.parent} is on a file system without hard links.",
                why="Without them, objects cannot be created atomically, and a commit could be lost.",
                todo="Use another file system or an object store.",
            ) from exc
    sync_folder(path.parent)


def replace_file(path: Path, parts: Sequence[Buffer], *, is_scratch: bool = False) -> None:
    """Write the concatenation of `parts` to `path`, replacing a file; atomic and, unless scratch, durable."""
    with _written_file(path.parent, parts, is_scratch=is_scratch) as temporary:
        temporary.replace(path)
    if not is_scratch:
        sync_folder(path.parent)


def compare_and_swap_file(path: Path, data: Buffer, expected: Buffer) -> None:
    """Replace the content `expected` of `path` by `data`, durably; raises `FileExistsError` if the content differs.

    A lock on the folder serializes calls of several processes. It does not exclude other ways of replacing the file.
    """
    with _locked(path.parent):
        if path.read_bytes() != expected:
            raise FileExistsError(errno.EEXIST, "other content", str(path))
        replace_file(path, [data])


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder; the lock ends with the process at the latest."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as exc:
            raise InvalidRequestError(
                f"{folder} is on a file system without locks.",
                why=f"Without locks, files cannot be replaced conditionally: {exc.strerror}.",
            ) from exc
        yield
    finally:
        os.close(descriptor)


def copy_file(source: Path, target: Path) -> None:
    """Hard-link `source` as `target`, or copy it without hard links; replaces an existing file."""
    make_folder(target.parent)
    temporary = _temporary_name(target.parent)
    try:
        try:
            os.link(source, temporary)
        except OSError as exc:
            if exc.errno not in NO_HARD_LINK:
                raise
            shutil.copyfile(source, temporary)
            _sync(temporary)
        temporary.replace(target)
    finally:
        # rename() keeps the temporary name if both are already links to the same file.
        temporary.unlink(missing_ok=True)
    sync_folder(target.parent)


def make_folder(folder: Path) -> None:
    """Create `folder` and its missing parents, durably."""
    missing = list(itertools.takewhile(lambda candidate: not candidate.exists(), [folder, *folder.parents]))
    for step in reversed(missing):
        try:
            step.mkdir(exist_ok=True)
        except FileExistsError as exc:  # most often a link to nowhere; callers take this error for an object's
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(step)) from exc
        sync_folder(step.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable."""
    try:
        _sync(folder)
    except OSError as exc:
        # Some network file systems do not support fsync of folders; their server does it.
        if exc.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise


@contextmanager
def _written_file(folder: Path, parts: Sequence[Buffer], *, is_scratch: bool = False) -> Iterator[Path]:
    """Yield a temporary file in `folder` with the content `parts`, durable unless scratch; removed afterwards."""
    temporary = _temporary_name(folder)
    try:
        with _open_new(temporary) as file:
            for part in parts:
                _write_all(file, part)
            if not is_scratch:
                os.fsync(file.fileno())
        yield temporary
    finally:  # also after an interrupt of its creation, when it may be there or not
        with suppress(FileNotFoundError, NotADirectoryError):
            temporary.unlink()


def _open_new(file: Path) -> FileIO:
    """Create a file, and the folder if it is missing. It is closed when nobody refers to it any more."""
    while True:
        try:
            return file.open("xb", buffering=0)
        except FileNotFoundError:
            make_folder(file.parent)


def _temporary_name(folder: Path) -> Path:
    """Return a name that nobody else uses: other hosts, and earlier processes with the same pid, included."""
    return folder / f"{TEMPORARY_PREFIX}{os.getpid()}-{os.urandom(8).hex()}{TEMPORARY_SUFFIX}"


def _write_all(file: FileIO, data: Buffer) -> None:
    rest = memoryview(data).cast("B")
    while rest:
        rest = rest[file.write(rest) :]


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
