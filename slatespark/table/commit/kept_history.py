"""Protecting the past of history tables: versions are kept from a client's compaction, and losses are recorded.

See docs/explanation/how-a-commit-works.md, docs/explanation/history-and-the-floor.md, docs/reference/format/history.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from slatespark.format.manifest import Manifest
from slatespark.format.properties import SstProperties
from slatespark.format.ulid import Ulid
from slatespark.table.clock import Clock
from slatespark.table.definition.bounds import raise_bounds
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.definition.versions import resolve_definition
from slatespark.table.log.versioned_object import Version
from slatespark.table.read.versions.file_properties import file_properties
from slatespark.table.read.versions.floor import lost_through
from slatespark.table.rows.sst_upload import NewFile
from slatespark.table.stores import TableStores


@dataclass(frozen=True, slots=True)
class KeptHistory:
    """The versions of a history table that a client's compaction must keep.

    Attributes
    ----------
    floor_ms : instant at or below which only the newest version of a key is kept; None keeps everything
    known : properties of files; of a file without them every version is kept
    """

    floor_ms: int | None = None
    known: Mapping[Ulid, SstProperties] = field(default_factory=dict)

    def including(self, files: Iterable[NewFile]) -> KeptHistory:
        """Return the same with more files known."""
        return replace(self, known={**self.known, **{file.handle.id: file.properties for file in files}})

    def min_seq(self, shown: Iterable[Ulid], last_seq: int) -> int:
        """Return the sequence number above which compaction keeps every version, and of a key one at or below it.

        The versions of a key have times in the order of their sequence numbers. So every version above the floor is
        kept, and the newest one below it.

        Parameters
        ----------
        shown : the files of the manifest
        last_seq : the result if no file reaches above the floor
        """
        if self.floor_ms is None:
            return 0
        lowest = last_seq + 1
        for sst_id in shown:
            properties = self.known.get(sst_id)
            if properties is None:
                return 0
            if properties.max_create_ts is not None and properties.max_create_ts > self.floor_ms:
                lowest = min(lowest, properties.min_seq)
        return max(lowest - 1, 0)


def find_kept_history(stores: TableStores, manifest: Manifest) -> KeptHistory | None:
    """Return what compaction must keep of the files of a manifest; None if the table is not a history table."""
    definition = resolve_definition(stores, manifest)
    if not definition.has_history:
        return None
    floor_ms = definition.full_history_ts_low_ms
    if floor_ms is None:
        return KeptHistory()
    return KeptHistory(floor_ms, file_properties(stores, manifest))


def record_losses(stores: TableStores, clock: Clock, base: Version[Manifest], definition: TableDefinition) -> None:
    """Record, before the claim, up to when other clients may have dropped versions of a history table.

    Parameters
    ----------
    base : the version that the commit is based on
    definition : the newest one
    """
    lost_ms = lost_through(stores, base.value, definition)
    if lost_ms is None or lost_ms == definition.lost_through_ms:
        return

    def raised(current: TableDefinition) -> TableDefinition:
        if current.lost_through_ms is not None and current.lost_through_ms >= lost_ms:
            return current
        return replace(current, lost_through_ms=lost_ms)

    raise_bounds(stores, clock, base, raised)
