"""Retention: rows whose last upsert lies too far back are not shown.

Retention is applied to visible rows, after the merge. A retired row still hides the older versions of its key. Folded
operands are as young as the youngest of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels import gather_fields
from slatespark.kernels.columns import GROUP_REST, HAS_CREATE, RowColumns, Selection
from slatespark.kernels.lifetimes import is_live, retired, retired_groups
from slatespark.units import MAX_MS, MIN_MS


def retired_until_ms(retention_ms: int | None, now_ms: int) -> int | None:
    """Return the latest create_ts of a row that is retired (create_ts + retention <= now); None if there is none.

    Parameters
    ----------
    retention_ms : how long after its last upsert a row is kept; None forever
    now_ms : the instant of the read
    """
    if retention_ms is None or now_ms - retention_ms < MIN_MS:
        return None
    return now_ms - retention_ms


def may_be_due(
    sources: Sequence[RowColumns], lows: NDArray[np.int64], highs: NDArray[np.int64], retired_ms: int
) -> bool:
    """Tell whether any version in the rows [low, high) of the sources may be retired; False is certain.

    A row without create_ts has 0 in its place, so it counts as due here.
    """
    return any(
        int(rows.create_ts[low:high].min(initial=MAX_MS)) <= retired_ms
        for rows, low, high in zip(sources, lows.tolist(), highs.tolist(), strict=True)
    )


def hide_retired(sources: Sequence[RowColumns], selection: Selection, retired_ms: int) -> Selection:
    """Return a selection without its retired rows; groups of operands, not folded yet, stay or go as a whole.

    Parameters
    ----------
    sources, selection : the result of a merge
    retired_ms : rows created at or before it are retired; tombstones, and rows without create_ts, never are
    """
    fields = gather_fields(sources, selection.rows)
    live = is_live(fields)
    due = live & retired(fields, retired_ms)
    if not due.any():
        return selection
    if selection.marks.any():
        due = _whole_groups(due, live & ((fields.flags & HAS_CREATE) != 0), selection.marks)
    return Selection(selection.rows[~due], selection.marks[~due])


def _whole_groups(due: NDArray[np.bool_], created: NDArray[np.bool_], marks: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return which rows go, where a group goes if it has a create_ts and all it has are due."""
    starts = np.flatnonzero(marks != GROUP_REST)
    return np.repeat(retired_groups(created, due, starts), np.diff(starts, append=len(marks)))
