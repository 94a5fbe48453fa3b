"""The history floor: since when as-of reads of a history table are exact.

Two bounds make it. `fullHistoryTsLow` is the user's: below it compaction need not keep more than the newest version of
a key. `lostThrough` is the loss by other clients: their compactors and memtable flushes drop older versions without a
trace, at most those that are as old as the clock tick found with the loss.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from slatespark.errors import CorruptDataError, SnapshotExpiredError
from slatespark.format.manifest import Manifest
from slatespark.format.paths import sst_path
from slatespark.format.properties import SstProperties, consistent_properties
from slatespark.kernels.columns import HAS_CREATE
from slatespark.options import ReadOptions
from slatespark.ranges import ALL_KEYS
from slatespark.table.clock import Clock, present_of_read
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.definition.versions import resolve_definition
from slatespark.table.log.manifests import decode_version, fetch_manifest, list_manifests, manifest_log
from slatespark.table.read.fetch import fetch_wal_rows
from slatespark.table.read.versions.file_properties import file_properties
from slatespark.table.read.versions.sst_end import fetch_end
from slatespark.table.records.claims import find_claim
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.records.commits import newest_commit_records
from slatespark.table.snapshot import Snapshot
from slatespark.table.stores import OWN_ROOT, TableStores, external_roots, object_context

_RECORD_BATCHES = (1, 16, None)  # the newest one serves, unless the manifest is an older version


def history_floor(stores: TableStores, manifest: Manifest, definition: TableDefinition) -> int | None:
    """Return the earliest instant of which a history table can be read exactly; None if that is all of them.

    Parameters
    ----------
    manifest : the version that is read
    definition : definition of the table, fetched after the manifest; for a read as `judged_definition` returns it
    """
    bounds = (definition.full_history_ts_low_ms, lost_through(stores, manifest, definition))
    return max((bound for bound in bounds if bound is not None), default=None)


@dataclass(frozen=True, slots=True)
class HistoryFloors:
    """The floor of a history table.

    Attributes
    ----------
    stored_ms : instant below which compactions may drop versions; None without one
    effective_ms : the earliest instant that reads can ask for: the stored floor, that of `historyRetention`, or a loss
        by other clients, whichever is highest; None for the beginning
    """

    stored_ms: int | None = None
    effective_ms: int | None = None


def find_floors(
    stores: TableStores, options: ReadOptions, clock: Clock, snapshot: Snapshot, definition: TableDefinition
) -> HistoryFloors | None:
    """Return the floors that a read is judged by; None for a plain table. Parameters as for `judged_definition`."""
    if not definition.has_history:
        return None
    own = definition.at_version(snapshot.manifest_id) if options.chooses_version else definition
    judged = judged_definition(definition, options, snapshot, clock)
    return HistoryFloors(own.full_history_ts_low_ms, history_floor(stores, snapshot.manifest, judged))


def judged_definition(
    definition: TableDefinition, options: ReadOptions, snapshot: Snapshot, clock: Clock
) -> TableDefinition:
    """Return the definition with the bounds of the past by which a read is judged.

    A chosen version has its own ones. Those of the newest state are the present ones, raised by `historyRetention`.

    Parameters
    ----------
    definition : the newest one
    snapshot : snapshot that the options resolve to
    """
    if options.chooses_version:
        return definition.at_version(snapshot.manifest_id)
    if definition.history_retention_ms is None:
        return definition
    return definition.at_present(present_ms(definition, snapshot.tick_ms, clock))


def present_ms(definition: TableDefinition, tick_ms: int, clock: Clock) -> int:
    """Return the present of a table: the local clock or its last tick; with a clock of its own the tick."""
    return tick_ms if definition.has_own_time else max(tick_ms, present_of_read(clock))


def lost_through(stores: TableStores, manifest: Manifest, definition: TableDefinition | None = None) -> int | None:
    """Return the instant below which other clients may have dropped versions; None if they dropped none.

    Parameters
    ----------
    manifest : the version that is read, or the base of a commit
    definition : definition of the table; by default the newest one
    """
    known = resolve_definition(stores, manifest) if definition is None else definition
    if manifest.last_l0_seq == 0 or not _has_lost(stores, manifest):
        return known.lost_through_ms
    tick_ms = manifest.last_l0_clock_tick
    return tick_ms if known.lost_through_ms is None else max(known.lost_through_ms, tick_ms)


def first_proof(stores: TableStores, manifest: Manifest) -> int | None:
    """Return the version from which on the manifests prove that other clients dropped nothing of a history table.

    Parameters
    ----------
    manifest : the newest one

    Returns
    -------
    None where that needs no manifests, or where something may have been dropped all the same.
    """
    if manifest.last_l0_seq == 0 or _has_lost(stores, manifest):
        return None
    record = _find_record(stores, manifest.compactor_epoch)
    assert record is not None  # without one, something may have been dropped
    return None if record.compactor_epoch == manifest.compactor_epoch else record.manifest_id


def find_later_beginning(stores: TableStores, snapshot: Snapshot, time_ms: int) -> int | None:
    """Return the smallest create_ts that is stored, if all are later than an instant.

    None also where a row has no create_ts, which counts at every instant, and where the times of a file are unknown.
    """
    times: list[int] = []
    for properties in _properties_of_all(stores, snapshot.manifest):
        first_ms = properties.min_create_ts if properties is not None and properties.all_flags & HAS_CREATE else None
        if first_ms is None or first_ms <= time_ms:
            return None
        times.append(first_ms)
    rows = fetch_wal_rows(stores, snapshot.wal, snapshot.manifest.last_l0_seq, ALL_KEYS)
    if rows is not None:
        first_ms = int(rows.create_ts.min())
        if first_ms <= time_ms or not (rows.flags & HAS_CREATE).all():
            return None
        times.append(first_ms)
    return min(times, default=None)


def _properties_of_all(stores: TableStores, manifest: Manifest) -> Iterator[SstProperties | None]:
    """Yield the properties of each file, None where it has none that can be true: first those of commit records.

    Those are at hand. A clone has no records of its parent's files, so they are asked themselves.
    """
    shown = manifest.shown_ssts()
    known = file_properties(stores, manifest)
    yield from (known[sst_id] for sst_id in shown & known.keys())
    roots = external_roots(stores, manifest)
    for sst_id in shown - known.keys():
        store, path = stores.at(roots.get(sst_id, OWN_ROOT)), sst_path(sst_id)
        with object_context(store, path):  # the file may be gone, or what lies in its gap damaged
            found = consistent_properties(fetch_end(store, path).gap)
        yield found


def _has_lost(stores: TableStores, manifest: Manifest) -> bool:
    """Tell whether a client flushed or compacted since slatespark's last commit; True where that is not known."""
    if manifest.has_l0():  # left by no commit of slatespark: a client flushed its memtable, one version of each key
        return True
    record = _find_record(stores, manifest.compactor_epoch)
    if record is None:
        return True
    if _raised_by_us(stores, record, manifest.compactor_epoch):
        return False
    return not _changed_nothing(stores, record, manifest)


