"""The one commit path: the files of a write are published in one manifest. Source: spec 10.1, 12.1, 12.4."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from slatespark.encoding.row_codec import RowCodec
from slatespark.errors import (
    CommitConflictError,
    SlateError,
    SnapshotExpiredError,
    TableExistsError,
    TableNotFoundError,
    UnavailableError,
)
from slatespark.format.compactions import Compaction, CompactionStatus
from slatespark.format.manifest import Manifest
from slatespark.format.paths import sst_path
from slatespark.format.ulid import Ulid
from slatespark.kernels import lower_bound
from slatespark.kernels.columns import HAS_CREATE, MERGE, RowColumns
from slatespark.options import WriteOptions
from slatespark.ranges import ALL_KEYS, KeyRange, complement_ranges
from slatespark.storage import run_concurrently
from slatespark.table.clock import Clock, back_off, new_ulid, new_uuid
from slatespark.table.definition import TableDefinition, resolve_definition
from slatespark.table.read.fetch import fetch_wal_rows
from slatespark.table.read.properties import record_file
from slatespark.table.records import (
    LEASE_LIFETIME_MS,
    CommitRecord,
    delete_lease,
    hex_bounds,
    merge_counts,
    publish_commit_record,
    publish_txn_record,
)
from slatespark.table.snapshot import WalTail, fetch_latest_manifest, fetch_newest_state, find_latest_manifest
from slatespark.table.stores import TableStores
from slatespark.table.write.conflicts import ReadCheck, ReadSet
from slatespark.table.write.definition_run import settle_creation, settle_growth
from slatespark.table.write.history_hold import plan_hold
from slatespark.table.write.history_order import check_above_floor, check_order_in_rows, check_order_in_trees
from slatespark.table.write.idempotence import find_outcome, note_outcome, outcome_of, with_outcome
from slatespark.table.write.job import COMPACT, ENGINE, RESTORE, TRANSACTION, TRIM, WriteJob
from slatespark.table.write.kept_history import KeptHistory, find_kept_history, settle_losses
from slatespark.table.write.protocol import (
    NONCE_BITS,
    Claim,
    PassedByCollectorError,
    Prepare,
    RaceLostError,
    claim_epochs,
    clear_active_jobs,
    publish_manifest,
    refuse_foreign_client,
    refuse_unwritable,
)
from slatespark.table.write.publication import Change, next_manifest, without_l0
from slatespark.table.write.rebase import rebase_outputs
from slatespark.table.write.sorted_rows import SortedRows
from slatespark.table.write.sst_upload import NewFile, upload_sorted
from slatespark.table.write.tree_edit import KEEP_TREES, TreeEdit, bars_operands, removed_ranges, replaced_ranges
from slatespark.table.write.version_retention import (
    READERS_LIFETIME_MS,
    UNDO_LIFETIME_MS,
    Replaced,
    find_replaced,
    retained,
)
from slatespark.table.write.write_time import check_not_ahead, check_tick, check_timestamp
from slatespark.table.write.young_files import hold_lease, keep_young, rescue
from slatespark.units import MIN_MS, ms_to_text

MAX_ATTEMPTS = 20
_UNDOABLE = (RESTORE, TRIM)
# In any table the version before is kept for a while: to undo the commit, or for who reads the files that were merged.
_LEAST_KEPT_MS = {RESTORE: UNDO_LIFETIME_MS, TRIM: UNDO_LIFETIME_MS, COMPACT: READERS_LIFETIME_MS}

Outputs = tuple[tuple[NewFile, ...], ...]


def commit_write(
    stores: TableStores,
    clock: Clock,
    job: WriteJob,
    outputs: Sequence[tuple[NewFile, ...]],
    options: WriteOptions,
    *,
    edit: TreeEdit = KEEP_TREES,
    depends_on: ReadSet | None = None,
) -> CommitRecord | None:
    """Publish the files of a job in one manifest version.

    Parameters
    ----------
    outputs : per task, in key order; a later task is newer
    edit : what becomes of the trees that stand
    depends_on : what has to be as it was read; None for a write that depends on nothing

    Returns
    -------
    The record of the commit; None when there was nothing to commit: no rows for a table that stands. Where the write
    was committed before under its `txnAppId` and `txnVersion`, what is known of that commit, and nothing is published.

    Raises
    ------
    CommitConflictError
        When a SlateDB client is at work and `ifClientActive` is `fail`, or when the race was lost too often.
    ClockRegressionError
        When the write has a `timestamp`, and something later was committed meanwhile.
    TableExistsError
        When the table to be created was created by somebody else.
    TransactionConflictError
        When something of `depends_on` has changed, naming keys.
    UnavailableError
        When the store stopped answering. Whether the commit landed is unknown then; the files must stay.
    """
    if job.operation in ("write", TRANSACTION) and not job.creates and not any(outputs):
        outcome = outcome_of(options, job.baseline.manifest_id, job.write_id, clock.now_ms())
        if outcome is not None:  # a job that runs again may find rows, made by what it did after this write
            publish_txn_record(stores.main, outcome)
        delete_lease(stores.main, job.write_id)
        return None
    commit = _Commit(stores, clock, job, options, tuple(outputs), edit, job.base_seq, job.create_ts_ms)
    if depends_on is not None:
        commit.reads = ReadCheck(stores, depends_on, commit.codec, options.write_buffer_bytes)
    commit.check_newest_time()
    for attempt in range(MAX_ATTEMPTS):
        try:
            record = commit.attempt(attempt)
        except PassedByCollectorError as exc:
            raise UnavailableError(
                f"{stores.url}: whether this commit was published is not known.",
                why="This process stood still for so long that a collector has passed its version.",
                todo="Look whether the change is there, and make it again if it is not.",
            ) from exc
        except RaceLostError:
            back_off(clock, attempt)
            continue
        if record.write_id == job.write_id:
            publish_commit_record(stores.main, record)
            note_outcome(stores, outcome_of(options, record.manifest_id, record.write_id, record.committed_ms))
        delete_lease(stores.main, job.write_id)
        return record
    raise CommitConflictError(
        f"{stores.url}: other writers were faster {MAX_ATTEMPTS} times in a row.", todo="Write again."
    )


@dataclass(slots=True)
class _Commit:
    """A commit under way. What it learnt or rewrote in an attempt that lost a race serves the next one.

    Attributes
    ----------
    outputs : files per task; rewritten when they have to move above another commit
    edit : what becomes of the trees that stand
    base_seq, create_ts_ms : what their rows are numbered and timed from
    in_order : ids of files of a history table that hold nothing younger than the outputs have of the same keys
    reads : the check of what it depends on; None if it depends on nothing
    """

    stores: TableStores
    clock: Clock
    job: WriteJob
    options: WriteOptions
    outputs: Outputs
    edit: TreeEdit
    base_seq: int
    create_ts_ms: int
    in_order: frozenset[Ulid] = frozenset()
    reads: ReadCheck | None = None

    def check_newest_time(self) -> None:
        """Refuse rows with times of their own that lie in the future."""
        if self.options.timestamp_column is not None and any(self.outputs):
            newest_ms = self._newest_ms()
            given = f"{self.stores.url}: the newest time in {self.options.timestamp_column} is {ms_to_text(newest_ms)}"
            check_not_ahead(f"{given} ({newest_ms})", newest_ms, self._present_ms)

    def attempt(self, number: int) -> CommitRecord:
        self._refresh_ids(has_table=not self.job.creates)
        found = find_latest_manifest(self.stores)
        if found is None and not self.job.creates:
            raise TableNotFoundError(f"{self.stores.url}: the table was removed during the write.")
        if found is None:
            return self._create_table()
        latest_id, latest = found
        if (earlier := self._find_earlier(latest)) is not None:
            return earlier
        if self.job.operation == "create":
            raise TableExistsError(f"{self.stores.url} exists already.", todo="Open it, or choose another path.")
        refuse_unwritable(self.stores.url, latest)
        check_tick(self.stores, latest.last_l0_clock_tick, self._present_ms)
        self._check_last_seq_before_claim(latest_id, latest)
        if self.reads is not None:
            self.reads.check_newest(latest_id, latest, self._files)
        self._raise_above(latest.last_l0_seq, latest.last_l0_clock_tick)
        self._check_other_clients(latest_id, latest)
        self._check_order(latest_id, latest)
        definition = self._settle_definition(latest)
        if self._has_history:
            settle_losses(self.stores, self.clock, latest)
        self.edit.apply(without_l0(latest))  # what it refuses, it refuses before anybody is shut out
        retention_ms = (definition or TableDefinition()).version_retention_ms
        prepare, write_id = self._keep_replaced(latest_id, latest, retention_ms), self.job.write_id
        claim = claim_epochs(
            self.stores,
            latest_id,
            latest,
            self.clock,
            write_id=write_id,
            attempt=number,
            prepare=prepare,
            removes=removed_ranges(self.edit),
        )
        return self._publish_claimed(claim, retention_ms, holds=definition is not None and definition.holds_history)

    def _find_earlier(self, latest: Manifest) -> CommitRecord | None:
        """Return what is known of the commit that this write repeats; None if it repeats none."""
        outcome = find_outcome(self.stores, latest, self.options)
        if outcome is None:
            return None
        return CommitRecord(
            manifest_id=outcome.manifest_id,
            operation=self.job.operation,
            write_id=outcome.write_id,
            engine=ENGINE,
            committed_ms=outcome.committed_ms,
            write_time_ms=outcome.committed_ms,
            first_seq=None,
            last_seq=None,
        )

    def _with_outcome(self, manifest: Manifest, number: int) -> Manifest:
        own = outcome_of(self.options, number, self.job.write_id, self.clock.now_ms())
        return with_outcome(self.stores, manifest, own, partial(new_uuid, self.clock))

    def _keep_replaced(self, latest_id: int, latest: Manifest, retention_ms: int | None) -> Prepare:
        """Return what makes the claim keep the version that the commit replaces, as long as the table wants it."""
        undoes = self.job.operation in _UNDOABLE
        lifetime_ms = _LEAST_KEPT_MS.get(self.job.operation) if retention_ms is None else retention_ms
        version = latest_id if lifetime_ms is None else find_replaced(self.stores, latest_id, latest)
        replaced = Replaced(version, lifetime_ms, undoes)

        def prepare(claim: Manifest, wal: Mapping[int, int], wal_end: int) -> Manifest:
            unseen = any(size for number, size in wal.items() if claim.wal_id_last_seen < number < wal_end)
            return replaced.keep(
                claim,
                latest_id + 1,
                wal_end,
                too=unseen,
                now_ms=self.clock.now_ms(),
                new_id=partial(new_uuid, self.clock),
            )

        return prepare

    def _check_other_clients(self, latest_id: int, latest: Manifest) -> None:
        if self.options.if_client_active == "fence":
            return
        refuse_foreign_client(self.stores, latest_id, latest, self.job.baseline, now_ms=self.clock.now_ms())

    def _check_order(self, latest_id: int, latest: Manifest) -> None:
        """Refuse versions older than what a history table holds of their keys; times that may move are above it."""
        if not (self._has_history and self._has_given_times and any(self.outputs)):
            return
        floor_ms = resolve_definition(self.stores, latest).full_history_ts_low_ms
        check_above_floor(self.stores, floor_ms, self._files)
        check_order_in_trees(
            self.stores, latest, self._files, self.codec, settled=self.in_order, buffer_bytes=self._buffer_bytes
        )
        self.in_order |= set(latest.ssts)
        _, latest, wal = fetch_newest_state(self.stores, latest_id, latest)
        rows = fetch_wal_rows(self.stores, wal, latest.last_l0_seq, ALL_KEYS)
        self._check_order_in_rows(rows)

    def _check_order_in_rows(self, rows: RowColumns | None) -> None:
        if self._has_history and self._has_given_times:
            check_order_in_rows(self.stores, rows, self._files, self.codec, buffer_bytes=self._buffer_bytes)

    def _settle_definition(self, latest: Manifest) -> TableDefinition | None:
        created, merge = self.job.creates, self.options.merge_schema
        return settle_growth(self.stores, self.clock, latest, self.job.definition, created=created, merge=merge)

    def _check_last_seq_before_claim(self, latest_id: int, latest: Manifest) -> None:
        if self.options.if_last_seq is not None:
            _, latest, wal = fetch_newest_state(self.stores, latest_id, latest)
            self._check_last_seq(max(latest.last_l0_seq, wal.last_seq))

    def _check_last_seq(self, reached_seq: int) -> None:
        """Refuse if rows were committed above what the write depends on."""
        limit = self.options.if_last_seq
        if limit is not None and reached_seq > limit:
            raise CommitConflictError(
                f"{self.stores.url}: rows up to sequence number {reached_seq} were committed, above {limit}.",
                why="This write depends on what it read before them.",
                todo="Read and write again.",
            )

    def _check_rules(self, latest: Manifest) -> None:
        """Refuse if the table keeps its rows for another time, or folds in another way, than the write went by."""
        if not self.job.goes_by_lifetimes and not self.job.goes_by_operator:
            return
        planned, current = self.job.definition or TableDefinition(), resolve_definition(self.stores, latest)
        if self.job.goes_by_operator and planned.merge_operator != current.merge_operator:
            raise CommitConflictError(
                f"{self.stores.url}: the mergeOperator of the table has changed.",
                why="Operands were folded by the one before.",
                todo="Run it again.",
            )
        if self.job.goes_by_lifetimes and planned.lifetimes != current.lifetimes:
            raise CommitConflictError(
                f"{self.stores.url}: the retention or the history floor of the table has changed.",
                why="What goes was chosen by the ones before.",
                todo="Read and write again.",
            )

    def _refresh_ids(self, *, has_table: bool = True) -> None:
        """Give files that aged during a long job fresh ids, lest the collector takes them before they are published.

        All of them get fresh ids where the lease of the job did not hold. That of a creator is not renewed as long as
        there may be no table: somebody else may have begun to create it.

        Those of a compaction are spared as long as it is listed, as it is if it merges runs.
        """
        if self.job.compaction is not None and self.job.compaction.spec.sorted_runs:
            return
        now_ms, held = self.clock.now_ms(), True
        if has_table and now_ms - self.job.planned_ms >= LEASE_LIFETIME_MS // 2:
            held = hold_lease(self.stores, self.job.write_id, self.job.planned_ms, now_ms)

        def kept(files: Sequence[NewFile]) -> tuple[NewFile, ...]:
            if not held:
                return rescue(self.stores, self.clock, files)
            return keep_young(self.stores, self.clock, files, self.options.gc_min_age_ms)

        self.outputs = tuple(kept(files) for files in self.outputs)
        self.edit = self.edit.with_files(kept(self.edit.files))

    def _raise_above(self, reached_seq: int, tick_ms: int) -> None:
        """Move the rows of the job above what was committed, or drained, since it was planned."""
        if self.options.timestamp_ms is not None and any(self.outputs):
            floor_ms = MIN_MS if self._has_history else tick_ms
            check_timestamp(self.stores, self.create_ts_ms, floor_ms, self._present_ms)
        by_seq = max(0, reached_seq - self.base_seq)
        by_ms = 0 if self._has_given_times else max(0, tick_ms - self.create_ts_ms)
        if (by_seq or by_ms) and any(self.outputs):
            self.outputs = rebase_outputs(
                self.stores,
                self.outputs,
                self.options,
                self.clock,
                by_seq=by_seq,
                by_ms=by_ms,
                planned_ms=self.clock.now_ms(),
            )
        self.base_seq, self.create_ts_ms = self.base_seq + by_seq, self.create_ts_ms + by_ms

    @property
    def _has_own_time(self) -> bool:
        return self.job.definition is not None and self.job.definition.has_own_time

    @property
    def _has_history(self) -> bool:
        return self.job.definition is not None and self.job.definition.has_history

    @property
    def _present_ms(self) -> int | None:
        """What our clock says; None where it says nothing about the table's times."""
        return None if self._has_own_time else self.clock.now_ms()

    @property
    def _has_given_times(self) -> bool:
        """Whether no time may move: instants that the user gave stay, and other times in the write stay beside them."""
        options = self.options
        given = (options.timestamp_ms, options.timestamp_column, options.expire_at_column)
        return self.job.has_instants or any(option is not None for option in given)

    @property
    def _files(self) -> list[NewFile]:
        return [file for files in self.outputs for file in files]

    @property
    def codec(self) -> RowCodec:
        """How keys and values of the table are encoded."""
        return (self.job.definition or TableDefinition()).codec()

    @property
    def _buffer_bytes(self) -> int:
        return self.options.write_buffer_bytes

    def _newest_ms(self) -> int:
        """Return the latest create_ts of the outputs."""
        if self.options.timestamp_column is None:
            return self.create_ts_ms
        times = [file.properties.max_create_ts for file in self._files]
        return max((time for time in times if time is not None), default=self.create_ts_ms)

    def _create_table(self) -> CommitRecord:
        assert self.job.definition is not None  # plan_write gives every creator one
        settle_creation(self.stores, self.clock, self.job.definition, merge=self.options.merge_schema)
        kept = KeptHistory() if self._has_history else None
        change = self._change(drained=(), wal_id=0, reached_seq=0, tick_ms=None, kept=kept)
        manifest = next_manifest(Manifest(), change, now_ms=self.clock.now_ms(), nonce=self._nonce())
        if not any(self.outputs):
            manifest = replace(Manifest(), nonce=self._nonce())
        manifest = self._with_outcome(manifest, 1)
        publish_manifest(self.stores, 1, manifest, None, self.clock, own_time=self._has_own_time)
        if self.job.definition.holds_history:
            self._hold_exactly(Claim(1, manifest.writer_epoch, manifest.compactor_epoch, fence=0), manifest)
        return self._record(1, manifest, change, Manifest())

    def _publish_claimed(self, claim: Claim, retention_ms: int | None, *, holds: bool) -> CommitRecord:
        """Drain the WAL under the fence, then publish; a checkpoint made by a reader in between is taken up."""
        base_id, base = self._fetch_owned(claim)
        if (earlier := self._find_earlier(base)) is not None:
            return earlier
        try:
            drained, drained_seq, tick_ms = self._drain(base, claim)
        except SnapshotExpiredError:
            self._fetch_owned(claim)  # whoever took over has drained it, and a collector came after them
            raise
        check_tick(self.stores, tick_ms or 0, self._present_ms)
        reached_seq = max(drained_seq, base.last_l0_seq)
        self._check_last_seq(reached_seq)
        self._raise_above(reached_seq, base.last_l0_clock_tick if tick_ms is None else tick_ms)
        self._refresh_ids()  # what came since the attempt began may have taken long
        kept = find_kept_history(self.stores, base) if self._has_history else None
        change = self._change(drained=drained, wal_id=claim.fence, reached_seq=reached_seq, tick_ms=tick_ms, kept=kept)
        self._clear_jobs(claim, base, change, holds=holds)
        self._check_files_stand()
        while True:
            self._check_rules(base)
            manifest = next_manifest(base, change, now_ms=self.clock.now_ms(), nonce=self._nonce())
            manifest = self._with_outcome(self._keep_from_now(manifest, base_id + 1, retention_ms), base_id + 1)
            try:
                publish_manifest(self.stores, base_id + 1, manifest, base, self.clock, own_time=self._has_own_time)
            except PassedByCollectorError:
                raise
            except RaceLostError:
                base_id, base = self._fetch_owned(claim)
                continue
            if holds and not set(base.run_ids()) <= set(manifest.run_ids()):
                self._hold_exactly(claim, manifest)
            return self._record(base_id + 1, manifest, change, base)

    def _check_files_stand(self) -> None:
        """Refuse if files of a compaction are gone: somebody may have taken it off the list for a moment."""
        if self.job.compaction is None:
            return
        looks = [partial(self.stores.main.head, sst_path(file.handle.id)) for file in self.edit.files]
        try:
            run_concurrently(looks, is_remote=self.stores.main.is_remote)
        except FileNotFoundError as exc:
            raise CommitConflictError(
                f"{self.stores.url}: files of the compaction were collected before it was committed.",
                why="Another coordinator took it off the list of compactions.",
                todo="Run it again.",
            ) from exc

    def _clear_jobs(self, claim: Claim, base: Manifest, change: Change, *, holds: bool) -> None:
        """Make the list of compactions fit what the commit is about to leave.

        Parameters
        ----------
        holds : a job is to keep a client's scheduler off all runs
        """
        now_ms = self.clock.now_ms()
        planned = next_manifest(base, change, now_ms=now_ms, nonce=0)
        hold = plan_hold((*base.run_ids(), *planned.run_ids()), new_ulid(self.clock, now_ms)) if holds else None
        own = self._completed(now_ms)
        clear_active_jobs(self.stores, claim, hold, now_ms=now_ms, runs=planned.run_ids(), own=own)

    def _hold_exactly(self, claim: Claim, manifest: Manifest) -> None:
        """Hold the runs of what was published, and no others: a client would not make a run with the id of one."""
        now_ms, runs = self.clock.now_ms(), manifest.run_ids()
        hold = plan_hold(runs, new_ulid(self.clock, now_ms))
        with contextlib.suppress(RaceLostError, SlateError):  # it has landed, and the next commit holds all anew
            clear_active_jobs(self.stores, claim, hold, now_ms=now_ms, runs=runs)

    def _completed(self, now_ms: int) -> Compaction | None:
        """Return the entry of a compaction as it is after its commit; None for what is no compaction."""
        own = self.job.compaction
        if own is None:
            return None
        assert own.worker is not None  # all of ours have one
        worker = replace(own.worker, last_heartbeat_ms=now_ms)
        outputs = tuple(file.handle for file in self.edit.files)
        return replace(own, status=CompactionStatus.COMPLETED, output_ssts=outputs, worker=worker)

    def _keep_from_now(self, manifest: Manifest, number: int, retention_ms: int | None) -> Manifest:
        """Return the manifest of a commit as one that keeps itself: who replaces it next may be a client."""
        if retention_ms is None:
            return manifest
        now_ms, new_id = self.clock.now_ms(), partial(new_uuid, self.clock)
        return replace(manifest, checkpoints=retained(manifest.checkpoints, (number,), retention_ms, now_ms, new_id))

    def _fetch_owned(self, claim: Claim) -> tuple[int, Manifest]:
        """Return the newest manifest, which must still carry our epochs."""
        base_id, base = fetch_latest_manifest(self.stores)
        if not claim.holds(base):
            raise RaceLostError("another writer claimed higher epochs")
        return base_id, base

    def _drain(self, base: Manifest, claim: Claim) -> tuple[tuple[NewFile, ...], int, int | None]:
        """Return the WAL's rows below the fence as files, their highest seq and their highest create_ts."""
        tail = WalTail(base.replay_after_wal_id + 1, claim.fence)
        rows = fetch_wal_rows(self.stores, tail, base.last_l0_seq, ALL_KEYS)
        if rows is None:
            return (), 0, None
        if self.reads is not None:  # the trees are those that were looked through right before the claim
            self.reads.check_rows(rows, self._files)
        self._check_order_in_rows(rows)
        if bars_operands(self.edit) and (rows.flags & MERGE).any():
            raise CommitConflictError(
                f"{self.stores.url}: merge operands came while rows past retention were being taken away.",
                why="They may make them young again.",
                todo="Run it again.",
            )
        reached_seq, tick_ms = int(rows.seqs.max()), _highest_tick(rows)
        if not self.edit.keeps_wal:
            return (), reached_seq, tick_ms
        pieces = [SortedRows([rows], kept) for kept in _rows_outside(rows, replaced_ranges(self.edit))]
        files = upload_sorted(self.stores.main, pieces, self.options, self.clock, self.clock.now_ms())
        return files, reached_seq, tick_ms

    def _change(
        self,
        *,
        drained: tuple[NewFile, ...],
        wal_id: int,
        reached_seq: int,
        tick_ms: int | None,
        kept: KeptHistory | None,
    ) -> Change:
        used_seqs = [file.properties.max_seq for files in self.outputs for file in files]
        ticks = [self._newest_ms()] if used_seqs else []
        return Change(
            outputs=self.outputs,
            drained=drained,
            last_seq=max([reached_seq + 1 if wal_id else 0, *used_seqs]),
            tick_ms=max(ticks + ([tick_ms] if tick_ms is not None else []), default=Manifest().last_l0_clock_tick),
            wal_id=wal_id,
            edit=self.edit,
            kept=kept,
        )

    def _nonce(self) -> int:
        return self.clock.random_bits(NONCE_BITS)

    def _record(self, manifest_id: int, manifest: Manifest, change: Change, base: Manifest) -> CommitRecord:
        own = [file.properties for group in change.outputs for file in group]
        return CommitRecord(
            manifest_id=manifest_id,
            operation=self.job.operation,
            write_id=self.job.write_id,
            engine=ENGINE,
            committed_ms=self.clock.now_ms(),
            write_time_ms=self._newest_ms(),
            first_seq=min((item.min_seq for item in own), default=None),
            last_seq=max((item.max_seq for item in own), default=None),
            rows=merge_counts([{"put": item.puts, "delete": item.deletes, "merge": item.merges} for item in own]),
            files={str(file.handle.id): record_file(file.handle, file.properties) for file in change.files},
            removed=[str(sst_id) for sst_id in base.ssts if sst_id not in manifest.ssts],
            compactor_epoch=manifest.compactor_epoch,
            delete_rate=self.job.delete_rate,
            replaced=[hex_bounds(keys) for keys in replaced_ranges(self.edit)],
        )


def _rows_outside(rows: RowColumns, ranges: Sequence[KeyRange]) -> list[NDArray[np.int64]]:
    """Return the positions of the rows whose keys lie in none of the ranges."""
    spans = (
        (
            lower_bound(rows, keys.start, 0, len(rows)),
            len(rows) if keys.end is None else lower_bound(rows, keys.end, 0, len(rows)),
        )
        for keys in complement_ranges(ranges)
    )
    return [np.arange(low, high, dtype=np.int64) for low, high in spans]


def _highest_tick(rows: RowColumns) -> int | None:
    stamped = rows.create_ts[(rows.flags & HAS_CREATE) != 0]
    return int(stamped.max()) if len(stamped) else None
