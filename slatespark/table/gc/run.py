"""One vacuum: finds unreferenced objects, and deletes them in an order that is safe to interrupt at any point.

1. List SSTs and their columnar copies, then read leases and compactions (`gc.survey` explains the order).
2. Remove abandoned compactions from the list, record what became of loads that a client was handed, and release
   expired checkpoints.
3. Move the boundary past the manifests to delete. Then read the newest manifest again: versions that a checkpoint pins
   by now stay. A client that pins an older version later checks the boundary, and withdraws the checkpoint.
4. Delete manifests first, so that no version exists without its files; then compactions files, behind a boundary of
   their own, columnar copies, SSTs, the WAL, and last slatespark's own records about them.

If the store cannot move the boundary, all manifests stay, with the files that they reference.
See docs/reference/format/versioned-objects.md, docs/reference/format/garbage-collection.md,
docs/reference/format/checkpoints.md.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

from slatespark.errors import (
    ConflictError,
    CorruptDataError,
    InvalidRequestError,
    SnapshotExpiredError,
    UnsupportedFormatError,
)
from slatespark.format.invariants import l0_watermark_ms
from slatespark.format.manifest import Checkpoint, Manifest
from slatespark.format.manifest_outline import ManifestOutline, decode_outline
from slatespark.format.paths import COMPACTIONS_EXTENSION, MANIFEST_DIR, MANIFEST_EXTENSION
from slatespark.format.ulid import Ulid
from slatespark.log_lines import log_event
from slatespark.storage import Buffer, ObjectMeta, ObjectStore, run_concurrently, run_in_groups
from slatespark.table.checkpoints.store import (
    CheckpointFacts,
    checkpoint_facts,
    refuse_unfinished,
    release_checkpoints,
)
from slatespark.table.clock import Clock, read_clock
from slatespark.table.commit.foreign_clients import are_epochs_ours
from slatespark.table.commit.idempotence import is_outcome, record_outcomes
from slatespark.table.commit.version_retention import find_replaced, is_over
from slatespark.table.commit.wal_place import fetch_state_with_wal
from slatespark.table.definition.versions import fetch_defined
from slatespark.table.gc.deletion import delete_each, delete_together
from slatespark.table.gc.filterings import judge_filterings
from slatespark.table.gc.leftovers import collect_leftovers
from slatespark.table.gc.loads import LoadResolution, Loads
from slatespark.table.gc.plan import (
    CLIENT_MIN_AGE_MS,
    KeptVersion,
    Needs,
    PlannedVersions,
    Reason,
    Verdict,
    judge_claims,
    judge_commits,
    judge_compactions,
    judge_copies,
    judge_manifests,
    judge_small_batches,
    judge_ssts,
    judge_unfinished,
    judge_wal,
    pinned_reason,
    plan_versions,
)
from slatespark.table.gc.report import CollectedFile, VacuumReport
from slatespark.table.gc.survey import (
    Leases,
    ListedJobs,
    ListedObjects,
    ListedRecords,
    batched_numbers,
    delete_unchanged,
    drop_dead_jobs,
    judge_workers,
    list_own,
    survey_jobs,
    survey_leases,
)
from slatespark.table.log.compactions import compactions_log
from slatespark.table.log.manifests import fetch_latest_manifest, find_latest_manifest, manifest_log, was_recreated
from slatespark.table.log.numbered_log import NumberedLog, by_number
from slatespark.table.log.versioned_object import RaceLostError, Version
from slatespark.table.progress import Progress, Step
from slatespark.table.read.versions.floor import first_proof
from slatespark.table.records.filtered_jobs import FILTERED_DIR
from slatespark.table.records.handed_loads import HANDED_LOADS_DIR
from slatespark.table.records.server_time import fetch_server_time
from slatespark.table.stores import TableStores
from slatespark.table.write.empty_views import remove_empty_views
from slatespark.units import DAY_MS

MIN_AGE_MS: Final = DAY_MS
LEASE: Final = "lease"

_log = logging.getLogger(__name__)


def vacuum_table(
    stores: TableStores,
    clock: Clock,
    *,
    min_age_ms: int = MIN_AGE_MS,
    dry_run: bool = False,
    fences: bool = False,
    progress: Progress | None = None,
) -> VacuumReport:
    """Delete unreferenced objects, including leftovers of failed table creation.

    Views that show no row are removed from the newest version first, unless another client may have the table open.

    Parameters
    ----------
    min_age_ms : younger objects are kept, and so is every version that was the newest at some moment since
    fences : delete WAL fences too, except the one behind which replay starts

    Raises
    ------
    TableNotFoundError
        When there is no table, and no leftover of a failed creation.
    UnsupportedFormatError
        When the table is an unfinished clone.
    InvalidRequestError
        When its WAL is elsewhere, or the one found belongs to another database.
    ConflictError
        When the table was removed, and another one created in its place.
    UnavailableError
        When the store stopped answering. Everything deleted until then was unreferenced.
    """
    found = find_latest_manifest(stores)
    now_ms = _now(stores, clock, dry_run=dry_run)
    if found is None:
        with suppress(RaceLostError):
            return collect_leftovers(stores, now_ms=now_ms, min_age_ms=min_age_ms, dry_run=dry_run)
        found = fetch_latest_manifest(stores)
    refuse_unfinished(stores, found[1])
    newest = fetch_state_with_wal(stores).version
    removed = remove_empty_views(stores, clock, newest, dry_run=dry_run)
    ahead_ms = read_clock(clock) - now_ms
    report = _Collection(stores, clock, now_ms, min_age_ms, dry_run, fences, progress, found, ahead_ms=ahead_ms).run()
    if not dry_run:
        log_event(
            _log,
            "vacuum",
            stores.url,
            version=report.version,
            deleted=len(report.collected),
            bytes=report.bytes,
            kept=len(report.kept),
        )
    return replace(report, views_removed=removed)


def _now(stores: TableStores, clock: Clock, *, dry_run: bool) -> int:
    """Return the instant of the vacuum: by the local clock, or by the server's if that is behind.

    With a clock that runs ahead, leases and files would seem older than they are.
    """
    now_ms = read_clock(clock)
    if dry_run or not stores.main.is_remote:
        return now_ms
    return min(now_ms, fetch_server_time(stores.main, clock))


@dataclass(frozen=True, slots=True)
class _ManifestPlan:
    """Which manifests are kept and deleted.

    Attributes
    ----------
    listed : manifests by number
    planned : the kept ones
    going : those that the boundary declares dead
    stuck : why none can be deleted; None if they can
    """

    latest: Version[Manifest]
    listed: Mapping[int, ObjectMeta]
    planned: PlannedVersions
    going: tuple[int, ...] = ()
    stuck: Reason | None = None

    @property
    def kept(self) -> list[int]:
        """Numbers of the kept manifests, ascending."""
        return sorted({self.latest.number, *self.listed} - set(self.going))

    def reason_of(self, number: int) -> Reason:
        """Return why a manifest is kept."""
        kept = self.planned.kept.get(number) or self.stuck
        return kept or Reason("it was the newest version when the vacuum began")


class _Phase(NamedTuple):
    """The verdicts on the objects of a kind in one store."""

    kind: str
    store: ObjectStore
    verdicts: Iterable[Verdict]


@dataclass(slots=True)
class _Collection:
    stores: TableStores
    clock: Clock
    now_ms: int
    min_age_ms: int
    dry_run: bool
    fences: bool
    progress: Progress | None
    found: Version[Manifest]  # the newest version when the collection began
    ahead_ms: int  # of the local clock
    shown_id: int = 0  # the one that brought its rows, if a checkpoint keeps it
    going: int = 0  # objects to delete, of the kinds so far
    gone: int = 0

    def run(self) -> VacuumReport:
        stores = self.stores
        listed = ListedObjects.of(stores)
        leases = survey_leases(stores, self.now_ms)
        handed, filterings = run_concurrently(
            [partial(list_own, stores.main, HANDED_LOADS_DIR), partial(list_own, stores.main, FILTERED_DIR)],
            is_remote=stores.main.is_remote,
        )
        jobs = self._drop_dead_jobs()
        loads = LoadResolution(stores, self.clock, jobs, self.now_ms, self.min_age_ms, self.dry_run).run(handed)
        released = self._release_checkpoints()
        versions = self._decide_versions(leases, loads)
        needs = self._needs(versions, leases, loads.jobs)
        records = ListedRecords.of(stores)
        phases = [
            *self._phases_of_table(listed, records, versions, needs),
            *self._phases_of_jobs(listed, records, versions, needs, leases, loads.jobs),
            _Phase("load", stores.main, loads.verdicts),
            _Phase("filtering", stores.main, judge_filterings(stores, filterings, needs)),
            _Phase(LEASE, stores.main, leases.verdicts),
        ]
        self._refuse_another_table(versions.going)
        files = [file for phase in phases for file in self._act(*phase)]
        return VacuumReport(
            url=stores.url,
            version=versions.latest.number,
            now_ms=self.now_ms,
            min_age_ms=self.min_age_ms,
            dry_run=self.dry_run,
            files=tuple(files),
            checkpoints_released=released,
            jobs_dropped=tuple(str(job.id) for job in loads.jobs.dead),
            unknown=needs.unknown,
        )

    def _phases_of_table(
        self, listed: ListedObjects, records: ListedRecords, versions: _ManifestPlan, needs: Needs
    ) -> list[_Phase]:
        """Return the phases for what clients know, in the order of deletion."""
        main = self.stores.main
        return [
            _Phase("manifest", main, judge_manifests(versions.listed, versions.going, versions.reason_of)),
            _Phase("compactions", main, self._decide_compactions(records.compactions, needs)),
            _Phase("columns", main, judge_copies(listed.copies, needs)),  # no copy outlives its SST
            _Phase("sst", main, judge_ssts(listed.ssts, needs)),
            _Phase("wal", self.stores.wal, judge_wal(listed.wal, needs)),
            *(_Phase("unfinished", store, judge_unfinished(metas, needs)) for store, metas in listed.unfinished),
        ]

    def _phases_of_jobs(
        self,
        listed: ListedObjects,
        records: ListedRecords,
        versions: _ManifestPlan,
        needs: Needs,
        leases: Leases,
        jobs: ListedJobs,
    ) -> list[_Phase]:
        """Return the phases for what slatespark's jobs have recorded, in the order of deletion."""
        main, stay = self.stores.main, versions.kept
        batched = batched_numbers(self.stores, records.batches, records.commits.keys() - set(stay))
        newest = max(records.batches, default=0)
        return [
            _Phase("claim", main, judge_claims(records.claims, stay, self.found.number, needs)),
            _Phase("claim", main, judge_workers(listed.workers, jobs, leases, needs)),
            _Phase("commit record", main, judge_commits(records.commits, batched, stay, needs)),
            _Phase("commit record", main, judge_small_batches(records.small_batches, newest, needs)),
        ]

    def _refuse_another_table(self, going: Collection[int]) -> None:
        """Refuse to delete versions that may be those of a table created in the place of this one."""
        if going and not self.dry_run and was_recreated(self.stores, self.found):
            raise ConflictError(
                f"{self.stores.url}: the table was removed and created again during the vacuum.", todo="Try again."
            )

    def _act(self, kind: str, store: ObjectStore, verdicts: Iterable[Verdict]) -> list[CollectedFile]:
        """Delete what goes of one kind, oldest name first."""
        ordered = sorted(verdicts, key=lambda verdict: verdict.meta.path)
        going = [verdict.meta for verdict in ordered if verdict.goes]
        chosen = [] if self.dry_run else going
        is_lease = kind == LEASE  # which may have been renewed
        groups = delete_each(store, chosen, delete_unchanged) if is_lease else delete_together(store, chosen)
        self.going += len(chosen)
        for count in groups:
            self.gone += count
            if self.progress is not None:
                self.progress(Step.DELETING, self.gone, self.going)
        return [CollectedFile.of(item, kind, dry_run=self.dry_run) for item in ordered]

    # --- steps before anything is deleted -----------------------------------------------------------------------------

    def _drop_dead_jobs(self) -> ListedJobs:
        if self.dry_run:
            return survey_jobs(self.stores, self._present_ms(), self.min_age_ms)[1]
        return drop_dead_jobs(self.stores, self._present_ms, self.min_age_ms)

    def _present_ms(self) -> int:
        """Return the present instant: the listings before may have taken long."""
        return read_clock(self.clock) - self.ahead_ms

    def _release_checkpoints(self) -> tuple[CheckpointFacts, ...]:
        """Release expired checkpoints, and those of commit outcomes, which are recorded elsewhere first."""
        latest = fetch_latest_manifest(self.stores)
        points = latest.value.checkpoints
        if any(is_over(point, self.now_ms, self.shown_id) for point in points):
            self.shown_id = find_replaced(self.stores, latest)
        over = tuple(checkpoint_facts(point) for point in points if self._is_over(point))
        if self.dry_run or not over:
            return over
        noted = record_outcomes(self.stores)
        return release_checkpoints(
            self.stores,
            self.clock,
            lambda point: self._is_over(point) and (point.id in noted or not is_outcome(point)),
        )

    def _is_over(self, point: Checkpoint) -> bool:
        return is_outcome(point) or is_over(point, self.now_ms, self.shown_id)

    def _decide_versions(self, leases: Leases, loads: Loads) -> _ManifestPlan:
        """Decide which versions are deleted, and declare them dead if the store can.

        The newest version when the vacuum began is kept, even if the vacuum publishes newer ones: users know it. Later
        versions may be of jobs that began after the leases were read.
        """
        versions = self._plan_versions(leases, loads)
        going = {number for number in versions.listed if number not in versions.planned.kept}
        going = {number for number in going if number < self.found.number}
        self._refuse_another_table(going)
        stuck = self._declare_dead(manifest_log(self.stores), max(going, default=0))
        if stuck is not None:
            return replace(versions, stuck=stuck)
        if self.dry_run or not going:
            return replace(versions, going=tuple(going))
        again = self._plan_versions(leases, loads)
        return replace(again, going=tuple(going & again.listed.keys() - again.planned.kept.keys()))

    def _plan_versions(self, leases: Leases, loads: Loads) -> _ManifestPlan:
        """Plan the manifests; the newest one is read after they are listed, so that it has every checkpoint."""
        listed = by_number(self.stores.main.list(MANIFEST_DIR), MANIFEST_EXTENSION)
        latest, definition = fetch_defined(self.stores)
        planned = plan_versions(
            {number: meta.modified_ms for number, meta in listed.items()},
            latest.number,
            self._pins(latest.value),
            now_ms=self.now_ms,
            min_age_ms=self.min_age_ms,
            busy_ms=leases.since_ms,
            busy_until_ms=leases.until_ms,
            proof=first_proof(self.stores, latest.value) if definition.has_history else None,
            handed=loads.base,
        )
        return _ManifestPlan(latest, listed, planned)

    def _pins(self, latest: Manifest) -> dict[int, Reason]:
        """Return why checkpoints keep versions; of several on one version, that of the one which lasts longest."""
        pins: dict[int, Reason] = {}
        for point in latest.checkpoints:
            if not (self.dry_run and self._is_over(point)):
                facts = checkpoint_facts(point)
                reason = pinned_reason(facts.name or facts.id, facts.expires_ms)
                pins[point.manifest_id] = max(reason, pins.get(point.manifest_id, reason), key=lambda each: each.lasts)
        return pins

    def _decide_compactions(self, listed: Sequence[ObjectMeta], needs: Needs) -> list[Verdict]:
        """Decide which compactions files are deleted, and declare them dead if the store can."""
        verdicts = judge_compactions(listed, needs)
        last = max(by_number((item.meta for item in verdicts if item.goes), COMPACTIONS_EXTENSION), default=0)
        stuck = self._declare_dead(compactions_log(self.stores), last)
        if stuck is not None:
            return [Verdict.on(item.meta, stuck, "") if item.goes else item for item in verdicts]
        return verdicts

    def _declare_dead(self, log: NumberedLog, last: int) -> Reason | None:
        """Move a boundary, or check that it could be moved; return why that is impossible, else None."""
        if not last:  # nothing to delete
            return None
        try:
            if self.dry_run:
                log.check_boundary_moves(last)
            else:
                log.raise_boundary(last, self.clock)
        except InvalidRequestError as exc:
            return Reason(f"the store cannot declare it dead: {exc.args[0]}")
        return None

    # --- references ---------------------------------------------------------------------------------------------------

    def _needs(self, versions: _ManifestPlan, leases: Leases, jobs: ListedJobs) -> Needs:
        kept, shown_by, unknown = self._kept_versions(versions)
        return Needs(
            now_ms=self.now_ms,
            min_age_ms=self.min_age_ms,
            replay_after=versions.latest.value.replay_after_wal_id,
            versions=kept,
            shown_by=shown_by,
            unknown=unknown,
            leases=leases.live,
            jobs=jobs.active,
            client_since_ms=self._client_since(versions),
            takes_fences=self.fences,
        )

    def _client_since(self, versions: _ManifestPlan) -> int | None:
        """Return the time of the oldest file that a client may be about to flush; None if the minimum age covers it."""
        if self.min_age_ms >= CLIENT_MIN_AGE_MS or are_epochs_ours(self.stores, versions.latest):
            return None
        return l0_watermark_ms(versions.latest.value) or 0

    def _kept_versions(
        self, versions: _ManifestPlan
    ) -> tuple[tuple[KeptVersion, ...], Mapping[Ulid, KeptVersion], str | None]:
        """Return the kept versions, which references each SST longest, and why that is incomplete, else None."""
        pins = self._pins(versions.latest.value)
        numbers = sorted({*versions.kept, *pins}, key=lambda number: (versions.reason_of(number).lasts, number))
        kept: list[KeptVersion] = []
        shown_by: dict[Ulid, KeptVersion] = {}
        unknown = None
        for number, data in run_in_groups(self._fetch_manifest, numbers, is_remote=self.stores.main.is_remote):
            if data is None:
                is_latest = number == versions.latest.number
                unknown = _gone_text(number, pins.get(number), is_latest=is_latest) or unknown
                continue
            try:
                outline = decode_outline(data)
            except (CorruptDataError, UnsupportedFormatError) as exc:
                why = pins[number].text if number in pins else str(exc)
                unknown = f"version {number} cannot be read and may need it: {why}"
                continue
            kept.append(_kept_version(number, outline, versions))
            shown_by.update(dict.fromkeys(outline.sst_ids, kept[-1]))  # an outline is large: it is not kept
        return tuple(sorted(kept, key=lambda version: version.number)), shown_by, unknown

    def _fetch_manifest(self, number: int) -> Buffer | None:
        """Return the bytes of a version; None if it is gone."""
        try:
            return manifest_log(self.stores).get(number)
        except SnapshotExpiredError:
            return None


def _gone_text(number: int, pin: Reason | None, *, is_latest: bool) -> str | None:
    """Return why the references of a missing version are unknown; None if nothing pins it."""
    if pin is not None:
        return f"version {number} is missing and may need it: {pin.text}; call deleteCheckpoint if nothing reads it"
    return f"version {number} is missing and may need it: it was the newest one" if is_latest else None


def _kept_version(number: int, outline: ManifestOutline, versions: _ManifestPlan) -> KeptVersion:
    """Return a version with its WAL files.

    A read of a checkpoint replays the WAL as far as the manifest counts it. A read that began when the version was the
    newest one replayed to the end of the WAL, possibly as far as later versions have drained it.
    """
    is_recent = number >= versions.planned.recent_from
    last = max(outline.wal_id_last_seen, versions.latest.value.replay_after_wal_id if is_recent else 0)
    return KeptVersion(number, versions.reason_of(number), outline.replay_after_wal_id, last)
