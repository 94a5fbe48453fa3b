"""Erasing keys for good: the rows go from the newest version, then everything else that can go, and a proof follows.

1. One commit rewrites the files that hold the keys (`write.erase`).
2. Records forget intervals that name the keys, and finished jobs leave the newest `.compactions` if they do.
3. A vacuum that minds no age deletes old versions, their files, and WAL files. Jobs, checkpoints, clones and clients
   keep what they need. A history table keeps versions as a proof where the newest one has no record; another commit
   gives it one.
4. The proof names what still holds a copy, and until when.

Each step can be repeated, so an erasure that was interrupted is simply called again.

See docs/explanation/how-keys-are-erased.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from slatespark.errors import ConflictError
from slatespark.format.compactions import Compactions
from slatespark.format.manifest import Checkpoint
from slatespark.format.named_keys import first_named, names_in_compactions
from slatespark.options import WriteOptions
from slatespark.ranges import KeyRange
from slatespark.table.checkpoints.store import CheckpointFacts, release_checkpoints
from slatespark.table.clock import Clock
from slatespark.table.commit.active_jobs import awaits_commit
from slatespark.table.commit.version_retention import keeps_replaced
from slatespark.table.definition.versions import resolve_definition
from slatespark.table.gc.absence import prove_absent
from slatespark.table.gc.absence_report import AbsenceReport, Erasure
from slatespark.table.gc.report import CollectedFile
from slatespark.table.gc.run import vacuum_table
from slatespark.table.log.compactions import edit_compactions
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.progress import Progress
from slatespark.table.read.versions.floor import first_proof
from slatespark.table.records.named_keys import forget_keys
from slatespark.table.stores import TableStores
from slatespark.table.tasks import THREADS, TaskRunner
from slatespark.table.write.erase import erase_rows


def erase_keys(
    stores: TableStores,
    clock: Clock,
    keys: Sequence[KeyRange],
    options: WriteOptions,
    *,
    release_versions: bool = False,
    runner: TaskRunner = THREADS,
    progress: Progress | None = None,
) -> AbsenceReport:
    """Erase some keys at every version, and report what still holds a copy.

    Parameters
    ----------
    keys : ascending, not overlapping, none empty
    options : `ifClientActive`, and how files are written
    release_versions : give up replaced versions that hold copies, which `versionRetention` would keep for a while
    runner : rewrites the files that hold the keys; by default threads of this process

    Raises
    ------
    OptionError, UnsupportedFormatError, CommitConflictError, TransactionConflictError
        As `erase_rows`; nothing was changed.
    CorruptDataError
        When an object cannot be read. What was deleted by then stays deleted.
    ConflictError
        When the table changed faster than it could be searched. What was deleted by then stays deleted, too.
    """
    definition = resolve_definition(stores, fetch_latest_manifest(stores)[1])
    removed = erase_rows(stores, clock, keys, options, runner=runner, progress=progress)
    records = forget_keys(stores.main, keys) + _forget_finished_jobs(stores, clock, keys)
    deleted = list(vacuum_table(stores, clock, min_age_ms=0, progress=progress).collected)
    report = prove_absent(stores, clock, keys, progress=progress)
    if definition.has_history and _proof_has_copies(stores, report) and _ends_proof(stores, clock, keys, options):
        deleted += vacuum_table(stores, clock, min_age_ms=0, progress=progress).collected
        report = prove_absent(stores, clock, keys, progress=progress)
    released: tuple[CheckpointFacts, ...] = ()
    if release_versions:
        released = _release_versions(stores, clock, report)
        if released:
            deleted += vacuum_table(stores, clock, min_age_ms=0, progress=progress).collected
            report = prove_absent(stores, clock, keys, progress=progress)
    erasure = Erasure(removed, records, released, len(deleted), _size(deleted), definition.has_history)
    return replace(report, erasure=erasure)


def _size(files: Sequence[CollectedFile]) -> int:
    return sum(file.size for file in files)


def _proof_has_copies(stores: TableStores, report: AbsenceReport) -> bool:
    """Tell whether versions with copies stay as the proof that other clients dropped nothing of a history table.

    They do while the newest commit has no record, as after an erasure that was killed, or whose answer was lost.
    """
    older = {version for location in report.found for version in location.versions if version < report.version}
    proof = first_proof(stores, fetch_latest_manifest(stores)[1]) if older else None
    return proof is not None and max(older) >= proof


def _ends_proof(stores: TableStores, clock: Clock, keys: Sequence[KeyRange], options: WriteOptions) -> bool:
    """Publish a version with a record, which needs no earlier versions as its proof; return whether it was."""
    with suppress(ConflictError):  # a client is active, or the other commit has a record
        erase_rows(stores, clock, keys, options, always_commits=True)
        return True
    return False


def _release_versions(stores: TableStores, clock: Clock, report: AbsenceReport) -> tuple[CheckpointFacts, ...]:
    """Release the checkpoints that commits made on versions with copies."""
    versions = {version for location in report.found for version in location.versions}

    def is_over(point: Checkpoint) -> bool:
        return point.manifest_id in versions and point.manifest_id < report.version and keeps_replaced(point)

    return release_checkpoints(stores, clock, is_over) if versions else ()


def _forget_finished_jobs(stores: TableStores, clock: Clock, keys: Sequence[KeyRange]) -> int:
    """Take finished jobs off the newest list of compactions if it names keys; return 1 if so.

    They are only a log. A compaction of slatespark that awaits its commit stays.
    """
    now_ms, is_changed = clock.now_ms(), False

    def change(listed: Compactions) -> Compactions | None:
        nonlocal is_changed
        is_changed = False
        if listed.unknown_fields or first_named(names_in_compactions(listed), keys) is None:
            return None
        left = tuple(job for job in listed.jobs if job.status.is_active() or awaits_commit(stores, job, now_ms))
        is_changed = left != listed.jobs
        return replace(listed, jobs=left) if is_changed else None

    edit_compactions(stores, clock, change)
    return int(is_changed)
