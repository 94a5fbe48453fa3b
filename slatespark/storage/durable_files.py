"""Local files that appear whole and stay: temporary name, fsync, then link or rename, then fsync of the folder."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from slatespark.errors import InvalidRequestError
from slatespark.storage.object_store import Buffer

# The part before the first dot is empty and the extension is foreign: SlateDB takes such a name neither for a number
# nor for a ULID, in no folder.
TEMPORARY_PREFIX = ".slatespark-"
TEMPORARY_SUFFIX = ".tmp"

# The client uploads `x.sst` under `x.sst#1`, or a higher number if that is there; its listings pass these over, too.
_STAGED_BY_CLIENTS = re.compile(r"\.[a-z]+#\d+$", re.ASCII)

# What file systems without hard links answer, and those that have no more of them to give for this file.
NO_HARD_LINK = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK})

_serial = itertools.count()


def is_temporary(name: str) -> bool:
    """Tell whether `name` is a temporary file, of ours or of a SlateDB client, which no listing shows."""
    is_ours = name.startswith(TEMPORARY_PREFIX) and name.endswith(TEMPORARY_SUFFIX)
    return is_ours or _STAGED_BY_CLIENTS.search(name) is not None


def create_file(path: Path, data: Buffer) -> None:
    """Create `path` with the content `data`, atomically and durably; `FileExistsError` if it exists."""
    with _written_file(path.parent, [data]) as temporary:
        try:
            os.link(temporary, path)
        except FileExistsError:
            # A network file system may repeat the request by itself and then see the link that it has made.
            if not temporary.samefile(path):
                raise
        except OSError as exc:
            if exc.errno not in NO_HARD_LINK:
                raise
            raise InvalidRequestError(
                f"{path.parent} is on a file system without hard links.",
                why="Without them no object can be created atomically, and a commit could be lost.",
                todo="Keep the table on another file system or on an object store.",
            ) from exc
    sync_folder(path.parent)


def replace_file(path: Path, parts: Sequence[Buffer], *, is_scratch: bool = False) -> None:
    """Store `parts` one after the other as `path`, replacing what is there, atomically and, unless scratch, durably."""
    with _written_file(path.parent, parts, is_scratch=is_scratch) as temporary:
        temporary.replace(path)
    if not is_scratch:
        sync_folder(path.parent)


def exchange_file(path: Path, data: Buffer, expected: Buffer) -> None:
    """Replace `expected`, the content of `path`, durably; `FileExistsError` if it is another one.

    Processes that do this in one folder do it in turn. Whoever replaces the file otherwise is not kept from it.
    """
    with _locked(path.parent):
        if path.read_bytes() != expected:
            raise FileExistsError(errno.EEXIST, "other content", str(path))
        replace_file(path, [data])


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock on a folder, which ends with the process at the latest."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as exc:
            raise InvalidRequestError(
                f"{folder} is on a file system without locks.",
                why=f"Without them no file can be replaced on a condition: {exc.strerror}.",
            ) from exc
        yield
    finally:
        os.close(descriptor)


def copy_file(source: Path, target: Path) -> None:
    """Make `target` a second name of `source`, or a copy where hard links do not work; replaces what is there."""
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
        # rename() leaves the temporary name in place if both are names of one file already.
        temporary.unlink(missing_ok=True)
    sync_folder(target.parent)


def make_folder(folder: Path) -> None:
    """Create `folder` and what is missing above it, durably."""
    missing = list(itertools.takewhile(lambda candidate: not candidate.exists(), [folder, *folder.parents]))
    for step in reversed(missing):
        step.mkdir(exist_ok=True)
        sync_folder(step.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable."""
    try:
        _sync(folder)
    except OSError as exc:
        # Some network file systems cannot do it for folders: there the server does it by itself.
        if exc.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise


@contextmanager
def _written_file(folder: Path, parts: Sequence[Buffer], *, is_scratch: bool = False) -> Iterator[Path]:
    """Yield a temporary file in `folder` that holds `parts`, durably unless scratch; afterwards its name is gone."""
    descriptor, temporary = _open_temporary(folder)
    try:
        try:
            for part in parts:
                _write_all(descriptor, part)
            if not is_scratch:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        yield temporary
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def _open_temporary(folder: Path) -> tuple[int, Path]:
    while True:
        temporary = _temporary_name(folder)
        try:
            return os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), temporary
        except FileExistsError:
            continue  # left over from an earlier process of the same number, or of another host
        except FileNotFoundError:
            make_folder(folder)


def _temporary_name(folder: Path) -> Path:
    return folder / f"{TEMPORARY_PREFIX}{os.getpid()}-{next(_serial)}{TEMPORARY_SUFFIX}"


def _write_all(descriptor: int, data: Buffer) -> None:
    rest = memoryview(data).cast("B")
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
