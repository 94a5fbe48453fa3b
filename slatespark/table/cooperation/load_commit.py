"""Committing a load beside a live client: the client's coordinator publishes the rows, and nobody is fenced.

    files uploaded -> older rows flushed -> merged with the newest layers -> job submitted, scheduled, claimed
                                                ^                                       |
                                                '---- the layers have changed ----------'
    -> recorded -> handed over -> committed by the client -> commit record

A load has one job for each segment that it touches, and the client commits them in one version.

A short merge runs while the job waits for the coordinator. A longer one comes before the job, since that keeps the
client from compacting these layers. If the client was faster with them too often, they are claimed first. See
docs/explanation/cooperative-writes.md.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Final, TypeAlias

from slatespark.errors import CommitConflictError, InvalidRequestError, SlateError, UnavailableError
from slatespark.format.compactions import Compactions, TieredSpec
from slatespark.format.manifest import Manifest
from slatespark.format.ulid import Ulid
from slatespark.options import WriteOptions
from slatespark.storage import run_concurrently
from slatespark.table.clock import Clock, TimedWait, now_or
from slatespark.table.commit.definition_run import publish_growth
from slatespark.table.commit.discard import delete_files
from slatespark.table.commit.empty_commit import end_without_commit
from slatespark.table.commit.expiring_ids import FileGuard, refresh_groups
from slatespark.table.commit.file_facts import count_rows
from slatespark.table.commit.handed_loads import changes_something, find_commit_of, record_load
from slatespark.table.commit.idempotence import find_earlier
from slatespark.table.commit.job import WriteJob
from slatespark.table.commit.row_times import RowTimes
from slatespark.table.commit.tree_edit import files_by_segment
from slatespark.table.commit.write_time import check_timestamp
from slatespark.table.cooperation.claimed_job import ClaimedJob, hand_over_together
from slatespark.table.cooperation.following import pending_runs
from slatespark.table.cooperation.job_rules import same_sources
from slatespark.table.cooperation.load_merge import LoadRules, Output, run_pieces
from slatespark.table.cooperation.load_plan import (
    LoadSources,
    MergedKeys,
    Piece,
    merged_bytes,
    plan_pieces,
    plan_sources,
    plan_specs,
)
from slatespark.table.cooperation.load_removals import record_load_removals
from slatespark.table.cooperation.outcome import await_end, have_ended, poll_ms, withdraw
from slatespark.table.cooperation.submission import JobMovedError, Submitter
from slatespark.table.cooperation.unflushed_rows import await_flush
from slatespark.table.definition.plan import join_growth
from slatespark.table.definition.versions import resolve_definition
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.planning.layers import fetch_layers
from slatespark.table.read.versions.file_properties import record_file
from slatespark.table.records.commit_record import CLIENT_EPOCH, CommitRecord
from slatespark.table.records.handed_loads import (
    HandedLoad,
    HandedPart,
    delete_handed_load,
    fetch_handed_loads,
    publish_handed_load,
)
from slatespark.table.records.leases import delete_lease
from slatespark.table.records.operations import ENGINE, Operation
from slatespark.table.rows.sst_upload import NewFile
from slatespark.table.stores import SCRATCH_ROOT, TableStores
from slatespark.texts import name_some
from slatespark.thread_pool import ThreadPool

MERGES_BEFORE_CLAIM: Final = 2
MAX_ATTEMPTS: Final = 5
RANGE_BYTES: Final = 64 << 20  # merged by one thread at a time
SHORT_MERGE_BYTES: Final = 256 << 20  # read by a merge that may run under a claim: about a second

_Outputs: TypeAlias = Sequence[Output]  # of one tree, in key order

_log = logging.getLogger(__name__)


def commit_beside_client(
    stores: TableStores, clock: Clock, job: WriteJob, outputs: Iterable[Sequence[NewFile]], options: WriteOptions
) -> CommitRecord | None:
    """Let the client that has the database open commit the files of a load, and return the record of the commit.

    None if the load changes nothing: it deletes keys where no files are. If the write was committed before under its
    `txnAppId` and `txnVersion`, nothing is published; the record holds the known facts of that commit.

    Parameters
    ----------
    job : planned for this mode: all its rows have the sequence number `baseline.last_l0_seq`
    outputs : files of each task, of which a later one is newer; one at least. Their keys do not overlap within a
        task. If they do among tasks there are no operands

    Raises
    ------
    CommitConflictError
        When no client answers, when older rows are not flushed, or when the client compacts faster than we merge.
    UnavailableError
        When the client took the rows and then did not answer: whether it commits them is unknown.
    """
    groups = tuple(tuple(files) for files in outputs if files)[::-1]
    guard = FileGuard(stores, clock, job, options.gc_min_age_ms)
    commit = _LoadCommit(stores, clock, job, options, groups, guard)
    try:
        record = commit.run()
    except CommitConflictError:
        commit.discard_all()
        raise
    except _UnchangedError:
        commit.discard_all()
        end_without_commit(stores, clock, job, options)
        return None
    delete_lease(stores.main, job.write_id)
    return record


class _UnchangedError(Exception):
    """A load changes no tree, so there is nothing to hand over: a client of SlateDB 0.18 would publish no version."""


@dataclass(slots=True)
class _LoadCommit:
    """A commit in progress.

    Attributes
    ----------
    groups : files of the load by task, newest first
    guard : what keeps the files from being collected
    made : ids of the files that merges have made, and that were not discarded
    may_be_handed : a hand-over was tried, so the files may be committed: they must not be deleted any more
    share_keys : the client moves files that share no keys as they are, so sources must share some
    """

    stores: TableStores
    clock: Clock
    job: WriteJob
    options: WriteOptions
    groups: tuple[tuple[NewFile, ...], ...]
    guard: FileGuard
    submitter: Submitter = field(init=False)
    made: set[Ulid] = field(default_factory=set)
    may_be_handed: bool = False
    share_keys: bool = False

    def __post_init__(self) -> None:
        self.submitter = Submitter(self.stores, self.clock, timeout_ms=self.options.client_timeout_ms, follows=True)

    def run(self) -> CommitRecord:
        """Try until the client has committed the load."""
        if (earlier := self._find_earlier()) is not None:
            return earlier
        codec = self.job.definition.codec()
        await_flush(self.stores, self.clock, self.job.baseline.wal_end, codec, self.options, files=self._files)
        join_growth(resolve_definition(self.stores, fetch_latest_manifest(self.stores).value), self.job.definition)
        for number in range(MAX_ATTEMPTS):
            try:
                record = self._merge_first() if number < MERGES_BEFORE_CLAIM else self._claim_first()
            except JobMovedError:
                self.share_keys = True
                continue
            if record is not None:
                return record
        raise CommitConflictError(
            f"{self.stores.url}: {MAX_ATTEMPTS} times the client changed the layers that this write was merged with.",
            todo="Write again.",
        )

    def _merge_first(self) -> CommitRecord | None:
        """Merge, then claim; return the record of the commit, None if the layers changed or the job was refused."""
        sources = self._await_sources()
        self._refresh_files()
        pieces = self._pieces(sources)
        with ThreadPool(1) as thread:
            merge = thread.submit(self._merged, sources, pieces)
            if sum(map(merged_bytes, pieces)) > SHORT_MERGE_BYTES:
                merge.result()
            try:
                with self.submitter.jobs_together(partial(plan_specs, sources)) as claimed:
                    # A commit that fences clients may have cut a run in the meantime, without changing its id.
                    if claimed is not None and all(map(_is_as_planned, claimed, sources)):
                        return self._commit(claimed, sources, merge.result())
            except JobMovedError:
                self._discard(merge.result())
                raise
            self._discard(merge.result())
            return None

    def _claim_first(self) -> CommitRecord | None:
        """Claim, then merge; return the record of the commit, None if there was nothing to claim or it was refused."""
        found = self._await_sources()

        def plan(manifest: Manifest, listed: Compactions) -> Sequence[TieredSpec] | None:
            nonlocal found
            sources = self._find_sources(manifest, pending_runs(manifest, listed))
            if self._segments_without(sources):
                return None
            found = sources
            return plan_specs(sources, manifest, listed)

        with self.submitter.jobs_together(plan) as claimed:
            if claimed is None or not all(map(_is_as_planned, claimed, found)):
                return None
            self._refresh_files()
            return self._commit(claimed, found, self._merged(found, self._pieces(found)))

    def _commit(
        self, claimed: Sequence[ClaimedJob], sources: Sequence[LoadSources], merged: Sequence[_Outputs]
    ) -> CommitRecord | None:
        """Hand the files over, and return the record of their commit; None if the client refused a job.

        Raises `_UnchangedError` if there is none, and none goes; the jobs are failed.

        Parameters
        ----------
        claimed, sources, merged : claimed job, sources and merged files of the same segments
        """
        claimed_ms = self.clock.now_ms()
        if (earlier := self._find_earlier()) is not None:  # a repetition of this write was faster
            self._discard(merged)
            return earlier
        outputs = [self._not_older(files, job.id.timestamp_ms) for job, files in zip(claimed, merged, strict=True)]
        load = self._handed_load(claimed, sources, outputs)
        if not any(map(changes_something, load.parts)):
            raise _UnchangedError
        self._publish_growth(claimed[0].found.value)
        record_load_removals(self.stores, self.clock, load, sources, self._segments)
        self.may_be_handed = True
        publish_handed_load(self.stores.main, load)
        try:
            return self._hand_over(claimed, load, outputs, claimed_ms)
        except InvalidRequestError as exc:
            if not any(job.may_be_handed for job in claimed):
                raise
            raise _unknown(self.stores, f"the client may have taken write {load.record.write_id}: {exc}") from exc

    def _hand_over(
        self, claimed: Sequence[ClaimedJob], load: HandedLoad, outputs: Sequence[_Outputs], claimed_ms: int
    ) -> CommitRecord | None:
        hand_over_together(
            {job: [output.handle for output in files] for job, files in zip(claimed, outputs, strict=True)}
        )
        claimed_for_ms = now_or(self.clock, claimed_ms) - claimed_ms
        _log.info("%s: %d jobs were claimed for %d ms", self.stores.url, len(claimed), claimed_for_ms)
        await_end(claimed, timeout_ms=self.options.client_timeout_ms)
        record = self._resolve_load(load)
        self.may_be_handed = record is not None
        return record

    def _publish_growth(self, manifest: Manifest) -> None:
        """Publish columns and types of the rows, which readers need as soon as the client has committed them."""
        merge, definition = self.options.merge_schema, self.job.definition
        publish_growth(self.stores, self.clock, manifest, definition, created=False, merge=merge)

    # --- the files ----------------------------------------------------------------------------------------------------

    @property
    def _files(self) -> list[NewFile]:
        """All files of the load."""
        return list(chain.from_iterable(self.groups))

    @property
    def _segments(self) -> dict[bytes, tuple[tuple[NewFile, ...], ...]]:
        """The files of the load, by task, by the prefix of their segment; one that is empty without segments."""
        by_task = [files_by_segment(files, self.job.segments) for files in self.groups]
        prefixes = dict.fromkeys(chain.from_iterable(by_task))
        return {prefix: tuple(found[prefix] for found in by_task if prefix in found) for prefix in prefixes}

    def _refresh_files(self) -> None:
        """Renew the lease, and copy files that a collector may soon remove; after a wait, which may have been long."""
        uploaded = [[file for file in files if file.root != SCRATCH_ROOT] for files in self.groups]
        fresh = chain.from_iterable(refresh_groups(self.guard.check(renews_lease=True), uploaded))
        self.groups = tuple(
            tuple(file if file.root == SCRATCH_ROOT else next(fresh) for file in files) for files in self.groups
        )

    def _await_sources(self) -> tuple[LoadSources, ...]:
        """Return what the load replaces; raises `CommitConflictError` if there is nothing within the time-out."""
        wait = TimedWait(self.clock, self.options.client_timeout_ms)
        while True:
            sources = self._find_sources(fetch_latest_manifest(self.stores).value)
            missing = self._segments_without(sources)
            if not missing:
                return sources
            if wait.is_over:
                raise self._no_sources(missing)
            wait.pause(poll_ms(self.stores))

    def _no_sources(self, segments: Sequence[bytes]) -> CommitConflictError:
        named = name_some((prefix.hex() for prefix in segments), ", ")
        where = "" if segments == [b""] else f" in {len(segments)} of its segments: {named}"
        if self.share_keys:
            return CommitConflictError(
                f"{self.stores.url}: the client gives this write no job, as it has no files that share keys{where}.",
                why="With enable_trivial_move it moves others as they are.",
                todo="Switch that off, or set ifClientActive=fence.",
            )
        return CommitConflictError(
            f"{self.stores.url}: the client has flushed nothing that this write could be merged with{where}.",
            why="There is no L0 file, and no run, or one larger than commitRewriteLimit.",
            todo="Let the client flush its memtable, or raise commitRewriteLimit.",
        )

    def _find_sources(self, manifest: Manifest, runs: Collection[int] = ()) -> tuple[LoadSources, ...]:
        """Return what the load replaces in a version: these runs, if they are of its trees, among it."""
        layers, limit_bytes = fetch_layers(self.stores, manifest), self.options.rewrite_limit_bytes
        return plan_sources(
            manifest, layers, self._segments, limit_bytes=limit_bytes, share_keys=self.share_keys, with_runs=runs
        )

    def _segments_without(self, sources: Sequence[LoadSources]) -> list[bytes]:
        """Return the segments of the load that have nothing to be merged with."""
        return sorted(self._segments.keys() - {each.tree.prefix for each in sources})

    def _pieces(self, sources: Sequence[LoadSources]) -> tuple[tuple[Piece, ...], ...]:
        """Return the parts of the new runs, for each tree."""
        options, job = self.options, self.job
        if options.timestamp_ms is not None:
            present_ms = None if job.definition.has_own_time else self.clock.now_ms()
            check_timestamp(self.stores, job.create_ts_ms, sources[0].manifest.last_l0_clock_tick, present_ms)
        pieces = tuple(self._pieces_of(each) for each in sources)
        rewritten = sum(each.load_bytes for parts in pieces for each in parts if isinstance(each, MergedKeys))
        if rewritten > options.rewrite_limit_bytes:
            raise CommitConflictError(
                f"{self.stores.url}: {rewritten} bytes of this write have to be merged with rows of the client or of "
                f"other tasks, commitRewriteLimit is {options.rewrite_limit_bytes}.",
                todo="Use SlateTable.write, whose tasks never share keys, write in several parts, or raise "
                "commitRewriteLimit.",
            )
        return pieces

    def _merged(self, sources: Sequence[LoadSources], pieces: Sequence[Sequence[Piece]]) -> tuple[_Outputs, ...]:
        """Return the files of the new runs, for each tree."""
        run = partial(run_pieces, self.stores, self.clock, options=self.options, range_bytes=RANGE_BYTES)
        outputs = [run(parts, self._rules(each)) for each, parts in zip(sources, pieces, strict=True)]
        self.made.update(output.handle.id for files in outputs for output in files)
        newest_ms = max((job.id.timestamp_ms for job in self.submitter.jobs.refresh().value.jobs), default=0)
        return tuple(self._not_older(files, newest_ms) for files in outputs)

    def _pieces_of(self, sources: LoadSources) -> tuple[Piece, ...]:
        moves, small_bytes = self._rules(sources).moves, self.options.sst_bytes // 4
        return plan_pieces(self._segments[sources.tree.prefix], sources, moves=moves, small_bytes=small_bytes)

    def _rules(self, sources: LoadSources) -> LoadRules:
        operator = self.options.merge_operator or self.job.definition.merge_operator
        return LoadRules.of(sources, self.job, RowTimes.of_options(self.options), operator)

    def _not_older(self, outputs: _Outputs, job_ms: int) -> _Outputs:
        """Return the files; those with older ids than a job are copied."""
        at_ms = max(self.clock.now_ms(), job_ms)
        steps = [
            partial(output.copied, self.stores, self.clock, at_ms)
            for output in outputs
            if output.handle.id.timestamp_ms < job_ms
        ]
        copied = run_concurrently(steps, is_remote=self.stores.main.is_remote)
        self.made.update(output.handle.id for output in copied)
        copies = iter(copied)
        return tuple(next(copies) if output.handle.id.timestamp_ms < job_ms else output for output in outputs)

    def _discard(self, merged: Iterable[_Outputs]) -> None:
        """Delete files that were never handed over, but not those of the load."""
        kept = {file.handle.id for file in self._files}
        made = {output.handle.id for outputs in merged for output in outputs}
        delete_files(self.stores, sorted(made - kept))
        self.made -= made

    def discard_all(self) -> None:
        """Delete all files of a load that gave up, unless it was handed over."""
        if not self.may_be_handed:
            delete_files(self.stores, sorted(self.made.union(file.handle.id for file in self._files)))

    # --- the job ------------------------------------------------------------------------------------------------------

    def _handed_load(
        self, claimed: Sequence[ClaimedJob], sources: Sequence[LoadSources], outputs: Sequence[_Outputs]
    ) -> HandedLoad:
        return HandedLoad(
            base=claimed[0].found.number,
            parts=tuple(map(_handed_part, claimed, sources, outputs)),
            app=self.options.txn_app_id,
            version=self.options.txn_version,
            record=self._record(sources, list(chain.from_iterable(outputs))),
        )

    def _record(self, sources: Sequence[LoadSources], outputs: _Outputs) -> CommitRecord:
        known = [(output.handle, output.properties) for output in outputs if output.properties is not None]
        return CommitRecord(
            manifest_id=0,
            operation=Operation.COOPERATIVE_WRITE,
            write_id=self.job.write_id,
            engine=ENGINE,
            committed_ms=self.clock.now_ms(),
            write_time_ms=self.job.create_ts_ms + self._rules(sources[0]).shift.create_ms,
            first_seq=sources[0].seq,
            last_seq=sources[0].seq,
            rows=count_rows(self._files),
            files={str(handle.id): record_file(handle, properties) for handle, properties in known},
            removed=[str(part.file.id) for each in sources for layer in each.layers for part in layer.slices],
            compactor_epoch=CLIENT_EPOCH,
        )

    def _is_ended(self, load: HandedLoad) -> bool:
        return have_ended(self.submitter.jobs, _jobs_of(load))

    # --- earlier loads ------------------------------------------------------------------------------------------------

    def _find_earlier(self) -> CommitRecord | None:
        """Return the known facts of the commit that this write repeats; None if it repeats none.

        Loads that a process left behind which died in this step are recorded as far as their fate is known.
        """
        for load in fetch_handed_loads(self.stores.main):
            if self.options.txn is not None and (load.app, load.version) == self.options.txn:
                if (record := self._end(load)) is not None:
                    return record
            else:
                with contextlib.suppress(SlateError):
                    self._resolve_load(load)
        latest = fetch_latest_manifest(self.stores).value
        return find_earlier(self.stores, latest, self.options, Operation.COOPERATIVE_WRITE)

    def _end(self, load: HandedLoad) -> CommitRecord | None:
        """Take an earlier attempt back, unless the client has committed it; then return the record of the commit."""
        for job_id in _jobs_of(load):
            withdraw(self.submitter.jobs, job_id)
        wait = TimedWait(self.clock, self.options.client_timeout_ms)
        while not self._is_ended(load) and not wait.is_over:
            wait.pause(poll_ms(self.stores))
        return self._resolve_load(load)

    def _resolve_load(self, load: HandedLoad) -> CommitRecord | None:
        """Record a load, and return the record of its commit; None if it was not committed, and will not be.

        Raises `UnavailableError` if a job of it has not ended, and no version shows it.
        """
        ended = self._is_ended(load)  # looked up before the versions: the list is written after them
        number = find_commit_of(self.stores, load)
        if number is not None:
            return record_load(self.stores, load, number, now_or(self.clock, load.record.committed_ms))
        if not ended:
            write_id, waited_ms = load.record.write_id, self.options.client_timeout_ms
            raise _unknown(
                self.stores, f"the client took write {write_id}, and did not commit it within {waited_ms} ms"
            )
        delete_handed_load(self.stores.main, load)
        return None


def _is_as_planned(job: ClaimedJob, sources: LoadSources) -> bool:
    """Tell whether the sources are what they were, or were to become, in the version for which they were chosen."""
    return same_sources(sources.manifest, job.found.value, job.entry.spec)


def _handed_part(job: ClaimedJob, sources: LoadSources, outputs: _Outputs) -> HandedPart:
    spec = job.entry.spec
    assert isinstance(spec, TieredSpec)  # we planned it
    return HandedPart(
        job_id=str(job.id),
        segment=spec.segment.hex(),
        destination=spec.destination,
        l0_views=tuple(map(str, spec.l0_view_ids)),
        run_files=() if sources.l0_views else tuple(str(view.sst_id) for view in sources.runs[-1].views),
        outputs=tuple(str(output.handle.id) for output in outputs),
    )


def _jobs_of(load: HandedLoad) -> list[Ulid]:
    return [Ulid.parse(part.job_id) for part in load.parts]


def _unknown(stores: TableStores, fact: str) -> UnavailableError:
    return UnavailableError(
        f"{stores.url}: {fact.rstrip('.')}.",
        why="It may have stopped; whether it commits the rows is not known.",
        todo="Repeat the write with the same txnAppId and txnVersion once a client has the database open; without them "
        "check first whether its rows are there.",
    )
