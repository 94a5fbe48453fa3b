"""Snapshot: one immutable manifest, with the visible part of the WAL and the instant for expiry.

See docs/reference/format/manifest.md, docs/reference/format/checkpoints.md, docs/explanation/why-reads-are-
consistent.md, docs/explanation/history-and-the-floor.md.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from slatespark.errors import (
    InvalidRequestError,
    SnapshotExpiredError,
    UnavailableError,
)
from slatespark.format.manifest import NO_TICK, Manifest
from slatespark.format.paths import (
    SST_EXTENSION,
    WAL_DIR,
    wal_path,
)
from slatespark.format.wal import END_BYTES, INFO_BYTES, decode_first_seq, decode_last_block, decode_wal
from slatespark.kernels.columns import HAS_CREATE, RowColumns
from slatespark.ranges import ByteRange
from slatespark.storage.object_store import ObjectMeta
from slatespark.table.clock import Clock, present_of_read
from slatespark.table.log.manifests import (
    fetch_latest_manifest,
    fetch_manifest,
    is_at_rest,
    manifest_log,
    may_be_claim,
    note_own_commit,
    seen_manifest,
)
from slatespark.table.log.numbered_log import by_number
from slatespark.table.log.versioned_object import Version
from slatespark.table.records.claims import find_claim
from slatespark.table.records.commits import is_own_commit
from slatespark.table.stores import TableStores, object_context

_STATE_ATTEMPTS = 20  # manifest and WAL are read separately, while others change the table


@dataclass(frozen=True, slots=True)
class WalTail:
    """WAL files that hold rows not yet in the trees.

    Attributes
    ----------
    start, end : ids [start, end)
    last_seq : highest sequence number in the file, 0 if it holds no row
    tick_ms : highest create_ts in it, None if it holds no row
    sizes : size of each file, 0 for a fence; empty if they are not known
    changed_ms : for each file, when it was last changed; empty if that is not known
    """

    start: int
    end: int
    last_seq: int = 0
    tick_ms: int | None = None
    sizes: tuple[int, ...] = field(default=(), repr=False, compare=False)
    changed_ms: tuple[int, ...] = field(default=(), repr=False, compare=False)

    def with_rows(self) -> list[int]:
        """Return the ids of the files, without those that are known to be fences."""
        return [number for number in range(self.start, self.end) if not self.sizes or self.size_of(number)]

    def size_of(self, number: int) -> int:
        """Return the bytes of a file; 0 if they are not known."""
        return self.sizes[number - self.start] if self.sizes else 0

    def since(self, number: int) -> WalTail:
        """Return the tail from a file on."""
        rest = slice(number - self.start, None)
        return replace(self, start=number, sizes=self.sizes[rest], changed_ms=self.changed_ms[rest])

    @staticmethod
    def nothing(manifest: Manifest) -> WalTail:
        """Return the tail without files."""
        start = manifest.replay_after_wal_id + 1
        return WalTail(start, start)


class TableState(NamedTuple):
    """A version of a table, and the WAL above its trees."""

    number: int
    manifest: Manifest
    wal: WalTail

    @property
    def version(self) -> Version[Manifest]:
        """The manifest with its id."""
        return Version(self.number, self.manifest)

    @property
    def last_seq(self) -> int:
        """The highest sequence number of trees and WAL."""
        return max(self.manifest.last_l0_seq, self.wal.last_seq)

    @property
    def tick_ms(self) -> int:
        """The last clock tick of trees and WAL; `NO_TICK` if nothing was ever written."""
        return max(self.manifest.last_l0_clock_tick, NO_TICK if self.wal.tick_ms is None else self.wal.tick_ms)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The data that one read sees.

    Attributes
    ----------
    manifest_id, manifest : the version
    wal : the visible tail
    max_seq : highest visible sequence number; rows above it do not count
    tick_ms : last clock tick, of trees and WAL; the smallest int64 if nothing was ever written
    now_ms : the instant at which expiry is evaluated
    as_of_ts_ms : instant after which created rows are invisible; None for no such bound
    """

    manifest_id: int
    manifest: Manifest
    wal: WalTail
    max_seq: int
    tick_ms: int
    now_ms: int
    as_of_ts_ms: int | None = None

    @property
    def version(self) -> Version[Manifest]:
        """The manifest with its id."""
        return Version(self.manifest_id, self.manifest)


