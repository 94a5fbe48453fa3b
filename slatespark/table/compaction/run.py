"""Compaction: merge the sources range by range, locally or remotely, and commit the files in one manifest.

A compaction plans on a snapshot and takes long. Rows committed meanwhile stay above its output, and it fails only if
its sources changed. See docs/explanation/how-a-compaction-works.md, docs/reference/format/compactions.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from slatespark.errors import ConflictError, InternalError, InvalidRequestError
from slatespark.format.ulid import Ulid
from slatespark.options import WriteOptions
from slatespark.ranges import KeyRange
from slatespark.table.clock import Clock, now_or
from slatespark.table.columns.write import CopyOutcome
from slatespark.table.commit.discard import delete_files, delete_unshown
from slatespark.table.commit.foreign_clients import Baseline, refuse_foreign_job
from slatespark.table.commit.job import WriteJob, abandon_write, begin_rewrite
from slatespark.table.commit.requirements import Requirement
from slatespark.table.commit.tree_edit import SEED_BITS, MergeRuns
from slatespark.table.compaction.beside_client import BesideClient, refuse_hold, whole_plan
from slatespark.table.compaction.client_job import discard_outputs, record_removals
from slatespark.table.compaction.client_snapshots import find_snapshot_seq
from slatespark.table.compaction.compacted import find_compacted
from slatespark.table.compaction.copies import add_copies, check_asked, copy_rule
from slatespark.table.compaction.filter import CompactionFilter
from slatespark.table.compaction.filter_plan import (
    FilterPlan,
    check_filters,
    plan_filters,
    requested_floor,
    resolve_filter_now,
)
from slatespark.table.compaction.job import ListedJob, listed_job
from slatespark.table.compaction.merge import MergedRange, MergeRules, RangeTask
from slatespark.table.compaction.plan import (
    CUT_FILES,
    DUE,
    SIZE_TIERED,
    CompactionPlan,
    Pick,
    SizeTiers,
    find_cut_files,
    pick_next,
    plan_cut_files,
    plan_due,
    plan_full,
    plan_interval,
    plan_l0,
    plan_size_tiered,
)
from slatespark.table.compaction.publication import merge_requirements, publish_merge
from slatespark.table.compaction.ranges import RANGE_FILES, Runner, parallelism_of, plan_tasks, run_here
from slatespark.table.compaction.report import CompactionJob, CompactionReport, log_job, planned_job, with_result
from slatespark.table.compaction.request import BY_SIZE, CompactionRequest
from slatespark.table.compaction.retirement import (
    may_retire,
    may_retire_beside_client,
    refuse_operands,
    with_allowed_retirement,
)
from slatespark.table.compaction.state import CompactionState, check_operands, check_operator, fetch_state
from slatespark.table.cooperation.submission import JobTakenError
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.progress import Progress, Step
from slatespark.table.read.gaps import Gaps, find_gaps_around
from slatespark.table.read.merge.retention import retired_until_ms
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.records.operations import Operation
from slatespark.table.retention.deletion_time import resolve_deletion_time
from slatespark.table.retention.history_floor import follow_history_retention
from slatespark.table.stores import TableStores
from slatespark.table.tasks import THREADS
from slatespark.table.write.alteration import raise_history_floor
from slatespark.table.write.exact_ranges import named_ranges

_DEFINITE: Final = (ConflictError, InvalidRequestError)  # of a commit: nothing was published, and nothing will be
_REPEATED: Final = (SIZE_TIERED, DUE, CUT_FILES)  # planned again after each commit, until nothing is left to merge


def compact_table(
    stores: TableStores,
    clock: Clock,
    request: CompactionRequest = BY_SIZE,
    options: WriteOptions | None = None,
    *,
    pick: Pick | None = None,
    runner: Runner | None = None,
    range_bytes: int | None = None,
    progress: Progress | None = None,
    baseline: Baseline | None = None,
) -> CompactionReport:
    """Merge layers of a table into runs, and return a report.

    Parameters
    ----------
    options : file options, `mergeOperator`, `ifClientActive`, and those that name keys
    pick : chooses the sources, instead of the request
    runner : merges ranges and returns the results in their order; by default on threads of this process. Its attribute
        `parallelism`, if any, says how many it merges at a time; a dry run calls `preview` with the ranges to merge
    range_bytes : approximate maximum that one task reads
    baseline : a client active since then is not fenced unless `ifClientActive` says so; by default since each plan

    Raises
    ------
    TableNotFoundError, OptionError, UnsupportedFormatError, CorruptDataError
        When there is nothing to compact, or it cannot be compacted.
    CommitConflictError
        When the sources changed meanwhile, or a SlateDB client is active.
    """
    given = WriteOptions.parse({"path": stores.url}) if options is None else options
    request.check(given)
    compaction = _Compaction(
        stores=stores,
        clock=clock,
        request=request,
        options=given,
        runner=partial(run_here, stores, clock) if runner is None else runner,
        range_bytes=range_bytes or RANGE_FILES * given.sst_bytes,
        parallelism=parallelism_of(runner, THREADS.parallelism),
        progress=progress,
        baseline=baseline,
        asked_ms=request.now_ms,
    )
    state = compaction.read_state()
    check_asked(request.columnar, state.definition, stores.url)
    if state.definition.history_retention_ms is not None and not request.dry_run:
        follow_history_retention(stores, clock)
        state = compaction.read_state()
    check_operator(given, state.definition, stores.url)
    keys = named_ranges(request.where, given, state.definition.codec())
    state = compaction.prepare_filters(state)
    report = compaction.run_request(state, keys) if pick is None else compaction.run(state, pick)
    return compaction.with_copies(state, report)


@dataclass(slots=True)
class _Compaction:
    """A running compaction.

    Attributes
    ----------
    asked_ms, now_ms : the instant given by the request or a filter, and the one resolved by the first job for all jobs
    copies : outcomes of the columnar copies of the jobs so far
    is_late : `now` is later than the default, so rows expire that reads still show
    plain : files known to hold no merge operands, beside a client
    floor_ms : history floor to which a filter will raise it, before the first merge
    """

    stores: TableStores
    clock: Clock
    request: CompactionRequest
    options: WriteOptions
    runner: Runner
    range_bytes: int
    parallelism: int
    progress: Progress | None
    baseline: Baseline | None
    asked_ms: int | None
    filters: tuple[CompactionFilter, ...] = ()
    now_ms: int | None = None
    is_late: bool = False
    floor_ms: int | None = None
    plain: set[Ulid] = field(default_factory=set)
    jobs: list[CompactionJob] = field(default_factory=list)
    copies: list[CopyOutcome] = field(default_factory=list)

    def read_state(self) -> CompactionState:
        """Return the state for planning the next job."""
        state = fetch_state(self.stores, self.clock, self.asked_ms if self.now_ms is None else self.now_ms)
        self.now_ms = state.now_ms
        return state

    def prepare_filters(self, state: CompactionState) -> CompactionState:
        """Check the filters of the request, and return the state for planning the first job.

        Parameters
        ----------
        state : fetched before; with filters it is fetched again
        """
        self.filters = check_filters(self.request.filters, state.definition, self.stores.url)
        if self.filters:
            self.asked_ms = resolve_filter_now(self.filters, self.asked_ms)
            self.floor_ms = None if self.request.dry_run else requested_floor(self.filters, state.definition)
            self.now_ms = None  # a filter may have its own
            state = self.read_state()
        default_ms = resolve_deletion_time(state.snapshot, state.definition, self.clock, None)
        self.is_late = state.now_ms > default_ms
        return state

    def run_request(self, state: CompactionState, keys: Sequence[KeyRange] | None) -> CompactionReport:
        """Run the jobs that the request asks for, and return the report.

        Parameters
        ----------
        keys : the intervals that it names; None without any
        """
        request = self.request
        if request.full and not request.force and request.now_ms is None and not request.filters:
            compression = self.options.compression
            compacted = find_compacted(self.stores, state, file_options=request.file_options, compression=compression)
            report = self.run(state, partial(plan_full, except_for=compacted))
            return replace(report, is_compacted=bool(compacted) and not report.jobs)
        if keys is not None:
            return self.run_intervals(state, keys)
        if request.due:
            return self.run(state, partial(plan_due, due=state.due_files(self.clock)))
        tiered = partial(plan_size_tiered, tiers=request.tiers or SizeTiers())
        return self.run(state, plan_full if request.full else plan_l0 if request.l0_only else tiered)

    def run(self, state: CompactionState, pick: Pick) -> CompactionReport:
        """Run one job after the other, and return the report."""
        began_ms, dry_run = self.clock.now_ms(), self.request.dry_run
        most = len(self.jobs) + sum(len(tree.layers) for tree in state.trees)  # layers that are added later may wait
        most = most if self.request.max_jobs is None else min(most, self.request.max_jobs)
        done: set[bytes] = set()  # segments for which one job was enough
        while len(self.jobs) < most and (plan := pick_next(pick, state.trees, done)) is not None:
            if self.options.cooperates:
                refuse_hold(state)
                plan = whole_plan(self.stores, state.snapshot.version, plan)
            if self.options.cooperates and not dry_run:
                job = self._run_beside_client(pick, plan.segment)
                self.jobs += [] if job is None else [job]
            else:
                filter_plan = self._checked_filter_plan(state, plan)
                if self.floor_ms is not None:
                    self._refuse_job_of_client(state)
                    state = self._raised_floor(self.floor_ms)
                    continue
                if dry_run:
                    job = self._preview(plan, filter_plan, state.definition)
                else:
                    job = self._run_job(state, plan, filter_plan)
                self.jobs.append(job)
            if plan.kind not in _REPEATED or job is None:
                done.add(plan.segment)
            elif dry_run:
                break
            if done.issuperset(tree.segment for tree in state.trees):
                break
            state = state if dry_run else self.read_state()
        state = state if self.floor_ms is None else self._raised_floor(self.floor_ms)
        return self._report(state, now_or(self.clock, began_ms) - began_ms)

    def _raised_floor(self, floor_ms: int) -> CompactionState:
        """Raise the history floor as a filter requires, and return the state then.

        It never falls again: so only once nothing is known that refuses the job, and right before the merge.
        """
        raise_history_floor(self.stores, self.clock, floor_ms)
        self.floor_ms = None
        return self.read_state()

    def run_intervals(self, state: CompactionState, keys: Sequence[KeyRange]) -> CompactionReport:
        """Merge all layers in some key ranges, and rewrite the rest of files of which rows were removed there."""
        cut, dry_run = find_cut_files(state.trees, keys), self.request.dry_run
        report = self.run(state, partial(plan_interval, keys=keys))
        if self.jobs and not dry_run:
            state = self.read_state()
            if report.removed:
                cut |= find_cut_files(state.trees, keys)
        if not cut or (self.jobs and dry_run):
            return report
        self.filters = ()  # they decide about rows of the intervals
        rest = self.run(state, partial(plan_cut_files, files=cut))
        return replace(rest, filters=report.filters, elapsed_ms=report.elapsed_ms + rest.elapsed_ms)

    def with_copies(self, state: CompactionState, report: CompactionReport) -> CompactionReport:
        """Write the copies that are still missing, if the call asks for copies, and return the full report."""
        columnar, dry_run = self.request.columnar, self.request.dry_run
        if columnar == "false":
            return report
        newest = self.read_state() if self.jobs and not dry_run else state
        added = add_copies(self.stores, newest, columnar, report.copies, dry_run=dry_run)
        return replace(report, copies=(*report.copies, *added))

    # --- rules --------------------------------------------------------------------------------------------------------

    def _checked_filter_plan(self, state: CompactionState, plan: CompactionPlan) -> FilterPlan:
        filter_plan = self._plan_filters(state, plan)
        check_operands(self.stores, plan, filter_plan.rules, state.known)
        return filter_plan

    def _plan_filters(self, state: CompactionState, plan: CompactionPlan) -> FilterPlan:
        """Return the rules of a merge, and the filters to call."""
        definition, manifest = state.definition, state.snapshot.manifest
        # Number 0: a change to the parent's retention must not delete rows of the clone.
        retention_ms = None if definition.has_history or state.number == 0 else definition.retention_ms
        goes_on = self.options.cooperates  # else the commit fences the client, and its snapshots end
        rules = MergeRules.of(
            manifest,
            definition,
            self.options.merge_operator,
            now_ms=state.now_ms,
            drops_tombstones=plan.is_lowest,
            retired_ms=retired_until_ms(retention_ms, state.now_ms),
            snapshot_seq=find_snapshot_seq(self.stores, manifest, definition) if goes_on else None,
        )
        planned = plan_filters(self.filters, rules, definition, manifest, self.stores.url)
        return with_allowed_retirement(planned, self.filters, partial(self._may_retire, state, plan))

    def _may_retire(self, state: CompactionState, plan: CompactionPlan) -> bool:
        if self.options.cooperates:
            return may_retire_beside_client(self.stores, state, self.options.merge_operator, self.plain)
        return may_retire(self.stores, state, plan)

    def _preview(self, plan: CompactionPlan, filter_plan: FilterPlan, definition: TableDefinition) -> CompactionJob:
        if (preview := getattr(self.runner, "preview", None)) is not None:
            preview(self._tasks(plan, filter_plan, definition, planned_ms=0))
        return planned_job(plan, waits=filter_plan.waits)

    # --- a job --------------------------------------------------------------------------------------------------------

    def _refuse_job_of_client(self, state: CompactionState) -> None:
        if self.options.if_client_active != "fence":
            refuse_foreign_job(self.stores, now_ms=self.clock.now_ms(), jobs=state.jobs)

    def _run_job(self, state: CompactionState, plan: CompactionPlan, filter_plan: FilterPlan) -> CompactionJob:
        self._refuse_job_of_client(state)
        definition, snapshot = state.definition, state.snapshot
        job = begin_rewrite(self.stores, self.clock, Operation.COMPACT, snapshot, definition)
        parts: list[MergedRange] = []
        is_held, may_have_landed = definition.holds_history, False
        try:
            with listed_job(self.stores, self.clock, plan.spec, job.write_id, is_held=is_held) as listed:
                job = replace(
                    job,
                    baseline=self.baseline or job.baseline,
                    compaction=replace(listed.entry, spec=plan.spec),
                )
                self._merge(plan, filter_plan, definition, listed.entry.id.timestamp_ms, parts)
                merged = MergedRange.joined(parts)
                job = replace(job, snapshot_seq=filter_plan.rules.snapshot_seq(merged))
                codec = definition.codec()
                gaps = find_gaps_around(self.stores, snapshot.manifest, plan.keys, codec, inside=False)
                may_have_landed = True
                requirements = tuple(merge_requirements(state, plan, filter_plan.rules))
                record = self._commit(plan, filter_plan, job, listed, merged, gaps, requirements)
                listed.complete()
        except BaseException as exc:
            abandon_write(self.stores, job)
            made = MergedRange.joined(parts).ids
            if not may_have_landed:
                delete_files(self.stores, made)
            elif isinstance(exc, _DEFINITE):
                delete_unshown(self.stores, made, snapshot.manifest_id)
            raise
        return self._done(plan, filter_plan, record, merged)

    def _run_beside_client(self, pick: Pick, segment: bytes) -> CompactionJob | None:
        """Run the next job of a tree, which the live client commits; None if there is nothing to merge any more."""
        others = not self.filters and self.asked_ms is None
        beside = BesideClient(self.stores, self.clock, self.options, pick, segment, accepts_others=others)
        try:
            return self._merge_beside(beside)
        except JobTakenError as exc:
            return beside.facts_of_other(exc)

    def _merge_beside(self, beside: BesideClient) -> CompactionJob | None:
        with beside.job() as found:
            if found is None:
                return None
            job, plan = found
            state = self.read_state()
            filter_plan = self._checked_filter_plan(state, plan)
            if self.floor_ms is not None:
                state = self._raised_floor(self.floor_ms)
                filter_plan = self._plan_filters(state, plan)
            parts: list[MergedRange] = []
            try:
                self._merge(plan, filter_plan, state.definition, job.id.timestamp_ms, parts, job.check)
                merged = MergedRange.joined(parts)
                newest = self.read_state()
                beside.check(merge_requirements(state, plan, filter_plan.rules), newest, merged)
                refuse_operands(self.stores.url, filter_plan.rules, partial(self._may_retire, newest, plan))
                if filter_plan.removed_visible(merged, is_late=self.is_late):
                    record_removals(self.stores, self.clock, job, plan, merged)
                record = beside.commit(job, merged, filter_plan.rules)
            except BaseException:
                discard_outputs(self.stores, job, parts)
                raise
        return self._done(plan, filter_plan, record, merged)

    def _done(
        self, plan: CompactionPlan, filter_plan: FilterPlan, record: CommitRecord, merged: MergedRange
    ) -> CompactionJob:
        """Log a committed job, and return its facts."""
        self.copies += merged.copies
        return log_job(self.stores.url, with_result(planned_job(plan, waits=filter_plan.waits), record, merged))

    def _merge(
        self,
        plan: CompactionPlan,
        filter_plan: FilterPlan,
        definition: TableDefinition,
        planned_ms: int,
        parts: list[MergedRange],
        check: Callable[[], None] | None = None,
    ) -> None:
        """Append the result of each range to `parts`, in key order; `check` stops it by raising."""
        tasks = self._tasks(plan, filter_plan, definition, planned_ms=planned_ms)
        read_bytes = 0
        for part in self.runner(tasks):
            parts.append(part)
            if check is not None:
                check()
            read_bytes += part.bytes_in
            if self.progress is not None:
                self.progress(Step.MERGING, read_bytes, max(read_bytes, plan.stored_bytes))
        if len(parts) != len(tasks):
            raise InternalError(f"The runner returned {len(parts)} of {len(tasks)} ranges.")

    def _tasks(
        self, plan: CompactionPlan, filter_plan: FilterPlan, definition: TableDefinition, *, planned_ms: int
    ) -> list[RangeTask]:
        return plan_tasks(
            self.stores,
            plan,
            filter_plan,
            self.options,
            planned_ms=planned_ms,
            range_bytes=self.range_bytes,
            parallelism=self.parallelism,
            copies=copy_rule(definition, is_lowest=plan.is_lowest, asked=self.request.columnar),
        )

    def _commit(
        self,
        plan: CompactionPlan,
        filter_plan: FilterPlan,
        job: WriteJob,
        listed: ListedJob,
        merged: MergedRange,
        gaps: Gaps,
        requirements: tuple[Requirement, ...],
    ) -> CommitRecord:
        edit = MergeRuns(
            sources=plan.views,
            keys=plan.keys,
            files=merged.files,
            seed=self.clock.random_bits(SEED_BITS),
            segment=plan.segment,
            is_lowest=plan.is_lowest,
            known_above=plan.above if filter_plan.rules.retired_ms is not None else None,
            drops_visible_rows=filter_plan.removed_visible(merged, is_late=self.is_late),
            gaps=gaps,
        )
        return publish_merge(
            self.stores, self.clock, job, edit, self.options, requirements, count_lapses=listed.count_lapses
        )

    def _report(self, state: CompactionState, elapsed_ms: int) -> CompactionReport:
        versions = [job.version for job in self.jobs if job.version is not None]
        return CompactionReport.of_jobs(
            self.jobs,
            url=self.stores.url,
            version=versions[-1] if versions else state.snapshot.manifest_id,
            now_ms=state.expired_ms,
            dry_run=self.request.dry_run,
            filters=tuple(type(chosen).__name__ for chosen in self.filters),
            elapsed_ms=elapsed_ms,
            has_own_time=state.definition.has_own_time,
            copies=tuple(self.copies),
        )
