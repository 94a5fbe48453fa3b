"""Erasing keys from the newest version: one commit removes every row version of them, tombstones included.

Files that hold such rows are rewritten without them, view by view, in the same places. All other rows keep their
sequence numbers and times. So the past of other keys stays as it was, also on a history table. Hidden rows count: of a
file that holds one, every view is rewritten. No bound of a view, claim or record names an erased key.

See docs/explanation/how-keys-are-erased.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from slatespark.encoding.row_codec import RAW_CODEC
from slatespark.errors import (
    ClockRegressionError,
    CommitConflictError,
    ConflictError,
    InvalidRequestError,
    SnapshotExpiredError,
    TransactionConflictError,
)
from slatespark.format.named_keys import first_named, names_in_view
from slatespark.format.references import SstView
from slatespark.format.ulid import Ulid
from slatespark.options import ReadOptions, WriteOptions
from slatespark.ranges import KeyRange, parts_within, point_range
from slatespark.table.clock import Clock, back_off
from slatespark.table.commit.claim import refuse_unwritable
from slatespark.table.commit.commit import commit_write
from slatespark.table.commit.cooperate_option import refuse_cooperation
from slatespark.table.commit.discard import delete_unshown
from slatespark.table.commit.foreign_clients import Baseline, refuse_foreign_client
from slatespark.table.commit.job import WriteJob, abandoned_on_error, begin_rewrite
from slatespark.table.commit.read_set import ReadSet
from slatespark.table.commit.requirements import UnmovedWal
from slatespark.table.commit.tree_edit import EraseKeys
from slatespark.table.definition.versions import resolve_definition
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.progress import Progress, Step
from slatespark.table.read.fetch import fetch_wal_file, measure_slice, measure_slices
from slatespark.table.read.gaps import find_gaps, is_gap
from slatespark.table.read.merge.cursor import FILE_WINDOW_BYTES, layer_windows
from slatespark.table.read.planning.layers import view_slices
from slatespark.table.read.planning.plan import FileSlice, Layer, SstFile
from slatespark.table.read.planning.row_cuts import rows_outside, spans_within
from slatespark.table.read.versions.resolve import resolve_snapshot
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.records.operations import Operation
from slatespark.table.rows.sorted_rows import SortedRows
from slatespark.table.rows.sst_upload import NewFile, upload_sorted
from slatespark.table.snapshot import Snapshot
from slatespark.table.stores import TableStores
from slatespark.table.tasks import THREADS, TaskRunner

MAX_ATTEMPTS: Final = 5

# What another attempt may avoid: files that changed or went, keys that were written, and a tick that advanced.
_PASSING: Final = (CommitConflictError, TransactionConflictError, SnapshotExpiredError, ClockRegressionError)


@dataclass(frozen=True, slots=True)
class ErasedRows:
    """What was erased from the newest version.

    Attributes
    ----------
    version : the version that shows it; None if nothing was there, so that nothing was published
    rows : number of row versions, tombstones included, in files and in the WAL
    files_in, bytes_in : files rewritten, and the stored bytes of their views that were read
    files_out, bytes_out : files and bytes written
    """

    version: int | None = None
    rows: int = 0
    files_in: int = 0
    bytes_in: int = 0
    files_out: int = 0
    bytes_out: int = 0


@dataclass(frozen=True, slots=True)
class ErasePlan:
    """What an erasure would take from the newest version.

    Attributes
    ----------
    parts : the parts of files that would be rewritten
    wal_rows : number of row versions that are only in the WAL
    commits : whether anything would be published
    """

    snapshot: Snapshot
    parts: tuple[FileSlice, ...]
    wal_rows: int
    commits: bool


def plan_erasure(stores: TableStores, clock: Clock, keys: Sequence[KeyRange], options: WriteOptions) -> ErasePlan:
    """Return what `erase_rows` would take from the newest version; parameters and errors as there."""
    erasing = _Erasing(stores, clock, tuple(keys), options)
    snapshot = erasing.newest_snapshot()
    found = erasing.survey(snapshot)
    return ErasePlan(snapshot, tuple(found.views.values()), found.wal_rows, found.is_any)


def erase_rows(
    stores: TableStores,
    clock: Clock,
    keys: Sequence[KeyRange],
    options: WriteOptions,
    *,
    always_commits: bool = False,
    runner: TaskRunner = THREADS,
    progress: Progress | None = None,
) -> ErasedRows:
    """Remove every row version of some keys from the newest version, in one commit; other versions keep theirs.

    Bloom filters tell which files may hold a single key. So the work grows with the files that hold the keys.

    Parameters
    ----------
    keys : ascending, not overlapping, none empty
    options : `ifClientActive`, and how files are written
    always_commits : whether to publish a version, and its record, even if the newest one has no row of the keys
    runner : rewrites views, each in a task; by default threads of this process

    Raises
    ------
    OptionError
        When `txnAppId` is given, or `ifClientActive=cooperate`.
    UnsupportedFormatError
        When the database cannot be written.
    CommitConflictError
        When a SlateDB client is active, or other commits kept changing the files.
    TransactionConflictError
        When other commits kept writing the keys.
    """
    return _Erasing(stores, clock, tuple(keys), options, runner, progress, always_commits).run()


@dataclass(frozen=True, slots=True)
class _Found:
    """Where the newest version holds or names the keys.

    Attributes
    ----------
    wal_rows : number of row versions that are only in the WAL
    in_wal : whether a WAL file holds any that a commit makes unnecessary
    """

    views: Mapping[SstView, FileSlice]
    wal_rows: int
    in_wal: bool

    @property
    def is_any(self) -> bool:
        """Whether there is anything to erase."""
        return bool(self.views) or self.in_wal


@dataclass(frozen=True, slots=True)
class _Rewritten:
    """A view without the keys: its new files, how many row versions were left out, and the stored bytes read."""

    files: tuple[NewFile, ...]
    rows: int
    bytes_in: int


@dataclass(slots=True)
class _Erasing:
    stores: TableStores
    clock: Clock
    keys: tuple[KeyRange, ...]
    options: WriteOptions
    runner: TaskRunner = THREADS
    progress: Progress | None = None
    always_commits: bool = False
    baseline: Baseline | None = None  # a client that was active since then is not fenced unless asked

    def __post_init__(self) -> None:
        refuse_cooperation(self.options, "an erasure")

    def run(self) -> ErasedRows:
        """Make attempts until nothing conflicts; each looks for the keys again."""
        for attempt in range(MAX_ATTEMPTS - 1):
            with contextlib.suppress(*_PASSING):
                return self._attempt()
            self._refuse_client()
            back_off(self.clock, attempt)
        return self._attempt()

    def _refuse_client(self) -> None:
        if self.baseline is not None and self.options.if_client_active != "fence":
            found = fetch_latest_manifest(self.stores)
            refuse_foreign_client(self.stores, found, self.baseline, now_ms=self.clock.now_ms())

    def _attempt(self) -> ErasedRows:
        snapshot = self.newest_snapshot()
        found = self.survey(snapshot)
        if not found.is_any and not self.always_commits:
            return ErasedRows()
        definition = resolve_definition(self.stores, snapshot.manifest).declaring(self.options.properties)
        job = begin_rewrite(self.stores, self.clock, Operation.ERASE, snapshot, definition)
        self.baseline = self.baseline or job.baseline
        with abandoned_on_error(self.stores, job):
            rewritten = self._rewrite(found.views, job.planned_ms)
            edit = EraseKeys({view: part.files for view, part in rewritten.items()}, self.keys)
            record = self._commit(replace(job, baseline=self.baseline), edit, snapshot, in_wal=found.in_wal)
        return ErasedRows(
            version=record.manifest_id,
            rows=sum(part.rows for part in rewritten.values()) + found.wal_rows,
            files_in=len({part.file for part in found.views.values()}),
            bytes_in=sum(part.bytes_in for part in rewritten.values()),
            files_out=len(edit.files),
            bytes_out=sum(file.size for file in edit.files),
        )

    # --- where the keys are -------------------------------------------------------------------------------------------

    def newest_snapshot(self) -> Snapshot:
        """Return the newest version, which can be written."""
        snapshot = resolve_snapshot(self.stores, ReadOptions(path=self.stores.url), self.clock)
        refuse_unwritable(self.stores.url, snapshot.manifest)
        return snapshot

    def survey(self, snapshot: Snapshot) -> _Found:
        """Return where a version holds or names the keys."""
        views = view_slices(self.stores, snapshot.manifest)
        holding = self._find_holding({part.file for part in views.values()})
        chosen = {view: part for view, part in views.items() if view.sst_id in holding or self._names_keys(view)}
        rows_in_wal = self._seqs_in_wal(snapshot)
        unflushed = sum(seq > snapshot.manifest.last_l0_seq for seq in rows_in_wal)
        return _Found(chosen, unflushed, bool(rows_in_wal))

    def _find_holding(self, files: set[SstFile]) -> set[Ulid]:
        """Return the files that hold any row of the keys, shown or hidden."""
        asked = {file: parts for file in files if (parts := parts_within(self.keys, file.info.key_range()))}
        gaps = find_gaps(self.stores, asked, RAW_CODEC)  # by which no key is impossible
        return {
            file.id for file, parts in asked.items() if not all(is_gap(part, gaps.get(file.id, ())) for part in parts)
        }

    def _names_keys(self, view: SstView) -> bool:
        return first_named(names_in_view(view), self.keys) is not None

    def _seqs_in_wal(self, snapshot: Snapshot) -> list[int]:
        """Return the sequence numbers of the keys' rows in WAL files that a commit makes unnecessary.

        The rows may be in the trees as well. The first of these files is the one behind which replay starts now.
        """
        found: list[int] = []
        for number in range(snapshot.manifest.replay_after_wal_id, snapshot.wal.end):
            rows = fetch_wal_file(self.stores, number)
            if rows is not None:
                spans = spans_within(rows, 0, len(rows), self.keys)
                found.extend(seq for low, high in spans for seq in rows.seqs[low:high].tolist())
        return found

    # --- rewriting ----------------------------------------------------------------------------------------------------

    def _rewrite(self, views: Mapping[SstView, FileSlice], planned_ms: int) -> dict[SstView, _Rewritten]:
        """Upload what is left of some views, each in a task."""
        done, total = 0, sum(measure_slices(self.stores, list(views.values())))
        found: dict[SstView, _Rewritten] = {}
        task = EraseTask(self.stores, self.clock, self.keys, self.options, planned_ms)
        for view, part in zip(views, self.runner(task, [*views.values()]), strict=True):
            found[view] = part
            done += part.bytes_in
            if self.progress is not None:
                self.progress(Step.ERASING, done, total)
        return found

    # --- committing ---------------------------------------------------------------------------------------------------

    def _commit(self, job: WriteJob, edit: EraseKeys, snapshot: Snapshot, *, in_wal: bool) -> CommitRecord:
        reads = self._reads(snapshot)
        # The read set does not see them: a commit that moves rows out of the WAL leaves their numbers alone.
        unmoved = UnmovedWal(snapshot.manifest.replay_after_wal_id)
        try:
            record = commit_write(
                self.stores,
                self.clock,
                job,
                (),
                self.options,
                edit=edit,
                depends_on=reads,
                requirements=(unmoved,) if in_wal else (),
            )
        except (ConflictError, InvalidRequestError):  # nothing was published, and nothing will be
            delete_unshown(self.stores, [file.handle.id for file in edit.files], snapshot.manifest_id)
            raise
        assert record is not None  # only a write without rows has none
        return record

    def _reads(self, snapshot: Snapshot) -> ReadSet:
        """Return the keys as a read set: a row that another commit writes or moves meanwhile would stay."""
        points = {keys for keys in self.keys if keys == point_range(keys.start)}
        ranges = (keys for keys in self.keys if keys not in points)
        return ReadSet.of(snapshot, keys=(keys.start for keys in points), ranges=ranges, written=())


@dataclass(frozen=True, slots=True)
class EraseTask:
    """Uploads what is left of a view, in any process.

    Attributes
    ----------
    planned_ms : time part of the ids of new files
    """

    stores: TableStores
    clock: Clock
    keys: tuple[KeyRange, ...]
    options: WriteOptions
    planned_ms: int

    def __call__(self, part: FileSlice) -> _Rewritten:
        """Return the files of a view without the keys."""
        erased = 0

        def pieces() -> Iterator[SortedRows]:
            nonlocal erased
            for window in layer_windows(self.stores, Layer("erased", (part,)), FILE_WINDOW_BYTES):
                kept = rows_outside(window.rows, window.low, window.high, self.keys)
                erased += window.high - window.low - len(kept)
                if len(kept):
                    yield SortedRows([window.rows], kept)

        files = upload_sorted(self.stores.main, pieces(), self.options, self.clock, self.planned_ms)
        return _Rewritten(files, erased, measure_slice(self.stores, part))