def pin_version(stores: TableStores, number: int, manifest: Manifest, now_ms: int | None = None) -> Snapshot:
    """Return the snapshot of a version as it was committed, with the WAL that it refers to.

    Parameters
    ----------
    now_ms : the instant at which expiry is evaluated; by default the version's clock tick

    Raises
    ------
    SnapshotExpiredError
        When some of its WAL files were collected.
    """
    wal = fetch_wal_tail(stores, manifest, manifest.wal_id_last_seen + 1)
    now_ms = manifest.last_l0_clock_tick if now_ms is None else now_ms
    return make_snapshot(number, manifest, wal, now_ms)


def make_snapshot(
    number: int, manifest: Manifest, wal: WalTail, now_ms: int | None, clock: Clock | None = None
) -> Snapshot:
    """Return the snapshot of all rows of a version and a WAL tail; `now_ms` defaults to the present."""
    state = TableState(number, manifest, wal)
    if now_ms is None:
        now_ms = state.tick_ms if clock is None else max(present_of_read(clock), state.tick_ms)
    return Snapshot(*state, state.last_seq, state.tick_ms, now_ms)


# --- the WAL --------------------------------------------------------------------------------------------------------


def fetch_newest_state(stores: TableStores, when_seen: Callable[[], None] | None = None) -> TableState:
    """Return the newest manifest and the WAL tail above it.

    A writer may flush, and a collector delete, WAL files after the manifest was read. Both need a newer manifest for
    that, so the tail is complete if none exists after it was listed; otherwise both are read again. Who has seen a
    manifest before starts from it, so that this is the only look for a newer one. Right after another look it is enough
    to ask for the next version, which is cheaper than a listing. After a slatespark commit the WAL is looked at only
    once a client has claimed an epoch, which it does in a newer manifest. So commits of siblings, however often they
    come, keep nobody from reading.

    Parameters
    ----------
    when_seen : called when a manifest was seen, before the WAL is looked at

    Raises
    ------
    TableNotFoundError
    UnavailableError
        When newer manifests of a client keep coming.
    """
    seen = seen_manifest(stores)
    is_fresh = seen is None or is_at_rest(stores, seen)
    version = fetch_latest_manifest(stores) if seen is None or is_fresh else seen
    if when_seen is not None:
        when_seen()
    for attempt in range(_STATE_ATTEMPTS):
        is_known = is_fresh and is_at_rest(stores, version)
        follows = is_fresh and (seen is not None or attempt > 0)  # a commit after one, so most likely slatespark's too
        if is_known or (follows and _is_drained(stores, version, sees_claims=attempt > 0)):
            return TableState(*version, WalTail.nothing(version.value))
        try:
            tail = fetch_wal_tail(stores, version.value, None)
        except (InvalidRequestError, SnapshotExpiredError):
            newest = fetch_latest_manifest(stores)
            if newest == version:
                raise
        else:
            if is_fresh and not manifest_log(stores).has(version.number + 1):
                return TableState(*version, tail)
            newest = fetch_latest_manifest(stores)
            if newest == version:  # equal numbers are not enough: the table may have been created again
                if tail.start == tail.end and is_own_commit(stores.main, version.number, version.value):
                    note_own_commit(stores, version.number, version.value)
                return TableState(*version, tail)
        version, is_fresh = newest, True
    raise UnavailableError(f"{stores.url}: the manifest changes faster than it can be read.", todo="Retry.")


def _is_drained(stores: TableStores, version: Version[Manifest], *, sees_claims: bool) -> bool:
    """Tell whether a version is a slatespark commit, so that no row is in the WAL.

    Parameters
    ----------
    sees_claims : a version that is the claim right after one counts too, which costs more requests
    """
    number, manifest = version.number, version.value
    if _is_without_wal(stores, number, manifest):
        note_own_commit(stores, number, manifest)
        return True
    if not sees_claims or not may_be_claim(manifest):
        return False
    try:
        data, before = bytes(manifest_log(stores).get(number)), fetch_manifest(stores, number - 1)
    except SnapshotExpiredError:
        return False
    is_claim = find_claim(stores.main, number, data) is not None
    return is_claim and _is_without_wal(stores, number - 1, before)


