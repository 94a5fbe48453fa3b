"""Pins: temporary checkpoints that keep exactly the files of one long read from garbage collection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from slatespark.errors import InvalidRequestError, OptionError, SnapshotExpiredError, UnsupportedFormatError
from slatespark.format.manifest import Checkpoint
from slatespark.table.checkpoints.store import PIN_NAME, add_checkpoint, expire_time_s, present_s, refuse_unfinished
from slatespark.table.clock import Clock, new_uuid, read_clock
from slatespark.table.log.manifests import draw_nonce, publish_manifest
from slatespark.table.log.versioned_object import RaceLostError, retry_lost_races
from slatespark.table.snapshot import Snapshot
from slatespark.table.stores import TableStores

T = TypeVar("T")


def resolve_pinned(
    stores: TableStores, clock: Clock, lifetime_ms: int, resolve: Callable[[], tuple[Snapshot, T]]
) -> tuple[Snapshot, T]:
    """Return the result of `resolve`; a checkpoint keeps all files of its snapshot, WAL included, for `lifetime_ms`.

    Raises
    ------
    InvalidRequestError
        When the checkpoint cannot be created, as in a read-only store.
    """
    lost = None

    def attempt(_: int) -> tuple[Snapshot, T]:
        nonlocal lost
        found = resolve()
        number, before = found[0].manifest_id, lost
        lost = number
        try:
            _pin(stores, clock, found[0], lifetime_ms)
        except RaceLostError as exc:
            if number == before:  # an older version with WAL files above it: `seqAsOf` resolves to such a state
                raise _unpinned(stores, number, "it has WAL files that no version refers to.") from exc
            raise
        except SnapshotExpiredError as exc:  # it was the newest version, and was collected after it was replaced
            if number == before:
                raise
            raise RaceLostError(f"version {number} was collected") from exc
        except OptionError:
            raise
        except (InvalidRequestError, UnsupportedFormatError) as exc:
            raise _unpinned(stores, number, str(exc)) from exc
        return found

    return retry_lost_races(clock, attempt, f"{stores.url}: the manifest")


def _unpinned(stores: TableStores, number: int, reason: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"{stores.url}: version {number} could not be pinned: {reason}",
        why="The option pin adds a checkpoint to the newest manifest.",
        todo="Read with credentials that can write, or omit pin.",
    )


def _pin(stores: TableStores, clock: Clock, snapshot: Snapshot, lifetime_ms: int) -> None:
    """Keep a snapshot; raises `RaceLostError` when a later version may no longer need some of its WAL files."""
    manifest, seen = snapshot.manifest, snapshot.manifest.wal_id_last_seen
    if snapshot.wal.end - 1 <= seen or not snapshot.wal.last_seq:  # its manifest covers all of it
        add_checkpoint(
            stores,
            clock,
            name=PIN_NAME,
            lifetime_ms=lifetime_ms,
            manifest_id=snapshot.manifest_id,
            refuses_released=True,
        )
        return
    refuse_unfinished(stores, manifest)
    now_ms, new_id = read_clock(clock), snapshot.manifest_id + 1
    expires_s = expire_time_s(now_ms, lifetime_ms)
    point = Checkpoint(new_uuid(clock), new_id, expires_s, present_s(now_ms), PIN_NAME)
    whole = replace(manifest, wal_id_last_seen=snapshot.wal.end - 1, nonce=draw_nonce(clock))
    publish_manifest(stores, new_id, replace(whole, checkpoints=(*whole.checkpoints, point)), manifest, clock)
