"""The report of a reap, and the checkpoints that still show rows past retention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from slatespark.format.manifest import Checkpoint, Manifest
from slatespark.format.properties import SstProperties
from slatespark.format.ulid import Ulid
from slatespark.shown import Shown
from slatespark.storage import run_concurrently
from slatespark.table.checkpoints.store import CheckpointFacts, checkpoint_facts
from slatespark.table.log.manifests import find_manifest
from slatespark.table.read.versions.file_properties import file_properties
from slatespark.table.records.commits import newest_commit_records
from slatespark.table.records.operations import Operation
from slatespark.table.retention.plan import may_hold_due_rows
from slatespark.table.stores import TableStores
from slatespark.units import s_to_ms

MAX_PINNED_VERSIONS: Final = 100  # examined, the oldest ones: each costs the read of a manifest

_RECORDS_SEARCHED: Final = 1000  # for the last reap


@dataclass(frozen=True, slots=True, repr=False)
class ReapReport(Shown):
    """The result of a reap.

    Attributes
    ----------
    url, version : the table, and its manifest id afterwards
    now_ms : the instant at which retention was evaluated
    retention_ms : the table's; None if it keeps rows forever
    rows : row versions that were removed, or are hidden by a tombstone now
    bytes : their size: stored data of files, keys and values under tombstones
    files_dropped, files_rewritten : files dropped without reading them, and files replaced; a file counts once, with
        all its rows, even if several views show parts of it
    tombstones : number written
    passes : commits
    delete_rate_mb_per_s : bytes / 10^6 per second of the passes; None if nothing was deleted, or no time passed
    reaped_through_ms : rows created at or before it are gone; None if there is no such instant
    next_deadline_ms : when the next row is due, in the time of `now_ms`; None if unknown
    kept_by_checkpoints : checkpoints that still show rows past retention
    has_own_time : whether these times are of a clock of the table's own
    """

    url: str
    version: int
    now_ms: int
    retention_ms: int | None
    rows: int = 0
    bytes: int = 0
    files_dropped: int = 0
    files_rewritten: int = 0
    tombstones: int = 0
    passes: int = 0
    delete_rate_mb_per_s: float | None = None
    reaped_through_ms: int | None = None
    next_deadline_ms: int | None = None
    kept_by_checkpoints: tuple[CheckpointFacts, ...] = ()
    has_own_time: bool = False


def find_kept_checkpoints(
    stores: TableStores,
    manifest: Manifest,
    known: Mapping[Ulid, SstProperties],
    *,
    retired_ms: int,
    last_version: int | None,
    now_ms: int,
    has_own_time: bool,
) -> tuple[CheckpointFacts, ...]:
    """Return the live checkpoints that show rows past retention, oldest version first.

    Parameters
    ----------
    manifest : the newest one, which lists them
    known : properties of files, in addition to commit records; a file without may hold anything
    last_version : the version that this run published; None if it reaped nothing: then that of the last reap counts
    now_ms : instant by the system clock, which checkpoints use
    has_own_time : whether `retired_ms` is of a clock of the table's own
    """
    live = [point for point in manifest.checkpoints if not point.expire_time_s or s_to_ms(point.expire_time_s) > now_ms]

    def is_old(point: Checkpoint) -> bool:
        return not has_own_time and s_to_ms(point.create_time_s) <= retired_ms

    asked = not all(map(is_old, live))  # of a later checkpoint: versions after the last reap show no such row
    reaped = (last_version or _find_last_reap(stores)) if asked else None
    before = [point for point in live if is_old(point) or (reaped is not None and point.manifest_id < reaped)]
    versions = sorted({point.manifest_id for point in before})[:MAX_PINNED_VERSIONS]
    checks = [partial(_shows_due_rows, stores, version, known, retired_ms) for version in versions]
    shown = run_concurrently(checks, is_remote=stores.main.is_remote)
    keeping = {version for version, is_shown in zip(versions, shown, strict=True) if is_shown}
    found = sorted((point for point in before if point.manifest_id in keeping), key=lambda point: point.manifest_id)
    return tuple(checkpoint_facts(point) for point in found)


def _find_last_reap(stores: TableStores) -> int | None:
    """Return the version of the last reap among recent commits."""
    records = newest_commit_records(stores.main, _RECORDS_SEARCHED, sound_only=True)
    return next((record.manifest_id for record in records if record.operation == Operation.REAP), None)


def _shows_due_rows(stores: TableStores, version: int, known: Mapping[Ulid, SstProperties], retired_ms: int) -> bool:
    manifest = find_manifest(stores, version)
    if manifest is None:  # the checkpoint is left without it
        return False
    recorded = {} if known.keys() >= set(manifest.ssts) else file_properties(stores, manifest)
    return any(may_hold_due_rows(known.get(sst_id, recorded.get(sst_id)), retired_ms) for sst_id in manifest.ssts)
