"""Positions in the log: after a version, and at the end of the WAL as it is now."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from slatespark.errors import HistoryTrimmedError, InvalidRequestError, SnapshotExpiredError, UnavailableError
from slatespark.format.manifest import Manifest
from slatespark.format.paths import wal_path
from slatespark.table.log.manifests import (
    fetch_latest_manifest,
    fetch_manifest,
    fetch_newest_since,
    manifest_log,
)
from slatespark.table.log.versioned_object import Version
from slatespark.table.snapshot import fetch_newest_state, fetch_wal_bounds, listed_wal, pin_version
from slatespark.table.stores import TableStores

_POLL_ATTEMPTS: Final = 20  # manifest and WAL are read separately, while others change the table
_PROBED: Final = 16  # WAL files that are asked for by name; a listing finds more of them at once


@dataclass(frozen=True, slots=True)
class LogPosition:
    """A place between two writes of the log. Of two positions of a table, no field of the later one is lower.

    Attributes
    ----------
    version : slatespark's commits up to this version lie before it
    seq : writes with sequence numbers up to this one lie before it, all others after it
    wal : WAL files up to this id lie before it
    """

    version: int
    seq: int
    wal: int


BEGINNING: Final = LogPosition(0, 0, 0)


def position_of(stores: TableStores, number: int) -> LogPosition:
    """Return the position after a version: all writes that it shows lie before it. 0 is before the first version.

    Raises
    ------
    HistoryTrimmedError
        When the version was collected, or WAL files that it shows.
    """
    if number == BEGINNING.version:
        return BEGINNING
    manifest = fetch_manifest(stores, number)
    last_wal = max(manifest.wal_id_last_seen, manifest.replay_after_wal_id)
    return LogPosition(number, pin_version(stores, number, manifest).max_seq, last_wal)


def find_position(stores: TableStores, number: int) -> LogPosition | None:
    """Return the same; None where it would raise `HistoryTrimmedError`."""
    try:
        return position_of(stores, number)
    except HistoryTrimmedError:
        return None


class LogTail:
    """Follows the end of the log: newest version and WAL.

    The first look lists the WAL behind the newest version. Later ones ask for the next version and the next WAL file by
    name, and whether the newest version is still there: four requests as long as nothing is new.
    """

    def __init__(self, stores: TableStores) -> None:
        self._stores = stores
        self._version: Version[Manifest] | None = None
        self._position = BEGINNING

    @property
    def version(self) -> Version[Manifest] | None:
        """The version in the position that was found last; None before the first look."""
        return self._version

    def poll(self) -> LogPosition:
        """Return the position after everything that is written now.

        Raises
        ------
        TableNotFoundError
            When the table was dropped, too.
        InvalidRequestError
            When the WAL is in another store, or an older copy of the table was put in its place.
        UnavailableError
            When newer versions keep coming.
        """
        if self._version is None:
            state = fetch_newest_state(self._stores)
            self._version = state.version
            self._position = LogPosition(state.number, state.last_seq, state.wal.end - 1)
            return self._position
        version = self._version
        for _ in range(_POLL_ATTEMPTS):
            # A slatespark commit drains the WAL, and ends it with a fence. So what follows the WAL that is read here
            # has a version of its own, which is looked for afterwards.
            reached = self._follow_wal(version.value)
            newest = fetch_newest_since(self._stores, version)
            if newest == version and not manifest_log(self._stores).has(version.number):
                newest = fetch_latest_manifest(self._stores)
                refuse_backwards(self._stores, self._position, replace(self._position, version=newest.number))
            elif newest == version and reached is not None:
                last_wal, last_seq = reached
                seq = max(self._position.seq, version.value.last_l0_seq, last_seq)
                self._version, self._position = version, LogPosition(version.number, seq, last_wal)
                return self._position
            version = newest
        raise UnavailableError(f"{self._stores.url}: the manifest changes faster than it can be read.", todo="Retry.")

    def _follow_wal(self, manifest: Manifest) -> tuple[int, int] | None:
        """Return the id of the last WAL file, and the highest sequence number of those not seen before, or 0.

        None when a file was collected meanwhile: there is a newer version then.
        """
        reached = max(self._position.wal, manifest.replay_after_wal_id)
        sizes = self._sizes_after(reached)
        last = reached
        while last + 1 in sizes:
            last += 1
        for number in range(last, reached, -1):
            if sizes[number]:
                try:
                    last_seq, _ = fetch_wal_bounds(self._stores, number)
                except SnapshotExpiredError:
                    return None
                if last_seq is not None:
                    return last, last_seq
        return last, 0

    def _sizes_after(self, reached: int) -> dict[int, int]:
        """Return the sizes of WAL files from the next one on; contiguous ones at least."""
        sizes: dict[int, int] = {}
        for number in range(reached + 1, reached + 1 + _PROBED):
            try:
                sizes[number] = self._stores.wal.head(wal_path(number)).size
            except FileNotFoundError:
                return sizes
        return listed_wal(self._stores, reached + 1)


def refuse_backwards(stores: TableStores, start: LogPosition, end: LogPosition) -> None:
    """Raise `InvalidRequestError` where a position lies before the one to start from, or is none of this table."""
    if start.version > end.version or start.seq > end.seq or start.wal > end.wal:
        raise InvalidRequestError(
            f"{stores.url}: the log ends at {end}, before {start}.",
            why="An older copy of the table was put in its place, or the position is of another table.",
            todo="Start from a version that exists; a stream, with a new checkpoint location.",
        )
