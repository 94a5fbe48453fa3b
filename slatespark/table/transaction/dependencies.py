"""Dependencies: the keys that a transaction locked or read, and what others have committed of them since.

A conflict is noticed at the call that makes it certain. The commit checks everything again: it alone decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from slatespark.errors import SnapshotExpiredError
from slatespark.format.manifest import Manifest
from slatespark.format.paths import wal_path
from slatespark.kernels.columns import RowColumns
from slatespark.ranges import ALL_KEYS, KeyRange, key_after
from slatespark.storage import run_concurrently
from slatespark.table.commit.conflicts import ReadCheck
from slatespark.table.commit.later_commits import LaterCommit, find_later_commits
from slatespark.table.commit.read_set import ReadSet
from slatespark.table.log.manifests import manifest_log
from slatespark.table.log.versioned_object import Version
from slatespark.table.read.fetch import fetch_wal_rows
from slatespark.table.read.reader import ReadPlan
from slatespark.table.read.versions.read_point import ReadPoint
from slatespark.table.records.filtered_jobs import FilteredJob
from slatespark.table.rows.sst_upload import NewFile
from slatespark.table.snapshot import WalTail, fetch_newest_state
from slatespark.table.stores import TableStores


@dataclass(slots=True)
class Dependencies:
    """What a transaction depends on.

    Attributes
    ----------
    buffer_bytes : memory for stored bytes in flight
    """

    stores: TableStores
    point: ReadPoint
    buffer_bytes: int
    _locked_keys: set[bytes] = field(default_factory=set)
    _locked_ranges: set[KeyRange] = field(default_factory=set)
    _read: set[KeyRange] = field(default_factory=set)
    _later: LaterState = field(init=False)

    def __post_init__(self) -> None:
        self._later = LaterState(self.stores, self.point)

    def note_read(self, plan: ReadPlan) -> None:
        """Note the keys of a plain read: if they are written too, they must be unchanged."""
        read = ReadSet.of_plan(plan)
        self._read |= {*read.ranges, *map(_only, read.keys)}

    def note_key(self, key: bytes) -> None:
        """Note the read of one key, as `note_read`."""
        self._read.add(_only(key))

    def lock(self, plan: ReadPlan) -> None:
        """Depend on all keys and ranges that a plan reads.

        Raises
        ------
        TransactionConflictError
            When one has changed already.
        """
        read = ReadSet.of_plan(plan)
        self._locked_keys.update(read.keys)
        self._locked_ranges.update(read.ranges)
        self._check(self._set(keys=read.keys, ranges=read.ranges, written=()), ())

    def check_written(self, files: Sequence[NewFile]) -> None:
        """Refuse written keys that were read, and have changed already; raises as `lock`.

        A transaction that reads nothing is not looked at: its writes conflict with none.
        """
        written = self._written()
        if written and files:
            self._check(self._set(written=written), files)

    def read_set(self) -> ReadSet | None:
        """Return what the commit depends on; None for nothing."""
        written = self._written()
        if not (self._locked_keys or self._locked_ranges or written):
            return None
        return self._set(keys=self._locked_keys, ranges=self._locked_ranges, written=written)

    def _written(self) -> Iterable[KeyRange]:
        """Return the ranges in which a written key must be unchanged.

        A transaction that reads as of a time never writes below a known version: there, all keys count.
        """
        return (ALL_KEYS,) if self.point.snapshot.as_of_ts_ms is not None else self._read

    def _set(
        self, *, keys: Iterable[bytes] = (), ranges: Iterable[KeyRange] = (), written: Iterable[KeyRange]
    ) -> ReadSet:
        snapshot = self.point.snapshot
        return ReadSet.of(snapshot, keys=keys, ranges=ranges, read_ts_ms=snapshot.as_of_ts_ms, written=written)

    def _check(self, reads: ReadSet, files: Sequence[NewFile]) -> None:
        codec = self.point.definition.codec()
        check = ReadCheck(self.stores, reads, codec, self.buffer_bytes)
        try:
            self._later.refresh()
            check.check_later(self._later.commits, self._later.rows, files)
        except SnapshotExpiredError as exc:
            raise check.unknown() from exc


@dataclass(slots=True)
class LaterState:
    """What others have committed since a read point, up to the newest state looked at.

    Each version is fetched once. If there is nothing new, refreshing costs two requests for objects that do not exist.

    Attributes
    ----------
    commits : those that reached the trees, oldest first
    rows : those that are only in the WAL; None without any
    """

    stores: TableStores
    point: ReadPoint
    commits: list[LaterCommit] = field(default_factory=list)
    rows: RowColumns | None = None
    _newest: Version[Manifest] = field(init=False)
    _wal: WalTail = field(init=False)
    _filtered_jobs: dict[str, FilteredJob] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._newest, self._wal = self.point.snapshot.version, self.point.snapshot.wal

    def refresh(self) -> None:
        """Look for newer versions and WAL files.

        Raises
        ------
        SnapshotExpiredError
            When one in between was collected.
        """
        if not self._has_news():
            return
        state = fetch_newest_state(self.stores)
        newest, wal = state.version, state.wal
        commits = list(find_later_commits(self.stores, self._newest, newest, self._filtered_jobs))
        above_seq = max(state.manifest.last_l0_seq, self.point.snapshot.max_seq)
        rows = fetch_wal_rows(self.stores, wal, above_seq, ALL_KEYS) if wal.last_seq > above_seq else None
        # Only now: after an error the next call looks for the same again.
        self.commits += commits
        self._newest, self._wal, self.rows = newest, wal, rows

    def _has_news(self) -> bool:
        checks: list[Callable[[], bool]] = [
            partial(manifest_log(self.stores).has, self._newest.number + 1),
            self._has_wal_file,
        ]
        return any(run_concurrently(checks, is_remote=self.stores.main.is_remote))

    def _has_wal_file(self) -> bool:
        try:
            self.stores.wal.head(wal_path(self._wal.end))
        except FileNotFoundError:
            return False
        return True


def _only(key: bytes) -> KeyRange:
    return KeyRange(key, key_after(key))
