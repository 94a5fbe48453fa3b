"""Reaping: delete rows past retention, in passes of one commit each. See docs/explanation/how-rows-are-reaped.md.

A pass plans on a snapshot. It commits only if the rows that it removes are still due: no merge operand was committed
for them meanwhile, a key that gets a tombstone has no new version at all, and the retention is unchanged. Otherwise it
is planned again, and reuses the uploaded files.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Self

import numpy as np

from slatespark.errors import (
    ClockRegressionError,
    ConflictError,
    HistoryTrimmedError,
    InvalidRequestError,
)
from slatespark.format.ulid import Ulid
from slatespark.kernels.columns import HAS_CREATE, RowColumns
from slatespark.log_lines import log_event
from slatespark.options import ReadOptions, WriteOptions
from slatespark.ranges import ALL_KEYS
from slatespark.table.clock import Clock, back_off_ms
from slatespark.table.commit.commit import commit_write
from slatespark.table.commit.cooperate_option import refuse_cooperation
from slatespark.table.commit.job import WriteJob, abandoned_on_error, begin_rewrite
from slatespark.table.commit.read_set import ReadSet
from slatespark.table.commit.requirements import SameRetention
from slatespark.table.commit.row_times import GIVEN_TIMES
from slatespark.table.commit.tree_edit import KEEP_TREES, ReplaceViews, TreeEdit
from slatespark.table.definition.versions import DefinitionFetch, fetch_definition
from slatespark.table.progress import Progress, Step
from slatespark.table.read.fetch import fetch_wal_rows
from slatespark.table.read.merge.cursor import window_size
from slatespark.table.read.planning.layers import fetch_layers
from slatespark.table.read.planning.plan import FileSlice
from slatespark.table.read.points import CHUNK_KEYS
from slatespark.table.read.versions.resolve import resolve_snapshot
from slatespark.table.records.operations import Operation
from slatespark.table.retention.deletion_time import resolve_deletion_time
from slatespark.table.retention.due_windows import SearchStart
from slatespark.table.retention.history_floor import follow_history_retention
from slatespark.table.retention.plan import DueView, FilePlan, StoredView, plan_due_blocks, plan_files
from slatespark.table.retention.reap_arguments import NO_LIMITS, ReapLimits
from slatespark.table.retention.reap_report import ReapReport, find_kept_checkpoints
from slatespark.table.retention.reap_rewrites import Candidate, Rewrite, Rewrites, RewriteTask
from slatespark.table.retention.reap_state import ReapState, due_until_ms, record_progress
from slatespark.table.retention.reap_survey import ReapSurvey
from slatespark.table.retention.reap_tombstones import TombstoneBatch, TombstoneSearch, wal_keys
from slatespark.table.rows.sorted_rows import SortedRows
from slatespark.table.rows.sst_upload import NewFile, upload_sorted
from slatespark.table.stores import TableStores
from slatespark.table.tasks import MAX_PARALLELISM, THREADS, TaskRunner
from slatespark.units import MAX_MS

MAX_BATCH_ROWS: Final = 500_000
MAX_BATCH_BYTES: Final = 256 << 20
MAX_CONFLICTS: Final = 12  # in a row; the last ones are up to two seconds apart

_log = logging.getLogger(__name__)


class _Search(NamedTuple):
    """How much of a view is searched: the size of its blocks that may hold due rows, and the number behind the last."""

    stored_bytes: int
    end: int


def reap_table(
    stores: TableStores,
    clock: Clock,
    *,
    now_ms: int | None = None,
    limits: ReapLimits = NO_LIMITS,
    options: WriteOptions | None = None,
    runner: TaskRunner = THREADS,
    progress: Progress | None = None,
) -> ReapReport:
    """Delete the rows of a table that are past its retention.

    Parameters
    ----------
    now_ms : the instant at which retention is evaluated; by default one minute before the clock, or the last clock tick
        if that is later; for a table with a clock of its own the tick
    limits : bounds of a pass: keys deleted by tombstones, and stored bytes read and rewritten; at least one file, or
        some blocks. Files dropped as a whole are not bounded
    options : file options, and `ifClientActive`
    runner : rewrites views; by default threads of this process

    Raises
    ------
    TableNotFoundError, OptionError, UnsupportedFormatError, CorruptDataError
        When there is no table, or it cannot be reaped.
    InvalidRequestError
        When the retention is not the table's own: a clone made by the client uses that of its parent.
    ConflictError
        When other commits kept conflicting, or a SlateDB client is active.
    """
    reaping = Reaping.begin(
        stores,
        clock,
        now_ms=now_ms,
        limits=limits,
        options=options,
        runner=runner,
        progress=progress,
    )
    while (wait_ms := reaping.step()) is not None:
        if wait_ms:
            clock.sleep_ms(wait_ms)
    return reaping.report


@dataclass(slots=True)
class Reaping:
    """A running reap of one table, pass by pass.

    Attributes
    ----------
    max_batch_rows, max_batch_bytes : bounds of a pass
    asked_ms, now_ms : the given instant, and the one resolved by the first pass for all passes
    rewrites : rewrites of views, as tasks
    widening : how many times the bounds count for rewrites, which many tasks may share; 1 where they were given
    halvings : how often the bounds of the next pass are halved: once more after a conflict, once less after a pass
    conflicts : number of conflicts in a row
    reported : files counted in the report: several views may show parts of one, and be dropped one after the other
    searches : blocks of views that may hold due rows; their outlines are not all held
    searched_to : where the search for rows to delete goes on, by view
    youngest : smallest create_ts of rows that are not due yet, in the blocks read, by view
    began_ms, elapsed_ms : start of the present pass, and duration of the earlier ones
    last_version : published by the last pass; 0 if there was none
    report : complete once `step` returns None
    """

    stores: TableStores
    clock: Clock
    options: WriteOptions
    survey: ReapSurvey
    max_batch_rows: int
    max_batch_bytes: int
    asked_ms: int | None
    rewrites: Rewrites
    widening: int
    progress: Progress | None
    now_ms: int | None = None
    retired_ms: int | None = None
    halvings: int = 0
    conflicts: int = 0
    reported: set[Ulid] = field(default_factory=set)
    searches: dict[FileSlice, _Search] = field(default_factory=dict)
    searched_to: dict[FileSlice, SearchStart] = field(default_factory=dict)
    youngest: dict[FileSlice, int] = field(default_factory=dict)
    began_ms: int = 0
    elapsed_ms: int = 0
    last_version: int = 0
    report: ReapReport = field(default=ReapReport("", 0, 0, None))

    @classmethod
    def begin(
        cls,
        stores: TableStores,
        clock: Clock,
        *,
        now_ms: int | None = None,
        limits: ReapLimits = NO_LIMITS,
        options: WriteOptions | None = None,
        survey: ReapSurvey | None = None,
        runner: TaskRunner = THREADS,
        progress: Progress | None = None,
    ) -> Self:
        """Return a reap that has not begun; parameters as for `reap_table`."""
        given = WriteOptions.parse({"path": stores.url}) if options is None else options
        refuse_cooperation(given, "a reap")
        return cls(
            stores,
            clock,
            given,
            survey or ReapSurvey(stores, window_size(given.write_buffer_bytes, 1)),
            limits.batch_rows or MAX_BATCH_ROWS,
            limits.batch_bytes or MAX_BATCH_BYTES,
            asked_ms=now_ms,
            rewrites=Rewrites(runner, stores, clock),
            widening=1 if limits != NO_LIMITS else -(-runner.parallelism // MAX_PARALLELISM),
            progress=progress,
        )

    def step(self) -> int | None:
        """Do one pass; return how many ms to wait before the next one, or None if nothing is left to do.

        Raises
        ------
        SlateError
            As `reap_table`.
        """
        wait_ms = None
        try:
            wait_ms = self._step()
        finally:
            if wait_ms is None:  # it has ended, or failed
                self.rewrites.release()
        return wait_ms

    def _step(self) -> int | None:
        self.began_ms = self.clock.now_ms()
        try:
            state = self._read_state()
            if state is not None and self._pass(state):
                self.conflicts, self.halvings = 0, max(0, self.halvings - 1)
                return 0
        except (ConflictError, HistoryTrimmedError, ClockRegressionError) as exc:
            self.conflicts += 1
            # With a clock of the table's own, an advanced tick is a conflict; otherwise the tick is ahead of the local
            # one.
            is_ahead = isinstance(exc, ClockRegressionError) and not self.report.has_own_time
            if is_ahead or self.conflicts > MAX_CONFLICTS:
                raise
            self.halvings += 1
            return back_off_ms(self.clock, self.conflicts)
        if state is not None:
            self.report = self._finish(state)
        done = self.report
        log_event(
            _log,
            "reap",
            self.stores.url,
            version=done.version,
            rows=done.rows,
            bytes=done.bytes,
            files=done.files_dropped + done.files_rewritten,
            tombstones=done.tombstones,
        )
        return None

    @property
    def _batch_rows(self) -> int:
        return max(1, self.max_batch_rows >> self.halvings)

    @property
    def _batch_bytes(self) -> int:
        return max(1, self.max_batch_bytes >> self.halvings)

    def _read_state(self) -> ReapState | None:
        """Return the state for planning the next pass; None if nothing can be due."""
        fetch = DefinitionFetch(self.stores)
        snapshot = resolve_snapshot(self.stores, ReadOptions(path=self.stores.url), self.clock, fetch)
        number, definition = fetch.resolve(snapshot.version)
        if self.now_ms is None:
            now_ms = resolve_deletion_time(snapshot, definition, self.clock, self.asked_ms)
            if definition.history_retention_ms is not None:
                follow_history_retention(self.stores, self.clock, self.asked_ms)
                number, definition = fetch_definition(self.stores, snapshot.manifest)
            self.now_ms = now_ms  # last: a pass that fails before it raised the floor does both again
        self.report = replace(
            self.report,
            url=self.stores.url,
            version=snapshot.manifest_id,
            now_ms=self.now_ms,
            retention_ms=definition.retention_ms,
            has_own_time=definition.has_own_time,
        )
        retired_ms = due_until_ms(definition, self.now_ms)
        if retired_ms != self.retired_ms:  # the retention has changed, so other blocks may be due
            self.retired_ms = retired_ms
            for found in (self.rewrites, self.searches, self.searched_to, self.youngest):
                found.clear()
        if retired_ms is None:
            return None
        if number == 0:
            raise InvalidRequestError(
                f"{self.stores.url} is a clone without a definition of its own: its retention is that of its parent.",
                why="A change to the parent's retention would delete rows of the clone.",
                todo='Call setProperties(retention="...") on the clone, with "none" to keep its rows.',
            )
        layers = fetch_layers(self.stores, snapshot.manifest)
        wal = fetch_wal_rows(self.stores, snapshot.wal, snapshot.manifest.last_l0_seq, ALL_KEYS)
        views = self.survey.views(snapshot.manifest, layers)
        return ReapState(snapshot, definition, self.now_ms, retired_ms, layers, views, wal)

    def _pass(self, state: ReapState) -> bool:
        """Do the next step, in one commit at most; False if nothing is due any more."""
        plan = plan_files(state.views, *wal_keys(state.wal), state.retired_ms)
        if plan.drops:
            self._drop(state, plan)
            return True
        rewrites = self._choose_rewrites(state, plan)
        if rewrites:
            self._replace(state, rewrites)
            return True
        batch = self._gather(state, plan.due)
        if batch.keys:
            self._write_tombstones(state, batch)
        self.searched_to.update(batch.reached)
        return bool(batch.keys) or not batch.is_last

    # --- files --------------------------------------------------------------------------------------------------------

    def _drop(self, state: ReapState, plan: FilePlan) -> None:
        files = self._not_reported(plan.drops)
        rows = sum(stored.properties.num_rows for stored in files.values() if stored.properties is not None)
        size = sum(stored.part.file.data_bytes for stored in files.values())
        edit = ReplaceViews({stored.view: () for stored in plan.drops})
        self._commit(state, state.without_operands(plan.drops), edit=edit, rows=rows, size=size)
        self.report = replace(self.report, files_dropped=self.report.files_dropped + len(files))
        self.reported.update(files)

    def _not_reported(self, views: Iterable[StoredView]) -> dict[Ulid, StoredView]:
        """Return one view of each file that the report does not count yet."""
        return {view.part.file.id: view for view in views if view.part.file.id not in self.reported}

    def _choose_rewrites(self, state: ReapState, plan: FilePlan) -> dict[DueView, Rewrite]:
        """Return some rewritten views; none if rows of all views get tombstones."""
        rewrites: dict[DueView, Rewrite] = {}
        group: list[Candidate] = []
        due_bytes = due_rows = 0  # of rewrites, and of a group as if all of it were rewritten
        undecided = [view for view in plan.due if not self.rewrites.is_left(view)]
        for view, outline in self.survey.due_outlines(undecided):
            part = view.stored.part
            blocks = plan_due_blocks(part, outline, state.retired_ms)
            if blocks.youngest_ms is not None:
                self._note_young(part, blocks.youngest_ms)
            self.searches[part] = _Search(blocks.stored_bytes, blocks.reads[-1][1] if blocks.reads else 0)
            candidate = self.rewrites.candidate(view, outline, blocks)
            if candidate is None:
                continue
            group.append(candidate)
            due_bytes += candidate.stored_bytes
            due_rows += blocks.rows
            if self._is_full(due_bytes, due_rows):
                found, left = self._rewrite(state, group)
                rewrites |= found
                due_bytes -= sum(candidate.stored_bytes for candidate in left)
                due_rows -= sum(candidate.blocks.rows for candidate in left)
                group = []
                if self._is_full(due_bytes, due_rows):
                    return rewrites
        return rewrites | self._rewrite(state, group)[0]

    def _is_full(self, due_bytes: int, due_rows: int) -> bool:
        most_bytes, most_rows = self._batch_bytes * self.widening, self._batch_rows * self.widening
        return due_bytes >= most_bytes or due_rows >= most_rows

    def _rewrite(self, state: ReapState, group: Sequence[Candidate]) -> tuple[dict[DueView, Rewrite], list[Candidate]]:
        """Return what replaces the views of candidates, and the candidates that are left to tombstones."""
        if not group:
            return {}, []
        now_ms, window_bytes = self.clock.now_ms(), self.survey.window_bytes
        task = RewriteTask(self.stores, self.clock, self.options, state.retired_ms, now_ms, window_bytes)
        return self.rewrites.run(task, group, lambda done: self._report_progress(done, 0))

    def _replace(self, state: ReapState, rewrites: dict[DueView, Rewrite]) -> None:
        self.rewrites.hold()
        files = [file for rewrite in rewrites.values() for file in rewrite.files]
        replaced = self._not_reported(view.stored for view in rewrites)
        before = sum(view.part.file.data_bytes for view in replaced.values())
        left = sum(file.handle.info.data_bytes for file in files)
        edit = ReplaceViews({view.stored.view: rewrite.files for view, rewrite in rewrites.items()})
        rows = sum(rewrite.gone for rewrite in rewrites.values())
        reads = state.without_operands(view.stored for view in rewrites)
        self._commit(state, reads, edit=edit, rows=rows, size=max(0, before - left))
        self.report = replace(self.report, files_rewritten=self.report.files_rewritten + len(replaced))
        self.reported.update(replaced)
        self.survey.remember(files)
        self.rewrites.finish(rewrites)

    # --- tombstones ---------------------------------------------------------------------------------------------------

    def _gather(self, state: ReapState, due: Sequence[DueView]) -> TombstoneBatch:
        """Return the tombstones of this pass; only outlines of views that it searches are read."""
        batch = TombstoneBatch(self._batch_rows, self._batch_bytes)
        search = TombstoneSearch(
            self.stores,
            state,
            buffer_bytes=self.options.write_buffer_bytes,
            window_bytes=self.survey.window_bytes,
            max_rows=min(self._batch_rows, CHUNK_KEYS),
            max_bytes=self._batch_bytes,
        )
        if not all(map(batch.add, search.in_wal())):
            return batch  # this pass drains the WAL, and the next one finds the remaining rows in the new file
        total = sum(self.searches[view.stored.part].stored_bytes for view in due)
        for view in due:
            part = view.stored.part
            start = self.searched_to.get(part, SearchStart())
            if start.block >= self.searches[part].end:
                continue
            outline = self.survey.outline(part.file)
            blocks = plan_due_blocks(part, outline, state.retired_ms)
            for stride in search.strides(view, outline, blocks.reads, start):
                if not all(map(batch.add, search.in_stride(stride))):
                    return batch  # the next pass finds the rest of the stride again
                self._note_young(part, stride.youngest_ms)
                batch.reached[part] = stride.behind
                batch.read_bytes += stride.read_bytes
                self._report_progress(batch.read_bytes, total)
                if batch.is_full:
                    return batch
        batch.is_last = True
        return batch

    def _write_tombstones(self, state: ReapState, batch: TombstoneBatch) -> None:
        rows = batch.tombstones()
        self._commit(state, state.all_unchanged(), tombstones=rows, rows=len(rows), size=batch.stored_bytes)
        self.report = replace(self.report, tombstones=self.report.tombstones + len(rows))

    # --- committing ---------------------------------------------------------------------------------------------------

    def _commit(
        self,
        state: ReapState,
        depends_on: ReadSet,
        *,
        edit: TreeEdit = KEEP_TREES,
        tombstones: RowColumns | None = None,
        rows: int,
        size: int,
    ) -> None:
        """Publish a pass, and add it to the report."""
        job = begin_rewrite(self.stores, self.clock, Operation.REAP, state.snapshot, state.definition)
        if tombstones is not None and job.definition.has_history:
            job = replace(job, times=GIVEN_TIMES)  # those of the rows that they hide, and they go with them
        with abandoned_on_error(self.stores, job):
            outputs = () if tombstones is None else (self._upload(job, tombstones),)
            spent_ms = self.clock.now_ms() - self.began_ms
            job = replace(job, delete_rate=size * 1000 // max(1, spent_ms))
            record = commit_write(
                self.stores,
                self.clock,
                job,
                outputs,
                self.options,
                edit=edit,
                depends_on=depends_on,
                requirements=(SameRetention(state.definition),),
            )
        assert record is not None  # only a write without rows has none
        self.survey.remember([file for files in outputs for file in files])
        self.elapsed_ms += max(0, self.clock.now_ms() - self.began_ms)
        self.last_version = record.manifest_id
        self.report = replace(
            self.report,
            version=record.manifest_id,
            rows=self.report.rows + rows,
            bytes=self.report.bytes + size,
            passes=self.report.passes + 1,
        )

    def _upload(self, job: WriteJob, rows: RowColumns) -> tuple[NewFile, ...]:
        rows.seqs[:] = job.base_seq + 1
        rows.flags[:] |= np.uint8(HAS_CREATE)
        if not job.times.per_row:
            rows.create_ts[:] = job.create_ts_ms
        pieces = [SortedRows.whole(rows)]
        return upload_sorted(self.stores.main, pieces, self.options, self.clock, job.planned_ms, segments=job.segments)

    # --- report -------------------------------------------------------------------------------------------------------

    def _finish(self, state: ReapState) -> ReapReport:
        record_progress(self.stores, self.clock, state, is_new=self.report.passes > 0)
        kept = find_kept_checkpoints(
            self.stores,
            state.snapshot.manifest,
            self.survey.by_id(),
            retired_ms=state.retired_ms,
            last_version=self.last_version or None,
            now_ms=self.clock.now_ms(),
            has_own_time=state.definition.has_own_time,
        )
        return replace(
            self.report,
            delete_rate_mb_per_s=self.report.bytes / 1000 / self.elapsed_ms if self.elapsed_ms else None,
            reaped_through_ms=state.retired_ms,
            next_deadline_ms=state.next_deadline(self.youngest),
            kept_by_checkpoints=kept,
        )

    def _note_young(self, part: FileSlice, create_ts: int) -> None:
        self.youngest[part] = min(create_ts, self.youngest.get(part, MAX_MS))

    def _report_progress(self, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(Step.REAPING, done, total)
