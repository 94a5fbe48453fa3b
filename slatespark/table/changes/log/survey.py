"""What lies between two positions of the log, proven to be all of it.

The log is laid out by sequence numbers. slatespark's commits took some, which their records tell. All others are of
clients, and lie in the WAL between the fences of the commits around them. A number that neither explains is a refusal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from slatespark.errors import HistoryTrimmedError
from slatespark.format.manifest import Manifest
from slatespark.format.paths import wal_path
from slatespark.format.ulid import Ulid
from slatespark.storage import run_concurrently
from slatespark.table.changes.log.commits import LoggedCommit, LoggedCommits, fetch_logged_commits, find_unrecorded
from slatespark.table.changes.log.positions import LogPosition, find_position
from slatespark.table.changes.log.wal import WalStretch, find_span, is_complete, is_old_fence_file
from slatespark.table.clock import Clock
from slatespark.table.log.manifests import find_manifest, list_manifests
from slatespark.table.read.planning.plan import SstFile
from slatespark.table.snapshot import listed_wal
from slatespark.table.stores import OWN_ROOT, TableStores, external_roots

_PROBED: Final = 8  # WAL files whose sizes are asked for by name; more are listed
_PAUSES_MS: Final = (100, 300, 600)  # until the record of a commit that was just published must be there


@dataclass(frozen=True, slots=True)
class LogSurvey:
    """What lies between two positions.

    Attributes
    ----------
    stretches : stretches of the WAL, and slatespark's commits, in the order of the log
    sizes : the sizes of the WAL files, by id
    files : the new files of slatespark's commits with rows, by version
    """

    start: LogPosition
    end: LogPosition
    stretches: tuple[WalStretch | LoggedCommit, ...]
    sizes: Mapping[int, int]
    files: Mapping[int, tuple[SstFile, ...]]


def survey_log(stores: TableStores, clock: Clock, start: LogPosition, end: LogPosition, latest: Manifest) -> LogSurvey:
    """Return what lies between two positions.

    Parameters
    ----------
    latest : the newest version

    Raises
    ------
    HistoryTrimmedError
        When not all of it is there.
    """
    reach = _with_all_of_wal(stores, start, end)
    sizes = _wal_sizes(stores, start, reach)
    found, missing = _explain(stores, clock, start, reach, sizes)
    stretches = tuple(_lay_out(found.commits, start, reach))
    commits = [each for each in stretches if isinstance(each, LoggedCommit)]
    files = {commit.version: _commit_files(stores, commit, latest) for commit in commits}
    losses = [
        _Loss(number, 0, f"version {number} is not told by writes: {why}") for number, why in found.untold.items()
    ]
    losses += [
        _Loss(commit.version, 0, f"files of version {commit.version} were compacted, and collected")
        for commit in commits
        if files[commit.version] is None
    ]
    if missing is not None:
        span = f"{missing.after_seq + 1} to {missing.last_seq}"
        losses.append(_Loss(0, missing.last_seq, f"not all writes with sequence numbers {span} are known any more"))
    if losses:
        raise _refusal(stores, losses)
    whole = {version: found for version, found in files.items() if found is not None}
    return LogSurvey(start, end, stretches, sizes, whole)


def first_versions(stores: TableStores, survey: LogSurvey, files: Sequence[int]) -> dict[int, int | None]:
    """Return for each of some WAL files the first version that still exists and shows it; None if there is none yet."""
    start, end = survey.start, survey.end
    found: dict[int, int | None] = {number: None if number <= end.wal else end.version for number in files}
    if files and start.version < end.version:
        numbers = [number for number in list_manifests(stores) if start.version < number <= end.version]
        _find_versions(stores, numbers, [number for number in files if number <= end.wal], found)
    return found


def _find_versions(
    stores: TableStores, numbers: Sequence[int], files: Sequence[int], found: dict[int, int | None]
) -> None:
    """Fill in the versions; the WAL that a version shows ends no earlier than that of the one before."""
    if not numbers or not files:
        return
    middle = len(numbers) // 2
    manifest = find_manifest(stores, numbers[middle])
    if manifest is None:
        _find_versions(stores, [*numbers[:middle], *numbers[middle + 1 :]], files, found)
        return
    last = max(manifest.wal_id_last_seen, manifest.replay_after_wal_id)
    shown = [number for number in files if number <= last]
    found.update(dict.fromkeys(shown, numbers[middle]))
    _find_versions(stores, numbers[:middle], shown, found)
    _find_versions(stores, numbers[middle + 1 :], files[len(shown) :], found)


# --- what explains the numbers --------------------------------------------------------------------------------------


def _explain(
    stores: TableStores, clock: Clock, start: LogPosition, end: LogPosition, sizes: Mapping[int, int]
) -> tuple[LoggedCommits, WalStretch | None]:
    """Return slatespark's commits between two positions, and the last incomplete stretch of the WAL in between."""
    for pause_ms in (0, *_PAUSES_MS):
        clock.sleep_ms(pause_ms)
        found = fetch_logged_commits(stores, start.version, end.version)
        missing = _last_missing(stores, found, start, end, sizes)
        if missing is not None and found.unrecorded:
            found = find_unrecorded(stores, found)
            missing = _last_missing(stores, found, start, end, sizes)
        if missing is None or not found.unrecorded:
            break
    return found, missing


