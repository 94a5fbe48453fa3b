"""Positions in the text of a filter, and errors that show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from slatespark.errors import OptionError

_CONTEXT_CHARS: Final = 40  # shown on either side


@dataclass(frozen=True, slots=True)
class SourceSpan:
    """Characters `[start, end)` of the text of a filter; `name` is the option or argument that holds the text."""

    text: str
    start: int
    end: int
    name: str = "filter"

    def __str__(self) -> str:
        """Return the number of the first character, counted from 1, and the text around it."""
        if self.start >= len(self.text):
            return f"at the end of the text, after `{_text_before(self.text, len(self.text))}`"
        found = self.text[self.start : min(self.end, self.start + _CONTEXT_CHARS)]
        after = self.text[self.end : self.end + _CONTEXT_CHARS]
        dots = "..." if self.end + _CONTEXT_CHARS < len(self.text) else ""
        return f"at character {self.start + 1}: `{_text_before(self.text, self.start)}>>>{found}<<<{after}{dots}`"


def _text_before(text: str, end: int) -> str:
    return ("..." if end > _CONTEXT_CHARS else "") + text[max(end - _CONTEXT_CHARS, 0) : end]


def filter_error(what: str, span: SourceSpan | None, *, todo: str = "") -> OptionError:
    """Return the error for a part of a filter; `span` is None for a comparison that Spark pushed."""
    if span is None:
        return OptionError(f"filter: {what}.", todo=todo)
    return OptionError(f"{span.name}: {what} {span}.", todo=todo)
