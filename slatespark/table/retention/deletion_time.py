"""The instant at which deletions for good are judged: no later than by the slowest clock of those who read."""

from __future__ import annotations

from typing import Final

from slatespark.errors import OptionError
from slatespark.table.clock import Clock, present_text, read_clock
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.snapshot import Snapshot
from slatespark.units import time_text

SKEW_MS: Final = 60_000  # other clocks may be this far behind: deleted rows must be past retention by them too


def resolve_deletion_time(snapshot: Snapshot, definition: TableDefinition, clock: Clock, now_ms: int | None) -> int:
    """Return the instant at which deletions are judged; raises `OptionError` if it is in the future."""
    tick_ms, has_own_time = snapshot.tick_ms, definition.has_own_time
    if now_ms is None:
        return default_deletion_time(tick_ms, definition, clock)
    present_ms = tick_ms if has_own_time else max(tick_ms, read_clock(clock))
    if now_ms > present_ms:
        raise OptionError(
            f"now: {time_text(now_ms)} is in the future, {present_text(present_ms, own_time=has_own_time)}.",
            why="It would delete rows that are not past retention yet.",
            todo="Give an instant in the past, or none.",
        )
    return now_ms


def default_deletion_time(tick_ms: int, definition: TableDefinition, clock: Clock) -> int:
    """Return the instant at which deletions are judged unless one is given; `tick_ms` is the last clock tick."""
    return tick_ms if definition.has_own_time else max(tick_ms, read_clock(clock) - SKEW_MS)
