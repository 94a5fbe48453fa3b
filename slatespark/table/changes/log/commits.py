"""slatespark's commits in a stretch of the log: which sequence numbers they took, and which files have their rows.

What they did is told by their records. Where there is none, as in the moment between a commit and its record, two
versions may tell as well: a commit that only adds rows leaves every view as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from slatespark.errors import SlateError
from slatespark.format.manifest import Manifest
from slatespark.format.paths import manifest_path, sst_path
from slatespark.format.properties import consistent_properties
from slatespark.format.references import BytesRange
from slatespark.format.ulid import Ulid
from slatespark.table.commit.handed_loads import find_commit_of, lies_before
from slatespark.table.log.manifests import find_manifest
from slatespark.table.read.versions.sst_end import fetch_end
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.records.commits import fetch_records_between
from slatespark.table.records.handed_loads import HandedLoad, fetch_handed_loads
from slatespark.table.records.operations import Operation
from slatespark.table.snapshot import listed_wal
from slatespark.table.stores import TableStores

# What they remove was past its time, or hidden, and what they write was there before.
_WITHOUT_WRITES: Final = (Operation.COMPACT, Operation.REAP, Operation.VACUUM)
_OF_ROWS: Final = (
    Operation.WRITE,
    Operation.TRANSACTION,
    Operation.INGEST,
    Operation.CREATE,
    Operation.OVERWRITE,
    Operation.REPLACE,
    Operation.DELETE_RANGE,
)


@dataclass(frozen=True, slots=True)
class LoggedCommit:
    """A slatespark commit.

    Attributes
    ----------
    version, committed_ms : its version, and when it was published
    start_seq, end_seq : the sequence numbers [start_seq, end_seq) that it took
    fence : id of its fence in the WAL: rows of earlier WAL files are older, those of later ones newer
    files : ids of the SSTs with its rows, which may have others too
    rows : how many it wrote; 0 if that is not recorded
    """

    version: int
    committed_ms: int
    start_seq: int
    end_seq: int
    fence: int
    files: tuple[str, ...] = ()
    rows: int = 0


@dataclass(frozen=True, slots=True)
class LoggedCommits:
    """The commits of a stretch of the log.

    Attributes
    ----------
    commits : ascending
    untold : versions whose changes are not writes that a log could tell, ascending, with the reason
    unrecorded : versions without a record, ascending: those of clients, and claims
    """

    commits: tuple[LoggedCommit, ...]
    untold: dict[int, str]
    unrecorded: tuple[int, ...]


def fetch_logged_commits(stores: TableStores, after: int, last: int) -> LoggedCommits:
    """Return slatespark's commits in the versions above `after`, up to `last`, as their records tell them.

    Raises
    ------
    CorruptDataError, UnavailableError
    """
    untold = dict(_handed(stores, after, last))  # first: a load is listed there until its record exists
    records = fetch_records_between(stores.main, after + 1, last) if last > after else {}
    commits = []
    for number in sorted(records):
        if (found := _of_record(stores, records[number])) is not None:
            commits.append(found)
        if why := _untold_reason(records[number]):
            untold[number] = why
    unrecorded = tuple(number for number in range(after + 1, last + 1) if number not in records)
    return LoggedCommits(tuple(commits), dict(sorted(untold.items())), unrecorded)


def find_unrecorded(stores: TableStores, found: LoggedCommits) -> LoggedCommits:
    """Return the same with the commits that have no record, as far as versions that still exist tell them."""
    more = (_unrecorded(stores, number) for number in found.unrecorded)
    commits = [*found.commits, *(each for each in more if each is not None)]
    return replace(found, commits=tuple(sorted(commits, key=lambda commit: commit.version)))


def _handed(stores: TableStores, after: int, last: int) -> Iterator[tuple[int, str]]:
    """Yield the versions in which a client committed, or may have committed, a load that has no record yet."""
    for load in fetch_handed_loads(stores.main):
        if load.base >= last:
            continue
        try:
            number = find_commit_of(stores, load)
        except SlateError as exc:  # most likely the record was left by a killed job, and will stay
            if not _committed_by(stores, load, after):
                yield last, f"a live client may have committed the load {load.path} there. {str(exc).rstrip('.')}"
            continue
        if number is not None and after < number <= last:
            yield number, _LOADED


def _committed_by(stores: TableStores, load: HandedLoad, number: int) -> bool:
    """Tell whether the commit of a load, if there was one, surely does not lie above a version."""
    if number <= load.base:
        return False
    manifest = _find_manifest(stores, number)
    return manifest is not None and lies_before(manifest, load)


_LOADED: Final = "a live client committed a load there, whose rows have numbers of earlier ones"


def _untold_reason(record: CommitRecord) -> str:
    """Return why a commit cannot be told as writes; empty if it can."""
    if record.operation == Operation.COOPERATIVE_WRITE:
        return _LOADED
    if record.operation in _WITHOUT_WRITES:
        return ""
    if record.manifest_id == 1 and record.start_seq is not None:
        return ""  # there was nothing before
    if record.operation in _OF_ROWS and not record.replaces and record.start_seq is not None:
        return ""
    if record.operation in (Operation.WRITE, Operation.TRANSACTION, Operation.INGEST):
        return ""
    return f"{record.operation} changed rows there without writing them"


def _of_record(stores: TableStores, record: CommitRecord) -> LoggedCommit | None:
    """Return the commit of a record; None if it took no sequence numbers, or they are not known any more."""
    if record.start_seq is None or record.end_seq is None or record.fence is None:
        return _of_old_record(stores, record)
    has_rows = record.operation in _OF_ROWS and record.first_seq is not None
    files = tuple(record.files) if has_rows else ()
    rows = sum(record.rows.values()) if has_rows else 0
    return LoggedCommit(
        record.manifest_id, record.committed_ms, record.start_seq, record.end_seq, record.fence, files, rows
    )


def _of_old_record(stores: TableStores, record: CommitRecord) -> LoggedCommit | None:
    """Return the commit of a record without the numbers that it took, if its version still exists."""
    if record.operation not in (Operation.WRITE, Operation.TRANSACTION, Operation.INGEST) or record.first_seq is None:
        return None
    manifest = _find_manifest(stores, record.manifest_id)
    if manifest is None:
        return None
    start_seq, end_seq = record.first_seq, manifest.last_l0_seq + 1
    files = tuple(record.files)
    return LoggedCommit(
        record.manifest_id, record.committed_ms, start_seq, end_seq, manifest.replay_after_wal_id, files
    )


def _unrecorded(stores: TableStores, number: int) -> LoggedCommit | None:
    """Return the commit of a version without a record, if it shows that it was one and only added rows.

    Clients add rows as L0 views, of which slatespark's commits leave none. Rows in the WAL are a refusal: a commit may
    have dropped some of them, and nothing else would show it.
    """
    after = _find_manifest(stores, number)
    if after is None or after.has_l0():
        return None
    before = _find_manifest(stores, number - 1)
    if before is None or before.last_l0_seq >= after.last_l0_seq:
        return None
    shown, kept = _shown(after), _shown(before)
    if not kept <= shown or not _is_fenced_only(stores, before.replay_after_wal_id + 1, after.replay_after_wal_id):
        return None
    added = {sst_id for sst_id, _ in shown - kept}
    if not all(_is_newer(stores, sst_id, before.last_l0_seq) for sst_id in added):
        return None  # restored
    try:
        committed_ms = stores.main.head(manifest_path(number)).modified_ms
    except FileNotFoundError:  # collected meanwhile
        return None
    return LoggedCommit(
        number,
        committed_ms,
        before.last_l0_seq + 1,
        after.last_l0_seq + 1,
        after.replay_after_wal_id,
        tuple(map(str, added)),
    )


def _is_fenced_only(stores: TableStores, first: int, last: int) -> bool:
    """Tell whether the WAL files `first` to `last` are all there, and have no rows."""
    sizes = listed_wal(stores, first)
    return all(sizes.get(number) == 0 for number in range(first, last + 1))


def _is_newer(stores: TableStores, sst_id: Ulid, seq: int) -> bool:
    """Tell whether slatespark wrote a file, and all of its rows have higher sequence numbers."""
    try:
        found = consistent_properties(fetch_end(stores.main, sst_path(sst_id)).gap)
    except FileNotFoundError:
        return False
    return found is not None and found.min_seq > seq


def _shown(manifest: Manifest) -> frozenset[tuple[Ulid, BytesRange | None]]:
    return frozenset((view.sst_id, view.visible_range) for view in manifest.views())


def _find_manifest(stores: TableStores, number: int) -> Manifest | None:
    return find_manifest(stores, number) if number else Manifest()
