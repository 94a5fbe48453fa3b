"""Every error raised on purpose, grouped by what the caller should do next.

`str(error)` is one line: what happened, why, and what to do. Errors never contain secrets.
"""

from __future__ import annotations

import errno
from typing import Final, Self

MAKE_ROOM: Final = "Make room there, or write to another place."


class SlateError(Exception):
    """Base of every error raised on purpose.

    Parameters
    ----------
    what : the fact, with the value found, the value expected and the object path
    why : the likely cause, where one is known
    todo : what the caller can do about it
    """

    def __init__(self, what: str, *, why: str = "", todo: str = "") -> None:
        super().__init__(what)  # only `what` in args, defaults on the rest: errors are pickled on Spark executors
        self.why, self.todo = why, todo

    def __str__(self) -> str:
        """Join the fact, the cause and the remedy."""
        return _printable(" ".join(_sentences(str(self.args[0]), self.why, self.todo)))


class InvalidRequestError(SlateError):
    """The call is wrong: fix it. The table is unchanged."""


class OptionError(InvalidRequestError):
    """An option is unknown, malformed, or contradicts another one."""


class SchemaError(InvalidRequestError):
    """Columns, types or row contents do not fit the table."""


class TableNotFoundError(InvalidRequestError):
    """There is no SlateDB database at this location."""


class TableExistsError(InvalidRequestError):
    """A table already exists where one was to be created."""


class ClockRegressionError(InvalidRequestError):
    """A time is before the table's last clock tick, or ahead of the clock."""


class ConflictError(SlateError):
    """Another process committed first: retry."""


class CommitConflictError(ConflictError):
    """Another commit, or an active SlateDB client, intervened between the start of this write and its commit."""


class TransactionConflictError(ConflictError):
    """A key or range that the transaction depends on has changed."""


class UnavailableError(SlateError):
    """The object store did not answer in time: retry later."""


class HistoryTrimmedError(SlateError):
    """The requested past state can no longer be read exactly: choose a later point."""


class SnapshotExpiredError(HistoryTrimmedError):
    """A file of the snapshot was garbage-collected during the read: load again."""


class CorruptDataError(SlateError):
    """Stored bytes are damaged: restore them.

    The pure layers raise it with an offset relative to the bytes they were given. The caller that fetched those bytes
    adds the object with `located`.
    """

    def __init__(self, what: str, *, why: str = "", todo: str = "", path: str = "", offset: int | None = None) -> None:
        super().__init__(what, why=why, todo=todo)
        self.path, self.offset = path, offset

    def located(self, path: str, base_offset: int = 0) -> Self:
        """Return the same error, naming the object and the absolute byte offset in it.

        An error that already names an object is returned unchanged.
        """
        if self.path:
            return self
        offset = None if self.offset is None else self.offset + base_offset
        return type(self)(str(self.args[0]), why=self.why, todo=self.todo, path=path, offset=offset)

    def __str__(self) -> str:
        """Prefix the message with the object and the offset."""
        where = self.path + (f" at byte {self.offset}" if self.offset is not None else "")
        message = super().__str__()
        return f"{_printable(where)}: {message}" if where else message


class UnsupportedFormatError(SlateError):
    """The bytes have a version, or use a feature, that this release does not support: upgrade."""


class MemoryLimitError(SlateError):
    """The process cannot have as much memory as it needs: give it more, or let it hold less at a time."""


class InternalError(SlateError):
    """A bug in slatespark: report it."""


def _sentences(*parts: str) -> list[str]:
    """Return the parts that say something, each but the last one closed: a cause may quote text without a full stop."""
    said = [part.strip() for part in parts if part.strip()]
    closed = [part if part.endswith((".", "!", "?", ":")) else f"{part}." for part in said[:-1]]
    return closed + said[-1:]


def _printable(text: str) -> str:
    """Escape the halves of surrogate pairs, which no stream takes: a filter or the name of a file may have one."""
    return text.encode(errors="backslashreplace").decode()


def is_disk_full(exc: Exception) -> bool:
    """Tell whether an error says that a disk, or its user's share of it, is full."""
    return isinstance(exc, OSError) and exc.errno in (errno.ENOSPC, errno.EDQUOT)


def as_slate_error(exc: Exception, where: str = "") -> SlateError:
    """Return an error as a `SlateError`: itself, or one that names `where`, if given, and has it as its cause.

    Python, Arrow and numpy have a `MemoryError` when an allocation fails. Calls of Python let it pass as it is. Where
    only a line of text arrives, such as on the command line, it is a `SlateError` that says what helps.
    """
    if isinstance(exc, SlateError):
        return exc
    prefix = f"{where}: " if where else ""
    if isinstance(exc, MemoryError):
        error: SlateError = MemoryLimitError(
            f"{prefix}There is not enough memory{f' ({exc})' if str(exc) else ''}.",
            todo="Give the process more, or let it hold less at a time: a smaller readBuffer or walBuffer to read, "
            "writeBuffer to write or compact, splitSize for tasks of Spark, or fewer rows in a batch.",
        )
    else:
        todo = MAKE_ROOM if is_disk_full(exc) else ""
        if isinstance(exc, ImportError):
            todo = "Install it in each Python that needs it, on Spark's executors too."
        error = SlateError(f"{prefix}{type(exc).__name__}: {exc}", todo=todo)
    error.__cause__ = exc
    return error
