"""A shallow clone: a separate table that begins with the files of another one. See docs/reference/format/clones.md.

The order of writes is the client's. Until manifest 2 the clone is marked as unfinished, and no process writes to it. An
expiring checkpoint of the parent keeps the clone's files until a permanent one replaces it. An error before that
undoes both; a crash, or a store that stops answering, leaves a folder that later clones refuse to reuse, and perhaps
that checkpoint.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final
from uuid import UUID

from slatespark.errors import InvalidRequestError, SlateError, SnapshotExpiredError, TableExistsError
from slatespark.format.manifest import NO_TICK, ExternalDb, Manifest
from slatespark.format.paths import MANIFEST_DIR, WAL_DIR, manifest_path, wal_path
from slatespark.storage import open_store
from slatespark.table.checkpoints.released import refuse_released, used_databases
from slatespark.table.checkpoints.resolve import resolve_checkpoint
from slatespark.table.checkpoints.store import (
    OWN_NAMES,
    PIN_NAME,
    add_checkpoint,
    delete_checkpoint,
    refuse_missing_version,
    repeat_checkpoint,
)
from slatespark.table.clock import Clock, new_uuid
from slatespark.table.commit.active_jobs import hold_exactly
from slatespark.table.commit.claim import Claim
from slatespark.table.commit.earlier_table import refuse_occupied
from slatespark.table.commit.job import draw_write_id
from slatespark.table.definition.definition_json import encode_definition
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.definition.versions import (
    definition_path,
    publish_definition,
    refuse_newer,
    resolve_definition,
)
from slatespark.table.log.manifests import draw_nonce, fetch_latest_manifest, fetch_manifest, publish_manifest
from slatespark.table.log.versioned_object import RaceLostError, Version
from slatespark.table.read.versions.floor import lost_through
from slatespark.table.read.versions.kept_versions import KeptVersions
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.records.commits import publish_commit_record
from slatespark.table.records.json_objects import ROOT
from slatespark.table.records.operations import ENGINE, Operation
from slatespark.table.snapshot import TableState, fetch_wal_tail
from slatespark.table.stores import TableStores, open_stores, resolve_external
from slatespark.texts import is_encodable

CLONE_NAMES: Final = f"{OWN_NAMES}clone/"
SOURCE_LIFETIME_MS: Final = 300_000  # as in the client
_FOLDER_SCHEMES: Final = ("file", "memory")  # their root may be any folder; elsewhere it is the bucket


@dataclass(frozen=True, slots=True)
class FileOwner:
    """A database that owns files of the clone."""

    stores: TableStores
    entry: ExternalDb


def clone_table(
    stores: TableStores,
    clock: Clock,
    target: str,
    *,
    version: int | None = None,
    checkpoint: str | None = None,
    history: bool = False,
) -> CommitRecord:
    """Create a clone at `target`, of the newest state or of a version, and return its record.

    No SST is copied: a permanent checkpoint of the parent keeps those that the clone begins with. The clone gets copies
    of the table's definition, and of the WAL files with rows that are in no SST yet.

    Parameters
    ----------
    target : an empty location in the same store, below the same root: `storage.root`, the bucket, or for local folders
        the nearest one that contains both; SlateDB clients find the parent from there
    version, checkpoint : what to clone, one of them or neither
    history : whether the clone of a plain table becomes a history table

    Raises
    ------
    TableExistsError, InvalidRequestError
        When the target is not empty or not below the same root, or when there is no such checkpoint.
    HistoryTrimmedError
        When the version was collected, or its checkpoint deleted while it was cloned.
    """
    latest = fetch_latest_manifest(stores)[1]
    refuse_newer(stores)
    made = open_stores(target, storage=stores.storage)
    refuse_occupied(made, _exists(made))
    root = _common_root(stores, made, latest)
    number, source_id = _hold(stores, clock, version, checkpoint)
    fixed_ms = clock.now_ms() if version is None and checkpoint is None else None
    source = fetch_manifest(stores, number)
    refuse_released(stores, source, latest)  # before anything is at the target
    if not used_databases(latest):  # else all external paths of the table have its root
        root = _common_root(stores, made, source)
    owners = _plan_owners(stores, clock, source, source_id, root)
    definition = definition_of(stores, Version(number, source))
    if history and not definition.has_history:
        definition = _with_history(stores, Version(number, source), definition, fixed_ms)
    unfinished = plan_clone(source, [owner.entry for owner in owners], draw_nonce(clock))
    with _undone_on_error(_Attempt(made, clock, owners, unfinished, definition)) as attempt:
        _publish(made, clock, 1, unfinished, source)
        _keep_files(owners, clock, f"{CLONE_NAMES}{_path_below(root, made.url)}")
        _publish_definition(made, definition)
        _copy_wal(stores, made, source, attempt.copied)
        attempt.may_be_finished = True
        finished = replace(unfinished, initialized=True, nonce=draw_nonce(clock))
        digest = _publish(made, clock, 2, finished, unfinished)
    if definition.holds_history:  # a compactor of a client may come before our next commit
        hold_exactly(made, clock, Claim(Version(2, finished), fence_id=0), finished)
    record = _record(source, digest, clock)
    publish_commit_record(made.main, record)
    return record


def plan_clone(source: Manifest, owners: Sequence[ExternalDb], nonce: int) -> Manifest:
    """Return the first manifest of a clone: unfinished, with the trees of `source`, whose SSTs others own."""
    return replace(source, nonce=nonce, initialized=False, checkpoints=(), external_dbs=tuple(owners))


def _hold(stores: TableStores, clock: Clock, version: int | None, checkpoint: str | None) -> tuple[int, UUID]:
    """Return the version to clone, and the checkpoint that keeps it until the clone has its own."""
    if checkpoint is not None:
        latest_id, latest = fetch_latest_manifest(stores)
        found = resolve_checkpoint(stores.url, latest, checkpoint)
        refuse_missing_version(stores, found.manifest_id, latest_id, latest)
        return found.manifest_id, found.id
    made = add_checkpoint(stores, clock, name=PIN_NAME, lifetime_ms=SOURCE_LIFETIME_MS, manifest_id=version)
    return made.version, UUID(made.id)


def _plan_owners(stores: TableStores, clock: Clock, source: Manifest, source_id: UUID, root: str) -> list[FileOwner]:
    """Return the databases that own SSTs of a version: the table itself, and those that it was cloned from."""
    inherited = used_databases(source)
    borrowed = {sst_id for database in inherited for sst_id in database.sst_ids}
    own = tuple(sst_id for sst_id in source.ssts if sst_id not in borrowed)
    owners = [FileOwner(stores, ExternalDb(_path_below(root, stores.url), source_id, new_uuid(clock), own))]
    for database in inherited:
        main = stores.at(resolve_external(stores, database))
        keeper = database.final_checkpoint_id or database.source_checkpoint_id
        entry = replace(database, source_checkpoint_id=keeper, final_checkpoint_id=new_uuid(clock))
        owners.append(FileOwner(replace(stores, main=main, wal=main), entry))
    return owners


def _publish(made: TableStores, clock: Clock, number: int, manifest: Manifest, before: Manifest) -> str:
    try:
        return publish_manifest(made, number, manifest, before, clock)
    except RaceLostError as exc:
        raise _lost_place(made) from exc


@dataclass(slots=True)
class _Attempt:
    """A clone in the making, and what undoes it.

    Attributes
    ----------
    unfinished, definition : its first manifest and its definition, as they are published
    copied : paths of the WAL files that it has copied, or has begun to copy
    may_be_finished : whether manifest 2 may exist
    """

    made: TableStores
    clock: Clock
    owners: Sequence[FileOwner]
    unfinished: Manifest
    definition: TableDefinition
    copied: list[str] = field(default_factory=list)
    may_be_finished: bool = False

    def undo(self) -> None:
        """Remove what the clone added to the target, and its checkpoints at the owners."""
        with contextlib.suppress(SlateError):
            self._clear_target()
        for owner in self.owners:
            with contextlib.suppress(SlateError):  # it may not have been made yet
                delete_checkpoint(owner.stores, self.clock, str(owner.entry.final_checkpoint_id))

    def _clear_target(self) -> None:
        """Delete our objects there. An error does not tell whether they are ours, or there at all, so they are read."""
        main = self.made.main
        if fetch_manifest(self.made, 1).nonce != self.unfinished.nonce:
            return
        main.delete_many(self.copied)
        with contextlib.suppress(FileNotFoundError):
            if main.get(definition_path(1)) == encode_definition(self.definition):
                main.delete(definition_path(1))
        main.delete(manifest_path(1))  # last: until then nobody else creates a table here
        main.prune([MANIFEST_DIR, WAL_DIR, ROOT])


@contextlib.contextmanager
def _undone_on_error(attempt: _Attempt) -> Iterator[_Attempt]:
    """Undo a clone if the block raises, unless it may be finished: then only a refusal says that it is not."""
    try:
        yield attempt
    except BaseException as exc:
        is_refusal = isinstance(exc, InvalidRequestError) and not isinstance(exc, TableExistsError)
        if is_refusal or not attempt.may_be_finished:
            attempt.undo()
        raise


def _keep_files(owners: Sequence[FileOwner], clock: Clock, name: str) -> None:
    """Let the owners keep the files of the clone forever."""
    for owner in owners:
        final_id = owner.entry.final_checkpoint_id
        assert final_id is not None  # `_plan_owners` drew it
        repeat_checkpoint(owner.stores, clock, owner.entry.source_checkpoint_id, checkpoint_id=final_id, name=name)


def definition_of(stores: TableStores, source: Version[Manifest]) -> TableDefinition:
    """Return the newest definition, with the bounds of the past of one version: that of a clone or a copy."""
    definition = resolve_definition(stores, source.value)
    if not definition.has_history:
        return definition
    definition = replace(definition.at_version(source.number), earlier_bounds=())
    return replace(definition, lost_through_ms=lost_through(stores, source.value, definition))


def _with_history(
    stores: TableStores, source: Version[Manifest], definition: TableDefinition, fixed_ms: int | None
) -> TableDefinition:
    """Return the definition of a history table whose past is that of a plain one.

    Its history begins when the version was committed, and that is its floor: what was overwritten, cut away or expired
    before may be gone, without a trace.

    Parameters
    ----------
    fixed_ms : when the newest state had been fixed; None for an older version
    """
    tail = fetch_wal_tail(stores, source.value, source.value.wal_id_last_seen + 1)
    tick_ms = TableState(*source, tail).tick_ms
    properties = {**definition.properties, "history": "true"}
    properties.pop("columnar", None)  # which is not for history tables
    if tick_ms == NO_TICK:
        return replace(definition, properties=properties)
    floor_ms = tick_ms
    if not definition.has_own_time:
        floor_ms = max(tick_ms, KeptVersions(stores).time_ms(source.number) if fixed_ms is None else fixed_ms)
    return replace(definition, properties=properties, full_history_ts_low_ms=floor_ms)


def _publish_definition(made: TableStores, definition: TableDefinition) -> None:
    """Publish the definition, also that of a table which stores none: a clone without one is read with its parent's."""
    try:
        publish_definition(made, Version(1, definition))
    except RaceLostError as exc:
        raise _lost_place(made) from exc


