"""What a scan shows, the same for all splits of a read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from slatespark.kernels.columns import Visibility
from slatespark.table.read.arrow import Projection
from slatespark.table.read.merge.merge_function import MergeFunction
from slatespark.table.read.merge.validity import ValiditySettings
from slatespark.table.snapshot import WalTail

if TYPE_CHECKING:
    from slatespark.encoding.predicates import Filter


@dataclass(frozen=True, slots=True)
class ScanSettings:
    """The rows that a scan shows, and the memory it may use.

    Attributes
    ----------
    visibility : which versions
    projection : which columns
    fold : the merge operator, None if not given
    wal : tail of the snapshot
    wal_above_seq : rows of the tail with seq <= it are in the trees
    buffer_bytes : memory for stored bytes in flight
    wal_buffer_bytes : size up to which the WAL is decoded once, and up to which an open table keeps its rows
    residual : condition on the visible rows: only those are shown for which it is true; None shows all
    ignore_undecodable : leave out rows that do not decode
    retired_ms : rows created at or before it are hidden by the table's retention; None hides none
    validity : show all versions with the intervals in which they were valid; None shows rows as usual
    table : where the table is, for messages
    """

    visibility: Visibility
    projection: Projection
    fold: MergeFunction | None
    wal: WalTail
    wal_above_seq: int
    buffer_bytes: int
    wal_buffer_bytes: int = 0
    residual: Filter | None = None
    ignore_undecodable: bool = False
    retired_ms: int | None = None
    validity: ValiditySettings | None = None
    table: str = ""

    @property
    def has_tail(self) -> bool:
        """Whether the WAL has rows that are not in the trees."""
        return self.wal.last_seq > self.wal_above_seq

    @property
    def shared_wal_bytes(self) -> int:
        """Size of the WAL if it is decoded once for all splits; 0 if each decodes it by itself."""
        size = sum(self.wal.sizes)
        return size if self.has_tail and size <= self.wal_buffer_bytes else 0

    @property
    def reads_values(self) -> bool:
        """Whether the scan looks at values: for a column, or to merge operands."""
        codec = self.projection.codec
        stored = set(codec.schema.names).difference(codec.key_columns)
        return self.fold is not None or self.validity is not None or not stored.isdisjoint(self.columns)

    def without_wal_files(self) -> ScanSettings:
        """Return the settings of splits that have their rows of the WAL."""
        return replace(self, wal=replace(self.wal, sizes=(), changed_ms=()))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the scan shows or tests."""
        tested = () if self.residual is None else self.residual.columns
        return tuple(dict.fromkeys([*self.projection.names, *tested]))
