"""A deep copy: a version of a table becomes a table of its own in any store, with all of its files.

The files are copied first, by tasks, then rows that were only in the WAL are written, then comes the definition, and
manifest 1 last. So a copy that dies leaves objects that are not a table, and the next copy to the same place continues
with them. A checkpoint keeps the source's files meanwhile, and a lease the copied ones.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from slatespark.errors import (
    ConflictError,
    CorruptDataError,
    InvalidRequestError,
    OptionError,
    SlateError,
    TableExistsError,
    UnsupportedFormatError,
)
from slatespark.format.columnar_copy import open_copy
from slatespark.format.manifest import NO_TICK, Manifest
from slatespark.format.paths import (
    COMPACTED_DIR,
    copy_path,
    sst_path,
)
from slatespark.format.references import SstHandle
from slatespark.format.segments import WHOLE, KeySegments
from slatespark.format.sst_check import check_sst
from slatespark.options import WriteOptions
from slatespark.options.values import STORAGE_PREFIX, normalize_name
from slatespark.storage.object_store import ObjectStore
from slatespark.table.checkpoints.resolve import resolve_checkpoint
from slatespark.table.checkpoints.store import (
    COPY_NAME,
    add_checkpoint,
    delete_checkpoint,
    expire_time_s,
    refresh_checkpoint,
    refuse_missing_version,
    refuse_unfinished,
)
from slatespark.table.clock import Clock
from slatespark.table.commit.active_jobs import hold_exactly
from slatespark.table.commit.claim import Claim
from slatespark.table.commit.drain import upload_tail
from slatespark.table.commit.earlier_table import refuse_occupied
from slatespark.table.commit.file_facts import describe_files
from slatespark.table.commit.job import draw_write_id
from slatespark.table.commit.publication import without_l0
from slatespark.table.commit.tree_edit import add_runs, new_runs
from slatespark.table.commit.wal_place import fetch_state_with_wal
from slatespark.table.definition.table_definition import NO_DEFINITION, TableDefinition
from slatespark.table.definition.versions import fetch_definition, publish_definition, refuse_newer
from slatespark.table.log.manifests import draw_nonce, fetch_manifest, find_latest_manifest, publish_manifest
from slatespark.table.log.versioned_object import RaceLostError, Version, retry_lost_races
from slatespark.table.progress import Progress, Step
from slatespark.table.read.copies.stored import list_copies
from slatespark.table.read.versions.file_properties import record_file, recorded_properties
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.records.commits import publish_commit_record
from slatespark.table.records.leases import LEASE_LIFETIME_MS, delete_lease, has_lease, publish_lease, renew_lease
from slatespark.table.records.operations import ENGINE, Operation
from slatespark.table.rows.sst_upload import NewFile
from slatespark.table.snapshot import WalTail, fetch_wal_tail
from slatespark.table.stores import OWN_ROOT, TableStores, external_roots, object_context
from slatespark.table.tasks import THREADS, TaskRunner
from slatespark.table.write.clone import definition_of
from slatespark.table.write.restore import is_kept

HOLD_MS: Final = LEASE_LIFETIME_MS
RENEW_MS: Final = HOLD_MS // 4
TASK_BYTES: Final = 256 << 20
ROUND: Final = 64  # tasks for each that runs at a time, between two looks at the lease


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """An SST to copy.

    Attributes
    ----------
    root : URL of the database that owns it, as `TableStores.at` takes it
    handle : its description in the manifest
    found_bytes : size of the object of that name at the target; None if there is none
    has_copy : whether it has a columnar copy
    """

    root: str
    handle: SstHandle
    found_bytes: int | None
    has_copy: bool = False

    @property
    def path(self) -> str:
        """Path at the source and at the target."""
        return sst_path(self.handle.id)


def copy_table(
    stores: TableStores,
    clock: Clock,
    made: TableStores,
    *,
    version: int | None = None,
    checkpoint: str | None = None,
    runner: TaskRunner = THREADS,
    progress: Progress | None = None,
) -> CommitRecord:
    """Copy the newest state of a table, or a version of it, to an empty place, and return the record of the copy.

    Every checksum is verified on the way. Rows that were only in the WAL are in a file of the copy.

    Parameters
    ----------
    made : the stores of the copy; its WAL will be beside its other objects
    version, checkpoint : what to copy, one of them or neither for the newest state
    runner : copies the files; by default threads of this process
    progress : called with the bytes copied

    Raises
    ------
    TableExistsError, InvalidRequestError
        When the place is not empty, but for what a copy left that died; when there is no such version; or when rows of
        the WAL need a new segment, and the segment extractor is not declared.
    ConflictError
        When a vacuum of the place removed files of the copy, or its lease.
    HistoryTrimmedError
        When the version, or a file of it, was collected.
    CorruptDataError
        When a file is damaged.
    UnsupportedFormatError
        When a later release wrote the table.
    """
    refuse_unfinished(stores, fetch_state_with_wal(stores).manifest)
    refuse_newer(stores)
    _refuse_nested(stores, made)
    refuse_occupied(made, _occupied(made), resumes=True)
    with _guarded(stores, clock, made, version, checkpoint) as guard:
        source = Version(guard.version, fetch_manifest(stores, guard.version))
        definition = definition_of(stores, source)
        if definition != NO_DEFINITION:
            definition = replace(definition, created_by=guard.write_id)
        _refuse_other_definition(made, clock, definition)
        _copy_files(guard, source.value, runner, progress)
        tail = fetch_wal_tail(stores, source.value, source.value.wal_id_last_seen + 1)
        segments = KeySegments.of(source.value, definition.segment_extractor)
        options = WriteOptions(path=made.url)
        drained = upload_tail(stores, clock, source.value, tail, target=made.main, segments=segments, options=options)
        manifest = plan_copy(source.value, drained, tail, draw_nonce(clock), segments)
        guard.renew()
        _refuse_collected(made, manifest)
        return _publish(guard, source.value, manifest, definition, drained)


def plan_copy(
    source: Manifest, drained: tuple[NewFile, ...], tail: WalTail, nonce: int, segments: KeySegments = WHOLE
) -> Manifest:
    """Return the first manifest of a copy: the trees of `source`, rows of its WAL on top, no WAL, and no epochs.

    Parameters
    ----------
    drained : files of the rows that were only in the WAL
    tail : end of the WAL that is not in files yet
    """
    base = without_l0(source)
    return replace(
        add_runs(base, new_runs(drained, segments), base.run_ids()),
        nonce=nonce,
        initialized=True,  # the first version of a clone is not
        external_dbs=(),
        writer_epoch=0,
        compactor_epoch=0,
        replay_after_wal_id=0,
        wal_id_last_seen=0,
        ssts=base.ssts.keeping(source.shown_ssts()).adding([file.handle for file in drained]),
        checkpoints=(),
        last_l0_seq=max(base.last_l0_seq, tail.last_seq),
        last_l0_clock_tick=max(base.last_l0_clock_tick, NO_TICK if tail.tick_ms is None else tail.tick_ms),
        wal_object_store_uri=None,
    )


# --- protection -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Guard:
    """What keeps the files of a running copy, at both ends.

    Attributes
    ----------
    version : the version that is copied
    checkpoint_id : id of the checkpoint that keeps it for the copy; None if another one does
    write_id : id of the copy, which names its lease
    renewed_ms : when both were made or extended
    """

    stores: TableStores
    clock: Clock
    made: TableStores
    version: int
    checkpoint_id: str | None
    write_id: str
    began_ms: int
    renewed_ms: int

    def renew(self) -> None:
        """Extend both if part of their lifetime has passed; raises `InvalidRequestError` if the checkpoint is gone."""
        now_ms = self.clock.now_ms()
        if now_ms - self.renewed_ms < RENEW_MS:
            return
        if self.checkpoint_id is not None:
            refresh_checkpoint(self.stores, self.clock, self.checkpoint_id, HOLD_MS)
        renew_lease(self.made.main, self.write_id, self.began_ms, now_ms)
        self.renewed_ms = now_ms


@contextlib.contextmanager
def _guarded(
    stores: TableStores, clock: Clock, made: TableStores, version: int | None, checkpoint: str | None
) -> Iterator[_Guard]:
    number, held = _hold(stores, clock, version, checkpoint)
    write_id, now_ms = draw_write_id(clock), clock.now_ms()
    try:
        publish_lease(made.main, write_id, now_ms)
        yield _Guard(stores, clock, made, number, held, write_id, now_ms, now_ms)
    finally:
        delete_lease(made.main, write_id)
        if held is not None:
            with contextlib.suppress(SlateError):  # then it expires
                delete_checkpoint(stores, clock, held)


def _hold(stores: TableStores, clock: Clock, version: int | None, checkpoint: str | None) -> tuple[int, str | None]:
    """Return the version to copy, and the checkpoint made to keep it; None if it is kept anyway.

    So a version that a checkpoint keeps for long is copied without writing to its table.
    """
    latest_id, latest, _ = fetch_state_with_wal(stores)
    if checkpoint is not None:
        version = resolve_checkpoint(stores.url, latest, checkpoint).manifest_id
    if version is not None and is_kept(latest, version, expire_time_s(clock.now_ms(), HOLD_MS)):
        refuse_missing_version(stores, version, latest_id, latest)
        return version, None
    held = add_checkpoint(stores, clock, name=COPY_NAME, lifetime_ms=HOLD_MS, manifest_id=version)
    return held.version, held.id


# --- files ----------------------------------------------------------------------------------------------------------


def _copy_files(guard: _Guard, source: Manifest, runner: TaskRunner, progress: Progress | None) -> None:
    stores, made = guard.stores, guard.made
    roots, shown = external_roots(stores, source), source.shown_ssts()
    found = {meta.path: meta.size for meta in made.main.list(COMPACTED_DIR)}
    copies = list_copies(stores.main)
    files = [
        CopiedFile(roots.get(ulid, OWN_ROOT), handle, found.get(sst_path(ulid)), ulid not in roots and ulid in copies)
        for ulid, handle in source.ssts.items()
        if ulid in shown
    ]
    total = sum(_size(file) for file in files)
    groups = _groups(files, min(TASK_BYTES, total // (4 * runner.parallelism)))
    round_groups, done = ROUND * runner.parallelism, 0
    for at in range(0, len(groups), round_groups):
        some = groups[at : at + round_groups]
        for group, _ in zip(some, runner(partial(copy_files, stores, made.main), some), strict=True):
            guard.renew()
            done += sum(_size(file) for file in group)
            if progress is not None:
                progress(Step.COPYING, done, total)


def copy_files(stores: TableStores, target: ObjectStore, files: Sequence[CopiedFile]) -> None:
    """Copy SSTs, verified; those that an earlier copy stored as a whole are left alone."""
    for file in files:
        store = stores.at(file.root)
        if file.has_copy:
            _copy_columns(store, target, file)
        with object_context(store, file.path):
            if file.found_bytes is not None and store.head(file.path).size == file.found_bytes:
                continue
            data = store.get(file.path)
            check_sst(data, file.handle)
        target.put(file.path, [data])


def _copy_columns(store: ObjectStore, target: ObjectStore, file: CopiedFile) -> None:
    """Copy the columnar copy of an SST, if it is sound."""
    path = copy_path(file.handle.id)
    with contextlib.suppress(CorruptDataError, UnsupportedFormatError, FileNotFoundError):
        data = store.get(path)
        if open_copy(data).footer.label.is_of(file.handle.id, file.handle.info):
            target.put(path, [data])


def _refuse_collected(made: TableStores, manifest: Manifest) -> None:
    """Raise `ConflictError` if files of the copy are gone.

    A vacuum of the place removes what a dead copy left. It may have begun before this copy took such files up, or while
    the lease of a suspended one had expired.
    """
    there = {meta.path for meta in made.main.list(COMPACTED_DIR)}
    if gone := [sst_id for sst_id in manifest.ssts if sst_path(sst_id) not in there]:
        raise ConflictError(
            f"{made.url}: a vacuum removed {len(gone)} files of this copy, {sst_path(gone[0])} among them.",
            todo="Copy again.",
        )


def _groups(files: Sequence[CopiedFile], target_bytes: int) -> list[list[CopiedFile]]:
    """Return consecutive files in groups of about that size."""
    groups: list[list[CopiedFile]] = []
    room = 0
    for file in files:
        if room <= 0:
            groups.append([])
            room = target_bytes
        groups[-1].append(file)
        room -= _size(file)
    return groups


def _size(file: CopiedFile) -> int:
    return file.handle.info.sections_end


# --- publication ----------------------------------------------------------------------------------------------------


def _publish(
    guard: _Guard, source: Manifest, manifest: Manifest, definition: TableDefinition, drained: tuple[NewFile, ...]
) -> CommitRecord:
    made, clock = guard.made, guard.clock
    _publish_definition(guard, definition)
    # Nobody has opened the copy, and its WAL is not that of the original.
    before = replace(source, writer_epoch=0, compactor_epoch=0, replay_after_wal_id=0, wal_id_last_seen=0)
    try:
        digest = publish_manifest(made, 1, manifest, before, clock, own_time=definition.has_own_time)
    except RaceLostError as exc:
        raise _occupied(made) from exc
    if definition.holds_history:
        hold_exactly(made, clock, Claim(Version(1, manifest), fence_id=0), manifest)
    record = _record(guard, manifest, digest, drained)
    publish_commit_record(made.main, record)
    return record


def _refuse_other_definition(made: TableStores, clock: Clock, planned: TableDefinition) -> Version[TableDefinition]:
    """Return the definition at an empty place; raises `TableExistsError` for that of another creation."""
    newest, current = fetch_definition(made)
    is_same = replace(current, created_by=planned.created_by) == planned
    if newest and not is_same and has_lease(made.main, current.created_by, clock.now_ms()):
        raise TableExistsError(
            f"{made.url}: another job is creating a table here.",
            why="Or it was killed right before it did: its lease lasts for a day.",
            todo="Wait for it, or choose another path.",
        )
    if newest and not current.same_keys(planned):
        raise TableExistsError(
            f"{made.url}: an unfinished creation of another table left its definition here.",
            todo="Choose another path, or remove it with vacuum.",
        )
    return Version(newest, current)


def _publish_definition(guard: _Guard, planned: TableDefinition) -> None:
    """Make `planned` the newest definition; an equal one of another copy serves too.

    That is one whose lease lasts: a vacuum may have begun to remove any other one before this copy began.
    """
    made, clock = guard.made, guard.clock

    def serves(current: TableDefinition) -> bool:
        if current == planned:
            return True
        is_equal = replace(current, created_by=planned.created_by) == planned
        return is_equal and has_lease(made.main, current.created_by, clock.now_ms())

    def attempt(_: int) -> None:
        newest, current = _refuse_other_definition(made, clock, planned)
        if not serves(current):
            # A table that was created since the copy began keeps its own. Its manifest comes before its lease ends.
            if find_latest_manifest(made) is not None:
                raise _occupied(made)
            publish_definition(made, Version(newest + 1, planned))
            raise RaceLostError("another creator may have published the next definition already")
        if not has_lease(made.main, guard.write_id, clock.now_ms()):
            raise ConflictError(f"{made.url}: the lease of this copy expired.", todo="Copy again.")

    retry_lost_races(clock, attempt, f"{made.url}: the definition", pause=lambda *_: None)


def _record(guard: _Guard, manifest: Manifest, digest: str, drained: tuple[NewFile, ...]) -> CommitRecord:
    """Return the record of a copy, with the known properties of its files."""
    known = recorded_properties(guard.stores, manifest.ssts.values())
    files = {
        **{str(ulid): record_file(manifest.ssts[ulid], properties) for ulid, properties in known.items()},
        **describe_files(drained),
    }
    now_ms, tick_ms = guard.clock.now_ms(), manifest.last_l0_clock_tick
    return CommitRecord(
        manifest_id=1,
        operation=Operation.COPY,
        write_id=guard.write_id,
        engine=ENGINE,
        committed_ms=now_ms,
        write_time_ms=now_ms if tick_ms == NO_TICK else tick_ms,
        first_seq=None,
        last_seq=None,
        files=files,
        compactor_epoch=manifest.compactor_epoch,
        manifest_sha256=digest,
    )


# --- the place ------------------------------------------------------------------------------------------------------


def _refuse_nested(stores: TableStores, made: TableStores) -> None:
    one, other = f"{stores.url.rstrip('/')}/", f"{made.url.rstrip('/')}/"
    if one != other and (one.startswith(other) or other.startswith(one)):
        raise InvalidRequestError(
            f"{made.url} and {stores.url} would lie one within the other.", todo="Choose another path."
        )


def _occupied(made: TableStores) -> TableExistsError:
    return TableExistsError(f"{made.url} exists already.", todo="Choose another path.")


def storage_of_copy(stores: TableStores, target: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the storage options of a copy.

    Parameters
    ----------
    given : options by name, with or without the prefix `storage.`; None for those of the table, if the target is in a
        store of the same kind

    Raises
    ------
    OptionError
        When they are no options by name, or the WAL is to lie apart.
    """
    if given is None:
        return (
            {name: value for name, value in stores.storage.items() if name != "root"}
            if _kind(target) == _kind(stores.url)
            else {}
        )
    named = {name.removeprefix(STORAGE_PREFIX): value for name, value in _by_name(given).items()}
    if any(normalize_name(name) == "walpath" for name in named):
        raise OptionError("storage: a copy takes no walPath.", why="Its WAL is beside its other objects.")
    return named


def _by_name(given: object) -> Mapping[str, Any]:
    if isinstance(given, Mapping) and all(isinstance(name, str) for name in given):
        return given
    raise OptionError(  # without the value: it may hold credentials
        f"storage: {type(given).__name__} is not valid.",
        todo="Give a dict of the options of the target's store by their names.",
    )


def _kind(url: str) -> str:
    scheme, separator, _ = url.partition("://")
    return {"s3a": "s3"}.get(scheme.lower(), scheme.lower()) if separator else "file"
