"""The versions of a table that still exist, and when each was committed.

A commit time is that of slatespark's record; where there is none, when the object of the manifest was stored. The two
come from different clocks, so they are put in order: time never goes back from a version to the next, and a version
without a record lies between those that have one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from slatespark.errors import CorruptDataError
from slatespark.format.manifest import Manifest
from slatespark.storage import ObjectMeta
from slatespark.table.log.manifests import fetch_kept, fetch_manifest, manifest_log
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.records.commits import fetch_commit_record, newest_commit_records
from slatespark.table.stores import TableStores, object_context
from slatespark.units import DAY_MS

MAX_SET_BACK_MS: Final = DAY_MS  # clocks were set back by less: older records tell nothing of the versions that exist


class KeptVersions:
    """The versions of a table at one moment; manifests and records are read when first needed.

    Parameters
    ----------
    stores : stores of the table
    when_seen : called when the newest version was seen

    Attributes
    ----------
    newest : the newest one
    numbers : ids of the manifests that exist, ascending; one at least

    Raises
    ------
    TableNotFoundError
        When there is no table.
    """

    def __init__(self, stores: TableStores, when_seen: Callable[[], None] | None = None) -> None:
        newest, kept = fetch_kept(stores, when_seen)
        self._stores, self.newest = stores, newest
        self.numbers = [number for number in kept if number < newest.number] + [newest.number]
        self._stored = stored_times(kept)
        self._manifests = {newest.number: newest.value}
        self._records: dict[int, CommitRecord] | None = None
        self._times_ms: list[int] | None = None

    @property
    def latest(self) -> int:
        """Id of the newest version."""
        return self.numbers[-1]

    def manifest(self, number: int) -> Manifest:
        """Return a version; raises `SnapshotExpiredError` when it was collected meanwhile."""
        if number not in self._manifests:
            self._manifests[number] = fetch_manifest(self._stores, number)
        return self._manifests[number]

    @property
    def records(self) -> Mapping[int, CommitRecord]:
        """Commit records of slatespark by version, from a while before the oldest version; also of collected ones."""
        if self._records is None:
            found = _back_to(newest_commit_records(self._stores.main, sound_only=True), self.numbers[0])
            self._records = {record.manifest_id: record for record in found}
        return self._records

    @property
    def times_ms(self) -> Sequence[int]:
        """When each of `numbers` was committed; never descending."""
        if self._times_ms is None:
            recorded = {number: record.committed_ms for number, record in self.records.items()}
            self._times_ms = order_times(self.numbers, recorded, self._stored)
        return self._times_ms

    def time_ms(self, number: int) -> int:
        """Return when one of `numbers` was committed."""
        return self.times_ms[bisect_left(self.numbers, number)]


def _back_to(records: Iterable[CommitRecord], oldest: int) -> Iterator[CommitRecord]:
    """Yield records, newest first, as far as they bound the times of versions from `oldest` on; the log has all."""
    below_ms: int | None = None
    for record in records:
        yield record
        if record.manifest_id < oldest:
            below_ms = record.committed_ms if below_ms is None else below_ms
            if record.committed_ms < below_ms - MAX_SET_BACK_MS:
                return


def fetch_commit_time(stores: TableStores, number: int) -> int:
    """Return when a version was committed, looking at no other version.

    Raises
    ------
    SnapshotExpiredError
        When it was collected, and no record tells.
    """
    with suppress(CorruptDataError):
        record = fetch_commit_record(stores.main, number)
        if record is not None:
            return record.committed_ms
    path = manifest_log(stores).path(number)
    with object_context(stores.main, path):
        return stores.main.head(path).modified_ms


def stored_times(kept: Mapping[int, ObjectMeta]) -> dict[int, int]:
    """Return when the objects of versions were stored."""
    return {number: meta.modified_ms for number, meta in kept.items()}


def order_times(numbers: Sequence[int], recorded: Mapping[int, int], stored: Mapping[int, int]) -> list[int]:
    """Return commit times that never descend.

    Parameters
    ----------
    numbers : numbers of versions, ascending
    recorded : commit times by slatespark's records, by version; those of versions that were collected are bounds too
    stored : when the object of a version was stored, by the clock of the store
    """
    every = sorted({*numbers, *recorded})
    times, reached = [], -(1 << 63)
    for number in every:  # records first: a clock that was set back must not make time go back
        if number in recorded:
            reached = max(reached, recorded[number])
        times.append(reached)
    limit: int | None = None
    limits: list[int | None] = []  # the time of the next version with a record
    for number, time_ms in zip(reversed(every), reversed(times), strict=True):
        limits.append(limit)
        limit = time_ms if number in recorded else limit
    reached = -(1 << 63)
    for position, (number, upper) in enumerate(zip(every, reversed(limits), strict=True)):
        if number not in recorded:
            time_ms = stored.get(number, reached)
            times[position] = max(reached, time_ms if upper is None else min(time_ms, upper))
        reached = times[position]
    wanted = set(numbers)
    return [time_ms for number, time_ms in zip(every, times, strict=True) if number in wanted]
