"""Checkpoints: entries of the newest manifest that keep a version, with its files, from being collected.

Each change is one more manifest, by compare-and-set, and claims no epoch: a writer that is open takes it over, as it
does from the client's own administration. See docs/reference/format/checkpoints.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from slatespark.errors import (
    InvalidRequestError,
    OptionError,
    SnapshotExpiredError,
    UnsupportedFormatError,
)
from slatespark.format.manifest import Checkpoint, Manifest
from slatespark.table.checkpoints.find import find_checkpoint
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

OWN_NAMES: Final = "slatespark/"  # names that begin so are ours to give
PIN_NAME: Final = f"{OWN_NAMES}pin"

LAST_S: Final = (1 << 32) - 1  # seconds of a checkpoint are u32 on disk


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """A checkpoint; `expires_ms` is None for one that stays."""

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

    One that has expired is listed, and can be read, until a collector takes it away.
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
    """Keep a version from being collected.

    Parameters
    ----------
    name : not used by another checkpoint; None gives none
    lifetime_ms : how long, rounded up to whole seconds; None for ever
    manifest_id : the version; by default the newest state, with all that its WAL holds by then

    Raises
    ------
    InvalidRequestError
        When the name is taken or reserved, or the version does not exist yet.
    OptionError
        When the lifetime is no positive number of seconds that the format can hold.
    SnapshotExpiredError
        When the version, or a file of it, was collected.
    """
    if name is not None:
        _check_name(name)
    return add_checkpoint(stores, clock, name=name, lifetime_ms=lifetime_ms, manifest_id=manifest_id)


def add_checkpoint(
    stores: TableStores,
    clock: Clock,
    *,
    checkpoint_id: UUID | None = None,
    name: str | None = None,
    lifetime_ms: int | None = None,
    manifest_id: int | None = None,
) -> CheckpointFacts:
    """Do as `create_checkpoint`, under an id, or a name of ours, that the caller chose."""
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
            refuse_unkept(stores, manifest_id, new_id - 1, manifest)
            pinned = {other.manifest_id for other in manifest.checkpoints}
            is_kept = manifest_id == new_id - 1 or manifest_id in pinned
            if not is_kept and manifest_id <= manifest_log(stores).dead_up_to():
                # Looked at before, too, as who is killed cannot take anything back.
                raise _being_collected(stores, manifest_id)
        return _with_checkpoint(stores, manifest, point)

    fetch = (lambda: _fetch_whole_state(stores)) if manifest_id is None else None
    manifest_object(stores, clock, fetch).update(clock, change, is_done=lambda manifest: _has(manifest, point.id))
    if manifest_id is not None:
        _take_back_if_collected(stores, clock, point, is_kept=is_kept)
    return checkpoint_facts(point)


def repeat_checkpoint(
    stores: TableStores, clock: Clock, source_id: UUID, *, checkpoint_id: UUID, name: str | None = None
) -> None:
    """Keep the version of a checkpoint for ever, by a second one; raises `HistoryTrimmedError` when that is gone."""
    now_s = present_s(read_clock(clock))

    def change(newest: Version[Manifest]) -> Manifest:
        manifest = newest.value
        source = _find_one(stores, manifest, str(source_id))
        return _with_checkpoint(stores, manifest, Checkpoint(checkpoint_id, source.manifest_id, 0, now_s, name))

    manifest_object(stores, clock).update(clock, change, is_done=lambda manifest: _has(manifest, checkpoint_id))


def refresh_checkpoint(
    stores: TableStores, clock: Clock, id_or_name: str, lifetime_ms: int | None = None
) -> CheckpointFacts:
    """Let a checkpoint last for `lifetime_ms` from now, for ever without; one that has expired may come back so.

    Raises
    ------
    HistoryTrimmedError
        When there is no such checkpoint, or none any more.
    InvalidRequestError
        When several have this name.
    OptionError
        As `create_checkpoint`.
    """
    expires_s = expire_time_s(read_clock(clock), lifetime_ms)
    refreshed: list[Checkpoint] = []

    def change(newest: Version[Manifest]) -> Manifest:
        manifest = newest.value
        found = _find_one(stores, manifest, id_or_name)
        refreshed[:] = [replace(found, expire_time_s=expires_s)]
        points = tuple(refreshed[0] if point.id == found.id else point for point in manifest.checkpoints)
        return replace(manifest, checkpoints=points)

    manifest_object(stores, clock).update(clock, change)
    return checkpoint_facts(refreshed[0])


def delete_checkpoint(stores: TableStores, clock: Clock, id_or_name: str) -> None:
    """Release a checkpoint: what it alone kept may be collected from now on. Raises as `refresh_checkpoint`."""
    deleted: list[UUID] = []

    def change(newest: Version[Manifest]) -> Manifest:
        manifest = newest.value
        deleted[:] = [_find_one(stores, manifest, id_or_name).id]
        return replace(manifest, checkpoints=tuple(point for point in manifest.checkpoints if point.id != deleted[0]))

    manifest_object(stores, clock).update(clock, change, is_done=lambda manifest: not _has(manifest, deleted[0]))


def release_checkpoints(
    stores: TableStores, clock: Clock, is_over: Callable[[Checkpoint], bool]
) -> tuple[CheckpointFacts, ...]:
    """Release all checkpoints that are over, by one more manifest if there are any, and return them."""
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
    """Return the second at which a lifetime that begins now is over, rounded up; 0, never, for None.

    Raises
    ------
    OptionError
        When it is not positive, or ends after what 32 bits hold.
    """
    if lifetime_ms is None:
        return 0
    expires_s = -ms_to_s(-(now_ms + lifetime_ms))
    if lifetime_ms <= 0 or not 0 < expires_s <= LAST_S:
        raise OptionError(
            f"lifetime: {lifetime_ms} ms is not acceptable.",
            why=f"Checkpoints last at least a second, and not beyond {ms_to_text(s_to_ms(LAST_S))}.",
            todo="Give a duration like 7d, or none for ever.",
        )
    return expires_s


# --- one more manifest ------------------------------------------------------------------------------------------------


def _has(manifest: Manifest, checkpoint_id: UUID) -> bool:
    return any(point.id == checkpoint_id for point in manifest.checkpoints)


def _fetch_whole_state(stores: TableStores) -> Version[Manifest]:
    """Return the newest manifest as one that counts on every WAL file there is, so that a checkpoint keeps them."""
    number, manifest, wal = fetch_newest_state(stores, *fetch_latest_manifest(stores))
    return Version(number, replace(manifest, wal_id_last_seen=max(manifest.wal_id_last_seen, wal.end - 1)))


def _with_checkpoint(stores: TableStores, manifest: Manifest, point: Checkpoint) -> Manifest:
    """Return the manifest with one checkpoint more; an expired one of the same name makes room."""
    named = [other for other in manifest.checkpoints if point.name is not None and other.name == point.name]
    taken = None if point.name is None or point.name.startswith(OWN_NAMES) else next(iter(named), None)
    if taken is None:
        return replace(manifest, checkpoints=(*manifest.checkpoints, point))
    if not 0 < taken.expire_time_s <= point.create_time_s:
        raise InvalidRequestError(
            f"{stores.url}: there is a checkpoint named {point.name!r}, of version {taken.manifest_id}.",
            todo="Delete or refresh it, or choose another name.",
        )
    others = tuple(other for other in manifest.checkpoints if other.id != taken.id)
    return replace(manifest, checkpoints=(*others, point))


def _find_one(stores: TableStores, manifest: Manifest, id_or_name: str) -> Checkpoint:
    """Return the one checkpoint with this id or name."""
    found = find_checkpoint(stores.url, manifest, id_or_name)
    if sum(id_or_name in (str(point.id), point.name) for point in manifest.checkpoints) > 1:
        raise InvalidRequestError(
            f"{stores.url}: several checkpoints are named {id_or_name!r}.", todo="Give the id of the one you mean."
        )
    return found


def _take_back_if_collected(stores: TableStores, clock: Clock, point: Checkpoint, *, is_kept: bool) -> None:
    """Make sure that a version was not collected just before its checkpoint came: such an entry stops the collector.

    A collector moves the boundary, looks for checkpoints then, and deletes what none of them keeps. So a version that
    the boundary has passed by now may be on its way out, unless something kept it before.

    Parameters
    ----------
    is_kept : the version was the newest one when its checkpoint came, or had another checkpoint
    """
    log = manifest_log(stores)
    if log.has(point.manifest_id) and (is_kept or point.manifest_id > log.dead_up_to()):
        return
    delete_checkpoint(stores, clock, str(point.id))
    fetch_manifest(stores, point.manifest_id)  # says that it is gone
    raise _being_collected(stores, point.manifest_id)


def _being_collected(stores: TableStores, number: int) -> SnapshotExpiredError:
    return SnapshotExpiredError(f"{stores.url}: version {number} is being collected.", todo="Choose a newer version.")


def _check_name(name: str) -> None:
    """Refuse names that are ours to give, or that no manifest can hold."""
    if name.startswith(OWN_NAMES):
        raise InvalidRequestError(
            f"The checkpoint name {name!r} is not acceptable.",
            why=f"Names that begin with {OWN_NAMES} are given by slatespark itself.",
            todo="Choose another name.",
        )
    try:
        name.encode()
    except UnicodeEncodeError as exc:
        raise InvalidRequestError(f"The checkpoint name {name!r} is no Unicode text.", todo="Choose another.") from exc
    if not name.isprintable():
        raise InvalidRequestError(
            f"The checkpoint name {name!r} has characters that cannot be shown.", todo="Choose a name of one line."
        )
    if _is_id(name):
        raise InvalidRequestError(f"The checkpoint name {name!r} reads as an id.", todo="Choose another name.")


def _is_id(name: str) -> bool:
    try:
        UUID(name)
    except ValueError:
        return False
    return True


def refuse_unfinished(stores: TableStores, manifest: Manifest) -> None:
    """Refuse a clone that is still being made: the client does, too."""
    if not manifest.initialized:
        raise UnsupportedFormatError(
            f"{stores.url} is a clone that is still being made.", todo="Wait until it is finished."
        )


def refuse_unkept(stores: TableStores, number: int, latest_id: int, latest: Manifest) -> None:
    """Refuse a version that does not exist, any more or yet, or that lacks files."""
    if number > latest_id:
        raise InvalidRequestError(
            f"{stores.url}: version {number} does not exist yet.", todo=f"The newest version is {latest_id}."
        )
    refuse_collected_files(stores, number, fetch_manifest(stores, number), latest)


def present_s(now_ms: int) -> int:
    """Return an instant as a checkpoint holds it; raises `InvalidRequestError` beyond the year 2106."""
    seconds = ms_to_s(now_ms)
    if seconds > LAST_S:
        raise InvalidRequestError(
            f"The clock says {ms_to_text(now_ms)}, which no checkpoint can hold.", todo="Set the clock right."
        )
    return seconds
