"""ReadPoint: the snapshot of a transaction, from its begin to its end, under the rows it has written."""

from __future__ import annotations

from dataclasses import dataclass, replace

from slatespark.options import ReadOptions
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.read.plan import Layer
from slatespark.table.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ReadPoint:
    """A snapshot, and rows of our own that others do not see.

    Attributes
    ----------
    snapshot : of the table
    definition : of the table then
    own : layers of the rows written since, newest first; named `OWN_WRITES`
    own_seq : their highest sequence number, above all of the snapshot; 0 where there are none
    """

    snapshot: Snapshot
    definition: TableDefinition
    own: tuple[Layer, ...] = ()
    own_seq: int = 0

    def resolve(self, options: ReadOptions) -> tuple[Snapshot, TableDefinition]:
        """Return the snapshot and definition that a read with these options sees."""
        snapshot = replace(self.snapshot, max_seq=max(self.snapshot.max_seq, self.own_seq))
        if options.now_ms is not None:
            snapshot = replace(snapshot, now_ms=options.now_ms)
        return snapshot, self.definition