def _copy_wal(stores: TableStores, made: TableStores, source: Manifest, copied: list[str]) -> None:
    """Copy the WAL files that the version refers to, fences included: their ids must leave no gap."""
    for number in range(source.replay_after_wal_id + 1, source.wal_id_last_seen + 1):
        path = wal_path(number)
        try:
            data = stores.wal.get(path)
        except FileNotFoundError as exc:
            raise SnapshotExpiredError(
                f"{stores.wal.url}/{path} does not exist.", why="It was collected.", todo="Clone a newer version."
            ) from exc
        copied.append(path)
        made.main.put(path, [data])


def _record(source: Manifest, digest: str, clock: Clock) -> CommitRecord:
    now_ms = clock.now_ms()
    return CommitRecord(
        manifest_id=2,
        operation=Operation.CLONE,
        write_id=draw_write_id(clock),
        engine=ENGINE,
        committed_ms=now_ms,
        write_time_ms=now_ms if source.last_l0_clock_tick == NO_TICK else source.last_l0_clock_tick,
        first_seq=None,
        last_seq=None,
        compactor_epoch=source.compactor_epoch,
        manifest_sha256=digest,
    )


# --- locations ------------------------------------------------------------------------------------------------------


def _exists(made: TableStores) -> TableExistsError:
    return TableExistsError(
        f"{made.url} exists already.",
        why="A clone needs an empty location. An unfinished clone cannot be continued.",
        todo="Choose another path, or drop an unfinished clone with force, which also releases its parent's files.",
    )