def _find_record(stores: TableStores, compactor_epoch: int) -> CommitRecord | None:
    """Return the newest record of a commit that left no higher epoch."""
    with contextlib.suppress(CorruptDataError):  # records are best effort: a damaged one says nothing
        for limit in _RECORD_BATCHES:
            for record in newest_commit_records(stores.main, limit):
                if record.compactor_epoch <= compactor_epoch:
                    return record
    return None


def _raised_by_us(stores: TableStores, record: CommitRecord, compactor_epoch: int) -> bool:
    """Tell whether each step from the record's epoch to `compactor_epoch` is a claim of slatespark.

    A commit of slatespark that is under way, that crashed, or that left no record, compacts nothing. Not every version
    since has to be there: epochs never fall, and a claim raises them by one, so that its version tells of all before
    it.
    """
    reached = record.compactor_epoch
    if reached == compactor_epoch:
        return True
    log = manifest_log(stores)
    for number in list_manifests(stores):
        if number <= record.manifest_id:
            continue
        try:
            data = bytes(log.get(number))
        except SnapshotExpiredError:
            continue
        epoch = decode_version(stores, number, data).compactor_epoch
        if epoch == reached:
            continue
        if epoch != reached + 1 or find_claim(stores.main, number, data) is None:
            return False
        reached = epoch
        if reached == compactor_epoch:
            return True
    return False


def _changed_nothing(stores: TableStores, record: CommitRecord, manifest: Manifest) -> bool:
    """Tell whether a client came and went since slatespark's last commit, and neither flushed nor rewrote anything.

    The files alone do not tell: what it flushed may be gone from them again, of a key whose deletion was the newest.
    """
    try:
        own = fetch_manifest(stores, record.manifest_id)
    except SnapshotExpiredError:
        return False
    return own.last_l0_seq == manifest.last_l0_seq and own.shown_ssts() == manifest.shown_ssts()
