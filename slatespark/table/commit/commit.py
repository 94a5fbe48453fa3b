"""The one commit path: the files of a write are published in one manifest.

See docs/explanation/taking-over-a-database.md, docs/explanation/editing-a-manifest.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from slatespark.encoding.row_codec import RowCodec
from slatespark.errors import (
    ConflictError,
    SnapshotExpiredError,
    TableExistsError,
    TableNotFoundError,
    UnavailableError,
)
from slatespark.format.compactions import Compactions
from slatespark.format.manifest import Manifest
from slatespark.format.segments import WHOLE, KeySegments
from slatespark.options import WriteOptions
from slatespark.storage import run_ahead
from slatespark.table.clock import Clock, new_ulid, new_uuid
from slatespark.table.commit.active_jobs import clear_active_jobs, completed_job, hold_exactly
from slatespark.table.commit.backoff import MAX_COMMIT_ATTEMPTS, CommitBackoff, back_off, claim_patience_ms
from slatespark.table.commit.claim import Claim, Prepare, claim_epochs, fetch_held, refuse_unwritable
from slatespark.table.commit.conflicts import ReadCheck
from slatespark.table.commit.definition_run import publish_creation, publish_growth
from slatespark.table.commit.drain import Drained, drain_wal, upload_drained
from slatespark.table.commit.empty_commit import end_without_commit
from slatespark.table.commit.expiring_ids import FileGuard, refresh_groups
from slatespark.table.commit.file_facts import count_rows, describe_files, removed_files
from slatespark.table.commit.hold import plan_hold
from slatespark.table.commit.idempotence import fetch_earlier, find_earlier, outcome_of, record_outcome, with_outcome
from slatespark.table.commit.job import WriteJob
from slatespark.table.commit.kept_history import find_kept_history, record_losses
from slatespark.table.commit.own_rows import OwnRows
from slatespark.table.commit.prefetch import CommitPrefetch, FetchJobs
from slatespark.table.commit.publication import CommitChange, last_seq_of, next_manifest, without_l0
from slatespark.table.commit.read_set import ReadSet
from slatespark.table.commit.requirements import (
    KnownJobs,
    KnownSegments,
    LastSeq,
    NoForeignClient,
    NoNewOperands,
    NoTable,
    OrderOfHistory,
    Requirement,
    Stage,
    UnchangedReads,
)
from slatespark.table.commit.same_table import check_still_there, refuse_another_table
from slatespark.table.commit.tree_edit import KEEP_TREES, TreeEdit
from slatespark.table.commit.version_retention import LEAST_KEPT_MS, Replaced, find_replaced, retained
from slatespark.table.commit.write_time import check_tick
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.log.manifests import (
    ManifestCollectedError,
    draw_nonce,
    fetch_newest_since,
    find_latest_manifest,
    note_own_commit,
    publish_manifest,
)
from slatespark.table.log.versioned_object import RaceLostError, Version, retry_lost_races
from slatespark.table.read.versions.file_properties import hold_own
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.records.commits import publish_commit_record
from slatespark.table.records.idempotent_writes import TxnRecord
from slatespark.table.records.json_objects import hex_bounds
from slatespark.table.records.leases import delete_lease
from slatespark.table.records.operations import ENGINE, Operation
from slatespark.table.rows.sst_upload import NewFile
from slatespark.table.stores import TableStores

CLAIMS_FIRST_AFTER = 1  # lost races


def commit_write(
    stores: TableStores,
    clock: Clock,
    job: WriteJob,
    outputs: Sequence[tuple[NewFile, ...]],
    options: WriteOptions,
    *,
    edit: TreeEdit = KEEP_TREES,
    depends_on: ReadSet | None = None,
    requirements: Sequence[Requirement] = (),
    count_lapses: Callable[[], int] | None = None,
) -> CommitRecord | None:
    """Publish the files of a job in one manifest version.

    Parameters
    ----------
    outputs : per task, in key order; a later task is newer
    depends_on : the read set, which must be unchanged; None for a write that depends on no read
    requirements : further requirements; each is checked at its stages
    count_lapses : for a compaction, counts the lapses of protection; see `FileGuard`

    Returns
    -------
    The record of the commit; None when there was nothing to commit: no rows, and the table exists, or with
    `ifExists=ignore` another process created it meanwhile. If the write was committed before under its `txnAppId` and
    `txnVersion`, nothing is published; the record holds the known facts of that commit.

    Raises
    ------
    CommitConflictError
        When a SlateDB client is active and `ifClientActive` is `fail`, when rows were committed above `ifLastSeq`, when
        the table was removed and created again, or when too many races were lost.
    ClockRegressionError
        When the write has a `timestamp`, and another commit has a later one; or when the clock was set back.
    TableExistsError
        When another process created the table first.
    TransactionConflictError
        When `depends_on` has changed, naming keys.
    UnavailableError
        When the store stopped answering. It is then unknown whether the commit landed, and its files must stay.
    """
    if job.operation in (Operation.WRITE, Operation.TRANSACTION) and not job.creates and not any(outputs):
        end_without_commit(stores, clock, job, options)
        return None
    commit = _Commit(
        stores=stores,
        clock=clock,
        job=job,
        options=options,
        rows=OwnRows.of(stores, clock, job, options, outputs),
        edit=edit,
        guard=FileGuard(stores, clock, job, options.gc_min_age_ms, count_lapses),
        fixed_keys=edit.is_bounded or (depends_on is not None and depends_on.is_bounded),
    )
    commit.requirements = (*commit.own_requirements(depends_on), *requirements)
    commit.rows.check_newest_time()
    name = f"{stores.url}: the table"
    try:
        record = retry_lost_races(clock, commit.attempt, name, pause=back_off, max_attempts=MAX_COMMIT_ATTEMPTS)
    except TableExistsError:
        if options.if_exists != "ignore" or find_latest_manifest(stores) is None:
            raise
        delete_lease(stores.main, job.write_id)
        return None
    except ConflictError:  # perhaps with an earlier attempt of this write, committed since we looked for it
        if (earlier := fetch_earlier(stores, options, job.operation)) is None:
            raise
        record = earlier
    if record.write_id == job.write_id:
        outcome = outcome_of(options, record.manifest_id, record.write_id, record.committed_ms)
        rest = run_ahead(partial(_end, stores, job, outcome), is_remote=stores.main.is_remote)
        publish_commit_record(stores.main, record)
        rest()
    else:
        delete_lease(stores.main, job.write_id)
    return record


def _end(stores: TableStores, job: WriteJob, outcome: TxnRecord | None) -> None:
    """Do what is left once a job is committed, besides its commit record."""
    record_outcome(stores, outcome)
    delete_lease(stores.main, job.write_id)


@dataclass(slots=True)
class _Commit:
    """A commit in progress. An attempt reuses what earlier attempts found or rewrote before they lost a race.

    Attributes
    ----------
    guard : keeps its files from collectors
    fixed_keys : whether it was planned for some keys only, by the types that key columns had
    requirements : requirements in the order in which they are checked
    """

    stores: TableStores
    clock: Clock
    job: WriteJob
    options: WriteOptions
    rows: OwnRows
    edit: TreeEdit
    guard: FileGuard
    fixed_keys: bool
    requirements: tuple[Requirement, ...] = ()

    def own_requirements(self, depends_on: ReadSet | None) -> Iterator[Requirement]:
        """Yield the requirements of every commit of this kind."""
        stores, job, buffer_bytes = self.stores, self.job, self.options.write_buffer_bytes
        if job.operation is Operation.CREATE or (job.creates and self.options.if_exists is not None):
            yield NoTable()
        if self.options.if_last_seq is not None:
            yield LastSeq(self.options.if_last_seq)
        if depends_on is not None:
            yield UnchangedReads(ReadCheck(stores, depends_on, self.codec, buffer_bytes))
        if self.options.if_client_active != "fence":
            yield NoForeignClient(self.clock, job.baseline)
        else:
            yield KnownJobs()
        if self._has_history and self.rows.times.fixed and job.operation is not Operation.REAP:
            yield OrderOfHistory(self.codec, buffer_bytes)
        if self.edit.forbids_new_operands:
            yield NoNewOperands()
        if job.segments != WHOLE:
            yield KnownSegments(self.edit, job.segments)

    def attempt(self, number: int) -> CommitRecord:
        """Make one attempt; raises `RaceLostError` when another writer was faster."""
        try:
            return self._attempt(number)
        except ManifestCollectedError as exc:
            raise UnavailableError(
                f"{self.stores.url}: whether this commit was published is not known.",
                why="This process was suspended for so long that a garbage collector has passed its version.",
                todo="Check whether the change is there, and repeat it if it is not.",
            ) from exc

    def _attempt(self, number: int) -> CommitRecord:
        self._refresh_ids(has_table=not self.job.creates)
        prefetch = CommitPrefetch(self.stores)
        seen_ms, found = self.clock.now_ms(), find_latest_manifest(self.stores)
        if found is None and not self.job.creates:
            raise TableNotFoundError(f"{self.stores.url}: the table was removed during the write.")
        if found is None:
            return self._create_table()
        refuse_another_table(self.stores, found, self.job.baseline)
        backoff = CommitBackoff(self.stores, self.clock, self.job.write_id)
        latest = backoff.wait(backoff.yield_to_siblings(found), number, meanwhile=self._check_meanwhile)
        # What takes long loses to quicker commits every time, so after some losses it is done under the claim. Clients
        # that a refused claim has fenced for nothing were fenced by the quicker commits already. A table that others
        # have committed to since the plan may be a busy one, so no race need be lost first.
        claims_first = number >= CLAIMS_FIRST_AFTER
        if not claims_first and latest.value.writer_epoch > self.job.baseline.writer_epoch:
            latest = self._catch_up(backoff, latest)
            claims_first = True
        if latest.number != found.number:
            prefetch = CommitPrefetch(self.stores)
        began_ms = self.clock.now_ms()
        if (earlier := self._find_earlier(latest.value)) is not None:
            return earlier
        definition = self._check(latest, prefetch, claims_first=claims_first)
        check_still_there(self.stores, self.clock, latest, seen_ms)
        claim, held, jobs = claim_epochs(
            self.stores,
            self.clock,
            latest,
            write_id=self.job.write_id,
            attempt=number,
            prepare=self._keep_replaced(latest, definition.version_retention_ms),
            removes=self.edit.removed,
            patience_ms=claim_patience_ms(self.clock.now_ms() - began_ms, number) + 2 * self.rows.moved_ms,
        )
        record = self._publish_claimed(claim, held, jobs, definition)
        backoff.record_commit(record.manifest_id, on=latest.number, began_ms=began_ms)
        return record

    def _check(self, latest: Version[Manifest], prefetch: CommitPrefetch, *, claims_first: bool) -> TableDefinition:
        """Check what needs no claim, move the rows above the newest version, and return the newest definition."""
        manifest = latest.value
        stage = self._stage(latest, claims_first=claims_first, prefetch=prefetch)
        for requirement in self.requirements:
            requirement.before_rewrite(stage)
        refuse_unwritable(self.stores.url, manifest)
        check_tick(self.stores, manifest.last_l0_clock_tick, self.rows.present_ms)
        self.rows.check_clock(self.edit.files)
        if self.rows.move_above(manifest.last_l0_seq, manifest.last_l0_clock_tick, is_rehearsal=claims_first):
            prefetch = CommitPrefetch(self.stores)
        stage = self._stage(latest, claims_first=claims_first, prefetch=prefetch)
        for requirement in self.requirements:
            requirement.before_claim(stage)
        definition = self._publish_growth(manifest, prefetch.definition(latest))
        if self._has_history:
            record_losses(self.stores, self.clock, latest, definition)
        self.edit.apply(without_l0(manifest))  # a refusal comes before any client is fenced
        return definition

    def _catch_up(self, backoff: CommitBackoff, found: Version[Manifest]) -> Version[Manifest]:
        """Check what others have committed since the plan, move the rows above it, and return the newest version."""
        if self._check_meanwhile(found):
            return found
        self.rows.move_above(found.value.last_l0_seq, found.value.last_l0_clock_tick)
        return backoff.wait(fetch_newest_since(self.stores, found), 0, meanwhile=self._check_meanwhile)

    def _check_meanwhile(self, found: Version[Manifest]) -> bool:
        """Tell whether one of the others was this write, which needs no check then; else check all of them."""
        if self._find_earlier(found.value) is not None:
            return True
        self._check_ahead(found)
        return False

    def _check_ahead(self, found: Version[Manifest]) -> None:
        """Check what others have committed so far; requirements do not check it again, so less is left to do later."""
        stage = self._stage(found)
        for requirement in self.requirements:
            requirement.before_rewrite(stage)
            requirement.before_claim(stage)

    def _stage(
        self, version: Version[Manifest], *, claims_first: bool = False, prefetch: CommitPrefetch | None = None
    ) -> Stage:
        return Stage(self.stores, version, self.rows.files, self.edit.files, claims_first, prefetch)

    def _find_earlier(self, latest: Manifest) -> CommitRecord | None:
        """Return the known facts of the commit that this write repeats; None if it repeats none."""
        return find_earlier(self.stores, latest, self.options, self.job.operation)

    def _with_outcome(self, manifest: Manifest, number: int) -> Manifest:
        own = outcome_of(self.options, number, self.job.write_id, self.clock.now_ms())
        return with_outcome(self.stores, manifest, own, partial(new_uuid, self.clock))

    def _keep_replaced(self, latest: Version[Manifest], retention_ms: int | None) -> Prepare:
        """Return the function that makes the claim keep the replaced version, for as long as the table requires."""
        lifetime_ms = max(LEAST_KEPT_MS.get(self.job.operation, 0), retention_ms or 0) or None
        if self.job.operation is Operation.ERASE:  # what it replaces holds the erased rows
            lifetime_ms = None
        version = latest.number if lifetime_ms is None else find_replaced(self.stores, latest)
        replaced = Replaced(version, lifetime_ms, self.job.operation.can_be_undone, self.job.max_retained)

        def prepare(claim: Manifest, wal: Mapping[int, int], wal_end: int) -> Manifest:
            unseen = any(size for number, size in wal.items() if claim.wal_id_last_seen < number < wal_end)
            return replaced.keep(
                claim,
                latest.number + 1,
                wal_end,
                keeps_claim=unseen,
                now_ms=self.clock.now_ms(),
                new_id=partial(new_uuid, self.clock),
            )

        return prepare

    def _publish_growth(self, latest: Manifest, found: Version[TableDefinition]) -> TableDefinition:
        given, merge = (self.stores, self.clock, latest, self.job.definition), self.options.merge_schema
        return publish_growth(*given, created=self.job.creates, merge=merge, fixed_keys=self.fixed_keys, found=found)

    def _refresh_ids(self, *, has_table: bool = True) -> None:
        """Give new ids to files that a collector may delete before the commit.

        A creator's lease is not renewed while there may be no table: another process may have begun to create it.
        """
        refreshed = self.guard.check(renews_lease=has_table)
        self.rows.outputs = refresh_groups(refreshed, self.rows.outputs)
        self.edit = self.edit.with_files(refreshed(self.edit.files))

    @property
    def _has_history(self) -> bool:
        return self.job.definition.has_history

    @property
    def codec(self) -> RowCodec:
        """How keys and values of the table are encoded."""
        return self.job.definition.codec()

    def _create_table(self) -> CommitRecord:
        self.rows.check_clock()
        publish_creation(self.stores, self.clock, self.job.definition, merge=self.options.merge_schema)
        extractor = self.job.segments.extractor
        empty = Manifest(segment_extractor_name=None if extractor is None else extractor.name)
        change = self._change(empty, Drained(None, 0, None), (), self.codec, fence_id=0)
        now_ms = self.clock.now_ms()  # before publishing, see `_publish_claimed`
        manifest = next_manifest(empty, change, now_ms=now_ms, nonce=draw_nonce(self.clock))
        if not any(self.rows.outputs):
            manifest = replace(empty, nonce=draw_nonce(self.clock))
        manifest = self._with_outcome(manifest, 1)
        made = Version(1, manifest)
        digest = self._publish(made, None)
        if self.job.definition.holds_history:
            hold_exactly(self.stores, self.clock, Claim(made, fence_id=0), manifest)
        return replace(self._record(made, change, empty, reached_seq=0, now_ms=now_ms), manifest_sha256=digest)

    def _publish_claimed(
        self, claim: Claim, held: Version[Manifest], jobs: FetchJobs, definition: TableDefinition
    ) -> CommitRecord:
        """Drain the WAL under the fence, then publish; a checkpoint that a reader adds in between is kept.

        Parameters
        ----------
        held, jobs : the newest version and list of compactions, right after the claim
        definition : the newest one, which all keys of the table fit, unlike perhaps that of the job
        """
        base_id, base = held
        retention_ms, holds = definition.version_retention_ms, definition.holds_history
        if (earlier := self._find_earlier(base)) is not None:
            return earlier
        try:
            drained = drain_wal(self.stores, base, claim.fence_id)
        except SnapshotExpiredError:
            fetch_held(self.stores, claim)  # another writer has drained the WAL, and a collector deleted it
            raise
        stage = replace(self._stage(held), fetch_jobs=jobs)
        for requirement in self.requirements:
            requirement.after_drain(stage, drained)
        check_tick(self.stores, drained.tick_ms or 0, self.rows.present_ms)
        segments = self.job.segments.joined(KeySegments.of(base))
        files = upload_drained(self.stores, drained, self.edit, segments, self.options, self.clock)
        tick_ms = base.last_l0_clock_tick if drained.tick_ms is None else drained.tick_ms
        self.rows.move_above(drained.last_seq, tick_ms)
        self._refresh_ids()  # the steps since the attempt began may have taken long
        self.rows.check_clock(self.edit.files)
        change = self._change(base, drained, files, definition.codec(), fence_id=claim.fence_id)
        listed = jobs() if drained.rows is None else None  # draining takes long, so the list may be outdated
        self._clear_jobs(claim, base, change, listed, holds=holds)
        while True:
            stage = self._stage(Version(base_id, base))
            for requirement in self.requirements:
                requirement.before_publishing(stage)
            # Read before publishing: a clock that fails afterwards must not deny a commit that landed.
            now_ms = self.clock.now_ms()
            manifest = next_manifest(base, change, now_ms=now_ms, nonce=draw_nonce(self.clock))
            manifest = self._with_outcome(self._with_own_checkpoint(manifest, base_id + 1, retention_ms), base_id + 1)
            made = Version(base_id + 1, manifest)
            try:
                digest = self._publish(made, base)
            except ManifestCollectedError:
                raise
            except RaceLostError:
                base_id, base = fetch_held(self.stores, claim)
                continue
            hold_own(self.stores, ((file.handle, file.properties) for file in change.files))
            if holds and not set(base.run_ids()) <= set(manifest.run_ids()):
                hold_exactly(self.stores, self.clock, claim, manifest)
            record = self._record(made, change, base, reached_seq=drained.last_seq, now_ms=now_ms)
            return replace(record, manifest_sha256=digest)

    def _publish(self, made: Version[Manifest], base: Manifest | None) -> str:
        """Publish a version on top of `base`, and return its digest."""
        digest = publish_manifest(self.stores, *made, base, self.clock, own_time=self.job.definition.has_own_time)
        note_own_commit(self.stores, *made)
        return digest

    def _clear_jobs(
        self, claim: Claim, base: Manifest, change: CommitChange, listed: Version[Compactions] | None, *, holds: bool
    ) -> None:
        """Make the list of compactions fit the runs that the commit is about to leave.

        Parameters
        ----------
        listed : the newest list, if it was fetched just now
        holds : whether a hold has to keep a client's scheduler off all runs
        """
        now_ms = self.clock.now_ms()
        planned = next_manifest(base, change, now_ms=now_ms, nonce=0)
        hold = plan_hold((*base.run_ids(), *planned.run_ids()), new_ulid(self.clock, now_ms)) if holds else None
        own = completed_job(self.job.compaction, self.edit.files, now_ms)
        clear_active_jobs(self.stores, claim, hold, now_ms=now_ms, runs=planned.run_ids(), own=own, listed=listed)

    def _with_own_checkpoint(self, manifest: Manifest, number: int, retention_ms: int | None) -> Manifest:
        """Return the manifest of a commit with a checkpoint of itself, since a client may replace it next."""
        if retention_ms is None:
            return manifest
        now_ms, new_id = self.clock.now_ms(), partial(new_uuid, self.clock)
        points = retained(manifest.checkpoints, (number,), retention_ms, now_ms, new_id, limit=self.job.max_retained)
        return replace(manifest, checkpoints=points)

    def _change(
        self, base: Manifest, drained: Drained, drained_files: tuple[NewFile, ...], codec: RowCodec, *, fence_id: int
    ) -> CommitChange:
        """Return the change of the commit on top of `base`; without a WAL, `fence_id` is 0."""
        segments = self.job.segments.joined(KeySegments.of(base))
        ticks = [self.rows.newest_ms] if self.rows.files else []
        if drained.tick_ms is not None:
            ticks.append(drained.tick_ms)
        return CommitChange(
            outputs=self.rows.outputs,
            drained=drained_files,
            last_seq=max(drained.last_seq + 1 if fence_id else 0, last_seq_of(self.rows.outputs, segments)),
            tick_ms=max(ticks, default=Manifest().last_l0_clock_tick),
            fence_id=fence_id,
            edit=self.edit,
            segments=segments,
            codec=codec,
            kept=find_kept_history(self.stores, base) if self._has_history else None,
        )

    def _record(
        self, made: Version[Manifest], change: CommitChange, base: Manifest, *, reached_seq: int, now_ms: int
    ) -> CommitRecord:
        """Return the record of a commit; `reached_seq` is the highest sequence number of the rows before it."""
        manifest_id, manifest = made
        own = self.rows.files
        return CommitRecord(
            manifest_id=manifest_id,
            operation=self.job.operation,
            write_id=self.job.write_id,
            engine=ENGINE,
            committed_ms=now_ms,
            write_time_ms=self.rows.newest_ms,
            first_seq=min((file.properties.min_seq for file in own), default=None),
            last_seq=max((file.properties.max_seq for file in own), default=None),
            rows=count_rows(own),
            files=describe_files(change.files),
            removed=removed_files(base, manifest),
            compactor_epoch=manifest.compactor_epoch,
            delete_rate=self.job.delete_rate,
            replaced=[hex_bounds(keys) for keys in self.edit.replaced],
            start_seq=reached_seq + 1,
            end_seq=manifest.last_l0_seq + 1,
            fence=change.fence_id,
            snapshot_seq=self.job.snapshot_seq,
        )
