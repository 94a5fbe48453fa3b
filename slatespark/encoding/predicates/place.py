"""Where in a filter something stands, and errors that show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from slatespark.errors import OptionError

_SHOWN: Final = 40  # characters of the text on either side


@dataclass(frozen=True, slots=True)
class Place:
    """Characters `[start, end)` of the text of a filter; `name` is the option or argument it was given for."""

    text: str
    start: int
    end: int
    name: str = "filter"

    def __str__(self) -> str:
        """Return the number of the character, from 1 on, and the text around it."""
        if self.start >= len(self.text):
            return f"at the end of the text, after `{_left(self.text, len(self.text))}`"
        found = self.text[self.start : min(self.end, self.start + _SHOWN)]
        right = self.text[self.end : self.end + _SHOWN] + ("..." if self.end + _SHOWN < len(self.text) else "")
        return f"at character {self.start + 1}: `{_left(self.text, self.start)}>>>{found}<<<{right}`"


def _left(text: str, end: int) -> str:
    return ("..." if end > _SHOWN else "") + text[max(end - _SHOWN, 0) : end]


def filter_error(what: str, place: Place | None, *, todo: str = "") -> OptionError:
    """Return the error for a filter, showing the place; a comparison that Spark pushed has none."""
    if place is None:
        return OptionError(f"filter: {what}.", todo=todo)
    return OptionError(f"{place.name}: {what} {place}.", todo=todo)
