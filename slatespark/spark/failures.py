"""Our errors as Spark shows them: Spark keeps only the text, so it begins with the class and is one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from slatespark.errors import SlateError


@contextmanager
def spark_errors() -> Iterator[None]:
    """Turn an error of ours into one whose text says class, what, where and what to do."""
    try:
        yield
    except SlateError as exc:
        text = " ".join(str(exc).split())
        raise RuntimeError(f"{type(exc).__name__}: {text}") from None
