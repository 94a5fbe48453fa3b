"""Filters on the metadata columns `_seq`, `_create_ts`, `_expire_ts`, tested on files as a whole. Pure."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from slatespark.format.properties import SstProperties
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE
from slatespark.units import MAX_TIMESTAMP_MS

if TYPE_CHECKING:
    from slatespark.encoding.predicates import Condition, Filter

# Column -> smallest and largest value in a file, both in the unit of the column, and whether rows may lack it.
_BOUNDS: Final[dict[str, Callable[[SstProperties], tuple[int | None, int | None, bool]]]] = {
    "_seq": lambda known: (known.min_seq, known.max_seq, False),
    "_create_ts": lambda known: _instants(known.min_create_ts, known.max_create_ts, known.all_flags & HAS_CREATE),
    "_expire_ts": lambda known: _instants(known.min_expire_ts, known.max_expire_ts, known.all_flags & HAS_EXPIRE),
}
_MAX_SEQ: Final = (1 << 63) - 1  # the largest number that the column can show


def file_test(condition: Filter | None, columns: list[str]) -> Callable[[SstProperties], bool] | None:
    """Return a test whether any row of a file can pass the filter; None if the filter says nothing of whole files.

    Parameters
    ----------
    condition : bound to the columns of the table and metadata columns
    columns : columns of the table, which hide metadata columns of their names
    """
    parts = [] if condition is None else condition.conditions
    wanted = [part for part in parts if part.column in _BOUNDS and part.column not in columns]
    return partial(_may_pass, wanted) if wanted else None


def _may_pass(conditions: list[Condition], known: SstProperties) -> bool:
    return known.max_seq > _MAX_SEQ or all(_may_hold(part, known) for part in conditions)


def _may_hold(part: Condition, known: SstProperties) -> bool:
    low, high, may_lack = _BOUNDS[part.column](known)
    if part.nulls and may_lack:
        return True
    if low is None or high is None:
        return False
    return any(start <= high and (end is None or end > low) for start, end in part.intervals)


def _instants(first_ms: int | None, last_ms: int | None, all_have: int) -> tuple[int | None, int | None, bool]:
    if first_ms is None or last_ms is None:
        return None, None, True
    return _shown_us(first_ms), _shown_us(last_ms), not all_have


def _shown_us(time_ms: int) -> int:
    """Return an instant as the column shows it; one beyond microseconds becomes the nearest that fits."""
    return max(-MAX_TIMESTAMP_MS, min(time_ms, MAX_TIMESTAMP_MS)) * 1000
