"""A compaction that a live client's coordinator commits: `ifClientActive=cooperate`.

The coordinator replaces whole layers. So a plan that merges parts of layers becomes one that merges them whole, with
what lies between them, and L0 views down to the oldest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from slatespark.errors import CommitConflictError, InvalidRequestError, UnavailableError
from slatespark.format.compactions import Compactions, TieredSpec
from slatespark.format.manifest import Manifest
from slatespark.options import WriteOptions
from slatespark.table.clock import Clock, now_or
from slatespark.table.commit.file_facts import count_rows, describe_files, removed_files
from slatespark.table.commit.hold import working_jobs
from slatespark.table.commit.job import draw_write_id
from slatespark.table.commit.requirements import Requirement, Stage
from slatespark.table.compaction.client_job import plan_client_job
from slatespark.table.compaction.merge import MergedRange, MergeRules
from slatespark.table.compaction.plan import CompactionPlan, Pick, pick_next, trees_of
from slatespark.table.compaction.report import CompactionJob, planned_job
from slatespark.table.compaction.state import CompactionState
from slatespark.table.cooperation.claimed_job import ClaimedJob
from slatespark.table.cooperation.job_rules import spec_of_slice
from slatespark.table.cooperation.outcome import await_commit
from slatespark.table.cooperation.submission import JobMovedError, JobTakenError, Submitter
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.log.manifests import fetch_manifest
from slatespark.table.log.versioned_object import Version
from slatespark.table.read.planning.layers import fetch_layers
from slatespark.table.records.commit_record import CLIENT_EPOCH, CommitRecord
from slatespark.table.records.commits import publish_commit_record
from slatespark.table.records.operations import ENGINE, Operation
from slatespark.table.stores import TableStores


@dataclass(slots=True)
class BesideClient:
    """Jobs of one compaction beside a live client.

    Attributes
    ----------
    pick : chooses sources; of a plan the sources and the kind count
    segment : segment of the tree to merge
    accepts_others : it is as well if a worker of the client does the job, by its own rules
    kind : kind of the plan that was chosen last
    submitter : what submits the jobs
    """

    stores: TableStores
    clock: Clock
    options: WriteOptions
    pick: Pick
    segment: bytes
    accepts_others: bool
    kind: str = ""
    submitter: Submitter = field(init=False)

    def __post_init__(self) -> None:
        self.submitter = Submitter(
            self.stores, self.clock, self.options.client_timeout_ms, accepts_others=self.accepts_others
        )

    @contextmanager
    def job(self) -> Iterator[tuple[ClaimedJob, CompactionPlan] | None]:
        """Open the next job and its plan; None if there is nothing to merge.

        Raises
        ------
        CommitConflictError, JobTakenError
            As `Submitter.job`.
        """
        try:
            with self.submitter.job(self._plan_job) as job:
                if job is None:
                    yield None
                    return
                assert isinstance(job.entry.spec, TieredSpec)
                yield job, replace(plan_client_job(self.stores, job.found, job.entry.spec), kind=self.kind)
        except JobMovedError as exc:
            raise CommitConflictError(
                f"{self.stores.url}: the client moved the files of a compaction without rewriting them.",
                why="They share no keys, and it has enable_trivial_move.",
                todo="Switch that off, or compact with ifClientActive=fence.",
            ) from exc

    def _plan_job(self, manifest: Manifest, listed: Compactions) -> TieredSpec | None:
        others = [job.spec for job in working_jobs(listed)]
        trees = trees_of(0, manifest, fetch_layers(self.stores, manifest))
        chosen = [tree.with_busy(others) for tree in trees if tree.segment == self.segment]
        plan = pick_next(self.pick, chosen, ())
        if plan is None:
            return None
        self.kind = plan.kind
        return whole_spec(plan, manifest, listed)

    def check(self, requirements: Iterable[Requirement], newest: CompactionState, merged: MergedRange) -> None:
        """Check what must hold for the outputs to be committed, right before they are handed over."""
        stage = Stage(self.stores, newest.snapshot.version, merged.files, merged.files)
        for requirement in requirements:
            requirement.before_publishing(stage)

    def commit(self, job: ClaimedJob, merged: MergedRange, rules: MergeRules) -> CommitRecord:
        """Hand a merged job over, wait for its commit, and return the record of it.

        Raises
        ------
        CommitConflictError
            When the coordinator did not commit it: the job was withdrawn.
        """
        files = merged.files
        outputs = [file.handle for file in files]
        handed_ms = self.clock.now_ms()
        job.hand_over(outputs)
        try:
            version = await_commit(job, outputs, timeout_ms=self.options.client_timeout_ms)
        except InvalidRequestError as exc:  # of the clock or the store, whatever the client does
            raise UnavailableError(
                f"{self.stores.url}: compaction {job.id} was handed to the client, and then this process failed.",
                why=str(exc),
                todo="Look at the runs of the table, which show whether the client has committed it.",
            ) from exc
        if version is None:
            raise CommitConflictError(
                f"{self.stores.url}: the client's coordinator did not commit compaction {job.id}.",
                why="It refused the job, or was closed meanwhile.",
                todo="Try again.",
            )
        before, after = fetch_manifest(self.stores, version - 1), fetch_manifest(self.stores, version)
        record = CommitRecord(
            manifest_id=version,
            operation=Operation.COMPACT,
            write_id=draw_write_id(self.clock),
            engine=ENGINE,
            committed_ms=now_or(self.clock, handed_ms),
            write_time_ms=after.last_l0_clock_tick,
            first_seq=min((file.properties.min_seq for file in files), default=None),
            last_seq=max((file.properties.max_seq for file in files), default=None),
            rows=count_rows(files),
            files=describe_files(files),
            removed=removed_files(before, after),
            compactor_epoch=CLIENT_EPOCH,
            snapshot_seq=rules.snapshot_seq(merged),
        )
        publish_commit_record(self.stores.main, record)
        return record

    def facts_of_other(self, taken: JobTakenError) -> CompactionJob:
        """Return what is known of a job that another worker did."""
        plan = plan_client_job(self.stores, Version(taken.version, taken.planned), taken.spec)
        return replace(planned_job(replace(plan, kind=self.kind), waits=False), version=taken.version)


def refuse_hold(state: CompactionState) -> None:
    """Refuse tables whose runs are held for their history: the hold would name runs that are gone."""
    if state.definition.holds_history:
        raise InvalidRequestError(
            "ifClientActive=cooperate: the table has holdHistory, so no client may compact it.",
            todo="Compact it while no client is open, with ifClientActive=fail.",
        )


def whole_plan(stores: TableStores, found: Version[Manifest], plan: CompactionPlan) -> CompactionPlan:
    """Return the plan that a client would commit for a plan made on a version: the same layers, whole."""
    spec = whole_spec(plan, found.value, fetch_compactions(stores).value)
    return replace(plan_client_job(stores, found, spec), kind=plan.kind)


def whole_spec(plan: CompactionPlan, manifest: Manifest, listed: Compactions) -> TieredSpec:
    """Return the job that merges the layers of a plan whole, with all layers between them, and older L0 views.

    Requires: `plan` was made for `manifest`.
    """
    tree = manifest.find_tree(plan.segment)
    assert tree is not None
    views = {view.id for source in plan.sources if source.run_id is None for view in source.views}
    numbers = {source.run_id for source in plan.sources if source.run_id is not None}
    newest = next((at for at, view in enumerate(tree.l0) if view.id in views), len(tree.l0))
    runs = [at for at, run in enumerate(tree.compacted) if run.id in numbers]
    start = 0 if views else min(runs, default=0)
    return spec_of_slice(
        manifest, listed, plan.segment, l0=len(tree.l0) - newest, runs=(start, max(runs) + 1) if runs else (0, 0)
    )
