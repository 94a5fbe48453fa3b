"""Snapshot: one manifest, frozen, with the part of the WAL that it makes visible and the instant that judges expiry.

Source: spec sections 4.1, 4.5; design sections 3 and 7.
"""

from __future__ import annotations

from dataclasses import dataclass

from slatespark.errors import (
    HistoryTrimmedError,
    InvalidRequestError,
    SnapshotExpiredError,
    TableNotFoundError,
    UnavailableError,
)
from slatespark.format.manifest import Checkpoint, Manifest, decode_manifest
from slatespark.format.paths import (
    MANIFEST_DIR,
    MANIFEST_EXTENSION,
    SST_EXTENSION,
    WAL_DIR,
    manifest_path,
    numbered,
    wal_path,
)
from slatespark.format.wal import decode_wal
from slatespark.kernels.columns import HAS_CREATE
from slatespark.options import ReadOptions
from slatespark.table.clock import Clock
from slatespark.table.located import reading
from slatespark.table.numbered_log import NumberedLog
from slatespark.table.stores import TableStores

_KNOWN_SHOWN = 10  # checkpoints in a message
_STATE_ATTEMPTS = 20  # the manifest and the WAL are two looks at a table that others change


@dataclass(frozen=True, slots=True)
class WalTail:
    """WAL files that hold rows not yet in the trees.

    Attributes
    ----------
    start, end : ids [start, end); `end` is the first id that does not belong to it
    last_seq : highest sequence number in it, 0 if it holds no row
    tick_ms : highest create_ts in it, None if it holds no row
    """

    start: int
    end: int
    last_seq: int = 0
    tick_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one read sees.

    Attributes
    ----------
    manifest_id, manifest : the version
    wal : the tail that counts
    max_seq : highest visible sequence number; rows above it are not committed
    tick_ms : last clock tick, of trees and WAL; the smallest int64 when nothing was ever written
    now_ms : the instant at which expiry is judged
    as_of_ts_ms : rows created later do not exist for the read; None for no such bound
    """

    manifest_id: int
    manifest: Manifest
    wal: WalTail
    max_seq: int
    tick_ms: int
    now_ms: int
    as_of_ts_ms: int | None = None


def manifest_log(stores: TableStores) -> NumberedLog:
    """Return the chain of manifests."""
    return NumberedLog(stores.main, MANIFEST_DIR, MANIFEST_EXTENSION, manifest_path, "manifest")


def fetch_latest_manifest(stores: TableStores) -> tuple[int, Manifest]:
    """Return id and content of the newest manifest; raises `TableNotFoundError` when there is none."""
    log = manifest_log(stores)
    found = log.latest()
    if found is None:
        raise TableNotFoundError(
            f"{stores.url} is no SlateDB database.",
            why="It has no manifest/ folder with a manifest in it.",
            todo="Check the path, or write to it to create a table.",
        )
    number, data = found
    return number, _decode(log, number, bytes(data))


def list_manifests(stores: TableStores) -> list[int]:
    """Return the ids of the versions that exist, ascending; none where there is no table.

    The collector's boundary passes versions that a checkpoint keeps (spec 8): they count too.
    """
    passed, alive = manifest_log(stores).split_numbers()
    if not passed:
        return alive
    pinned = {point.manifest_id for point in fetch_latest_manifest(stores)[1].checkpoints}
    return [number for number in passed if number in pinned] + alive


def find_latest_manifest(stores: TableStores) -> tuple[int, Manifest] | None:
    """Return id and content of the newest manifest; None if there is no table."""
    try:
        return fetch_latest_manifest(stores)
    except TableNotFoundError:
        return None


def fetch_manifest(stores: TableStores, number: int) -> Manifest:
    """Return one manifest version; raises `SnapshotExpiredError` when it no longer exists."""
    log = manifest_log(stores)
    return _decode(log, number, bytes(log.get(number)))


def _decode(log: NumberedLog, number: int, data: bytes) -> Manifest:
    with reading(log.store, log.path(number)):
        return decode_manifest(data)


def resolve_snapshot(stores: TableStores, options: ReadOptions, clock: Clock) -> Snapshot:
    """Return the snapshot that a read with these options sees.

    Raises
    ------
    TableNotFoundError, HistoryTrimmedError, SnapshotExpiredError, CorruptDataError, UnsupportedFormatError
    InvalidRequestError, OptionError
        When a version, time or sequence number of the future is asked for.
    """
    if options.timestamp_as_of_ms is not None or options.seq_as_of is not None:
        from slatespark.table.history.as_of import resolve_as_of  # most reads are of the newest state

        return resolve_as_of(stores, options, clock)
    latest_id, latest = fetch_latest_manifest(stores)
    number = _pinned_version(stores, options, latest_id, latest)
    if number is not None:
        manifest = latest if number == latest_id else fetch_manifest(stores, number)
        return pin_version(stores, number, manifest, options.now_ms)
    latest_id, manifest, wal = fetch_newest_state(stores, latest_id, latest)
    return make_snapshot(latest_id, manifest, wal, options.now_ms, clock)


def pin_version(stores: TableStores, number: int, manifest: Manifest, now_ms: int | None = None) -> Snapshot:
    """Return the snapshot of a version as it was committed, with the WAL that it knew.

    Parameters
    ----------
    now_ms : the instant that judges expiry; by default the version's clock tick

    Raises
    ------
    SnapshotExpiredError
        When WAL files of it were collected.
    """
    wal = fetch_wal_tail(stores, manifest, manifest.wal_id_last_seen + 1)
    now_ms = manifest.last_l0_clock_tick if now_ms is None else now_ms
    return make_snapshot(number, manifest, wal, now_ms)


def make_snapshot(
    number: int, manifest: Manifest, wal: WalTail, now_ms: int | None, clock: Clock | None = None
) -> Snapshot:
    """Return the snapshot of all rows of a version and a WAL tail; without `now_ms` it is that of the clock."""
    tick_ms = max(manifest.last_l0_clock_tick, wal.tick_ms) if wal.tick_ms is not None else manifest.last_l0_clock_tick
    if now_ms is None:
        now_ms = tick_ms if clock is None else max(clock.now_ms(), tick_ms)
    return Snapshot(number, manifest, wal, max(manifest.last_l0_seq, wal.last_seq), tick_ms, now_ms)


def _pinned_version(stores: TableStores, options: ReadOptions, latest_id: int, latest: Manifest) -> int | None:
    """Return the manifest id that the options ask for; None for the newest state, WAL included."""
    if options.checkpoint is not None:
        return find_checkpoint(stores.url, latest, options.checkpoint).manifest_id
    version = options.version_as_of
    if version is not None and version > latest_id:
        raise InvalidRequestError(
            f"{stores.url}: versionAsOf {version} does not exist yet.", todo=f"The newest version is {latest_id}."
        )
    return version


def find_checkpoint(url: str, manifest: Manifest, name: str) -> Checkpoint:
    """Return the checkpoint with this id or name; raises `HistoryTrimmedError` when there is none."""
    hits = [point for point in manifest.checkpoints if name in (str(point.id), point.name)]
    if not hits:
        known = [point.name or str(point.id) for point in manifest.checkpoints]
        shown = ", ".join(known[-_KNOWN_SHOWN:]) + (" and others" if len(known) > _KNOWN_SHOWN else "") or "none"
        raise HistoryTrimmedError(
            f"{url}: there is no checkpoint {name!r}.",
            why="It was deleted, has expired, or never existed.",
            todo=f"Known checkpoints: {shown}.",
        )
    if len({point.manifest_id for point in hits}) > 1:
        raise InvalidRequestError(
            f"{url}: {len(hits)} checkpoints are named {name!r}.", todo="Give the id of the one you mean."
        )
    return hits[0]


# --- the WAL --------------------------------------------------------------------------------------------------------


def fetch_newest_state(stores: TableStores, number: int, manifest: Manifest) -> tuple[int, Manifest, WalTail]:
    """Return the newest manifest and the WAL tail above it.

    A writer that flushes, and a collector behind it, may take WAL files away after the manifest was read. Both need a
    newer manifest for that, so the tail is whole if there was none yet when it was listed; else both are read again.

    Parameters
    ----------
    number, manifest : the newest one found so far

    Raises
    ------
    UnavailableError
        When newer manifests keep coming.
    """
    log = manifest_log(stores)
    for _ in range(_STATE_ATTEMPTS):
        try:
            tail = fetch_wal_tail(stores, manifest, None)
        except (InvalidRequestError, SnapshotExpiredError):
            newest_id, _ = fetch_latest_manifest(stores)  # the one above may have been collected, too
            if newest_id == number:
                raise
        else:
            if not log.has(number + 1):
                return number, manifest, tail
        number, manifest = fetch_latest_manifest(stores)
    raise UnavailableError(f"{stores.url}: the manifest changes faster than it can be read.", todo="Retry.")


def fetch_wal_tail(stores: TableStores, manifest: Manifest, end: int | None) -> WalTail:
    """Return the WAL files that hold rows above the manifest's trees.

    Parameters
    ----------
    end : first WAL id that does not count; None means the whole tail, to the first id that does not exist

    Raises
    ------
    InvalidRequestError
        When the WAL is kept in another store.
    SnapshotExpiredError
        When files of an older version's tail were collected.
    """
    start = manifest.replay_after_wal_id + 1
    sizes = wal_sizes(stores, manifest)
    stop = start
    while stop in sizes and (end is None or stop < end):
        stop += 1
    _check_tail_is_whole(stores, manifest, stop, end, bool(sizes))
    for number in range(stop - 1, start - 1, -1):
        if sizes[number] == 0:  # a fence
            continue
        last_seq, tick_ms = _fetch_wal_bounds(stores, number)
        if last_seq is not None:
            return WalTail(start, stop, max(last_seq, 0), tick_ms)
    return WalTail(start, stop)


def wal_sizes(stores: TableStores, manifest: Manifest) -> dict[int, int]:
    """Return the sizes of the WAL files above the replay point, by id; a fence has size 0."""
    listed = stores.wal.list(WAL_DIR, wal_path(manifest.replay_after_wal_id))
    return {number: meta.size for meta in listed if (number := numbered(meta.path, SST_EXTENSION)) is not None}


def _fetch_wal_bounds(stores: TableStores, number: int) -> tuple[int | None, int | None]:
    """Return highest seq and create_ts of a WAL file; both grow with the commit order (spec 2.13, 4.1)."""
    path = wal_path(number)
    with reading(stores.wal, path):
        rows = decode_wal(bytes(stores.wal.get(path)))
    if not len(rows):
        return None, None
    stamped = rows.create_ts[(rows.flags & HAS_CREATE) != 0]
    return int(rows.seqs.max()), int(stamped.max()) if len(stamped) else None


def _check_tail_is_whole(stores: TableStores, manifest: Manifest, stop: int, end: int | None, any_listed: bool) -> None:
    """Refuse a tail of which the manifest knows more than there is."""
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
    nothing_pending = wanted <= manifest.replay_after_wal_id + 1 and not any_listed
    # The client never collects the file at replay_after_wal_id, but a clone starts without its parent's.
    if nothing_pending and manifest.replay_after_wal_id and not manifest.external_dbs and not stores.wal_is_apart:
        try:
            stores.wal.head(wal_path(manifest.replay_after_wal_id))
        except FileNotFoundError:
            raise _wal_is_elsewhere(stores, manifest.replay_after_wal_id) from None


def _wal_is_elsewhere(stores: TableStores, number: int) -> InvalidRequestError:
    return InvalidRequestError(
        f"{stores.wal.url}/{wal_path(number)} does not exist, but the manifest counts on it.",
        why="The database keeps its WAL in another store, or WAL files were removed.",
        todo="Say where the WAL is with the option walPath.",
    )
