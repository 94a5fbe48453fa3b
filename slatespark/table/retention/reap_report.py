"""What a reaping did, and what it could not free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from slatespark.errors import SnapshotExpiredError
from slatespark.format.manifest import Checkpoint, Manifest
from slatespark.format.properties import SstProperties
from slatespark.format.ulid import Ulid
from slatespark.storage import run_concurrently
from slatespark.table.checkpoints.store import CheckpointFacts, checkpoint_facts
from slatespark.table.log.manifests import fetch_manifest
from slatespark.table.read.properties import file_properties
from slatespark.table.retention.plan import may_hold_due_rows
from slatespark.table.stores import TableStores
from slatespark.units import s_to_ms

MAX_PINNED_VERSIONS: Final = 100  # that are looked at, the oldest ones: each is a manifest to read


@dataclass(frozen=True, slots=True)
class ReapReport:
    """What a reaping did.

    Attributes
    ----------
    url, version : the table, and the manifest id that it was left at
    now_ms : the instant at which retention was judged
    retention_ms : the table's; None if it keeps rows for ever
    rows : row versions that are gone, or are under a tombstone now
    bytes : what they took: of files their data as stored, under tombstones their keys and values
    files_dropped, files_rewritten : how many files went without being read, and were replaced; a file counts once, with
        all its rows, also if several views show parts of it
    tombstones : how many were written
    passes : commits
    delete_rate_mb_per_s : bytes / 10^6 by the seconds that the passes took; None if nothing went, or no time passed
    reaped_through_ms : rows created at or before it are gone; None if there is no such instant
    next_deadline_ms : when the next row is due, in the time of `now_ms`; None if nobody can say
    kept_by_checkpoints : those that still show retired rows
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
    reaped_before: int | None,
    now_ms: int,
) -> tuple[CheckpointFacts, ...]:
    """Return the live checkpoints that show rows past retention, oldest version first.

    Parameters
    ----------
    manifest : the newest one, which lists them
    known : what is known of files, besides commit records; one of which nothing is known may hold anything
    reaped_before : versions from this one on were reaped; None if this run reaped nothing, and only checkpoints made
        at or before `retired_ms` are certain to show what is retired
    now_ms : by the system's clock, which checkpoints go by
    """

    def is_before(point: Checkpoint) -> bool:
        if reaped_before is not None:
            return point.manifest_id < reaped_before
        return s_to_ms(point.create_time_s) <= retired_ms

    live = [point for point in manifest.checkpoints if not point.expire_time_s or s_to_ms(point.expire_time_s) > now_ms]
    before = [point for point in live if is_before(point)]
    versions = sorted({point.manifest_id for point in before})[:MAX_PINNED_VERSIONS]
    looks = [partial(_shows_due_rows, stores, version, known, retired_ms) for version in versions]
    shown = run_concurrently(looks, is_remote=stores.main.is_remote)
    keeping = {version for version, is_shown in zip(versions, shown, strict=True) if is_shown}
    found = sorted((point for point in before if point.manifest_id in keeping), key=lambda point: point.manifest_id)
    return tuple(checkpoint_facts(point) for point in found)


def _shows_due_rows(stores: TableStores, version: int, known: Mapping[Ulid, SstProperties], retired_ms: int) -> bool:
    try:
        manifest = fetch_manifest(stores, version)
    except SnapshotExpiredError:  # a checkpoint that pins nothing any more
        return False
    recorded = {} if known.keys() >= set(manifest.ssts) else file_properties(stores, manifest)
    return any(may_hold_due_rows(known.get(sst_id, recorded.get(sst_id)), retired_ms) for sst_id in manifest.ssts)
