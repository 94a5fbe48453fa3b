"""What commits to history tables do for the past: keep versions from a client's compaction, and note what was lost.

See docs/explanation/how-a-commit-works.md, docs/explanation/history-and-the-floor.md, docs/reference/format/history.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from slatespark.format.manifest import Manifest
from slatespark.format.properties import SstProperties
from slatespark.format.ulid import Ulid
from slatespark.table.clock import Clock
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.definition.versions import evolve_definition, resolve_definition
from slatespark.table.read.history.floor import lost_through
from slatespark.table.read.properties import file_properties
from slatespark.table.rows.sst_upload import NewFile
from slatespark.table.stores import TableStores


@dataclass(frozen=True, slots=True)
class KeptHistory:
    """What a client's compaction of a history table has to leave.

    Attributes
    ----------
    floor_ms : below it the newest version of a key is enough; None keeps everything
    known : what is known of files; of others everything is kept
    """

    floor_ms: int | None = None
    known: Mapping[Ulid, SstProperties] = field(default_factory=dict)

    def including(self, files: Iterable[NewFile]) -> KeptHistory:
        """Return the same with more files known."""
        return replace(self, known={**self.known, **{file.handle.id: file.properties for file in files}})

    def min_seq(self, shown: Iterable[Ulid], last_seq: int) -> int:
        """Return the sequence number above which compaction keeps every version, and of a key one at or below it.

        Versions of a key have their times in the order of their sequence numbers. So what lies above the floor is kept,
        and of what does not the newest.

        Parameters
        ----------
        shown : the files of the manifest
        last_seq : the answer where no file reaches above the floor
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
    """Return what compaction has to leave of the files of a manifest; None if the table is no history table."""
    definition = resolve_definition(stores, manifest)
    if not definition.has_history:
        return None
    floor_ms = definition.full_history_ts_low_ms
    if floor_ms is None:
        return KeptHistory()
    return KeptHistory(floor_ms, file_properties(stores, manifest))


def record_losses(stores: TableStores, clock: Clock, manifest: Manifest) -> None:
    """Note, before epochs are claimed, what other clients may have dropped of a history table since our last commit.

    Parameters
    ----------
    manifest : the one that the commit goes on from
    """
    definition = resolve_definition(stores, manifest)
    if not definition.has_history:
        return
    lost_ms = lost_through(stores, manifest, definition)
    if lost_ms is None or lost_ms == definition.lost_through_ms:
        return

    def raised(current: TableDefinition) -> TableDefinition:
        if current.lost_through_ms is not None and current.lost_through_ms >= lost_ms:
            return current
        return replace(current, lost_through_ms=lost_ms)

    evolve_definition(stores, clock, manifest, raised)
