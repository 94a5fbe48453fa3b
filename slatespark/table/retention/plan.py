"""Which stored rows are past retention, and how they go: with their file, by a rewrite, or under tombstones. Pure.

A row is due if its create_ts is not above `retired_ms`. Views are given newest first; a view is *older* than another if
it comes later. What keeps the order right, whatever happens to a view:

- A file goes as a whole only with every older view that it overlaps, so that nothing older is uncovered, and only if no
  newer view that stays may hold operands for its keys: they may be young, and would lose the put below them.
- A file is rewritten in place only under the same condition on newer views. A due row is left out where no older view
  can hold its key; elsewhere a tombstone with its sequence number and its create_ts takes its place.
- Everything else that is due and visible gets a tombstone above all layers.

See docs/explanation/how-rows-are-reaped.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np

from slatespark.format.manifest import SstView
from slatespark.format.properties import SstProperties
from slatespark.kernels.columns import HAS_CREATE
from slatespark.kernels.lifetimes import reached
from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.table.read.key_cover import KeyCover
from slatespark.table.read.plan import FileSlice
from slatespark.table.retention.expiry_plan import FileOutline, is_plausible, stretches
from slatespark.units import MAX_MS

MAX_SWEEPS: Final = 10  # to find out what goes together
NO_KEYS: Final = KeyRange(b"", b"")


@dataclass(frozen=True, slots=True)
class StoredView:
    """A view, the part of a file that it shows, and what is known of the file; nothing if `properties` is None."""

    view: SstView
    part: FileSlice
    properties: SstProperties | None = None

    @property
    def may_hold_operands(self) -> bool:
        """Whether merge operands may be among its rows."""
        return self.properties is None or self.properties.merges > 0


@dataclass(frozen=True, slots=True)
class DueView:
    """A view that stays and may hold due rows.

    Attributes
    ----------
    older, newer : the keys that views below it, and above it, may hold; those of the WAL are newer
    is_under_operands : a newer view may hold operands for its keys
    """

    stored: StoredView
    older: tuple[KeyRange, ...] = ()
    newer: tuple[KeyRange, ...] = ()
    is_under_operands: bool = False

    @property
    def shared(self) -> tuple[KeyRange, ...]:
        """The keys that other views may hold, ascending and apart from each other."""
        return KeyCover((*self.older, *self.newer)).within(ALL_KEYS)

    @property
    def may_be_rewritten(self) -> bool:
        """Whether rows can be left out of it without a look at other views."""
        return not self.is_under_operands and not (self.older and self.stored.may_hold_operands)


@dataclass(frozen=True, slots=True)
class FilePlan:
    """Which views go as they are, and which stay and have to be looked at; both newest first."""

    drops: tuple[StoredView, ...]
    due: tuple[DueView, ...]


# --- files ----------------------------------------------------------------------------------------------------------


def plan_files(
    views: Sequence[StoredView], wal: Iterable[KeyRange], wal_operands: Iterable[KeyRange], retired_ms: int
) -> FilePlan:
    """Return what becomes of the files of a snapshot.

    Parameters
    ----------
    views : newest first
    wal, wal_operands : keys that rows of the WAL have, and those among them that have operands there; the newest layer
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
    """Return for each view whether it goes; all of these go together, operands with what they fold onto."""
    goes = [is_past(stored.properties, retired_ms) for stored in views]
    for sweep in range(MAX_SWEEPS):
        operands, below = KeyCover(wal_operands), KeyCover()
        before, is_last = list(goes), sweep + 1 == MAX_SWEEPS
        for number, stored in enumerate(views):
            goes[number] = goes[number] and not operands.overlaps(stored.part.keys)
            # In the last sweep operands hold even if they go themselves, so that nothing is left to find out.
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
    """Tell whether every row of a file, of whatever kind, is certainly due."""
    if properties is None or not is_plausible(properties):
        return False
    return reached(properties.all_flags, HAS_CREATE, properties.max_create_ts, retired_ms)


def may_hold_due_rows(properties: SstProperties | None, retired_ms: int) -> bool:
    """Tell whether a file may hold a due row that is no tombstone."""
    if properties is None or not is_plausible(properties):
        return True
    may_be_due = reached(properties.any_flags, HAS_CREATE, properties.min_create_ts, retired_ms)
    return may_be_due and properties.puts + properties.merges > 0


def next_deadline(
    views: Sequence[StoredView], youngest: Mapping[FileSlice, int], latest_ms: int, retired_ms: int, retention_ms: int
) -> int:
    """Return when the oldest row that is left will be due.

    Parameters
    ----------
    views : none of whose visible rows is due
    youngest : smallest create_ts of rows that are not due, of views that hold due ones too, hidden ones
    latest_ms : as if a row had been created then
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
    """How the due rows of a view go; `COUNT`: rows have to be counted before that can be said."""

    REWRITE = "rewrite"
    COUNT = "count"
    TOMBSTONES = "tombstones"


@dataclass(frozen=True, slots=True)
class DueBlocks:
    """What a view's blocks say of due rows that are no tombstones.

    Attributes
    ----------
    reads : numbers [first, end) of the blocks that may hold some, ascending
    certain, possible : how many there are at least, and at most
    rows : of the blocks of the view, of all kinds
    stored_bytes : of the blocks to read
    youngest_ms : smallest create_ts above `retired_ms` that blocks without due rows tell; None if they tell none
    """

    reads: tuple[tuple[int, int], ...]
    certain: int
    possible: int
    rows: int
    stored_bytes: int
    youngest_ms: int | None


def plan_due_blocks(part: FileSlice, outline: FileOutline, retired_ms: int) -> DueBlocks:
    """Return which blocks of a view hold due rows.

    Requires: an outline with bounds and numbers of rows.
    """
    bounds, block_rows, deletes = outline.bounds, outline.block_rows, outline.block_deletes
    if bounds is None or block_rows is None or deletes is None:
        raise ValueError("nothing is known of the blocks")
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
    """Return how the due rows of a view go: a file that is mostly due is rewritten, where that is safe."""
    if not view.may_be_rewritten or 2 * blocks.possible <= blocks.rows:
        return Treatment.TOMBSTONES
    return Treatment.REWRITE if 2 * blocks.certain > blocks.rows else Treatment.COUNT
