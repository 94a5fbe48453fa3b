"""Which stored rows are past retention, and how they are removed: with their file, by a rewrite or by tombstones. Pure.

A row is due if its create_ts is not above `retired_ms`. Views are given newest first; a view is *older* than another if
it comes later. These rules keep every read correct:

- A file is dropped only together with every older view that it overlaps, so that no older row becomes visible, and only
  if no remaining newer view may hold operands for its keys: they may be young, and need the put below them.
- A file is rewritten in place only under the same condition on newer views. A due row is left out if no older view can
  hold its key; otherwise a tombstone with its sequence number and its create_ts replaces it.
- All other due and visible rows get a tombstone above all layers.

See docs/explanation/how-rows-are-reaped.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np

from slatespark.format.properties import SstProperties
from slatespark.format.references import SstView
from slatespark.kernels.columns import HAS_CREATE
from slatespark.kernels.lifetimes import reached
from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.table.read.planning.key_cover import KeyCover
from slatespark.table.read.planning.plan import FileSlice
from slatespark.table.retention.expiry_plan import FileOutline, stretches
from slatespark.units import MAX_MS

MAX_SWEEPS: Final = 10  # to find the views that are dropped together
NO_KEYS: Final = KeyRange(b"", b"")


@dataclass(frozen=True, slots=True)
class StoredView:
    """A view, the part of a file that it shows, and the file's properties; None if unknown."""

    view: SstView
    part: FileSlice
    properties: SstProperties | None = None

    @property
    def may_hold_operands(self) -> bool:
        """Whether its rows may include merge operands."""
        return self.properties is None or self.properties.merges > 0


@dataclass(frozen=True, slots=True)
class DueView:
    """A remaining view that may hold due rows.

    Attributes
    ----------
    older, newer : keys that views below and above it may hold; keys of the WAL are newer
    is_under_operands : a newer view may hold operands for its keys
    """

    stored: StoredView
    older: tuple[KeyRange, ...] = ()
    newer: tuple[KeyRange, ...] = ()
    is_under_operands: bool = False

    @property
    def shared(self) -> tuple[KeyRange, ...]:
        """Keys that other views may hold, ascending and disjoint."""
        return KeyCover((*self.older, *self.newer)).within(ALL_KEYS)

    @property
    def may_be_rewritten(self) -> bool:
        """Whether rows can be left out of it without reading other views."""
        return not self.is_under_operands and not (self.older and self.stored.may_hold_operands)


@dataclass(frozen=True, slots=True)
class FilePlan:
    """Views to drop, and remaining views that may hold due rows; both newest first."""

    drops: tuple[StoredView, ...]
    due: tuple[DueView, ...]


# --- files ----------------------------------------------------------------------------------------------------------


def plan_files(
    views: Sequence[StoredView], wal: Iterable[KeyRange], wal_operands: Iterable[KeyRange], retired_ms: int
) -> FilePlan:
    """Return which files of a snapshot are dropped, and which must be examined.

    Parameters
    ----------
    views : newest first
    wal, wal_operands : keys of rows in the WAL, and of operands in it; the newest layer
    retired_ms : rows created at or before it are due
    """
    operands = tuple(wal_operands)
    goes = _find_drops(views, operands, retired_ms)
    above, folding, below = KeyCover(wal), KeyCover(operands), KeyCover()
    newer: list[tuple[tuple[KeyRange, ...], bool]] = []
    for stored, is_gone in zip(views, goes, strict=True):
        keys = stored.part.keys
        is_due = not is_gone and may_hold_due_rows(stored.properties, retired_ms)
        newer.append((above.within(keys) if is_due else (), folding.overlaps(keys)))
        if not is_gone:
            above.add(keys)
            folding.add(keys if stored.may_hold_operands else NO_KEYS)
    due: list[DueView] = []
    for stored, is_gone, covering in reversed(list(zip(views, goes, newer, strict=True))):
        if is_gone:
            continue
        if may_hold_due_rows(stored.properties, retired_ms):
            due.append(DueView(stored, below.within(stored.part.keys), *covering))
        below.add(stored.part.keys)
    drops = (stored for stored, is_gone in zip(views, goes, strict=True) if is_gone)
    return FilePlan(tuple(drops), tuple(reversed(due)))


