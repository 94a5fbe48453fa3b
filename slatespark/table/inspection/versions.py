"""The versions of a table, newest first: when each was committed, by whom, and what it changed.

A version is a manifest. Commit records describe those that we published. For the others, the manifests themselves show
the author and the change from the version before. A slatespark commit creates two versions: the claim of the epochs,
then the one with the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from slatespark.errors import CorruptDataError, SnapshotExpiredError, UnsupportedFormatError
from slatespark.format.manifest_outline import ManifestOutline, decode_outline
from slatespark.shown import Shown
from slatespark.storage import run_in_groups
from slatespark.table.inspection.version_changes import CLAIMED, VersionChange, compare_versions
from slatespark.table.log.manifests import fetch_latest_manifest, list_kept, manifest_log
from slatespark.table.log.numbered_log import NumberedLog
from slatespark.table.read.versions.kept_versions import order_times, stored_times
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.records.commits import find_commit_records, newest_commit_records
from slatespark.table.stores import TableStores


@dataclass(frozen=True, slots=True, repr=False)
class VersionFacts(Shown):
    """One version of a table.

    Attributes
    ----------
    version : the manifest id
    committed_ms : wall clock at publication; for a version without a record, when its object was stored, but never
        before an earlier version
    operation : what the commit did: of slatespark's `write`, `overwrite`, `create`, ...; `claim` for the step that
        claims the epochs. Of another client, derived from the manifest: `open` and `open compactor` (it claimed an
        epoch), `flush`, `compact`, `create checkpoint`, `delete checkpoint`, `refresh checkpoint`, `clone`, `detach`,
        `advance` (it recorded its progress). None if unknown
    engine : who committed: `slatespark`, or `slatedb` for a SlateDB client; None if the manifest cannot be read
    write_id : the write id of the job; None if unknown
    first_seq, last_seq : sequence numbers that it used, or added to files, both inclusive; None if none, or unknown
    rows : row versions that it added, by kind; empty if unknown
    files : number of files added; None if unknown
    files_removed : number of files of the version before that it no longer has; None if unknown
    """

    version: int
    committed_ms: int
    operation: str | None = None
    engine: str | None = None
    write_id: str | None = None
    first_seq: int | None = None
    last_seq: int | None = None
    rows: Mapping[str, int] = field(default_factory=dict)
    files: int | None = None
    files_removed: int | None = None


def list_versions(stores: TableStores, limit: int | None = None) -> tuple[VersionFacts, ...]:
    """Return the newest `limit` versions, newest first; all without a limit.

    Costs three listings, a request per hundred commit records and some twenty more, and one request for each
    manifest without a record and for the one before it; none is read twice. A claim right between two recorded commits
    is known without being read.

    Raises
    ------
    TableNotFoundError, UnavailableError
    """
    log = manifest_log(stores)
    kept = list_kept(stores)
    if not kept:
        fetch_latest_manifest(stores)  # raises that there is no table
    numbers = list(kept)
    chosen = numbers if limit is None else numbers[max(0, len(numbers) - limit) :]
    if not chosen:
        return ()
    records = {record.manifest_id: record for record in newest_commit_records(stores.main, limit, sound_only=True)}
    if len(records) == limit:  # many are of versions that are gone: one that a checkpoint keeps may have an older one
        older = [number for number in chosen if number < min(records)]
        records |= {record.manifest_id: record for record in find_commit_records(stores.main, older)}
    recorded_ms = {number: record.committed_ms for number, record in records.items()}
    times_ms = order_times(chosen, recorded_ms, stored_times(kept))
    claims = {number for number in chosen if _is_claim(records, number)}
    unrecorded = {number for number in chosen if number not in records and number not in claims}
    compared = [number for number in numbers if number in unrecorded or number + 1 in unrecorded]
    changes = {number: change for number, change in _changes(log, compared) if number in unrecorded}
    changes |= dict.fromkeys(claims, CLAIMED)
    return tuple(
        _recorded(records[number], time_ms) if number in records else _compared(number, time_ms, changes.get(number))
        for number, time_ms in zip(reversed(chosen), reversed(times_ms), strict=True)
    )


def _is_claim(records: Mapping[int, CommitRecord], number: int) -> bool:
    """Tell whether a version is known to be the claim of the commit after it.

    That raised the epoch of the commit before by one, and there is no other version in which it can have claimed it.
    """
    before, after = records.get(number - 1), records.get(number + 1)
    if number in records or before is None or after is None:
        return False
    return after.compactor_epoch == before.compactor_epoch + 1  # never those of commits that a client made for us


def _changes(log: NumberedLog, numbers: Sequence[int]) -> Iterator[tuple[int, VersionChange]]:
    """Yield the changes of some versions, ascending; nothing for a version that is gone or damaged."""
    before: tuple[int, ManifestOutline | None] = (0, None)
    for number, after in run_in_groups(partial(_fetch_outline, log), numbers, is_remote=log.store.is_remote):
        if after is not None:
            known = before[1] if before[0] == number - 1 else None
            yield number, compare_versions(known, after, is_first=number == 1)
        before = number, after


def _fetch_outline(log: NumberedLog, number: int) -> ManifestOutline | None:
    try:
        return decode_outline(log.get(number))
    except (SnapshotExpiredError, CorruptDataError, UnsupportedFormatError):
        return None


def _recorded(record: CommitRecord, committed_ms: int) -> VersionFacts:
    return VersionFacts(
        version=record.manifest_id,
        committed_ms=committed_ms,
        operation=record.operation,
        engine=record.engine,
        write_id=record.write_id,
        first_seq=record.first_seq,
        last_seq=record.last_seq,
        rows=record.rows,
        files=len(record.files),
        files_removed=len(record.removed),
    )


def _compared(number: int, committed_ms: int, change: VersionChange | None) -> VersionFacts:
    if change is None:
        return VersionFacts(number, committed_ms)
    return VersionFacts(
        version=number,
        committed_ms=committed_ms,
        operation=change.operation,
        engine=change.engine,
        first_seq=change.first_seq,
        last_seq=change.last_seq,
        files=change.added,
        files_removed=change.removed,
    )
