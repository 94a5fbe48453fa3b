"""The chain of manifests: fetch the newest one or one by id, and create the next one under the invariants."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from slatespark.errors import SnapshotExpiredError, TableNotFoundError
from slatespark.fork_lock import fork_lock
from slatespark.format.invariants import check_manifest
from slatespark.format.manifest import Manifest
from slatespark.format.manifest_codec import decode_manifest, encode_manifest
from slatespark.format.paths import (
    MANIFEST_DIR,
    MANIFEST_EXTENSION,
    manifest_path,
)
from slatespark.storage import run_ahead
from slatespark.storage.object_store import Buffer, ObjectMeta
from slatespark.table.clock import Clock
from slatespark.table.log.numbered_log import CollectedNumberError, NumberedLog
from slatespark.table.log.versioned_object import RaceLostError, Version, VersionedObject
from slatespark.table.stores import TableStores, find_client_place, object_context

NONCE_BITS = 64
_CLAIM_BIT = 1  # on disk; see docs/adr/0001
PLAIN_NAME: Final = "Give the database a name of letters, digits, '-', '_' and '.', which means the same to both."
MAX_AHEAD_MS = 10_000  # the client waits this long for its clock to pass the last tick: slatedb src/clock.rs


def manifest_digest(data: bytes) -> str:
    """Return the SHA-256 that identifies a manifest in its claim, and in its commit record."""
    return hashlib.sha256(data).hexdigest()


# A commit reads each version several times: the one that it is planned on, its claim, and what it has published.
# Manifests are immutable, and the key is the whole content, so an entry is never stale.
_MAX_KNOWN: Final = 3
_known: Final[OrderedDict[bytes, Manifest]] = OrderedDict()
_known_lock: Final = fork_lock()


def _decode(data: bytes) -> Manifest:
    with _known_lock:
        found = _known.get(data)
    if found is None:
        found = decode_manifest(data)
    _note_content(data, found)
    return found


def _note_content(data: bytes, manifest: Manifest) -> None:
    """Remember what an object holds that was decoded, or encoded."""
    with _known_lock:
        _known[data] = manifest
        _known.move_to_end(data)
        while len(_known) > _MAX_KNOWN:
            _known.popitem(last=False)


def manifest_log(stores: TableStores) -> NumberedLog:
    """Return the chain of manifests."""
    return NumberedLog(stores.main, MANIFEST_DIR, MANIFEST_EXTENSION, manifest_path, "manifest", stores.heads)


def fetch_latest_manifest(stores: TableStores) -> Version[Manifest]:
    """Return id and content of the newest manifest; raises `TableNotFoundError` when there is none."""
    found = manifest_log(stores).latest()
    if found is None:
        raise _no_table(stores)
    number, data = found
    return Version(number, decode_version(stores, number, data))


def _no_table(stores: TableStores) -> TableNotFoundError:
    elsewhere = find_client_place(stores)
    if elsewhere is None:
        why, todo = "It has no manifest/ folder with a manifest in it.", "Check the path, or create a table there."
    else:
        why, todo = f"A SlateDB client that was given this path keeps its database in {elsewhere}.", PLAIN_NAME
    return TableNotFoundError(f"{stores.url} is not a SlateDB database.", why=why, todo=todo)


def seen_manifest(stores: TableStores) -> Version[Manifest] | None:
    """Return the newest manifest that these stores have shown or created, without a request."""
    found = stores.heads.newest(stores.main.url, MANIFEST_DIR)
    if found is None:
        return None
    number, data = found
    return Version(number, decode_version(stores, number, data))


def newest_seen(stores: TableStores) -> int:
    """Return the number of the newest version that these stores have shown or created; 0 if there was none."""
    found = stores.heads.newest(stores.main.url, MANIFEST_DIR)
    return 0 if found is None else found[0]


def note_own_commit(stores: TableStores, number: int, manifest: Manifest) -> None:
    """Remember that a version was published by a slatespark commit, which has fenced the WAL."""
    stores.heads.put_own_commit(stores.main.url, MANIFEST_DIR, number, manifest.epochs)


def is_known_commit(stores: TableStores, number: int) -> bool:
    """Tell without a request whether a version is a slatespark commit; it may be one even if the answer is False."""
    return number > 0 and stores.heads.own_commit(stores.main.url, MANIFEST_DIR)[0] == number


def is_at_rest(stores: TableStores, version: Version[Manifest]) -> bool:
    """Tell whether no client can have written since a slatespark commit: none has claimed an epoch.

    An earlier version is not at rest: the claim of that commit has the same epochs, and rows may be in the WAL then.

    Requires: it is the version that the caller has seen last. Without a request, so False where the commit is not
    known.
    """
    number, epochs = stores.heads.own_commit(stores.main.url, MANIFEST_DIR)
    return 0 < number <= version.number and epochs == version.value.epochs


def fetch_newest_since(stores: TableStores, known: Version[Manifest], *, confirm: bool = False) -> Version[Manifest]:
    """Return the newest version, which is `known` or a later one; without a later one it costs no listing.

    Parameters
    ----------
    confirm : raise `CollectedNumberError` if a collector has passed the number of `known`, which was just created
    """
    found = manifest_log(stores).latest_since(known.number, confirm=confirm)
    if found is None:
        return known
    number, data = found
    return Version(number, decode_version(stores, number, data))


def list_manifests(stores: TableStores) -> list[int]:
    """Return the ids of the existing versions, ascending; empty if there is no table.

    Versions below the collector's boundary count too if a checkpoint keeps them.
    """
    return list(list_kept(stores))


def list_kept(stores: TableStores) -> dict[int, ObjectMeta]:
    """Return the objects of the versions of `list_manifests` by id."""
    passed, alive = manifest_log(stores).split()
    return _kept(passed, alive, fetch_latest_manifest(stores)) if passed else alive


def fetch_kept(
    stores: TableStores, when_seen: Callable[[], None] | None = None
) -> tuple[Version[Manifest], dict[int, ObjectMeta]]:
    """Return the newest version, and what `list_kept` returns; both are looked for together.

    Parameters
    ----------
    when_seen : called when the newest version was seen

    Raises
    ------
    TableNotFoundError
        When there is none.
    """
    log = manifest_log(stores)
    split = run_ahead(log.split, is_remote=stores.main.is_remote)
    latest = fetch_latest_manifest(stores)
    if when_seen is not None:
        when_seen()
    passed, alive = split()
    if max(alive, default=0) < latest.number:  # it was created after the listing, and maybe more were
        passed, alive = log.split()
    return latest, _kept(passed, alive, latest)


def _kept(
    passed: Mapping[int, ObjectMeta], alive: Mapping[int, ObjectMeta], latest: Version[Manifest]
) -> dict[int, ObjectMeta]:
    pinned = {point.manifest_id for point in latest.value.checkpoints}
    return {number: meta for number, meta in passed.items() if number in pinned} | dict(alive)


def find_latest_manifest(stores: TableStores) -> Version[Manifest] | None:
    """Return id and content of the newest manifest; None if there is no table."""
    try:
        return fetch_latest_manifest(stores)
    except TableNotFoundError:
        return None


def fetch_manifest(stores: TableStores, number: int) -> Manifest:
    """Return one manifest version; raises `SnapshotExpiredError` when it no longer exists."""
    return decode_version(stores, number, manifest_log(stores).get(number))


def find_manifest(stores: TableStores, number: int) -> Manifest | None:
    """Return one manifest version; None when it no longer exists."""
    with suppress(SnapshotExpiredError):
        return fetch_manifest(stores, number)
    return None


def was_recreated(stores: TableStores, seen: Version[Manifest]) -> bool:
    """Tell whether another table was created in the place of the one that had a version.

    Raises
    ------
    TableNotFoundError
        When there is no table any more.
    CorruptDataError, UnsupportedFormatError
    """
    there = find_manifest(stores, seen.number)
    if there is not None:
        return there != seen.value
    return fetch_latest_manifest(stores).number < seen.number


def later_manifests(
    stores: TableStores, first: int, latest: Version[Manifest] | None = None
) -> Iterator[tuple[int, Manifest | None]]:
    """Yield the versions from number `first` to the newest one, ascending; None for one that was collected.

    Parameters
    ----------
    latest : the newest one, if it was fetched just now
    """
    newest = fetch_latest_manifest(stores) if latest is None else latest
    for number in range(first, newest.number):
        yield number, find_manifest(stores, number)
    if first <= newest.number:
        yield newest


def created_manifest(stores: TableStores, number: int) -> Manifest:
    """Return a version that these stores have perhaps created last, mostly without a request."""
    data = stores.heads.created(stores.main.url, MANIFEST_DIR, number)
    return decode_version(stores, number, manifest_log(stores).get(number) if data is None else data)


def decode_version(stores: TableStores, number: int, data: Buffer) -> Manifest:
    """Return the manifest that the object of a version holds; errors name the object."""
    with object_context(stores.main, manifest_path(number)):
        return _decode(bytes(data))


def draw_nonce(clock: Clock, *, is_claim: bool = False) -> int:
    """Return the nonce of a new manifest; a claim is marked in it, so that siblings notice it without a request."""
    return clock.random_bits(NONCE_BITS) & ~_CLAIM_BIT | (_CLAIM_BIT if is_claim else 0)


def may_be_claim(manifest: Manifest) -> bool:
    """Tell whether a manifest is marked as a claim; its record in `slatespark/claims/` tells for certain."""
    return manifest.nonce & _CLAIM_BIT != 0


class ManifestCollectedError(RaceLostError):
    """A version was created, but a garbage collector passed its number before the creation was confirmed.

    Other writers may have built on it, so publishing its rows again could apply merge operands twice.
    """


def publish_manifest(
    stores: TableStores,
    manifest_id: int,
    manifest: Manifest,
    current: Manifest | None,
    clock: Clock,
    *,
    own_time: bool = False,
) -> str:
    """Check the invariants of a manifest and create it as version `manifest_id`; return its digest.

    Parameters
    ----------
    own_time : the table has its own clock, unrelated to the machine's

    Raises
    ------
    RaceLostError
        When the version exists.
    InternalError
        When an invariant does not hold; nothing was published.
    ManifestCollectedError
        When a collector passed the version before its publication was confirmed.
    """
    now_ms = clock.now_ms() + MAX_AHEAD_MS
    check_manifest(manifest, current, new_id=manifest_id, now_ms=now_ms, own_time=own_time)
    try:
        data = encode_manifest(manifest)
        _note_content(data, replace(manifest, wal_object_store_uri=None))  # which this version of the format lacks
        manifest_log(stores).create(manifest_id, data)
    except CollectedNumberError as exc:
        raise ManifestCollectedError(manifest_id) from exc
    except FileExistsError as exc:
        raise RaceLostError(f"manifest {manifest_id} exists") from exc
    return manifest_digest(data)


def manifest_object(
    stores: TableStores, clock: Clock, fetch: Callable[[], Version[Manifest]] | None = None
) -> VersionedObject[Manifest]:
    """Return the manifest as an object that can be updated by changes that claim no epoch.

    Parameters
    ----------
    fetch : returns the newest version; by default the stored one
    """

    def create(version: Version[Manifest], before: Manifest) -> None:
        manifest = replace(version.value, nonce=draw_nonce(clock))
        publish_manifest(stores, version.number, manifest, before, clock)

    return VersionedObject(f"{stores.url}: the manifest", fetch or (lambda: fetch_latest_manifest(stores)), create)
