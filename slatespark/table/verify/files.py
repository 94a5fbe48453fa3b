"""Checks every SST and WAL file of the verified versions: it exists, is sound, and matches the manifests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

from slatespark.format.paths import COMPACTED_DIR, SST_EXTENSION, WAL_DIR, manifest_path, numbered, wal_path
from slatespark.format.properties import SstProperties
from slatespark.format.ulid import Ulid
from slatespark.storage.object_store import ObjectStore
from slatespark.table.progress import Progress, Step
from slatespark.table.read.merge.cursor import FILE_WINDOW_BYTES
from slatespark.table.read.planning.plan import SstFile
from slatespark.table.read.versions.file_properties import MAX_COMMIT_RECORDS, RecordedFile, find_recorded
from slatespark.table.stores import OWN_ROOT, TableStores
from slatespark.table.tasks import TaskRunner
from slatespark.table.verify.copies import CopyCheck
from slatespark.table.verify.findings import Findings
from slatespark.table.verify.plan import FileTask, VerifiedVersion, VersionSurvey, find_stray_wal, find_wal_gaps
from slatespark.table.verify.sst import SstOutcome, SstTarget, check_sst


@dataclass(frozen=True, slots=True)
class _CheckedFile:
    """What is known of a file: what was found, and its outcome; None if it does not exist."""

    findings: Findings
    outcome: SstOutcome | None
    size: int


@dataclass(slots=True)
class FileCheck:
    """Checks the files of all versions, each once, several at a time.

    Attributes
    ----------
    runner : checks the files; the rest is decided in their order
    unreachable : SSTs of databases that were not found; they are skipped
    unsound : files that are damaged or missing
    incomplete : versions that lack files which the garbage collector was free to delete
    lost : URL, section and text for missing or stray objects: damage, unless the table has changed meanwhile
    recorded : what commit records tell of files, by SST id
    """

    stores: TableStores
    findings: Findings
    progress: Progress
    runner: TaskRunner
    unreachable: set[Ulid] = field(default_factory=set)
    unsound: set[SstFile] = field(default_factory=set)
    incomplete: set[int] = field(default_factory=set)
    lost: list[tuple[str, str, str]] = field(default_factory=list)
    recorded: dict[str, RecordedFile] = field(default_factory=dict)
    done_bytes: int = 0
    total_bytes: int = 0

    def run(self, survey: VersionSurvey) -> None:
        """Check the files of versions."""
        versions = survey.versions
        tasks = [task for task in survey.files() if task.file.id not in self.unreachable]
        sizes = {root: _sizes(self.stores.at(root), COMPACTED_DIR) for root in {task.file.root for task in tasks}}
        wal_sizes = _sizes(self.stores.wal, WAL_DIR)
        copies = CopyCheck.of(self.stores, self.findings)
        own = {str(task.file.id) for task in tasks if task.file.root == OWN_ROOT}
        self.recorded = find_recorded(self.stores, own, limit=MAX_COMMIT_RECORDS)
        wal_ids = self._wal_ids(versions, wal_sizes)
        self.total_bytes = sum(sizes[task.file.root].get(task.file.path, 0) for task in tasks)
        self.total_bytes += sum(wal_sizes[wal_path(number)] for number in wal_ids)
        check = partial(_check_file, self.stores, sizes, copies)
        for task, checked in zip(tasks, self.runner(check, [task.file for task in tasks]), strict=True):
            self._settle(task, self._taken(checked), versions)
        self._check_wal(wal_ids, wal_sizes)
        self._check_replay_position(survey.newest, wal_sizes)

    def _taken(self, checked: _CheckedFile) -> SstOutcome | None:
        """Add what was found in a file to the rest, and return the outcome."""
        self.findings.take(checked.findings)
        self.done_bytes += checked.size
        self.progress(Step.CHECKING, min(self.done_bytes, self.total_bytes), self.total_bytes)
        return checked.outcome

    def _settle(self, task: FileTask, outcome: SstOutcome | None, versions: Sequence[VerifiedVersion]) -> None:
        file = task.file
        shown_in = chain.from_iterable(versions[span.start : span.stop] for span in task.spans)
        if outcome is None or not outcome.is_sound:
            self.unsound.add(file)
        if outcome is None:
            url = f"{self.stores.at(file.root).url}/{file.path}"
            self._note_missing(url, [version.number for version in shown_in], is_needed=task.is_needed)
            return
        if outcome.is_sound:
            self._check_recorded(file, outcome.properties)
        for version in shown_in:
            self._check_seq(version, file, outcome.totals.max_seq)

    def _check_recorded(self, file: SstFile, found: SstProperties | None) -> None:
        """Compare a sound file with the entry of its commit record, by which scans skip it."""
        recorded = self.recorded.get(str(file.id)) if file.root == OWN_ROOT else None
        if recorded is not None and recorded.describes(file.handle) and recorded.properties != found:
            self.unsound.add(file)
            what = "It is not the file that its commit record describes: it was replaced by another."
            self.findings.damage(f"{self.stores.url}/{file.path}", "properties", what)

    def _check_seq(self, version: VerifiedVersion, file: SstFile, highest: int | None) -> None:
        reached = version.last_l0_seq
        if highest is not None and highest > reached:
            self.findings.damage(
                f"{self.stores.url}/{manifest_path(version.number)}",
                "manifest",
                f"last_l0_seq is {reached}, but SST {file.id} holds seq {highest}: rows above it are invisible.",
            )

    def _note_missing(
        self, url: str, shown_in: Sequence[int], *, is_needed: bool, what: str = "The object does not exist"
    ) -> None:
        if is_needed:
            numbers = f"version {', '.join(map(str, shown_in))}"
            self.lost.append((url, "object", f"{what}, but {numbers} needs it."))
        else:
            self.incomplete.update(shown_in)

    # --- the WAL ----------------------------------------------------------------------------------------------------

    def _wal_ids(self, versions: Sequence[VerifiedVersion], sizes: dict[str, int]) -> list[int]:
        """Return the WAL files to read, and note those that are missing or unreachable."""
        present = {number for path in sizes if (number := numbered(path, SST_EXTENSION)) is not None}
        newest = versions[-1]
        wanted: set[int] = set()
        for version in versions:
            ids = version.wal_ids()
            if version is newest:
                ids = range(ids.start, newest.wal_end(present))
            self._note_gaps(version, find_wal_gaps(ids, present), any_there=bool(present))
            wanted.update(number for number in present if number in ids)
        what = "It lies beyond a gap: replay never reaches it, and a writer that gets there is fenced."
        strays = find_stray_wal(newest, present)
        self.lost += [(f"{self.stores.wal.url}/{wal_path(number)}", "WAL", what) for number in strays]
        return sorted(wanted)

    def _note_gaps(self, version: VerifiedVersion, gaps: Sequence[range], *, any_there: bool) -> None:
        if gaps and not any_there and version.is_needed:
            self.findings.unchecked(
                f"{self.stores.wal.url}/{WAL_DIR}",
                "WAL",
                f"Version {version.number} needs WAL file {gaps[0].start}, but there is no WAL file at all: they are "
                "lost, or kept in another store.",
            )
            return
        for gap in gaps:
            url = f"{self.stores.wal.url}/{wal_path(gap.start)}"
            last = gap.stop - 1
            what = "The object does not exist" if last == gap.start else f"It and those up to {last} do not exist"
            self._note_missing(url, [version.number], is_needed=version.is_needed, what=what)

    def _check_wal(self, wal_ids: Sequence[int], sizes: dict[str, int]) -> None:
        reached = -1
        targets = [SstTarget(self.stores.wal, path, sizes[path]) for path in map(wal_path, wal_ids) if sizes[path]]
        self.findings.objects += len(wal_ids) - len(targets)  # fences
        for target, checked in zip(targets, self.runner(_check_sst, targets), strict=True):
            outcome = self._taken(checked)
            if outcome is None:
                self.findings.unchecked(target.url, "WAL", "It was garbage-collected during the verification.")
                continue
            totals = outcome.totals
            if totals.min_seq is not None and totals.min_seq <= reached:
                what = f"Its lowest seq is {totals.min_seq}, but an earlier file reached {reached}."
                self.findings.damage(target.url, "WAL", what)
            reached = max(reached, totals.max_seq if totals.max_seq is not None else -1)

    def _check_replay_position(self, newest: VerifiedVersion, sizes: dict[str, int]) -> None:
        """Check that the rows which the replay leaves out are in the trees, by the last WAL file with such rows."""
        numbers = (numbered(path, SST_EXTENSION) for path, size in sizes.items() if size)  # others are fences
        before = [number for number in numbers if number is not None and number <= newest.replay_after_wal_id]
        for number in sorted(before, reverse=True):
            path = wal_path(number)
            outcome = _check_sst(SstTarget(self.stores.wal, path, sizes[path])).outcome  # its damage would harm nobody
            highest = None if outcome is None else outcome.totals.max_seq
            if highest is None:
                continue
            if highest > newest.last_l0_seq:
                what = (
                    f"replay_after_wal_id is {newest.replay_after_wal_id}, but WAL file {number} holds seq {highest}, "
                    f"above last_l0_seq {newest.last_l0_seq}: such rows are invisible."
                )
                self.findings.damage(f"{self.stores.url}/{manifest_path(newest.number)}", "manifest", what)
            return


def _check_file(
    stores: TableStores, sizes: Mapping[str, Mapping[str, int]], copies: CopyCheck, file: SstFile
) -> _CheckedFile:
    """Check one SST, and its columnar copy if it is sound."""
    size = sizes[file.root].get(file.path)
    if size is None:
        return _CheckedFile(Findings(), None, 0)
    handle = file.handle
    checked = _check_sst(SstTarget(stores.at(file.root), file.path, size, handle))
    if checked.outcome is not None and checked.outcome.is_sound:
        replace(copies, findings=checked.findings).check(file)
    return checked


def _check_sst(target: SstTarget) -> _CheckedFile:
    findings, outcome = Findings(), None
    with suppress(FileNotFoundError):  # it vanished after the folder was listed
        outcome = check_sst(target, findings, window_bytes=FILE_WINDOW_BYTES)
    return _CheckedFile(findings, outcome, target.size)


def _sizes(store: ObjectStore, folder: str) -> dict[str, int]:
    return {meta.path: meta.size for meta in store.list(folder)}
