"""Dropping a table: all of its objects go, and nothing else.

1. Refuse while a clone, a checkpoint, a job or a client may need the table.
2. Put the marker `.deleting`, as the client's own administration does: a drop that dies is finished by the next one.
3. Move the manifests' boundary behind all of them. So the table is gone at once, and no late writer can bring a part of
   it back. Where the store cannot do that, manifests go oldest first: until the newest one goes the table is whole.
4. Release the checkpoints of a clone at its parents. Then delete the newest manifest, all other objects, and the marker
   last. Without the marker another drop has ended, and nothing more is deleted: a new table may be here.

See docs/reference/format/objects.md, docs/reference/format/versioned-objects.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from slatespark.errors import (
    ConflictError,
    CorruptDataError,
    InvalidRequestError,
    TableNotFoundError,
    UnsupportedFormatError,
)
from slatespark.format.compactions import Compaction
from slatespark.format.manifest import Manifest
from slatespark.format.manifest_codec import decode_manifest
from slatespark.format.paths import (
    COLUMNS_DIR,
    COMPACTED_DIR,
    COMPACTIONS_DIR,
    DELETING_MARKER,
    GC_DIR,
    MANIFEST_DIR,
    MANIFEST_EXTENSION,
    TABLE_FOLDERS,
    WAL_DIR,
)
from slatespark.storage import ObjectMeta, ObjectStore
from slatespark.table.checkpoints.store import delete_checkpoint
from slatespark.table.clock import Clock, read_clock
from slatespark.table.commit.active_jobs import is_at_work
from slatespark.table.commit.foreign_clients import are_epochs_ours
from slatespark.table.commit.wal_place import fetch_state_with_wal, refuse_other_database
from slatespark.table.definition.versions import refuse_newer
from slatespark.table.gc.deletion import delete_together
from slatespark.table.gc.drop_plan import (
    COLUMNS,
    MANIFESTS,
    METADATA,
    DropBlocker,
    DropReport,
    TableObjects,
    judge_checkpoints,
    split_own,
)
from slatespark.table.gc.survey import list_unfinished, survey_leases
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.log.manifests import fetch_latest_manifest, manifest_log, was_recreated
from slatespark.table.log.numbered_log import by_number
from slatespark.table.log.versioned_object import Version
from slatespark.table.progress import Progress, Step
from slatespark.table.records.json_objects import ROOT
from slatespark.table.stores import TableStores, resolve_external
from slatespark.units import ms_to_text

CLIENT_QUIET_MS: Final = 60_000  # a client that wrote within this time may still be open
_LAST: Final = (1 << 64) - 1
_ATTEMPTS: Final = 10  # at manifests of writers that do not know yet


def drop_table(
    stores: TableStores,
    clock: Clock,
    *,
    force: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> DropReport:
    """Delete a table with all of its objects, or finish a drop that died.

    Parameters
    ----------
    force : go on although checkpoints, jobs or a client may need it, its newest manifest or the boundary cannot be
        read, or a later release wrote its definition; never where a clone may need its files
    progress : called with the number of deleted objects

    Raises
    ------
    TableNotFoundError
        When there is no table, and no drop was begun.
    InvalidRequestError
        When somebody may still need it; or its WAL is elsewhere, or belongs to another database.
    ConflictError
        When another drop was faster, and there is a new table.
    CorruptDataError, UnsupportedFormatError
        Without `force`, when its newest manifest cannot be read, or a later release wrote its definition, so that
        nobody knows who needs it.
    """
    refuse_other_database(stores)
    found = _find_table(stores, is_forced=force)
    if not force:
        refuse_newer(stores)
    drop = _Drop(stores, clock, found, progress)
    planned = drop.plan()
    # Last, and of the version that is the newest one now: the listings of a large table take long.
    newest = found if found is None else _find_newest(stores, found)
    blockers = () if newest is None else tuple(find_blockers(stores, clock, newest, is_forced=force))
    report = replace(planned, blockers=blockers)
    if dry_run:
        return report
    refuse_blocked(report, force=force)
    return replace(report, dry_run=False, released=drop.run())


def find_blockers(
    stores: TableStores, clock: Clock, found: Version[Manifest], *, is_forced: bool = False
) -> Iterator[DropBlocker]:
    """Yield those who may still need a table.

    Parameters
    ----------
    is_forced : a list of compactions that cannot be read does not matter, as those in it do not
    """
    now_ms, manifest = read_clock(clock), found.value
    yield from judge_checkpoints(manifest, now_ms)
    if not manifest.initialized:
        yield DropBlocker("job", stores.url, "it is a clone that is still being created, or whose creation failed")
    for lease in survey_leases(stores, now_ms).live:
        since = "" if lease.created_ms is None else f" that began at {ms_to_text(lease.created_ms)}"
        yield DropBlocker("job", lease.write_id, f"job {lease.write_id}{since} is running, or was killed within a day")
    for job in _active_jobs(stores, is_forced=is_forced):
        if is_at_work(stores, job, now_ms):
            yield DropBlocker("job", str(job.id), f"compaction {job.id} is running")
    wrote_ms = _client_wrote_ms(stores, found)
    if wrote_ms is not None and now_ms - wrote_ms < CLIENT_QUIET_MS:
        text = (
            f"a SlateDB client (writer epoch {manifest.writer_epoch}) wrote at {ms_to_text(wrote_ms)} and may be open"
        )
        yield DropBlocker("client", str(manifest.writer_epoch), text)


def _active_jobs(stores: TableStores, *, is_forced: bool) -> Sequence[Compaction]:
    try:
        return fetch_compactions(stores).value.active_jobs()
    except (CorruptDataError, UnsupportedFormatError):
        if is_forced:
            return ()
        raise


def _client_wrote_ms(stores: TableStores, found: Version[Manifest]) -> int | None:
    """Return when the client that opened the table last wrote; None if that was a job of slatespark, or nobody."""
    if are_epochs_ours(stores, found):
        return None
    written = [*stores.main.list(MANIFEST_DIR), *stores.wal.list(WAL_DIR)]
    return max((meta.modified_ms for meta in written), default=None)


def refuse_blocked(plan: DropReport, *, force: bool) -> None:
    """Raise `InvalidRequestError` if somebody may still need the table whom `force` does not pass over."""
    if not any(not force or blocker.is_firm for blocker in plan.blockers):
        return
    firm = [blocker.name for blocker in plan.blockers if blocker.is_firm]
    raise InvalidRequestError(
        f"{plan.url} may still be needed: {'; '.join(blocker.text for blocker in plan.blockers)}.",
        why="Nothing was deleted.",
        todo=f"Drop the clones first, or delete their checkpoints: {', '.join(firm)}."
        if firm
        else "Wait, delete the checkpoints, or drop it with force.",
    )


def _find_table(stores: TableStores, *, is_forced: bool) -> Version[Manifest] | None:
    """Return the newest version; None if it is gone already, or cannot be read and this does not matter."""
    try:
        found = fetch_latest_manifest(stores)
    except TableNotFoundError:
        with contextlib.suppress(FileNotFoundError):
            stores.main.head(DELETING_MARKER)
            return None
        raise
    except (CorruptDataError, UnsupportedFormatError):
        if is_forced:
            return _find_listed(stores)
        raise
    try:
        fetch_state_with_wal(stores)
    except (InvalidRequestError, CorruptDataError):  # the WAL is elsewhere, or lost; or the boundary is damaged
        if stores.wal_is_apart or not is_forced:
            raise
    return found


def _find_listed(stores: TableStores) -> Version[Manifest] | None:
    """Return the newest version whatever the boundary says, which may be damaged; None if it cannot be read itself."""
    listed = by_number(stores.main.list(MANIFEST_DIR), MANIFEST_EXTENSION)
    if not listed:  # another drop was faster
        return None
    try:
        return Version(max(listed), decode_manifest(stores.main.get(listed[max(listed)].path)))
    except (CorruptDataError, UnsupportedFormatError, FileNotFoundError):
        return None


def _find_newest(stores: TableStores, found: Version[Manifest]) -> Version[Manifest]:
    """Return the newest version by now; `found`, the newest one before, if there is none that can be read."""
    with contextlib.suppress(TableNotFoundError, CorruptDataError, UnsupportedFormatError):
        return fetch_latest_manifest(stores)
    return found


@dataclass(slots=True)
class _Drop:
    """A drop.

    Attributes
    ----------
    found : the newest version; None if it is gone, or cannot be read
    done : number of deleted objects
    """

    stores: TableStores
    clock: Clock
    found: Version[Manifest] | None
    progress: Progress | None
    done: int = 0
    total: int = field(default=0)

    def plan(self) -> DropReport:
        """Return what would be deleted."""
        kinds = [(kind, self._listed(kind)) for kind in _KINDS]
        self.total = sum(len(listed.own) for _, listed in kinds)
        foreign = [*(meta for _, listed in kinds for meta in listed.foreign), *self._foreign_objects()]
        return DropReport(
            url=self.stores.url,
            version=None if self.found is None else self.found.number,
            dry_run=True,
            objects={kind: len(listed.own) for kind, listed in kinds if listed.own},
            stored_bytes=sum(meta.size for _, listed in kinds for meta in listed.own),
            kept=tuple(sorted(meta.path for meta in foreign)),
        )

    def run(self) -> tuple[str, ...]:
        """Delete everything, and return the URLs of the parents that no longer keep files."""
        stores = self.stores
        self._refuse_another_table()
        stores.main.put(DELETING_MARKER, [b""])
        with contextlib.suppress(InvalidRequestError, CorruptDataError):  # the store cannot move it, or it is damaged
            manifest_log(stores).raise_boundary(_LAST, self.clock)
        released = self._delete_manifests()
        for kind in _KINDS:
            if kind == "boundary":
                self._delete_manifests()  # of writers that did not know
            if kind != MANIFESTS:
                self._delete(kind)
        stores.main.delete(DELETING_MARKER)
        stores.main.prune(TABLE_FOLDERS)
        if stores.wal_is_apart:
            stores.wal.prune([WAL_DIR])
        return released

    def _refuse_another_table(self) -> None:
        """Raise `ConflictError` if another table was created here since this one was found, which takes a while."""
        with contextlib.suppress(TableNotFoundError, CorruptDataError, UnsupportedFormatError):  # dropped, or damaged
            if self.found is not None and was_recreated(self.stores, self.found):
                raise ConflictError(f"{self.stores.url}: the table was dropped and created again meanwhile.")

    def _delete_manifests(self) -> tuple[str, ...]:
        """Delete the manifests, oldest first; before the newest one goes, parents are released."""
        released: tuple[str, ...] = ()
        for _ in range(_ATTEMPTS):
            listed = sorted(self._listed(MANIFESTS).own, key=lambda meta: meta.path)
            if not listed:
                break
            self._delete_all(self.stores.main, listed[:-1])
            released = released or self._release_parents(listed[-1])
            self._delete_all(self.stores.main, listed[-1:])
        return released

    def _release_parents(self, newest: ObjectMeta) -> tuple[str, ...]:
        """Delete the checkpoints by which other tables keep files for this one, and return their URLs."""
        try:
            manifest = decode_manifest(self.stores.main.get(newest.path))
        except (CorruptDataError, UnsupportedFormatError, FileNotFoundError):
            return ()
        urls = []
        for database in manifest.external_dbs:
            if database.final_checkpoint_id is None:
                continue
            # The parent or its checkpoint is gone; or it is damaged, or of a later release, and keeps the checkpoint.
            with contextlib.suppress(InvalidRequestError, CorruptDataError, UnsupportedFormatError):
                parent = self.stores.at(resolve_external(self.stores, database))
                delete_checkpoint(
                    replace(self.stores, main=parent, wal=parent), self.clock, str(database.final_checkpoint_id)
                )
                urls.append(parent.url)
        return tuple(urls)

    def _delete(self, kind: str) -> None:
        if kind == "unfinished":
            for store, metas in list_unfinished(self.stores):
                self._delete_all(store, metas)
        else:
            self._delete_all(self.stores.wal if kind == "wal" else self.stores.main, self._listed(kind).own)

    def _delete_all(self, store: ObjectStore, metas: Sequence[ObjectMeta]) -> None:
        """Delete objects that were just listed; none if another drop has ended, after which a new table may be here."""
        if not metas or self._is_finished():
            return
        for count in delete_together(store, metas):
            self.done += count
            if self.progress is not None:
                self.progress(Step.DELETING, self.done, max(self.done, self.total))

    def _is_finished(self) -> bool:
        """Tell whether the marker is gone, without which nobody is dropping this table."""
        try:
            self.stores.main.head(DELETING_MARKER)
        except FileNotFoundError:
            return True
        return False

    # --- listings ---------------------------------------------------------------------------------------------------

    def _listed(self, kind: str) -> TableObjects:
        return _KINDS[kind](self.stores)

    def _foreign_objects(self) -> list[ObjectMeta]:
        """Return objects that are not the table's: in its root, and WAL files where its WAL is apart."""
        main = self.stores.main
        apart = [] if self.stores.wal.url == main.url else main.list(WAL_DIR)
        return [*split_own(main.list("")).foreign, *apart]


def _folder(folder: str) -> Callable[[TableStores], TableObjects]:
    return lambda stores: split_own((stores.wal if folder == WAL_DIR else stores.main).list(folder))


def _is_in_columns(path: str) -> bool:
    return path.startswith(COLUMNS_DIR) and "/" not in path.removeprefix(COLUMNS_DIR)


# In the order of deletion.
_KINDS: Final[dict[str, Callable[[TableStores], TableObjects]]] = {
    MANIFESTS: _folder(MANIFEST_DIR),
    "wal": _folder(WAL_DIR),  # a client that opens the place for writing would replay it
    "compactions": _folder(COMPACTIONS_DIR),
    "sst": _folder(COMPACTED_DIR),
    "unfinished": lambda stores: TableObjects(
        tuple(meta for _, metas in list_unfinished(stores) for meta in metas), ()
    ),
    COLUMNS: _folder(COLUMNS_DIR),
    METADATA: lambda stores: split_own(meta for meta in stores.main.list_below(ROOT) if not _is_in_columns(meta.path)),
    "boundary": _folder(GC_DIR),
}
