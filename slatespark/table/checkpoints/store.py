"""Checkpoints: entries of the newest manifest that keep a version and its files from garbage collection.

Each change is one more manifest, by compare-and-set, and claims no epoch: an open writer adopts it, as it does a change
by the client's own administration. See docs/reference/format/checkpoints.md.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from slatespark.errors import (
    HistoryTrimmedError,
    InvalidRequestError,
    OptionError,
    SnapshotExpiredError,
    UnsupportedFormatError,
)
from slatespark.format.manifest import Checkpoint, Manifest
from slatespark.shown import Shown
from slatespark.table.checkpoints.released import refuse_released
from slatespark.table.checkpoints.resolve import resolve_checkpoint
from slatespark.table.checkpoints.version_files import refuse_collected_files
from slatespark.table.clock import Clock, new_uuid, read_clock
from slatespark.table.log.manifests import (
    fetch_latest_manifest,
    fetch_manifest,
    manifest_log,
    manifest_object,
)
from slatespark.table.log.versioned_object import Version
from slatespark.table.snapshot import fetch_newest_state
from slatespark.table.stores import TableStores
from slatespark.units import ms_to_s, ms_to_text, s_to_ms

OWN_NAMES: Final = "slatespark/"  # prefix of the names that only slatespark gives
PIN_NAME: Final = f"{OWN_NAMES}pin"
COPY_NAME: Final = f"{OWN_NAMES}copy"  # of a running copy, which deletes it at its end

LAST_S: Final = (1 << 32) - 1  # seconds of a checkpoint are u32 on disk


@dataclass(frozen=True, slots=True, repr=False)
class CheckpointFacts(Shown):
    """A checkpoint; `expires_ms` is None if it never expires."""

    id: str
    name: str | None
    version: int
    created_ms: int
    expires_ms: int | None


def checkpoint_facts(point: Checkpoint) -> CheckpointFacts:
    """Return a checkpoint with its times in ms."""
    return CheckpointFacts(
        id=str(point.id),
        name=point.name,
        version=point.manifest_id,
        created_ms=s_to_ms(point.create_time_s),
        expires_ms=s_to_ms(point.expire_time_s) if point.expire_time_s else None,
    )


def list_checkpoints(stores: TableStores) -> tuple[CheckpointFacts, ...]:
    """Return the checkpoints of a table in the order of the manifest; raises `TableNotFoundError`.

    An expired checkpoint is listed, and can be read, until a garbage collector removes it.
    """
    return tuple(checkpoint_facts(point) for point in fetch_latest_manifest(stores)[1].checkpoints)


def create_checkpoint(
    stores: TableStores,
    clock: Clock,
    *,
    name: str | None = None,
    lifetime_ms: int | None = None,
    manifest_id: int | None = None,
) -> CheckpointFacts:
    """Keep a version from garbage collection.

    Parameters
    ----------
    name : not used by another checkpoint; None for no name
    lifetime_ms : rounded up to whole seconds; None forever
    manifest_id : the version; by default the newest state, WAL included

    Raises
    ------
    InvalidRequestError
        When the name is taken or reserved, or the version does not exist yet.
    OptionError
        When the lifetime is not positive, or ends later than the format can hold.
    SnapshotExpiredError
        When the version, or a file of it, was collected.
    HistoryTrimmedError
        When it is one of a clone, which has released files of it at its parent.
    """
    if name is not None:
        _check_name(name)
    return add_checkpoint(
        stores, clock, name=name, lifetime_ms=lifetime_ms, manifest_id=manifest_id, refuses_released=True
    )


def add_checkpoint(
    stores: TableStores,
    clock: Clock,
    *,
    checkpoint_id: UUID | None = None,
    name: str | None = None,
    lifetime_ms: int | None = None,
    manifest_id: int | None = None,
    refuses_released: bool = False,
) -> CheckpointFacts:
    """Do the same as `create_checkpoint`; the caller may choose the id, and a reserved name.

    Parameters
    ----------
    refuses_released : raise `HistoryTrimmedError` for a version with files that no checkpoint of ours can keep
    """
    now_ms = read_clock(clock)
    point = Checkpoint(
        id=checkpoint_id or new_uuid(clock),
        manifest_id=manifest_id or 0,
        expire_time_s=expire_time_s(now_ms, lifetime_ms),
        create_time_s=present_s(now_ms),
        name=name,
    )

    is_kept = False

    def change(newest: Version[Manifest]) -> Manifest:
        nonlocal point, is_kept
        new_id, manifest = newest.number + 1, newest.value
        refuse_unfinished(stores, manifest)
        if manifest_id is None:
            point = replace(point, manifest_id=new_id)
        else:
            source = refuse_missing_version(stores, manifest_id, new_id - 1, manifest)
            if refuses_released:
                refuse_released(stores, source, manifest)
            pinned = {other.manifest_id for other in manifest.checkpoints}
            is_kept = manifest_id == new_id - 1 or manifest_id in pinned
            if not is_kept and manifest_id <= manifest_log(stores).dead_up_to():
                # Checked before as well, since a process that is killed cannot remove its checkpoint.
                raise _being_collected(stores, manifest_id)
        return _with_checkpoint(stores, manifest, point)

    fetch = (lambda: _fetch_whole_state(stores)) if manifest_id is None else None
    manifest_object(stores, clock, fetch).update(clock, change, is_done=lambda manifest: _has(manifest, point.id))
    if manifest_id is not None:
        _remove_if_collected(stores, clock, point, is_kept=is_kept)
    return checkpoint_facts(point)


def repeat_checkpoint(
    stores: TableStores, clock: Clock, source_id: UUID, *, checkpoint_id: UUID, name: str | None = None
) -> None:
    """Keep the version of a checkpoint forever, by a second one; raises `HistoryTrimmedError` if the first is gone."""
    now_s = present_s(read_clock(clock))

    def change(newest: Version[Manifest]) -> Manifest:
        manifest = newest.value
        source = next((point for point in manifest.checkpoints if point.id == source_id), None)
        if source is None:
            raise HistoryTrimmedError(
                f"{stores.url}: checkpoint {source_id} is gone.",
                why="It has expired, or another process deleted it.",
                todo="Try again.",
            )
        return _with_checkpoint(stores, manifest, Checkpoint(checkpoint_id, source.manifest_id, 0, now_s, name))

    manifest_object(stores, clock).update(clock, change, is_done=lambda manifest: _has(manifest, checkpoint_id))


def refresh_checkpoint(
    stores: TableStores, clock: Clock, id_or_name: str, lifetime_ms: int | None = None
) -> CheckpointFacts:
    """Let a checkpoint last for `lifetime_ms` from now, or forever; this revives an expired one that is still listed.

    Raises
    ------
    InvalidRequestError
        When no checkpoint has this id or name, or several have this name.
    OptionError
        As `create_checkpoint`.
    """
    expires_s = expire_time_s(read_clock(clock), lifetime_ms)
    refreshed: list[Checkpoint] = []

    def change(newest: Version[Manifest]) -> Manifest:
        manifest = newest.value
        found = _resolve_one(stores, manifest, id_or_name)
        refreshed[:] = [replace(found, expire_time_s=expires_s)]
        points = tuple(refreshed[0] if point.id == found.id else point for point in manifest.checkpoints)
        return replace(manifest, checkpoints=points)

    manifest_object(stores, clock).update(clock, change)
    return checkpoint_facts(refreshed[0])


def delete_checkpoint(stores: TableStores, clock: Clock, id_or_name: str) -> None:
    """Release a checkpoint: files that it alone kept may now be collected. Raises as `refresh_checkpoint`."""
    deleted: list[UUID] = []

    def change(newest: Version[Manifest]) -> Manifest:
        manifest = newest.value
        deleted[:] = [_resolve_one(stores, manifest, id_or_name).id]
        return replace(manifest, checkpoints=tuple(point for point in manifest.checkpoints if point.id != deleted[0]))

    manifest_object(stores, clock).update(clock, change, is_done=lambda manifest: not _has(manifest, deleted[0]))


def release_checkpoints(
    stores: TableStores, clock: Clock, is_over: Callable[[Checkpoint], bool]
) -> tuple[CheckpointFacts, ...]:
    """Release all checkpoints for which `is_over` holds, in one manifest, and return them."""
    released: tuple[Checkpoint, ...] = ()

    def change(newest: Version[Manifest]) -> Manifest:
        manifest = newest.value
        nonlocal released
        released = tuple(point for point in manifest.checkpoints if is_over(point))
        return replace(manifest, checkpoints=tuple(point for point in manifest.checkpoints if point not in released))

    def is_done(manifest: Manifest) -> bool:
        return not any(is_over(point) for point in manifest.checkpoints)

    if not is_done(fetch_latest_manifest(stores)[1]):
        manifest_object(stores, clock).update(clock, change, is_done=is_done)
    return tuple(checkpoint_facts(point) for point in released)


def expire_time_s(now_ms: int, lifetime_ms: int | None) -> int:
    """Return the second at which a lifetime that begins now ends, rounded up; 0 (never) for None.

    Raises
    ------
    OptionError
        When it is not positive, or ends later than 32 bits of seconds can hold.
    """
    if lifetime_ms is None:
        return 0
    expires_s = -ms_to_s(-(now_ms + lifetime_ms))
    if lifetime_ms <= 0 or not 0 < expires_s <= LAST_S:
        raise OptionError(
            f"The lifetime of a checkpoint cannot be {lifetime_ms} ms.",
            why=f"It is at least a second, and ends at {ms_to_text(s_to_ms(LAST_S))} at the latest.",
            todo="Give a duration such as 7d.",
        )
    return expires_s


# --- private helpers --------------------------------------------------------------------------------------------------


def _has(manifest: Manifest, checkpoint_id: UUID) -> bool:
    return any(point.id == checkpoint_id for point in manifest.checkpoints)


def _fetch_whole_state(stores: TableStores) -> Version[Manifest]:
    """Return the newest manifest, extended to all existing WAL files so that a checkpoint keeps them."""
    number, manifest, wal = fetch_newest_state(stores)
    return Version(number, replace(manifest, wal_id_last_seen=max(manifest.wal_id_last_seen, wal.end - 1)))


def _with_checkpoint(stores: TableStores, manifest: Manifest, point: Checkpoint) -> Manifest:
    """Return the manifest with one more checkpoint; it replaces an expired one of the same name."""
    named = [other for other in manifest.checkpoints if point.name is not None and other.name == point.name]
    taken = None if point.name is None or point.name.startswith(OWN_NAMES) else next(iter(named), None)
    if taken is None:
        return replace(manifest, checkpoints=(*manifest.checkpoints, point))
    if not 0 < taken.expire_time_s <= point.create_time_s:
        raise InvalidRequestError(
            f"{stores.url}: a checkpoint named {point.name!r} exists already, for version {taken.manifest_id}.",
            todo="Delete or refresh it, or choose another name.",
        )
    others = tuple(other for other in manifest.checkpoints if other.id != taken.id)
    return replace(manifest, checkpoints=(*others, point))


def _resolve_one(stores: TableStores, manifest: Manifest, id_or_name: str) -> Checkpoint:
    """Return the one checkpoint with this id or name."""
    found = resolve_checkpoint(stores.url, manifest, id_or_name)
    if sum(id_or_name in (str(point.id), point.name) for point in manifest.checkpoints) > 1:
        raise InvalidRequestError(
            f"{stores.url}: several checkpoints are named {id_or_name!r}.", todo="Give the id of the one you mean."
        )
    return found


def _remove_if_collected(stores: TableStores, clock: Clock, point: Checkpoint, *, is_kept: bool) -> None:
    """Remove a checkpoint again whose version was collected before it was published: such an entry stops collectors.

    A collector moves the boundary, then looks for checkpoints, and deletes versions that none of them keeps. So a
    version that the boundary has passed may be about to be deleted, unless something kept it before.

    Parameters
    ----------
    is_kept : the version was the newest one when its checkpoint was published, or had another checkpoint
    """
    log = manifest_log(stores)
    if log.has(point.manifest_id) and (is_kept or point.manifest_id > log.dead_up_to()):
        return
    with suppress(InvalidRequestError):  # another process may have deleted it
        delete_checkpoint(stores, clock, str(point.id))
    fetch_manifest(stores, point.manifest_id)  # raises if it is gone
    raise _being_collected(stores, point.manifest_id)


def _being_collected(stores: TableStores, number: int) -> SnapshotExpiredError:
    return SnapshotExpiredError(f"{stores.url}: version {number} is being collected.", todo="Choose a newer version.")


def _check_name(name: str) -> None:
    """Refuse reserved names, and names that a manifest cannot hold or a line cannot show."""
    if name.startswith(OWN_NAMES):
        raise InvalidRequestError(
            f"The checkpoint name {name!r} is not valid.",
            why=f"Names that begin with {OWN_NAMES} are reserved for slatespark itself.",
            todo="Choose another name.",
        )
    try:
        name.encode()
    except UnicodeEncodeError as exc:
        raise InvalidRequestError(f"The checkpoint name {name!r} is not Unicode text.", todo="Choose another.") from exc
    if not name.isprintable():
        raise InvalidRequestError(
            f"The checkpoint name {name!r} has characters that are not printable.",
            todo="Choose a printable name on one line.",
        )
    if _is_id(name):
        raise InvalidRequestError(f"The checkpoint name {name!r} has the form of an id.", todo="Choose another name.")


def _is_id(name: str) -> bool:
    try:
        UUID(name)
    except ValueError:
        return False
    return True


def refuse_unfinished(stores: TableStores, manifest: Manifest) -> None:
    """Refuse a clone that is still being created, as the client does."""
    if not manifest.initialized:
        raise UnsupportedFormatError(
            f"{stores.url} is a clone that is still being created.", todo="Wait until it is finished."
        )


def refuse_missing_version(stores: TableStores, number: int, latest_id: int, latest: Manifest) -> Manifest:
    """Return a version; refuse one that does not exist yet or no longer, or that lacks files."""
    if number > latest_id:
        raise InvalidRequestError(
            f"{stores.url}: version {number} does not exist yet.", todo=f"The newest version is {latest_id}."
        )
    manifest = fetch_manifest(stores, number)
    refuse_collected_files(stores, number, manifest, latest)
    return manifest


def present_s(now_ms: int) -> int:
    """Return an instant as a checkpoint holds it; raises `InvalidRequestError` beyond the year 2106."""
    seconds = ms_to_s(now_ms)
    if seconds > LAST_S:
        raise InvalidRequestError(
            f"The clock says {ms_to_text(now_ms)}, which a checkpoint cannot hold.", todo="Correct the clock."
        )
    return seconds