def _is_without_wal(stores: TableStores, number: int, manifest: Manifest) -> bool:
    """Tell whether a version is a slatespark commit that left no row in the WAL, as all but that of a clone do."""
    return manifest.replay_after_wal_id >= manifest.wal_id_last_seen and is_own_commit(stores.main, number, manifest)


def fetch_wal_tail(stores: TableStores, manifest: Manifest, end: int | None) -> WalTail:
    """Return the WAL files that hold rows above the manifest's trees.

    Parameters
    ----------
    end : exclusive bound of WAL ids; None for the whole tail, up to the first missing id

    Raises
    ------
    InvalidRequestError
        When the WAL is in another store.
    SnapshotExpiredError
        When files of an older version's tail were collected.
    """
    start = manifest.replay_after_wal_id + 1
    listed = _listed_tail(stores, start, manifest.wal_id_last_seen + 1 if end is None else end, end)
    stop = start
    while stop in listed and (end is None or stop < end):
        stop += 1
    _check_tail_is_complete(stores, manifest, stop, end, listed)
    found = [listed[number] for number in range(start, stop)]
    tail = WalTail(
        start, stop, sizes=tuple(meta.size for meta in found), changed_ms=tuple(meta.modified_ms for meta in found)
    )
    for number in reversed(tail.with_rows()):
        last_seq, tick_ms = fetch_wal_bounds(stores, number, tail.size_of(number))
        if last_seq is not None:
            return replace(tail, last_seq=max(last_seq, 0), tick_ms=tick_ms)
    return tail


def _listed_tail(stores: TableStores, start: int, wanted: int, end: int | None) -> dict[int, ObjectMeta]:
    """Return the WAL files of a tail, and the file before it, by id; maybe others too.

    Fences stay in the folder. So where a listing would read them all, files are looked up by name, unless one is
    missing that the manifest refers to: a listing tells what there is instead.

    Parameters
    ----------
    start, end : ids [start, end) of the tail; None for no end
    wanted : the manifest refers to the files below it
    """
    if stores.wal.lists_whole_folders:
        found: dict[int, ObjectMeta] = {}
        for number in itertools.count(start - 1) if end is None else range(start - 1, end):
            try:
                found[number] = stores.wal.head(wal_path(number))
            except FileNotFoundError:
                if number >= start:
                    break
        if max(found, default=0) >= wanted - 1:
            return found
    return _listed_from(stores, start - 1)


def without_flushed(stores: TableStores, tail: WalTail, above_seq: int) -> WalTail:
    """Return a tail without the files of which the trees have all rows.

    The trees may hold rows of files above the replay point: the client moves it late. Files are in order of sequence
    numbers, so those before one that starts at `above_seq` + 1 or below are in the trees.

    Parameters
    ----------
    above_seq : sequence number up to which rows are in the trees
    """
    numbers = tail.with_rows()
    if tail.last_seq and tail.last_seq <= above_seq:
        return tail.since(tail.end)
    if not tail.sizes or len(numbers) < 2:
        return tail

    def starts_in_trees(number: int) -> bool:
        first = _fetch_first_seq(stores, number, tail.size_of(number))
        return first is not None and first <= above_seq + 1

    if not starts_in_trees(numbers[1]):  # mostly nothing can be left out, which this tells
        return tail
    return tail.since(numbers[bisect_left(numbers, True, 2, key=lambda number: not starts_in_trees(number)) - 1])


def wal_sizes(stores: TableStores, manifest: Manifest) -> dict[int, int]:
    """Return the sizes of the WAL files above the replay point, by id; a fence has size 0."""
    return listed_wal(stores, manifest.replay_after_wal_id + 1)


def newest_wal_sizes(stores: TableStores, newest: Version[Manifest]) -> dict[int, int]:
    """Return the sizes as `wal_sizes`, of a version that was the newest one a moment ago; mostly without a request.

    If a client has come since, the next version has been created, so that nobody can commit on top of this one.
    """
    return {} if is_at_rest(stores, newest) else wal_sizes(stores, newest.value)