def _lost_place(made: TableStores) -> TableExistsError:
    return TableExistsError(f"{made.url}: another process created a table there.", todo="Choose another path.")


def _common_root(stores: TableStores, made: TableStores, version: Manifest) -> str:
    """Return the URL that database paths in manifests are relative to: `storage.root`, or the common ancestor.

    Raises `InvalidRequestError` when a manifest cannot name one of the two from there.
    """
    root = _root_in_use(stores, version) or _shared_ancestor(stores.url, made.url)
    for url in (stores.url, made.url):
        if not url.startswith(f"{root.rstrip('/')}/"):
            raise InvalidRequestError(
                f"{url} is not below {root}.",
                why="SlateDB clients find a clone's files from the common root.",
                todo="Choose another target, or set storage.root.",
            )
        if not is_encodable(_path_below(root, url)):
            raise InvalidRequestError(
                f"{url!r} is not valid UTF-8.",
                why="The manifests of a clone and of its parent name the other one in UTF-8.",
                todo="Rename the folder, or copy the table.",
            )
    return root


def _root_in_use(stores: TableStores, version: Manifest) -> str | None:
    """Return the given root, or the one that external paths in a version of the table are relative to."""
    if given := stores.storage.get("root"):
        return open_store(given, stores.storage).url
    for database in used_databases(version):
        return resolve_external(stores, database).removesuffix(f"/{database.path}")
    return None


def _shared_ancestor(url: str, other: str) -> str:
    """Return the bucket of two URLs; for local ones the nearest folder that contains both."""
    scheme, separator, path = url.partition("://")
    other_scheme, _, other_path = other.partition("://")
    shared = os.path.commonpath([path, other_path]) if scheme == other_scheme in _FOLDER_SCHEMES else ""
    if scheme != other_scheme or (scheme in _FOLDER_SCHEMES and not shared):
        raise InvalidRequestError(
            f"{other} and {url} are in different stores.", todo="Choose a target in the same store, or copy the rows."
        )
    return f"{scheme}{separator}{shared or path.partition('/')[0]}"


def _path_below(root: str, url: str) -> str:
    return url.removeprefix(root.rstrip("/")).strip("/")
