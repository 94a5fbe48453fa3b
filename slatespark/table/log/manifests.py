"""The chain of manifests: the newest one, one by its id, and creating the next one under the invariants."""

from __future__ import annotations

from slatespark.errors import (
    TableNotFoundError,
)
from slatespark.format.invariants import check_manifest
from slatespark.format.manifest import Manifest, decode_manifest, encode_manifest
from slatespark.format.paths import (
    MANIFEST_DIR,
    MANIFEST_EXTENSION,
    manifest_path,
)
from slatespark.table.clock import Clock
from slatespark.table.log.numbered_log import NumberedLog, OutrunError
from slatespark.table.stores import TableStores, object_context


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
    return number, _decode_manifest(log, number, bytes(data))


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
    return _decode_manifest(log, number, bytes(log.get(number)))


def _decode_manifest(log: NumberedLog, number: int, data: bytes) -> Manifest:
    with object_context(log.store, log.path(number)):
        return decode_manifest(data)


NONCE_BITS = 64


MAX_AHEAD_MS = 10_000  # the real client waits this long for its clock to pass the last tick, then fails (spec 4.1)


class RaceLostError(Exception):
    """Somebody was faster at one step; nothing was published, and the commit may start over."""


class PassedByCollectorError(RaceLostError):
    """A version was created, and may have been the newest one for a while, before a collector passed its number.

    Others may have gone on from it: to publish its rows once more could count operands twice.
    """


def publish_manifest(
    stores: TableStores,
    manifest_id: int,
    manifest: Manifest,
    current: Manifest | None,
    clock: Clock,
    *,
    own_time: bool = False,
) -> None:
    """Check the invariants of a manifest and create it as version `manifest_id`.

    Parameters
    ----------
    own_time : the table has a clock of its own, which ours says nothing about

    Raises
    ------
    RaceLostError
        When the version exists.
    InternalError
        When an invariant does not hold; nothing was published.
    PassedByCollectorError
        When a collector passed the version before it could be known whether it was published.
    """
    now_ms = clock.now_ms() + MAX_AHEAD_MS
    check_manifest(manifest, current, new_id=manifest_id, now_ms=now_ms, own_time=own_time)
    try:
        manifest_log(stores).create(manifest_id, encode_manifest(manifest))
    except OutrunError as exc:
        raise PassedByCollectorError(manifest_id) from exc
    except FileExistsError as exc:
        raise RaceLostError(f"manifest {manifest_id} exists") from exc