def _find_drops(views: Sequence[StoredView], wal_operands: Sequence[KeyRange], retired_ms: int) -> list[bool]:
    """Return for each view whether it is dropped; they are dropped together, operands with their base."""
    goes = [is_past(stored.properties, retired_ms) for stored in views]
    for sweep in range(MAX_SWEEPS):
        operands, below = KeyCover(wal_operands), KeyCover()
        before, is_last = list(goes), sweep + 1 == MAX_SWEEPS
        for number, stored in enumerate(views):
            goes[number] = goes[number] and not operands.overlaps(stored.part.keys)
            # In the last sweep operands count even if they are dropped themselves, so that the result is final.
            if stored.may_hold_operands and (is_last or not goes[number]):
                operands.add(stored.part.keys)
        for number in reversed(range(len(views))):
            goes[number] = goes[number] and not below.overlaps(views[number].part.keys)
            if not goes[number]:
                below.add(views[number].part.keys)
        if goes == before:
            break
    return goes


def is_past(properties: SstProperties | None, retired_ms: int) -> bool:
    """Tell whether every row of a file, of any kind, is certainly due."""
    if properties is None:
        return False
    return reached(properties.all_flags, HAS_CREATE, properties.max_create_ts, retired_ms)


def may_hold_due_rows(properties: SstProperties | None, retired_ms: int) -> bool:
    """Tell whether a file may hold a due row other than a tombstone."""
    if properties is None:
        return True
    may_be_due = reached(properties.any_flags, HAS_CREATE, properties.min_create_ts, retired_ms)
    return may_be_due and properties.puts + properties.merges > 0


def next_deadline(
    views: Sequence[StoredView], youngest: Mapping[FileSlice, int], latest_ms: int, retired_ms: int, retention_ms: int
) -> int:
    """Return when the oldest remaining row becomes due.

    Parameters
    ----------
    views : their visible rows are not due
    youngest : smallest create_ts of rows that are not due, for views that also hold hidden due rows
    latest_ms : upper bound, as if a row had been created then
    """
    created = [latest_ms]
    for stored in views:
        oldest_ms = None if stored.properties is None else stored.properties.min_create_ts
        if oldest_ms is not None and oldest_ms > retired_ms:
            created.append(oldest_ms)
        elif stored.part in youngest:
            created.append(youngest[stored.part])
    return min(min(created) + retention_ms, MAX_MS)


# --- blocks ---------------------------------------------------------------------------------------------------------


class Treatment(Enum):
    """How the due rows of a view are removed; `COUNT`: rows must be counted to decide."""

    REWRITE = "rewrite"
    COUNT = "count"
    TOMBSTONES = "tombstones"


@dataclass(frozen=True, slots=True)
class DueBlocks:
    """Due rows of a view other than tombstones, by the bounds of its blocks.

    Attributes
    ----------
    reads : numbers [first, end) of the blocks that may hold some, ascending
    certain, possible : minimum and maximum number
    rows : rows of all kinds, in the blocks of the view
    stored_bytes : size of the blocks to read
    youngest_ms : smallest create_ts above `retired_ms` in blocks without due rows; None if unknown
    """

    reads: tuple[tuple[int, int], ...]
    certain: int
    possible: int
    rows: int
    stored_bytes: int
    youngest_ms: int | None


def plan_due_blocks(part: FileSlice, outline: FileOutline, retired_ms: int) -> DueBlocks:
    """Return which blocks of a view may hold due rows.

    Requires: an outline with bounds and row counts.
    """
    bounds, block_rows, deletes = outline.bounds, outline.block_rows, outline.block_deletes
    if bounds is None or block_rows is None or deletes is None:
        raise ValueError("the outline has no bounds of blocks")
    span = slice(*outline.index.blocks_for(part.keys))
    live = block_rows[span] - deletes[span]
    low, high, any_flags = bounds.min_create_ts[span], bounds.max_create_ts[span], bounds.any_flags[span]
    may_be_due = reached(any_flags, HAS_CREATE, low, retired_ms)
    is_due = may_be_due & (live > 0)
    is_whole = is_due & reached(bounds.all_flags[span], HAS_CREATE, high, retired_ms)
    young = low[~may_be_due & ((any_flags & HAS_CREATE) != 0)]
    return DueBlocks(
        reads=tuple(stretches(span.start + np.flatnonzero(is_due))),
        certain=int(live[is_whole].sum()),
        possible=int(live[is_due].sum()),
        rows=int(block_rows[span].sum()),
        stored_bytes=int(np.diff(outline.edges)[span][is_due].sum()),
        youngest_ms=int(young.min()) if len(young) else None,
    )


def choose_treatment(view: DueView, blocks: DueBlocks) -> Treatment:
    """Return how the due rows of a view are removed: a file that is mostly due is rewritten if that is safe."""
    if not view.may_be_rewritten or 2 * blocks.possible <= blocks.rows:
        return Treatment.TOMBSTONES
    return Treatment.REWRITE if 2 * blocks.certain > blocks.rows else Treatment.COUNT
