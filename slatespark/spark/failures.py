"""Errors of slatespark through Spark and back. Spark keeps only their text: one line that begins with the class."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from slatespark import errors
from slatespark.errors import InvalidRequestError, MemoryLimitError, SlateError, as_slate_error

_CLASSES: Final = {
    name: value for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, SlateError)
}
# spark_errors raises RuntimeError. Spark marks the text of raise_error; with an old setting,
# spark.sql.legacy.raiseErrorWithoutErrorClass, it is that of a RuntimeException of Java.
_OUR_LINE: Final = re.compile(
    rf"(?:Runtime(?:Error|Exception): |\[USER_RAISED_EXCEPTION\] )({'|'.join(_CLASSES)}): ([^\n]*)"
)
_NOT_FOUND: Final = re.compile(r"\[DATA_SOURCE_NOT_FOUND\][^\n]*\bslate\b")
_SQL_STATE: Final = re.compile(r" SQLSTATE: \w{5}\s*$")


@contextmanager
def spark_errors() -> Iterator[None]:
    """Turn a `SlateError`, or an error of the machine, into a RuntimeError whose text holds its class and message.

    Of the machine are those that a program does not cause: its memory, disks and libraries. Others pass unchanged, and
    so do those of Spark's connections.
    """
    try:
        yield
    except ConnectionError:
        raise
    except Exception as exc:
        if not isinstance(exc, (SlateError, *_of_machine())):
            raise
        error = as_slate_error(exc)
        text = " ".join(str(error).split())
        raise RuntimeError(f"{type(error).__name__}: {text}") from (None if error is exc else exc)


def _of_machine() -> tuple[type[Exception], ...]:
    # Arrow raises nothing where nobody has imported it, which takes a process of Spark longer than all that is here.
    arrow = sys.modules.get("pyarrow")
    return (MemoryError, OSError, ImportError, UnicodeError, *(() if arrow is None else (arrow.ArrowException,)))


@contextmanager
def own_errors() -> Iterator[None]:
    """Turn Spark's error about a `SlateError` back into it, with its class and text; others pass unchanged.

    For code on the user's side that runs Spark jobs.
    """
    try:
        yield
    except SlateError:
        raise
    except Exception as exc:
        error = find_own_error(str(exc))
        if error is None:
            raise
        raise error from None


def find_own_error(text: str) -> SlateError | None:
    """Return the `SlateError` that Spark's error text contains or stands for; None if there is none."""
    found = _OUR_LINE.search(text)
    if found is None:
        return _not_registered() if _NOT_FOUND.search(text) else None
    return _CLASSES[found[1]](_SQL_STATE.sub("", found[2]).strip())


def lost_results(fact: str) -> MemoryLimitError:
    """Return the error for rows that `collect` lacks: it takes a connection that breaks for the end of the rows."""
    return MemoryLimitError(
        fact,
        why="Spark's driver broke off, as it does when it runs out of memory.",
        todo="Give it more (spark.driver.memory).",
    )


def _not_registered() -> SlateError:
    return InvalidRequestError(
        'Spark does not find format("slate").',
        why="It only finds data sources of installed packages, not those of --py-files or of failed imports.",
        todo="Call slatespark.register(spark) first.",
    )