def listed_wal(stores: TableStores, first: int) -> dict[int, int]:
    """Return the sizes of the WAL files with ids from `first` on, by id."""
    return {number: meta.size for number, meta in _listed_from(stores, first).items()}


def _listed_from(stores: TableStores, first: int) -> dict[int, ObjectMeta]:
    return by_number(stores.wal.list(WAL_DIR, wal_path(first - 1) if first else ""), SST_EXTENSION)


def fetch_wal_bounds(stores: TableStores, number: int, object_bytes: int = 0) -> tuple[int | None, int | None]:
    """Return the highest seq and create_ts of a WAL file that is no fence; both grow in commit order.

    Parameters
    ----------
    object_bytes : the size of the file, if known: of a large one only the end is read
    """
    path = wal_path(number)
    with object_context(stores.wal, path):
        if object_bytes > END_BYTES:
            end = stores.wal.get_range(path, ByteRange(object_bytes - END_BYTES, object_bytes))
            last = decode_last_block(end, object_bytes)
            if last is not None and len(last) and last.flags[-1] & HAS_CREATE:
                return _bounds(last)
        return _bounds(decode_wal(bytes(stores.wal.get(path))))


def _bounds(rows: RowColumns) -> tuple[int | None, int | None]:
    if not len(rows):
        return None, None
    stamped = rows.create_ts[(rows.flags & HAS_CREATE) != 0]
    return int(rows.seqs.max()), int(stamped.max()) if len(stamped) else None


def _fetch_first_seq(stores: TableStores, number: int, object_bytes: int) -> int | None:
    """Return the sequence number of the first row of a WAL file; None if its end does not tell."""
    path = wal_path(number)
    with object_context(stores.wal, path):
        span = ByteRange(max(0, object_bytes - INFO_BYTES), object_bytes)
        return decode_first_seq(stores.wal.get_range(path, span), object_bytes)


def _check_tail_is_complete(
    stores: TableStores, manifest: Manifest, stop: int, end: int | None, listed: Collection[int]
) -> None:
    """Refuse a tail that lacks files which the manifest refers to; `listed` are the files from the replay point on."""
    replayed = manifest.replay_after_wal_id
    any_listed = bool(set(listed) - {replayed})
    if manifest.wal_object_store_uri is not None and not stores.wal_is_apart:
        raise _wal_is_elsewhere(stores, stop)
    wanted = manifest.wal_id_last_seen + 1 if end is None else end
    if stop < wanted:
        if end is not None and any_listed:
            raise SnapshotExpiredError(
                f"{stores.wal.url}/{wal_path(stop)} does not exist.",
                why="WAL rows of this older version were collected.",
                todo="Choose a newer version.",
            )
        raise _wal_is_elsewhere(stores, stop)
    # The client never collects the file at replay_after_wal_id, but a clone starts without its parent's.
    is_replayed_gone = not listed or (end is None and stop == replayed + 1 and replayed not in listed)
    if replayed and wanted <= replayed + 1 and is_replayed_gone and not manifest.external_dbs:
        raise _wal_is_elsewhere(stores, replayed)
    if manifest.external_dbs and stores.wal_is_apart and replayed in listed and starts_after(stores, replayed):
        raise InvalidRequestError(
            f"{stores.wal.url} is the WAL of the parent of {stores.url}, a clone, by {wal_path(replayed)}.",
            todo="Give the location of the WAL with the option walPath, or none if it is beside the clone.",
        )


def starts_after(stores: TableStores, wal_id: int) -> bool:
    """Tell whether a clone began behind a WAL file, which is its parent's then; False if its start was collected."""
    try:
        return fetch_manifest(stores, 1).replay_after_wal_id == wal_id
    except SnapshotExpiredError:
        return False


def _wal_is_elsewhere(stores: TableStores, number: int) -> InvalidRequestError:
    return InvalidRequestError(
        f"{stores.wal.url}/{wal_path(number)} does not exist, but the manifest refers to it.",
        why="The database keeps its WAL in another store, or WAL files were removed.",
        todo="Give the location of the WAL in the option walPath.",
    )