def _last_missing(
    stores: TableStores, found: LoggedCommits, start: LogPosition, end: LogPosition, sizes: Mapping[int, int]
) -> WalStretch | None:
    stretches = [each for each in _lay_out(found.commits, start, end) if isinstance(each, WalStretch)]
    return next((each for each in reversed(stretches) if not is_complete(stores, each, sizes)), None)


def _lay_out(
    commits: Sequence[LoggedCommit], start: LogPosition, end: LogPosition
) -> Iterator[WalStretch | LoggedCommit]:
    """Yield slatespark's commits, and the stretches of the WAL between them."""
    seq, wal = start.seq, start.wal
    for commit in commits:
        if commit.start_seq - 1 > seq:
            yield WalStretch(seq, commit.start_seq - 1, wal, commit.fence)
        if commit.end_seq - 1 > seq:  # also without rows: a position behind it has to name its version
            yield replace(commit, start_seq=max(commit.start_seq, seq + 1))
        seq, wal = max(seq, commit.end_seq - 1), max(wal, commit.fence)
    if end.seq > seq:
        yield WalStretch(seq, end.seq, wal, end.wal + 1)


def _with_all_of_wal(stores: TableStores, start: LogPosition, end: LogPosition) -> LogPosition:
    """Return the end with the WAL files that hold writes before it: a flush may end within a file that comes later."""
    wal = end.wal
    while end.seq > start.seq and (span := find_span(stores, wal + 1)) is not None and span[0] <= end.seq:
        wal += 1
    return replace(end, wal=wal)


def _wal_sizes(stores: TableStores, start: LogPosition, end: LogPosition) -> dict[int, int]:
    """Return the sizes of the WAL files between two positions, and of the one before, as far as they exist.

    That of a fence is 0, also where an old client wrote one that is not empty.
    """
    sizes = _stored_sizes(stores, max(start.wal, 1), end)
    return {number: 0 if is_old_fence_file(stores, number, size) else size for number, size in sizes.items()}


def _stored_sizes(stores: TableStores, first: int, end: LogPosition) -> dict[int, int]:
    if end.wal - first >= _PROBED:
        return listed_wal(stores, first)
    sizes = {}
    for number in range(first, end.wal + 1):
        try:
            sizes[number] = stores.wal.head(wal_path(number)).size
        except FileNotFoundError:
            continue
    return sizes


def _commit_files(stores: TableStores, commit: LoggedCommit, latest: Manifest) -> tuple[SstFile, ...] | None:
    """Return the files of a commit, in the order of their first keys; None if some are gone.

    The newest version protects those that it shows. Of others the objects may still exist.
    """
    found = {sst_id: _file(stores, latest, sst_id) for sst_id in map(Ulid.parse, commit.files)}
    missing = [sst_id for sst_id, file in found.items() if file is None]
    if missing:
        own = find_manifest(stores, commit.version)
        if own is None:
            return None
        older = {sst_id: _file(stores, own, sst_id) for sst_id in missing}
        checks = [partial(_is_there, stores, file) for file in older.values()]
        if not all(run_concurrently(checks, is_remote=stores.main.is_remote)):
            return None
        found |= older
    files = (file for file in found.values() if file is not None)
    return tuple(sorted(files, key=lambda file: file.info.first_entry or b""))


def _file(stores: TableStores, manifest: Manifest, sst_id: Ulid) -> SstFile | None:
    handle = manifest.ssts.get(sst_id)
    if handle is None:
        return None
    return SstFile.of(handle, external_roots(stores, manifest).get(sst_id, OWN_ROOT))


def _is_there(stores: TableStores, file: SstFile | None) -> bool:
    if file is None:
        return False
    try:
        stores.at(file.root).head(file.path)
    except FileNotFoundError:
        return False
    return True


# --- refusals -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Loss:
    """Something that the log would have, and that is not known any more.

    Attributes
    ----------
    version, seq : a log from this version on, and after this sequence number, does without it
    what : name for the message
    """

    version: int
    seq: int
    what: str


def _refusal(stores: TableStores, losses: Sequence[_Loss]) -> HistoryTrimmedError:
    """Return the refusal, which names the first version from which on the log is whole."""
    version, seq = max(loss.version for loss in losses), max(loss.seq for loss in losses)
    first = next((number for number in list_manifests(stores) if _serves(stores, number, version, seq)), None)
    todo = (
        "Read the log from the next version on"
        if first is None
        else (f"The log can be read from version {first} on: startingVersion={first}, startingBoundInclusive=false")
    )
    return HistoryTrimmedError(
        f"{stores.url}: {losses[-1].what}.",
        why="The log needs the WAL for the writes of clients, and the files of the commit for those of slatespark.",
        todo=f"{todo}. How versions differ is told by changes=net.",
    )


def _serves(stores: TableStores, number: int, version: int, seq: int) -> bool:
    if number < version:
        return False
    position = find_position(stores, number)
    return position is not None and position.seq >= seq
