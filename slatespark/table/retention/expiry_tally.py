"""Stored row versions counted by expiry, and the expiry report. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels.columns import RowColumns
from slatespark.shown import Shown
from slatespark.table.retention.expiry_plan import HORIZON_DAYS, ExpirySlots


@dataclass(frozen=True, slots=True)
class ExpiryPart:
    """Stored row versions that end within one period, have ended, or never end.

    A row ends when it expires or is past the table's retention, whichever comes first.

    Attributes
    ----------
    state : `expired`, `expires` or `never`
    start_ms, end_ms : for `expires`: within [start, end), and after `now`; end is None beyond the horizon. Both are
        None in the other states
    rows : row versions of every kind, including hidden ones and those of the WAL
    stored_bytes : their share of data blocks and WAL files
    wal_rows, wal_bytes : the part in the WAL
    """

    state: str
    start_ms: int | None
    end_ms: int | None
    rows: int
    stored_bytes: int
    wal_rows: int
    wal_bytes: int


@dataclass(frozen=True, slots=True, repr=False)
class ExpiryReport(Shown):
    """When the rows of a snapshot expire.

    Attributes
    ----------
    url, version, now_ms : the table, the manifest id, and the instant at which expiry is evaluated
    per : `hour` or `day`, the periods, aligned in UTC
    rows, stored_bytes : rows and stored bytes of all parts together
    parts : expired, then the periods with rows, then never
    files, blocks : numbers of files and blocks in the snapshot; blocks only of the files whose index was read
    files_read, blocks_read : numbers of files and blocks of which rows were read
    retention_ms : retention of the table, which ends rows too; None if it keeps them forever
    """

    url: str
    version: int
    now_ms: int
    per: str
    rows: int
    stored_bytes: int
    parts: tuple[ExpiryPart, ...]
    files: int
    files_read: int
    blocks: int
    blocks_read: int
    retention_ms: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ExpiryTally:
    """Rows and stored bytes by slot: (n_slots,) int64 each."""

    rows: NDArray[np.int64]
    stored_bytes: NDArray[np.int64]

    @classmethod
    def of_slots(cls, slots: ExpirySlots) -> ExpiryTally:
        """Return an empty tally."""
        return cls(np.zeros(slots.hidden + 1, np.int64), np.zeros(slots.hidden + 1, np.int64))

    def add(
        self,
        slots: NDArray[np.int64] | int,
        rows: NDArray[np.int64] | int,
        stored_bytes: NDArray[np.int64] | int,
    ) -> None:
        """Count rows; a slot may occur several times."""
        np.add.at(self.rows, slots, rows)
        np.add.at(self.stored_bytes, slots, stored_bytes)

    def last_period(self, slots: ExpirySlots) -> int:
        """Return the last slot with rows that expire later; 0 without any."""
        used = np.flatnonzero(self.rows[: slots.never])
        return int(used[-1]) if len(used) else 0

    def by_day(self, hours: ExpirySlots) -> ExpiryTally:
        """Return a tally by the hour as one by the day."""

        def days(column: NDArray[np.int64]) -> NDArray[np.int64]:
            daily = column[1 : hours.later].reshape(HORIZON_DAYS, -1).sum(axis=1)
            return np.concatenate([column[:1], daily, column[hours.later :]])

        return ExpiryTally(days(self.rows), days(self.stored_bytes))


def list_parts(slots: ExpirySlots, files: ExpiryTally, wal: ExpiryTally) -> tuple[ExpiryPart, ...]:
    """Return the parts of a report: expired, the periods with rows, never."""
    used = np.flatnonzero((files.rows + wal.rows)[1 : slots.never]) + 1
    return tuple(_part(slots, slot, files, wal) for slot in (0, *used.tolist(), slots.never))


def _part(slots: ExpirySlots, slot: int, files: ExpiryTally, wal: ExpiryTally) -> ExpiryPart:
    is_time = 0 < slot < slots.never
    wal_rows, wal_bytes = int(wal.rows[slot]), int(wal.stored_bytes[slot])
    return ExpiryPart(
        state="expires" if is_time else "expired" if slot == 0 else "never",
        start_ms=slots.start_ms(slot) if is_time else None,
        end_ms=slots.start_ms(slot + 1) if is_time and slot < slots.later else None,
        rows=int(files.rows[slot]) + wal_rows,
        stored_bytes=int(files.stored_bytes[slot]) + wal_bytes,
        wal_rows=wal_rows,
        wal_bytes=wal_bytes,
    )


def count_rows(
    tally: ExpiryTally,
    slots: NDArray[np.int64],
    rows: RowColumns,
    first_rows: NDArray[np.int64],
    sizes: NDArray[np.int64],
) -> None:
    """Count the rows of consecutive blocks.

    The stored bytes of a block are divided among its slots in proportion to the bytes of keys and values; the shares
    add up to the size of the block.

    Parameters
    ----------
    slots : (n,) of the rows; those in `hidden` have a share, but are not reported
    first_rows : (n_blocks,) first row of each block
    sizes : (n_blocks,) stored bytes of each block
    """
    if not len(rows):
        return
    count, width = len(rows), int(slots.max()) + 1
    block = np.repeat(np.arange(len(first_rows)), np.diff(first_rows, append=count))
    groups, group, group_rows = np.unique(block * width + slots, return_inverse=True, return_counts=True)
    lengths = np.diff(rows.key_offsets[: count + 1]) + rows.value_lengths
    weights = np.zeros(len(groups), np.int64)
    np.add.at(weights, group, np.maximum(lengths, 1))  # an empty row has a size too
    group_block = groups // width
    tally.add(groups % width, group_rows, _shares(weights, group_block, sizes))


def _shares(weights: NDArray[np.int64], block: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the share of each group in its block, in whole bytes; the groups of a block are adjacent."""
    first = np.flatnonzero(np.diff(block, prepend=-1))
    groups = np.diff(first, append=len(block))
    running = np.cumsum(weights)
    within = running - np.repeat(running[first] - weights[first], groups)
    whole = np.repeat(np.add.reduceat(weights, first), groups)
    size = sizes[block]
    # Floating point cannot overflow here. If it is inexact, the last group of a block still ends with the block.
    upto = np.minimum(np.floor(size.astype(np.float64) * within / whole).astype(np.int64), size)
    upto[first + groups - 1] = size[first]
    before = np.append(np.zeros(1, np.int64), upto[:-1])
    before[first] = 0
    shares: NDArray[np.int64] = upto - before
    return shares
