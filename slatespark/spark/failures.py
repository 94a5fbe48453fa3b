"""Our errors as Spark shows them, and back: Spark keeps only the text, so it begins with the class and is one line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from slatespark import errors
from slatespark.errors import SlateError

_CLASSES: Final = {
    name: value for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, SlateError)
}
# `RuntimeError` is what spark_errors raises; the other one is how Spark marks what raise_error says.
_OUR_LINE: Final = re.compile(rf"(?:RuntimeError: |\[USER_RAISED_EXCEPTION\] )({'|'.join(_CLASSES)}): ([^\n]*)")
_SQL_STATE: Final = re.compile(r" SQLSTATE: \w{5}\s*$")


@contextmanager
def spark_errors() -> Iterator[None]:
    """Turn an error of ours into one whose text says class, what, where and what to do."""
    try:
        yield
    except SlateError as exc:
        text = " ".join(str(exc).split())
        raise RuntimeError(f"{type(exc).__name__}: {text}") from None


@contextmanager
def own_errors() -> Iterator[None]:
    """Turn Spark's error about an error of ours back into that one; every other error passes as it is.

    For what runs Spark jobs on the user's side. The class comes back, and the whole text.
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
    """Return the error of ours that an error text of Spark speaks of; None when it speaks of none."""
    found = _OUR_LINE.search(text)
    if found is None:
        return None
    return _CLASSES[found[1]](_SQL_STATE.sub("", found[2]).strip())
