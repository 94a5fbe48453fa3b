"""A manifest: one version of the database as frozen dataclasses. Source: `docs/reference/format/manifest.md`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from uuid import UUID

from slatespark.format.references import SortedRun, SstMap, SstView
from slatespark.format.sequence_tracker import SequenceTracker
from slatespark.format.ulid import Ulid

NO_TICK: Final = -(1 << 63)  # clock tick of an empty database


@dataclass(frozen=True, slots=True)
class Segment:
    """The tree of the keys that start with `prefix`, in a database with a segment extractor."""

    prefix: bytes
    last_compacted_l0_sst_view_id: Ulid | None
    l0: tuple[SstView, ...]
    compacted: tuple[SortedRun, ...]

    def is_empty(self) -> bool:
        """Tell whether it has no view; it may have runs without any."""
        return not self.l0 and not any(run.views for run in self.compacted)


@dataclass(frozen=True, slots=True)
class ExternalDb:
    """The parent database of a clone, which owns some of the clone's SSTs."""

    path: str  # from the root of the object store, without a leading slash
    source_checkpoint_id: UUID
    final_checkpoint_id: UUID | None
    sst_ids: tuple[Ulid, ...]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Protects manifest `manifest_id`, its SSTs and its WAL files from garbage collection.

    Attributes
    ----------
    expire_time_s : second from which a collector may remove the checkpoint; 0 is never
    metadata_epoch : writer epoch, of a kind of checkpoint that the client does not write; preserved as read
    """

    id: UUID
    manifest_id: int
    expire_time_s: int
    create_time_s: int
    name: str | None = None
    metadata_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One version of the database. The defaults are those of a new database.

    Attributes
    ----------
    nonce : the first slot, which the client writes as 0 and ignores; our random number makes manifests unique
    replay_after_wal_id : id of the last WAL file that is not needed
    wal_id_last_seen : highest WAL id known to the writer
    last_compacted_l0_sst_view_id : the marker: newest L0 view that was compacted; never in `l0`
    ssts : every SST that a view references
    l0 : newest first
    compacted : sorted runs, newest first, which is highest id first
    last_l0_clock_tick : ms, largest create_ts in L0 and below
    last_l0_seq : largest seq in L0 and below; rows above it are invisible
    recent_snapshot_min_seq : number above which compactions keep every version of a key, and the newest at or below it
    wal_object_store_uri : only in manifests of version 1; never written
    unknown_fields : fields that the object has and this class lacks, by name; such a manifest can be read, not changed
    """

    nonce: int = 0
    external_dbs: tuple[ExternalDb, ...] = ()
    initialized: bool = True
    writer_epoch: int = 0
    compactor_epoch: int = 0
    replay_after_wal_id: int = 0
    wal_id_last_seen: int = 0
    last_compacted_l0_sst_view_id: Ulid | None = None
    ssts: SstMap = field(default_factory=SstMap)
    l0: tuple[SstView, ...] = ()
    compacted: tuple[SortedRun, ...] = ()
    last_l0_clock_tick: int = NO_TICK
    checkpoints: tuple[Checkpoint, ...] = ()
    last_l0_seq: int = 0
    recent_snapshot_min_seq: int = 0
    sequence_tracker: SequenceTracker = field(default_factory=SequenceTracker)
    segments: tuple[Segment, ...] = ()
    segment_extractor_name: str | None = None
    wal_object_store_uri: str | None = None
    unknown_fields: frozenset[str] = frozenset()

    @property
    def epochs(self) -> tuple[int, int]:
        """The epochs of the writer and of the compactor."""
        return self.writer_epoch, self.compactor_epoch

    def trees(self) -> tuple[Segment, ...]:
        """Return the root tree, as a segment with an empty prefix, followed by every segment."""
        root = Segment(b"", self.last_compacted_l0_sst_view_id, self.l0, self.compacted)
        return (root, *self.segments)

    def find_tree(self, prefix: bytes) -> Segment | None:
        """Return the tree of a segment, the root tree for an empty prefix; None if there is no such segment."""
        return next((tree for tree in self.trees() if tree.prefix == prefix), None)

    def has_l0(self) -> bool:
        """Tell whether any tree has L0 views."""
        return any(tree.l0 for tree in self.trees())

    def with_trees(self, trees: Iterable[Segment]) -> Manifest:
        """Return the manifest with other trees, in any order; the root tree is emptied if it is not among them."""
        by_prefix = {tree.prefix: tree for tree in trees}
        root = by_prefix.pop(b"", Segment(b"", self.last_compacted_l0_sst_view_id, (), ()))
        return replace(
            self,
            last_compacted_l0_sst_view_id=root.last_compacted_l0_sst_view_id,
            l0=root.l0,
            compacted=root.compacted,
            segments=tuple(by_prefix[prefix] for prefix in sorted(by_prefix)),
        )

    def with_runs(self, runs: Mapping[bytes, Iterable[SortedRun]]) -> Manifest:
        """Return the manifest with other runs, newest first, in the trees with these prefixes; some may be new."""
        trees = {tree.prefix: tree for tree in self.trees()}
        for prefix, compacted in runs.items():
            tree = trees.get(prefix) or Segment(prefix, None, (), ())
            trees[prefix] = replace(tree, compacted=tuple(compacted))
        return self.with_trees(trees.values())

    def views(self) -> Iterator[SstView]:
        """Yield every view of every tree, newest first within a tree."""
        for tree in self.trees():
            yield from tree.l0
            for run in tree.compacted:
                yield from run.views

    def shown_ssts(self) -> set[Ulid]:
        """Return the ids of the SSTs that any view shows."""
        return {view.sst_id for view in self.views()}

    def newest_sst(self) -> Ulid | None:
        """Return the newest id of an SST; None without one. No other table has an SST with it, but for copies."""
        return max(self.ssts, key=lambda sst_id: sst_id.value, default=None)

    def run_ids(self) -> tuple[int, ...]:
        """Return the ids of all sorted runs of all trees."""
        return tuple(run.id for tree in self.trees() for run in tree.compacted)
