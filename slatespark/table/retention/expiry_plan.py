"""When stored row versions expire: the slots in which they are counted, and which blocks must be read for that. Pure.

A row ends when it expires or is past the table's retention, whichever comes first. A slot is a period, or a group
beside the periods: ended, ending beyond the horizon, never ending. The properties of slatespark's files bound the
instants at which rows end, for the file and for each block. If both bounds lie in one slot, and all rows end or none
does, nothing is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slatespark.format.index import SstIndex
from slatespark.format.info import SstInfo
from slatespark.format.properties import BlockBounds, SstProperties
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, TOMBSTONE, RowColumns
from slatespark.kernels.lifetimes import ends_after
from slatespark.ranges import KeyRange
from slatespark.table.read.planning.plan import FileSlice
from slatespark.units import DAY_MS, HOUR_MS, MAX_MS

PERIODS: Final = {"hour": HOUR_MS, "day": DAY_MS}
HORIZON_DAYS: Final = 3660  # later expiries are one group: an instant may be in any year
HOURLY_DAYS: Final = 3  # if everything expires within this many days, periods are hours by default

_SEVERAL_SLOTS: Final = -1
_BLOCK_BYTES: Final = 50  # of an outline in memory, besides the index


@dataclass(frozen=True, slots=True)
class ExpirySlots:
    """Numbers of slots: 0 is expired, then the periods from the day of `now` on, then `later`, `never`, `hidden`.

    Attributes
    ----------
    now_ms : a row that ends at or before it has ended
    width_ms : width of a period, a divisor of a day
    retention_ms : retention of the table; None if it keeps rows forever
    """

    now_ms: int
    width_ms: int
    retention_ms: int | None = None

    @property
    def periods(self) -> int:
        """Number of periods up to the horizon."""
        return HORIZON_DAYS * (DAY_MS // self.width_ms)

    @property
    def later(self) -> int:
        """The slot of rows that expire beyond the horizon."""
        return self.periods + 1

    @property
    def never(self) -> int:
        """The slot of rows that never expire."""
        return self.periods + 2

    @property
    def hidden(self) -> int:
        """The slot of rows outside a cut view: they are not counted."""
        return self.periods + 3

    def start_ms(self, slot: int) -> int:
        """Return the start of a period, or of the slot beyond the horizon."""
        return (self._first + slot - 1) * self.width_ms

    def of_time(self, expire_ts: int) -> int:
        """Return the slot of a row that expires at this instant, which may exceed 64 bits."""
        return 0 if expire_ts <= self.now_ms else min(expire_ts // self.width_ms - self._first, self.periods) + 1

    def of_times(self, expire_ts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the slots of rows that expire at these instants."""
        numbers = np.clip(expire_ts // self.width_ms - self._first, 0, self.periods) + 1
        return np.where(expire_ts <= self.now_ms, 0, numbers)

    def of_rows(self, rows: RowColumns) -> NDArray[np.int64]:
        """Return the slots of row versions; a tombstone never ends, whatever its columns contain."""
        expires = (rows.flags & (TOMBSTONE | HAS_EXPIRE)) == HAS_EXPIRE
        ends_ms = np.where(expires, rows.expire_ts, MAX_MS)
        if self.retention_ms is not None:
            deadlines, retires = ends_after(rows.create_ts, self.retention_ms)
            retires &= (rows.flags & (TOMBSTONE | HAS_CREATE)) == HAS_CREATE
            ends_ms = np.where(retires, np.minimum(ends_ms, deadlines), ends_ms)
            expires = expires | retires
        return np.where(expires, self.of_times(ends_ms), self.never)

    @property
    def _first(self) -> int:
        return self.now_ms // DAY_MS * (DAY_MS // self.width_ms)


def choose_period(hours: ExpirySlots, last: int) -> str:
    """Return the periods for a table whose last rows expire in slot `last`, counted by the hour."""
    is_near = last == 0 or hours.start_ms(last) <= hours.now_ms + HOURLY_DAYS * DAY_MS
    return "hour" if is_near else "day"


# --- slots from properties ------------------------------------------------------------------------------------------


def last_slot(properties: SstProperties, slots: ExpirySlots) -> int:
    """Return the last slot in which rows of a file may end; 0 if none is known to end."""
    ends = []
    retires = slots.retention_ms is not None and not properties.all_flags & TOMBSTONE
    if properties.max_expire_ts is not None:
        ends.append(properties.max_expire_ts)
    if slots.retention_ms is not None and retires and properties.max_create_ts is not None:
        ends.append(min(properties.max_create_ts + slots.retention_ms, MAX_MS))
    if not ends:
        return 0
    has_both = retires and properties.all_flags & HAS_CREATE and properties.all_flags & HAS_EXPIRE
    return slots.of_time(min(ends) if has_both else max(ends))


def find_file_slot(properties: SstProperties, slots: ExpirySlots) -> int | None:
    """Return the slot that contains all rows of a file; None if there may be several."""
    any_flags, all_flags = properties.any_flags, properties.all_flags
    first: list[int | None] = [properties.min_expire_ts] if any_flags & HAS_EXPIRE else []
    last: list[int | None] = [properties.max_expire_ts] if all_flags & HAS_EXPIRE else []
    if slots.retention_ms is not None and any_flags & HAS_CREATE and not all_flags & TOMBSTONE:
        first.append(_deadline(properties.min_create_ts, slots.retention_ms))
        if all_flags & HAS_CREATE and not any_flags & TOMBSTONE:
            last.append(_deadline(properties.max_create_ts, slots.retention_ms))
    if not first:
        return slots.never
    starts, ends = [time for time in first if time is not None], [time for time in last if time is not None]
    if len(starts) < len(first) or not ends:
        return None
    slot = slots.of_time(min(starts))
    return slot if slot == slots.of_time(min(ends)) else None


def _deadline(create_ts: int | None, retention_ms: int) -> int | None:
    """Return when a row is past retention; None if unknown or never."""
    return None if create_ts is None or create_ts + retention_ms > MAX_MS else create_ts + retention_ms


def find_block_slots(bounds: BlockBounds, slots: ExpirySlots) -> NDArray[np.int64]:
    """Return for each block the slot that contains all of its rows; negative if there may be several."""
    any_flags, all_flags = bounds.any_flags, bounds.all_flags
    all_end, some_end = (all_flags & HAS_EXPIRE) != 0, (any_flags & HAS_EXPIRE) != 0
    low_ms = np.where(some_end, bounds.min_expire_ts, MAX_MS)
    high_ms = np.where(all_end, bounds.max_expire_ts, MAX_MS)
    if slots.retention_ms is not None:
        first_ms, first_ends = ends_after(bounds.min_create_ts, slots.retention_ms)
        last_ms, last_ends = ends_after(bounds.max_create_ts, slots.retention_ms)
        retires = ((any_flags & HAS_CREATE) != 0) & ((all_flags & TOMBSTONE) == 0) & first_ends
        all_retire = retires & ((all_flags & HAS_CREATE) != 0) & ((any_flags & TOMBSTONE) == 0) & last_ends
        low_ms = np.where(retires, np.minimum(low_ms, first_ms), low_ms)
        high_ms = np.where(all_retire, np.minimum(high_ms, last_ms), high_ms)
        all_end, some_end = all_end | all_retire, some_end | retires
    low, high = slots.of_times(low_ms), slots.of_times(high_ms)
    found = np.where(all_end & (low == high), low, _SEVERAL_SLOTS)
    return np.where(some_end, found, slots.never)


@dataclass(frozen=True, slots=True, eq=False)
class FileOutline:
    """The metadata of a file's blocks.

    Attributes
    ----------
    index, edges : block i is stored in [edges[i], edges[i + 1])
    properties, bounds, block_rows : properties of the file; bounds and number of rows of each block; None in another
        client's file
    block_deletes : number of tombstones in each block
    """

    index: SstIndex
    edges: NDArray[np.int64]
    properties: SstProperties | None = None
    bounds: BlockBounds | None = None
    block_rows: NDArray[np.int64] | None = None
    block_deletes: NDArray[np.int64] | None = None

    @property
    def held_bytes(self) -> int:
        """Approximate memory size."""
        return self.index.held_bytes + len(self.index) * _BLOCK_BYTES


@dataclass(frozen=True, slots=True, eq=False)
class BlockPlan:
    """How the blocks of a slice are counted.

    Attributes
    ----------
    slots, rows, stored_bytes : slots, rows and stored bytes of the blocks that need no read
    reads : block numbers [first, end) whose rows must be read, ascending
    blocks : number of blocks of the slice
    """

    slots: NDArray[np.int64]
    rows: NDArray[np.int64]
    stored_bytes: NDArray[np.int64]
    reads: tuple[tuple[int, int], ...]
    blocks: int


def plan_blocks(part: FileSlice, outline: FileOutline, slots: ExpirySlots) -> BlockPlan:
    """Return how to count the rows of a slice."""
    first, end = outline.index.blocks_for(part.keys)
    slot_of_block = np.full(end - first, _SEVERAL_SLOTS, np.int64)
    if outline.bounds is not None and outline.block_rows is not None:
        inner = slice(*_inner_blocks(part, outline.index, first, end))
        slot_of_block[inner.start - first : inner.stop - first] = find_block_slots(outline.bounds, slots)[inner]
    known = np.flatnonzero(slot_of_block != _SEVERAL_SLOTS)
    sizes = np.diff(outline.edges)
    none = np.zeros(0, np.int64)
    return BlockPlan(
        slots=slot_of_block[known],
        rows=none if outline.block_rows is None else outline.block_rows[first + known],
        stored_bytes=sizes[first + known],
        reads=tuple(stretches(first + np.flatnonzero(slot_of_block == _SEVERAL_SLOTS))),
        blocks=end - first,
    )


def _inner_blocks(part: FileSlice, index: SstIndex, first: int, end: int) -> tuple[int, int]:
    """Return which of the blocks [first, end), which may hold keys of a slice, hold no other keys."""
    if first == end:
        return first, end
    keys, info = part.keys, part.file.info
    starts_inside = index.first_key(first) >= keys.start or _is_first_key_inside(info, first, keys)
    is_last_key_inside = info.last_entry is not None and keys.contains(info.last_entry)
    ends_inside = keys.end is None or (end == len(index) and is_last_key_inside)
    low = first if starts_inside else first + 1
    # Keys of the other blocks are at or below the separator of the next block, which is below the end of the slice.
    return low, max(low, end if ends_inside else end - 1)


def _is_first_key_inside(info: SstInfo, block: int, keys: KeyRange) -> bool:
    return block == 0 and info.first_entry is not None and info.first_entry >= keys.start


def stretches(blocks: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield ascending numbers of blocks as [first, end)."""
    if not len(blocks):
        return
    cuts = np.flatnonzero(np.diff(blocks) != 1) + 1
    for low, high in pairwise([0, *cuts.tolist(), len(blocks)]):
        yield int(blocks[low]), int(blocks[high - 1]) + 1
