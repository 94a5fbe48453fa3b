"""What happened, one line each: storage calls, faults, and what actors did and got."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

SHOWN: Final = 150  # lines of a shortened history
_READS: Final = ("get", "head", "list")


@dataclass(frozen=True, slots=True)
class Event:
    """One line.

    Attributes
    ----------
    at_ms : since the beginning
    kind : of the storage call, or of what else happened
    """

    at_ms: int
    actor: str
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.at_ms:>10} {self.actor:<12} {self.kind:<8} {self.text}"


@dataclass(slots=True)
class History:
    """All lines of a seed."""

    events: list[Event] = field(default_factory=list)

    def add(self, at_ms: int, actor: str, kind: str, text: str) -> None:
        """Add a line."""
        self.events.append(Event(at_ms, actor, kind, text))

    def shortened(self) -> Iterator[str]:
        """Yield the last lines, without reads that succeeded."""
        kept = [each for each in self.events if each.kind not in _READS or "!" in each.text]
        if len(kept) > SHOWN:
            yield f"... {len(kept) - SHOWN} lines before"
        yield from map(str, kept[-SHOWN:])

    def whole(self) -> str:
        """Return every line."""
        return "\n".join(map(str, self.events))
