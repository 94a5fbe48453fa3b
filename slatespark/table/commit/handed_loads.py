"""What became of a load that was handed to a client's coordinator, and its record once that is known."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from slatespark.errors import UnavailableError
from slatespark.format.manifest import Manifest
from slatespark.format.ulid import Ulid
from slatespark.table.log.manifests import fetch_latest_manifest, later_manifests
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.records.commits import fetch_commit_record, publish_commit_record
from slatespark.table.records.handed_loads import HandedLoad, HandedPart, delete_handed_load, fetch_handed_loads
from slatespark.table.records.idempotent_writes import TxnRecord, publish_txn_record
from slatespark.table.records.operations import Operation
from slatespark.table.stores import TableStores


def find_committed_load(stores: TableStores, pair: tuple[str, int]) -> TxnRecord | None:
    """Return the outcome of an idempotent write that a client has committed; None if none has so far.

    Raises
    ------
    UnavailableError
        When it cannot be known any more.
    """
    for load in fetch_handed_loads(stores.main):
        if (load.app, load.version) == pair and (number := find_commit_of(stores, load)) is not None:
            return outcome_of_load(load, number)
    return None


def outcome_of_load(load: HandedLoad, number: int) -> TxnRecord | None:
    """Return the outcome of the pair of a load that version `number` shows; None if it has no pair."""
    if load.app is None or load.version is None:
        return None
    return TxnRecord(load.app, load.version, number, load.record.write_id, load.record.committed_ms)


def find_commit_of(stores: TableStores, load: HandedLoad) -> int | None:
    """Return the version that committed a load; None if none has so far.

    Raises
    ------
    UnavailableError
        When versions since were collected, and the present one tells neither; or when only a part of it was committed.
    """
    latest = fetch_latest_manifest(stores)
    if has_sources_of(latest.value, load):  # they leave with the commit
        return None
    missing = 0
    for number, manifest in later_manifests(stores, load.base + 1, latest):
        if manifest is None:
            missing += 1
            continue
        if shows_load(manifest, load):
            return number
        if not missing and any(_shows(manifest, part) for part in _visible_parts(load)):
            raise _committed_in_part(stores, load, number, manifest)
    if missing:
        raise UnavailableError(
            f"{stores.url}: whether write {load.record.write_id} was committed is not known any more.",
            why=f"It was handed to a client after version {load.base}, and {missing} versions since were collected.",
            todo=f"Check whether its rows are there, delete {load.path}, and repeat the write if they are not.",
        )
    return None


def _committed_in_part(stores: TableStores, load: HandedLoad, number: int, manifest: Manifest) -> UnavailableError:
    lost = ", ".join(part.segment for part in _visible_parts(load) if not _shows(manifest, part))
    return UnavailableError(
        f"{stores.url}: of write {load.record.write_id}, version {number} lacks the rows of segments {lost}.",
        why="Somebody else changed or drained these segments at the moment of the commit.",
        todo=f"Write the rows of these segments again, and delete {load.path}.",
    )


def find_load_seq(stores: TableStores, number: int, added: Collection[Ulid]) -> int | None:
    """Return the sequence number of the rows of the load that a version is the commit of; None if it is none.

    A client may commit several loads in one version, in different segments: then it is the lowest one.

    Parameters
    ----------
    number : the version, which was fetched before
    added : the files that the version before did not have
    """
    names = set(map(str, added))
    # Before the commit record, which exists when a load is deleted here.
    loads = [load for load in fetch_handed_loads(stores.main) if names & set(load.outputs)]
    records = [load.record for load in loads]
    committed = fetch_commit_record(stores.main, number)
    if committed is not None and committed.operation == Operation.COOPERATIVE_WRITE:
        records.append(committed)
    return min((record.first_seq for record in records if record.first_seq is not None), default=None)


def has_sources_of(manifest: Manifest, load: HandedLoad) -> bool:
    """Tell whether a version still has what any part of the load replaces; they are all replaced in one version."""
    return any(_has_sources(manifest, part) for part in load.parts)


def lies_before(manifest: Manifest, load: HandedLoad) -> bool:
    """Tell whether no version above this one, which is above the base of the load, can be its commit.

    The sources leave with the commit. Where they are gone already, it was made, or never will be.
    """
    had_sources = any(part.l0_views or part.run_files for part in load.parts)  # else their lack says nothing
    return had_sources and not has_sources_of(manifest, load)


def shows_load(manifest: Manifest, load: HandedLoad) -> bool:
    """Tell whether a version has the runs that a load became."""
    return all(_shows(manifest, part) for part in _visible_parts(load))


def _visible_parts(load: HandedLoad) -> tuple[HandedPart, ...]:
    """Return the parts whose commit can be seen; all if it is seen of none, so that the load changes nothing."""
    return tuple(filter(changes_something, load.parts)) or load.parts


def changes_something(part: HandedPart) -> bool:
    """Tell whether a commit of the part changes its tree: deletions in an empty run leave an empty run."""
    return bool(part.l0_views or part.run_files or part.outputs)


def _has_sources(manifest: Manifest, part: HandedPart) -> bool:
    if part.l0_views:
        return bool({str(view.id) for tree in manifest.trees() for view in tree.l0} & set(part.l0_views))
    return changes_something(part) and _files_of_run(manifest, part.destination) == part.run_files


def _shows(manifest: Manifest, part: HandedPart) -> bool:
    return _files_of_run(manifest, part.destination) == part.outputs and not _has_sources(manifest, part)


def _files_of_run(manifest: Manifest, run_id: int) -> tuple[str, ...] | None:
    found = next((run for tree in manifest.trees() for run in tree.compacted if run.id == run_id), None)
    return None if found is None else tuple(str(view.sst_id) for view in found.views)


def record_load(stores: TableStores, load: HandedLoad, number: int, now_ms: int) -> CommitRecord:
    """Record that version `number` committed a load, in place of the load, and return the record of the commit."""
    record = publish_load_commit(stores, load, number, now_ms)
    if is_recorded(stores, record):
        delete_handed_load(stores.main, load)
    return record


def is_recorded(stores: TableStores, record: CommitRecord) -> bool:
    """Tell whether a version has this record. A client may have committed another job in it, which has a record too."""
    found = fetch_commit_record(stores.main, record.manifest_id)
    return found is not None and found.write_id == record.write_id


def publish_load_commit(stores: TableStores, load: HandedLoad, number: int, now_ms: int) -> CommitRecord:
    """Record that version `number` committed a load, and return the record; its publication may have failed."""
    record = replace(load.record, manifest_id=number, committed_ms=now_ms)
    publish_commit_record(stores.main, record)
    if (outcome := outcome_of_load(load, number)) is not None:
        publish_txn_record(stores.main, outcome)
    return record
