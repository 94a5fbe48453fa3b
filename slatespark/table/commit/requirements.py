"""Requirements: conditions for a commit to be published. Each is checked at its own stages, and refuses by raising.

The stages, in order: before files are rewritten above other commits, before the epochs are claimed, after the WAL was
drained under the fence, and right before the manifest is published. Checks that need no claim come before it, since a
claim fences other clients.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from slatespark.encoding.row_codec import RowCodec
from slatespark.errors import CommitConflictError, TableExistsError
from slatespark.format.compactions import Compactions
from slatespark.format.manifest import Manifest
from slatespark.format.paths import sst_path
from slatespark.format.segments import KeySegments
from slatespark.format.ulid import Ulid
from slatespark.kernels.columns import MERGE, RowColumns
from slatespark.ranges import ALL_KEYS
from slatespark.storage import run_concurrently
from slatespark.table.clock import Clock
from slatespark.table.commit.conflicts import ReadCheck
from slatespark.table.commit.drain import Drained, kept_rows
from slatespark.table.commit.foreign_clients import (
    Baseline,
    refuse_foreign_job,
    refuse_foreign_writer,
    refuse_unknown_jobs,
)
from slatespark.table.commit.history_order import check_above_floor, check_order_in_rows, check_order_in_trees
from slatespark.table.commit.prefetch import CommitPrefetch, FetchJobs
from slatespark.table.commit.tree_edit import TreeEdit
from slatespark.table.definition.segmentation import check_extractor
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.definition.versions import fetch_definition
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.log.manifests import is_at_rest
from slatespark.table.log.versioned_object import Version
from slatespark.table.read.fetch import fetch_wal_rows
from slatespark.table.rows.segment_split import split_segments
from slatespark.table.rows.sst_upload import NewFile
from slatespark.table.snapshot import fetch_newest_state
from slatespark.table.stores import TableStores


@dataclass(slots=True)
class Stage:
    """What the requirements of one stage check; they share one read of the definition, and one of the jobs.

    Attributes
    ----------
    version : the newest one of the table
    files : the outputs of the commit
    merged : the outputs of a compaction, which the commit puts in the place of others
    claims_first : the commit has lost races, so what takes long and needs no claim is left for after it
    prefetch : what is read beside the newest version; None after the claim
    fetch_jobs : fetches the list of compactions, if there is no `prefetch`; None for a request now
    """

    stores: TableStores
    version: Version[Manifest]
    files: Sequence[NewFile]
    merged: Sequence[NewFile] = ()
    claims_first: bool = False
    prefetch: CommitPrefetch | None = None
    fetch_jobs: FetchJobs | None = None
    _definition: TableDefinition | None = None

    @property
    def manifest(self) -> Manifest:
        """The manifest of the version."""
        return self.version.value

    @property
    def definition(self) -> TableDefinition:
        """The newest definition, fetched when the first requirement asks for it."""
        # Not a cached_property: in Python 3.11 its lock is shared by all commits of the process, and this one does I/O.
        if self._definition is None:
            if self.prefetch is None:
                self._definition = fetch_definition(self.stores, self.manifest).value
            else:
                self._definition = self.prefetch.definition(self.version).value
        return self._definition

    @property
    def jobs(self) -> Compactions:
        """The newest list of compactions."""
        fetch = self.fetch_jobs if self.prefetch is None else self.prefetch.jobs
        return fetch_compactions(self.stores).value if fetch is None else fetch().value


class Requirement:
    """Something that must hold for a commit; a stage that a requirement does not override accepts everything."""

    __slots__ = ()

    def before_rewrite(self, stage: Stage) -> None:
        """Check the newest version, before files are rewritten above what it brought."""

    def before_claim(self, stage: Stage) -> None:
        """Check the newest version, right before epochs are claimed on top of it."""

    def after_drain(self, stage: Stage, drained: Drained) -> None:
        """Check under the claim, with the rows that were only in the WAL; no other writer can add to it any more."""

    def before_publishing(self, stage: Stage) -> None:
        """Check right before the next manifest is created on top of that of `stage`."""


@dataclass(frozen=True, slots=True)
class NoTable(Requirement):
    """There is no table yet."""

    def before_rewrite(self, stage: Stage) -> None:
        """Refuse: a version exists."""
        raise TableExistsError(f"{stage.stores.url} exists already.", todo="Open it, or choose another path.")


@dataclass(frozen=True, slots=True)
class UnmovedWal(Requirement):
    """Nobody else has moved rows of the WAL into files: these rows are older than the read, and yet the file is new."""

    replay_after: int

    def before_claim(self, stage: Stage) -> None:
        """Refuse where replay starts behind another file."""
        if stage.manifest.replay_after_wal_id != self.replay_after:
            raise CommitConflictError(
                f"{stage.stores.url}: rows that were only in the WAL are in files of version {stage.version.number}.",
                todo="Look for them again.",
            )


@dataclass(frozen=True, slots=True)
class LastSeq(Requirement):
    """No row was committed above a sequence number."""

    limit: int

    def before_rewrite(self, stage: Stage) -> None:
        """Check trees and WAL."""
        self.check_newest(stage.stores)

    def check_newest(self, stores: TableStores) -> None:
        """Check trees and WAL of the newest state; raises `CommitConflictError`."""
        self._check(stores, fetch_newest_state(stores).last_seq)

    def after_drain(self, stage: Stage, drained: Drained) -> None:
        """Check trees and WAL once more."""
        self._check(stage.stores, drained.last_seq)

    def _check(self, stores: TableStores, reached_seq: int) -> None:
        if reached_seq > self.limit:
            raise CommitConflictError(
                f"{stores.url}: rows up to sequence number {reached_seq} were committed, above {self.limit}.",
                why="This write depends on an earlier read.",
                todo="Read and write again.",
            )


@dataclass(slots=True)
class UnchangedReads(Requirement):
    """The read set of the commit is unchanged.

    Attributes
    ----------
    is_left : the trees are still to be checked, after the claim
    """

    check: ReadCheck
    is_left: bool = False

    def before_rewrite(self, stage: Stage) -> None:
        """Check trees and WAL."""
        self.is_left = stage.claims_first
        if not self.is_left:
            self.check.check_newest(stage.version, stage.files)

    def after_drain(self, stage: Stage, drained: Drained) -> None:
        """Check the WAL, and the trees unless they are those that were checked right before the claim."""
        if self.is_left:
            self.check.check_trees(stage.version, stage.files)
        self.check.check_rows(drained.rows, stage.files)


@dataclass(slots=True)
class NoForeignClient(Requirement):
    """No SlateDB client has written since the write was planned: `ifClientActive=fail`.

    Attributes
    ----------
    baseline : the state up to which that is known; it advances, lest a check after many lost races begin anew
    is_left : running compactions are still to be checked, after the claim, which fences nobody
    """

    clock: Clock
    baseline: Baseline
    is_left: bool = False

    def before_claim(self, stage: Stage) -> None:
        """Check epochs, WAL and running compactions."""
        refuse_foreign_writer(stage.stores, stage.version, self.baseline)
        self.is_left = is_at_rest(stage.stores, stage.version)
        if not self.is_left:
            refuse_foreign_job(stage.stores, now_ms=self.clock.now_ms(), jobs=stage.jobs)
        self.baseline = self.baseline.advanced(stage.version)

    def after_drain(self, stage: Stage, drained: Drained) -> None:
        """Check running compactions where no client was alive: they cost no request of their own here."""
        if self.is_left:
            refuse_foreign_job(stage.stores, now_ms=self.clock.now_ms(), jobs=stage.jobs)


@dataclass(frozen=True, slots=True)
class KnownJobs(Requirement):
    """The list of compactions can be written again: `ifClientActive=fence` reads it only after the claim."""

    def before_claim(self, stage: Stage) -> None:
        """Check the newest list."""
        refuse_unknown_jobs(stage.stores, stage.jobs)


@dataclass(slots=True)
class OrderOfHistory(Requirement):
    """No key of a history table has a version newer than the written ones; for rows with fixed times.

    Not for the tombstones of a reap: they are as old as rows below the floor, and the commit depends on what it has
    read of their keys.

    Attributes
    ----------
    checked : ids of SSTs that are in order with the write; they are not read again after a lost race
    """

    codec: RowCodec
    buffer_bytes: int
    checked: frozenset[Ulid] = field(default=frozenset())

    def before_claim(self, stage: Stage) -> None:
        """Check the history floor, the trees, and the WAL."""
        if not stage.files:
            return
        check_above_floor(stage.stores, stage.definition.full_history_ts_low_ms, stage.files)
        check_order_in_trees(
            stage.stores, stage.manifest, stage.files, self.codec, checked=self.checked, buffer_bytes=self.buffer_bytes
        )
        self.checked |= set(stage.manifest.ssts)
        _, latest, wal = fetch_newest_state(stage.stores)
        self._check_rows(stage, fetch_wal_rows(stage.stores, wal, latest.last_l0_seq, ALL_KEYS))

    def after_drain(self, stage: Stage, drained: Drained) -> None:
        """Check the WAL."""
        self._check_rows(stage, drained.rows)

    def _check_rows(self, stage: Stage, rows: RowColumns | None) -> None:
        check_order_in_rows(stage.stores, rows, stage.files, self.codec, buffer_bytes=self.buffer_bytes)


@dataclass(frozen=True, slots=True)
class NoNewOperands(Requirement):
    """No merge operand was added: it may keep a row alive that the commit removes."""

    def after_drain(self, stage: Stage, drained: Drained) -> None:
        """Check the WAL."""
        if drained.rows is not None and (drained.rows.flags & MERGE).any():
            raise operands_came(stage.stores.url)


def operands_came(table: str) -> CommitConflictError:
    """Return the error for rows past retention that may not be removed any more."""
    return CommitConflictError(
        f"{table}: merge operands were written while rows past retention were being removed.",
        why="An operand may keep such a row alive.",
        todo="Run it again.",
    )


@dataclass(frozen=True, slots=True)
class KnownSegments(Requirement):
    """The declared segment extractor is that of the table, and every row of the WAL that stays belongs to a segment."""

    edit: TreeEdit
    segments: KeySegments

    def before_claim(self, stage: Stage) -> None:
        """Check the newest version and its WAL."""
        if self.segments.extractor is not None:
            check_extractor(stage.stores.url, stage.manifest, self.segments.extractor)
        _, latest, wal = fetch_newest_state(stage.stores)
        if wal.last_seq > latest.last_l0_seq:
            rows = fetch_wal_rows(stage.stores, wal, latest.last_l0_seq, ALL_KEYS)
            deque(split_segments(kept_rows(rows, self.edit), self.segments.joined(KeySegments.of(latest))), maxlen=0)


@dataclass(frozen=True, slots=True)
class FilesExist(Requirement):
    """The outputs of a compaction exist, even if its entry was missing from the list for a moment."""

    def before_publishing(self, stage: Stage) -> None:
        """Look for each file."""
        checks = [partial(stage.stores.main.head, sst_path(file.handle.id)) for file in stage.merged]
        try:
            run_concurrently(checks, is_remote=stage.stores.main.is_remote)
        except FileNotFoundError as exc:
            raise CommitConflictError(
                f"{stage.stores.url}: files of the compaction were collected before it was committed.",
                why="Another coordinator removed its entry from the list of compactions.",
                todo="Run it again.",
            ) from exc


@dataclass(frozen=True, slots=True)
class SameRetention(Requirement):
    """The retention of the table is the same as when the commit chose the rows to remove."""

    planned: TableDefinition

    def before_publishing(self, stage: Stage) -> None:
        """Compare retention and history floor."""
        if self.planned.lifetimes != stage.definition.lifetimes:
            raise CommitConflictError(
                f"{stage.stores.url}: the retention or the history floor of the table has changed.",
                why="The rows to remove were chosen by the previous values.",
                todo="Read and write again.",
            )


@dataclass(frozen=True, slots=True)
class SameMergeOperator(Requirement):
    """The table folds operands in the same way as when the commit folded them."""

    planned: TableDefinition

    def before_publishing(self, stage: Stage) -> None:
        """Compare the property `mergeOperator`."""
        if self.planned.merge_operator != stage.definition.merge_operator:
            raise CommitConflictError(
                f"{stage.stores.url}: the mergeOperator of the table has changed.",
                why="Operands were folded by the previous one.",
                todo="Run it again.",
            )
