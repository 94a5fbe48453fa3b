"""Verification of a table: read every byte of it, and list all faults. Changes nothing."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass, field

from slatespark.errors import (
    CorruptDataError,
    InvalidRequestError,
    SlateError,
    TableNotFoundError,
    UnsupportedFormatError,
)
from slatespark.format.manifest import Manifest
from slatespark.format.manifest_codec import decode_manifest
from slatespark.format.paths import (
    DELETING_MARKER,
    MANIFEST_DIR,
    MANIFEST_EXTENSION,
    WAL_DIR,
    manifest_path,
)
from slatespark.format.ulid import Ulid
from slatespark.table.clock import Clock
from slatespark.table.definition.versions import DEFINITION_DIR, resolve_definition
from slatespark.table.log.manifests import fetch_latest_manifest, manifest_digest
from slatespark.table.log.numbered_log import by_number
from slatespark.table.progress import Progress, Step
from slatespark.table.read.gaps import find_empty_views
from slatespark.table.read.planning.plan import FileSlice, keep_slices
from slatespark.table.snapshot import fetch_newest_state
from slatespark.table.stores import TableStores, resolve_external
from slatespark.table.tasks import TaskRunner, ThreadRunner, thread_count
from slatespark.table.verify.files import FileCheck
from slatespark.table.verify.findings import EmptyView, Findings, VerifyReport
from slatespark.table.verify.history import check_time_order
from slatespark.table.verify.layers import Pair, check_layer_order
from slatespark.table.verify.logs import check_compactions, fetch_boundary, fetch_noted
from slatespark.table.verify.plan import VersionSurvey, pinned_numbers
from slatespark.table.verify.records import check_definition, check_manifests


def verify_table(
    stores: TableStores,
    clock: Clock,
    *,
    all_versions: bool = False,
    parallelism: int | None = None,
    progress: Progress | None = None,
) -> VerifyReport:
    """Read every byte of a table's newest state, and return the findings.

    Parameters
    ----------
    stores, clock : the table, and the time at which the expiry of checkpoints is evaluated
    all_versions : check every existing manifest and its files, not only the newest
    parallelism : threads that read and check; None is one per processor
    progress : called regularly

    Raises
    ------
    TableNotFoundError
        When there is no database.
    UnavailableError
        When the store does not respond; damage never raises.
    """
    findings, listener, runner = Findings(), progress or _ignore, ThreadRunner(thread_count(parallelism))
    files = FileCheck(stores, findings, listener, runner)
    return _Verification(stores, clock, all_versions, listener, runner, findings, files).run()


def _ignore(step: Step, done: int, total: int) -> None:
    """Ignore the progress."""


@dataclass(slots=True)
class _Verification:
    stores: TableStores
    clock: Clock
    all_versions: bool
    progress: Progress
    runner: TaskRunner
    findings: Findings
    files: FileCheck
    digests: dict[int, str] = field(default_factory=dict)  # of the manifests, by version

    def run(self) -> VerifyReport:
        passed, alive = self._manifest_numbers()
        survey = self._survey(passed, alive)
        if self.digests:
            check_manifests(self.stores, self.digests, self.findings)
        if survey.versions:
            self._check_newest(survey, [*passed, *alive])
            check_definition(self.stores, self.findings)
            self.files.run(survey)
            self._check_layers(survey)
            self._check_times(survey)
            self._report_lost(survey.newest.number)
            self._check_opens()
        newest = survey.manifest if survey.versions else None
        check_compactions(self.stores, newest, self.findings, all_versions=self.all_versions)
        found = self.findings
        return VerifyReport(
            url=self.stores.url,
            versions=tuple(version.number for version in survey.versions),
            incomplete_versions=tuple(sorted(self.files.incomplete)),
            objects=found.objects,
            stored_bytes=found.stored_bytes,
            rows=found.rows,
            findings=tuple(found.items),
            omitted=found.omitted,
            empty_views=self._empty_views(newest),
            wal_rows=found.wal_rows,
        )

    def _url(self, path: str) -> str:
        return f"{self.stores.url}/{path}"

    # --- manifests --------------------------------------------------------------------------------------------------

    def _manifest_numbers(self) -> tuple[list[int], list[int]]:
        """Return the ids of all manifests, ascending: dead ones up to the boundary, and live ones."""
        for _ in range(2):  # a garbage collector may run between listing and boundary
            numbers = sorted(by_number(self.stores.main.list(MANIFEST_DIR), MANIFEST_EXTENSION))
            if not numbers:
                fetch_latest_manifest(self.stores)  # raises that there is no table
            dead = fetch_boundary(self.stores, "manifest", self.findings)
            if numbers and numbers[-1] > dead:
                break
        if numbers and numbers[-1] <= dead:
            self.findings.damage(
                self._url(manifest_path(numbers[-1])), "manifest", f"The boundary {dead} declares every manifest dead."
            )
        place = bisect_right(numbers, dead)
        return numbers[:place], numbers[place:]

    def _survey(self, passed: list[int], alive: list[int]) -> VersionSurvey:
        """Return the versions to check; none if the newest one is unreadable.

        A version behind the boundary still counts if a checkpoint pins it.
        """
        survey = VersionSurvey()
        if not alive:
            return survey
        newest = self._manifest(alive[-1])
        if newest is None:
            self.findings.unchecked(
                self.stores.url, "table", "Without its newest manifest the contents of the table are unknown."
            )
            return survey
        pinned = pinned_numbers(newest, self.clock.now_ms())
        older = [number for number in passed if number in pinned] + alive[:-1]
        for number in older if self.all_versions else ():
            manifest = self._manifest(number)
            if manifest is not None:
                self._add(survey, number, manifest, is_needed=number in pinned)
        has_before = alive[-1] - 1 in (passed + alive)[-2:-1]
        before = self._find_sound(alive[-1] - 1) if has_before and not self.all_versions else None
        self._add(survey, alive[-1], newest, is_needed=True, before=before)
        return survey

    def _add(
        self, survey: VersionSurvey, number: int, manifest: Manifest, *, is_needed: bool, before: Manifest | None = None
    ) -> None:
        roots = self._roots(number, manifest)
        for fact in survey.add(number, manifest, roots, is_needed=is_needed, before=before):
            self.findings.damage(self._url(manifest_path(number)), "manifest", fact)

    def _find_sound(self, number: int) -> Manifest | None:
        """Return a version that is not verified itself; None if it is gone, or cannot be read."""
        with suppress(CorruptDataError, FileNotFoundError, UnsupportedFormatError):
            return decode_manifest(bytes(self.stores.main.get(manifest_path(number))))
        return None

    def _manifest(self, number: int) -> Manifest | None:
        path = manifest_path(number)

        def decode(data: bytes) -> Manifest:
            self.digests[number] = manifest_digest(data)
            return decode_manifest(data)

        try:
            return fetch_noted(self.stores, path, "manifest", decode, self.findings)
        except FileNotFoundError:
            self.findings.unchecked(self._url(path), "manifest", "It was garbage-collected during the verification.")
        return None

    def _roots(self, number: int, manifest: Manifest) -> dict[Ulid, str]:
        """Return the owners of a clone's SSTs; SSTs of a database that is not found are skipped from then on."""
        roots: dict[Ulid, str] = {}
        for database in manifest.external_dbs:
            if not database.sst_ids or self.files.unreachable.issuperset(database.sst_ids):
                continue
            try:
                root = resolve_external(self.stores, database)
            except InvalidRequestError as exc:
                self.files.unreachable.update(database.sst_ids)
                self.findings.error(self._url(manifest_path(number)), "external database", exc)
            else:
                roots.update(dict.fromkeys(database.sst_ids, root))
        return roots

    def _check_parents(self, number: int, manifest: Manifest) -> None:
        """Check that the parents of a clone have the checkpoints that protect its files."""
        for database in manifest.external_dbs:
            if not database.sst_ids or self.files.unreachable.issuperset(database.sst_ids):
                continue
            root = resolve_external(self.stores, database)
            try:
                _, parent = fetch_latest_manifest(TableStores(self.stores.at(root), self.stores.at(root)))
            except (CorruptDataError, TableNotFoundError, UnsupportedFormatError) as exc:  # perhaps only SSTs are left
                self.findings.error(root, "manifest", exc)
                continue
            if database.final_checkpoint_id not in {point.id for point in parent.checkpoints}:
                self.findings.damage(
                    self._url(manifest_path(number)),
                    "external database",
                    f"{root} has no checkpoint {database.final_checkpoint_id}: its collector may delete our files.",
                )

    def _check_newest(self, survey: VersionSurvey, numbers: list[int]) -> None:
        """Check what the newest manifest says of others, and that no deletion of the database was begun."""
        newest = survey.newest.number
        for pinned, name in pinned_numbers(survey.manifest, self.clock.now_ms()).items():
            if pinned not in numbers:
                self.findings.damage(
                    self._url(manifest_path(newest)),
                    "checkpoints",
                    f"Checkpoint {name} pins manifest {pinned}, which does not exist: clients stop deleting files.",
                )
        self._check_parents(newest, survey.manifest)
        try:
            self.stores.main.head(DELETING_MARKER)
        except FileNotFoundError:
            return
        self.findings.damage(self._url(DELETING_MARKER), "marker", "The deletion of the whole database was started.")

    # --- layers, times and missing objects --------------------------------------------------------------------------

    def _check_layers(self, survey: VersionSurvey) -> None:
        """Compare the layers of every version; each pair of slices is compared once."""
        self.progress(Step.CHECKING_LAYERS, 0, 0)
        checked: set[Pair] = set()
        for overlap in survey.latest_overlaps():
            new_pairs = {pair for pair in overlap.pairs - checked if all(map(self._is_readable, pair))}
            checked |= new_pairs
            if new_pairs:
                wanted = {part for pair in new_pairs for part in pair}
                layers = keep_slices(overlap.layers, wanted.__contains__)
                url = self._url(manifest_path(overlap.number))
                check_layer_order(self.stores, layers, self.findings, self.runner, url)

    def _check_times(self, survey: VersionSurvey) -> None:
        """Check that versions of a key are in the order of their times, on a history table."""
        try:
            definition = resolve_definition(self.stores, survey.manifest)
        except (CorruptDataError, UnsupportedFormatError) as exc:
            self.findings.error(self._url(DEFINITION_DIR), "definition", exc)
            return
        except TableNotFoundError:  # the parent of a clone, which is noted already
            return
        if definition.has_history:
            self.progress(Step.CHECKING_TIMES, 0, 0)
            layers = keep_slices(survey.layers, self._is_readable)
            url = self._url(manifest_path(survey.newest.number))
            check_time_order(self.stores, layers, self.findings, self.runner, url)

    def _is_readable(self, part: FileSlice) -> bool:
        return part.file not in self.files.unsound and part.file.id not in self.files.unreachable

    def _check_opens(self) -> None:
        """Note what keeps readers from a table of which all parts are sound: a WAL without its last fence."""
        if self.findings.items:
            return
        try:
            fetch_newest_state(self.stores)
        except (CorruptDataError, InvalidRequestError, UnsupportedFormatError) as exc:
            self.findings.error(f"{self.stores.wal.url}/{WAL_DIR}", "WAL", exc)

    def _empty_views(self, newest: Manifest | None) -> tuple[EmptyView, ...]:
        """Return the views that show no row; none if their files, or the definition, cannot be read."""
        if newest is None or self.files.unsound or self.files.unreachable or self.files.lost:
            return ()
        try:
            gaps = find_empty_views(self.stores, newest, resolve_definition(self.stores, newest).codec())
        except SlateError:
            return ()
        return tuple(EmptyView(str(ulid), keys.start, keys.end) for ulid, ranges in gaps.items() for keys in ranges)

    def _report_lost(self, newest_number: int) -> None:
        """Note missing objects as damage, unless the table changed meanwhile and the collector may have run."""
        if not self.files.lost:
            return
        try:
            moved_on = fetch_latest_manifest(self.stores)[0] != newest_number
        except (CorruptDataError, TableNotFoundError, UnsupportedFormatError):
            moved_on = False
        for url, section, what in self.files.lost:
            if moved_on:
                self.findings.unchecked(
                    url, section, f"{what} The table changed during the verification: run it again."
                )
            else:
                self.findings.damage(url, section, what)
