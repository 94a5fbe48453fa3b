"""The times that a commit may have, given the last clock tick of its table and the local clock.

See docs/explanation/how-a-commit-works.md, docs/reference/format/pitfalls.md.
"""

from __future__ import annotations

from slatespark.errors import ClockRegressionError
from slatespark.table.log.manifests import MAX_AHEAD_MS
from slatespark.table.stores import TableStores
from slatespark.units import ms_to_text, time_text


def check_tick(stores: TableStores, tick_ms: int, now_ms: int | None) -> None:
    """Refuse a table whose last tick is in the future; `now_ms` is None for a table with its own clock."""
    if now_ms is not None and tick_ms > now_ms + MAX_AHEAD_MS:
        raise ClockRegressionError(
            f"{stores.url}: the last clock tick is {time_text(tick_ms)}, the local clock says {time_text(now_ms)}.",
            why="Rows may not be older than the last tick, and a tick in the future would block SlateDB clients.",
            todo=f"Reads still work. Write again from {ms_to_text(tick_ms - MAX_AHEAD_MS)} by the local clock, or "
            "correct the clock.",
        )


def check_not_set_back(stores: TableStores, newest_ms: int, now_ms: int) -> None:
    """Refuse rows or files of a write that are in the future, as the clock was set back since it was planned."""
    if newest_ms > now_ms + MAX_AHEAD_MS:
        raise ClockRegressionError(
            f"{stores.url}: the write has rows or files of {time_text(newest_ms)}, the local clock says "
            f"{time_text(now_ms)}.",
            why="The clock was set back during the write, and times in the future would block SlateDB clients.",
            todo="Write again.",
        )


def check_timestamp(stores: TableStores, timestamp_ms: int, tick_ms: int, now_ms: int | None) -> None:
    """Refuse a commit time before the last tick or ahead of the local clock; `now_ms` as for `check_tick`."""
    given = f"{stores.url}: the timestamp of the write is {time_text(timestamp_ms)}"
    if timestamp_ms < tick_ms:
        raise ClockRegressionError(
            f"{given}, the last clock tick of the table {time_text(tick_ms)}.",
            why="Rows may not be older than the last tick.",
            todo="Give a later timestamp, or none.",
        )
    check_not_ahead(given, timestamp_ms, now_ms)


def check_not_ahead(given: str, timestamp_ms: int, now_ms: int | None) -> None:
    """Refuse a time in the future; `now_ms` as for `check_tick`."""
    if now_ms is not None and timestamp_ms > now_ms + MAX_AHEAD_MS:
        raise ClockRegressionError(
            f"{given}, the local clock says {time_text(now_ms)}.",
            why="A clock tick in the future would block SlateDB clients.",
            todo="Give a timestamp that is not in the future.",
        )
