"""ReapState: what a pass of a reap plans on, and what its commit depends on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from slatespark.kernels.columns import RowColumns
from slatespark.table.clock import Clock
from slatespark.table.commit.read_set import ReadSet
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.definition.versions import evolve_definition
from slatespark.table.read.merge.retention import retired_until_ms
from slatespark.table.read.planning.plan import FileSlice, Layer
from slatespark.table.retention.past_retention import find_earliest_young
from slatespark.table.retention.plan import StoredView, next_deadline
from slatespark.table.snapshot import Snapshot
from slatespark.table.stores import TableStores
from slatespark.units import MIN_MS


@dataclass(frozen=True, slots=True, eq=False)
class ReapState:
    """The state that a pass plans on.

    Attributes
    ----------
    now_ms, retired_ms : at `now_ms`, rows created at or before `retired_ms` are due
    layers, views : layers and views of the snapshot's trees, newest first
    wal : rows of the WAL that are not in the trees; None without any
    """

    snapshot: Snapshot
    definition: TableDefinition
    now_ms: int
    retired_ms: int
    layers: tuple[Layer, ...]
    views: tuple[StoredView, ...]
    wal: RowColumns | None

    def all_unchanged(self) -> ReadSet:
        """Return the condition for tombstones: no key that gets one has a newer version."""
        return ReadSet.of(self.snapshot)

    def without_operands(self, views: Iterable[StoredView]) -> ReadSet:
        """Return the condition for rows of views to go without a tombstone: no new operand folds onto them."""
        ranges = (stored.part.keys for stored in views)
        return ReadSet.of(self.snapshot, ranges=ranges, written=(), operands_only=True)

    def next_deadline(self, youngest: Mapping[FileSlice, int]) -> int | None:
        """Return when the oldest remaining row becomes due; None if that depends on more than time.

        Parameters
        ----------
        youngest : smallest create_ts of rows that are not due, for views that also hold hidden due rows
        """
        retention_ms = self.definition.retention_ms
        if self.definition.has_history or retention_ms is None:
            return None
        wal_ms = None if self.wal is None else find_earliest_young(self.wal, 0, len(self.wal), self.retired_ms)
        left_ms = self.now_ms if wal_ms is None else min(wal_ms, self.now_ms)
        return next_deadline(self.views, youngest, left_ms, self.retired_ms, retention_ms)


def due_until_ms(definition: TableDefinition, now_ms: int) -> int | None:
    """Return the latest create_ts of a row that a reap removes; None if there is none.

    On a history table, retention is evaluated at the stored floor, the earliest instant that as-of reads can ask for.
    """
    floor_ms = definition.full_history_ts_low_ms if definition.has_history else now_ms
    return None if floor_ms is None else retired_until_ms(definition.retention_ms, min(floor_ms, now_ms))


def record_progress(stores: TableStores, clock: Clock, state: ReapState, *, is_new: bool) -> None:
    """Record in the definition how far the table is reaped, if that is new or nothing is recorded yet."""
    before_ms, through_ms = state.definition.reaped_through_ms, state.retired_ms
    if before_ms is not None and (before_ms >= through_ms or not is_new):
        return

    def change(current: TableDefinition) -> TableDefinition:
        return replace(current, reaped_through_ms=max(through_ms, current.reaped_through_ms or MIN_MS))

    evolve_definition(stores, clock, state.snapshot.manifest, change)
