"""The chain of definitions, `slatespark/table/<id>.json`: created if absent; readers use the highest."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from slatespark.encoding.row_codec import RowCodec
from slatespark.errors import (
    CorruptDataError,
    InternalError,
    InvalidRequestError,
    TableNotFoundError,
    UnavailableError,
)
from slatespark.format.envelope import refuse_unknown_fields
from slatespark.format.manifest import ExternalDb, Manifest
from slatespark.format.paths import MANIFEST_DIR
from slatespark.storage import run_ahead
from slatespark.storage.object_store import Buffer
from slatespark.table.clock import Clock
from slatespark.table.definition.definition_json import decode_definition, encode_definition
from slatespark.table.definition.table_definition import NO_DEFINITION, TableDefinition
from slatespark.table.heads import Heads
from slatespark.table.log.manifests import draw_nonce, fetch_latest_manifest, publish_manifest, seen_manifest
from slatespark.table.log.numbered_log import NumberedLog
from slatespark.table.log.versioned_object import RaceLostError, Version, VersionedObject
from slatespark.table.records.json_objects import ROOT
from slatespark.table.stores import TableStores, object_context, resolve_external

DEFINITION_DIR: Final = f"{ROOT}table/"
DEFINITION_EXTENSION: Final = "json"


def definition_log(stores: TableStores) -> NumberedLog:
    """Return the chain of definitions."""
    return NumberedLog(stores.main, DEFINITION_DIR, DEFINITION_EXTENSION, definition_path, None, stores.heads)


def definition_path(number: int) -> str:
    """Return the path of version `number` of the definition."""
    return f"{DEFINITION_DIR}{number:020d}.{DEFINITION_EXTENSION}"


def fetch_definition(stores: TableStores, manifest: Manifest | None = None) -> Version[TableDefinition]:
    """Return the newest definition; number 0 if the table stores none itself.

    Parameters
    ----------
    manifest : the newest manifest; needed to find, at its parent, the definition of a clone that the client created. If
        there is no definition, the result is `NO_DEFINITION`

    Raises
    ------
    CorruptDataError
        When it is damaged.
    UnsupportedFormatError
        When a later release wrote it.
    """
    own = _find_newest(definition_log(stores))
    return _inherit(stores, manifest) if own is None else own


def fetch_defined(stores: TableStores) -> tuple[Version[Manifest], TableDefinition]:
    """Return the newest manifest and definition, which are looked for together; raises as `fetch_latest_manifest`."""
    fetch = DefinitionFetch(stores)
    found = fetch_latest_manifest(stores)
    return found, fetch.resolve(found).value


def fetch_codec(stores: TableStores) -> RowCodec:
    """Return how the rows of the newest version are stored; raises as `fetch_latest_manifest`."""
    return fetch_defined(stores)[1].codec()


def refuse_newer(stores: TableStores) -> None:
    """Raise `UnsupportedFormatError` if a later release wrote the definition: before anything is changed."""
    with contextlib.suppress(CorruptDataError):  # which whoever needs the definition finds
        fetch_definition(stores)


class DefinitionFetch:
    """A fetch of the newest definition that runs beside that of the newest manifest.

    A definition is published before the manifest that needs it. So one that was looked for after a manifest was seen
    serves that manifest, but no later one.

    Parameters
    ----------
    reuses : a definition that was looked for after the newest manifest was seen is not looked for again, as changes are
        announced (`announce_definition`). For reads: a write must not miss a change whose announcement is under way
    """

    def __init__(self, stores: TableStores, *, reuses: bool = False) -> None:
        self._stores, self._reuses, self._log = stores, reuses, definition_log(stores)
        self._seen: Version[Manifest] | None = None
        self._found: list[Version[TableDefinition] | None] = []  # of the table itself, once it was waited for
        self.begin()

    def begin(self) -> None:
        """Begin it, unless no manifest was seen yet, or it was begun and none was seen since."""
        stores, seen = self._stores, seen_manifest(self._stores)
        if seen is None or seen == self._seen:
            return
        self._seen, self._newest = seen, _newest_seen(stores)
        self._found = self._known(seen) if self._reuses else []
        is_ahead = stores.main.is_remote and not self._found
        self._own = run_ahead(partial(_find_newest, self._log), is_remote=is_ahead)

    def resolve(self, version: Version[Manifest]) -> Version[TableDefinition]:
        """Return the newest definition; as `fetch_definition`."""
        if self._seen is None or not self._serves(version):
            return self._resolve(_find_newest(self._log), version, version)
        if not self._found:
            self._found.append(self._own())
        return self._resolve(self._found[0], version, self._seen)

    def _known(self, seen: Version[Manifest]) -> list[Version[TableDefinition] | None]:
        """Return the definition that was looked for after a manifest was seen, unless a later one was seen since.

        It is not simply the one that was seen last: a fetch that was begun earlier, and is not waited for, may end
        later.
        """
        defined, log = self._stores.heads.defined, self._log
        if defined is None or defined[0] != seen:
            return []
        known, newest = defined[1], log.heads.newest(log.store.url, log.folder)
        return [] if newest is not None and newest[0] > (0 if known is None else known.number) else [known]

    def _serves(self, version: Version[Manifest]) -> bool:
        """Tell whether what is fetched serves a version: the newest one that was seen before, or an older one.

        Where another one is the newest now, the table may have been created again in its place.
        """
        is_older = self._seen is not None and version.number < self._seen.number
        return _newest_seen(self._stores) == self._newest if is_older else version == self._seen

    def _resolve(
        self, own: Version[TableDefinition] | None, version: Version[Manifest], defined: Version[Manifest]
    ) -> Version[TableDefinition]:
        """Return the definition for a version, and note that it was looked for after `defined` was seen."""
        if own is not None or not version.value.external_dbs:  # changes at a parent are not announced here
            self._stores.heads.defined = defined, own
        return _inherit(self._stores, version.value) if own is None else own


def _newest_seen(stores: TableStores) -> tuple[int, Buffer] | None:
    return stores.heads.newest(stores.main.url, MANIFEST_DIR)


def _inherit(
    stores: TableStores, manifest: Manifest | None, heirs: frozenset[str] = frozenset()
) -> Version[TableDefinition]:
    """Return the definition of a table that stores none itself; `heirs` are its clones that ask for theirs."""
    databases = () if manifest is None else manifest.external_dbs
    inherited = [found for database in databases if (found := _find_parent(stores, database, heirs))]
    if not inherited:
        return Version(0, NO_DEFINITION)
    nearest = inherited[-1].value  # the client lists a clone's own parent last, behind those that it borrows from too
    return Version(0, replace(nearest, earlier_bounds=()))  # which name versions of the parent


def _find_parent(stores: TableStores, database: ExternalDb, heirs: frozenset[str]) -> Version[TableDefinition] | None:
    """Return the definition of a database that a clone refers to, itself perhaps a clone that a client made."""
    try:
        main = stores.at(resolve_external(stores, database))
    except TableNotFoundError:
        if database.sst_ids:  # its rows are needed
            raise
        return None
    parent = replace(stores, main=main, wal=main, wal_is_apart=False, heads=Heads())
    own = _find_newest(definition_log(parent))
    if own is not None or main.url in heirs:
        return own
    try:
        newest = fetch_latest_manifest(parent).value
    except TableNotFoundError:  # only its SSTs are left
        return None
    inherited = _inherit(parent, newest, heirs | {stores.url})
    return None if inherited.value == NO_DEFINITION else inherited


def _find_newest(log: NumberedLog) -> Version[TableDefinition] | None:
    found = log.latest()
    if found is None:
        return None
    return _decode(log, *found)


def seen_definition(stores: TableStores) -> TableDefinition | None:
    """Return the newest definition of the table itself that these stores have seen or created, without a request."""
    log = definition_log(stores)
    found = log.heads.newest(log.store.url, log.folder)
    return None if found is None else _decode(log, *found).value


def _decode(log: NumberedLog, number: int, data: Buffer) -> Version[TableDefinition]:
    with object_context(log.store, log.path(number)):
        return Version(number, decode_definition(bytes(data)))


def resolve_definition(stores: TableStores, manifest: Manifest | None = None) -> TableDefinition:
    """Return the newest definition; `manifest` as for `fetch_definition`."""
    return fetch_definition(stores, manifest).value


def publish_definition(stores: TableStores, version: Version[TableDefinition]) -> None:
    """Create a version of the definition; raises `RaceLostError` when its number is taken."""
    data = encode_definition(version.value)
    if decode_definition(data) != version.value:  # else the table would be unreadable
        raise InternalError("A definition changes when it is encoded as JSON and decoded.")
    try:
        definition_log(stores).create(version.number, data)
    except FileExistsError as exc:
        raise RaceLostError(f"definition {version.number} exists") from exc


def announce_definition(stores: TableStores, clock: Clock) -> None:
    """Create a version of the manifest, after a change of the definition that no commit follows.

    Readers look for the definition again when they see a later version. Content and epochs stay, so a client goes on
    undisturbed. Whoever else creates a version meanwhile announces the change as well.

    Raises
    ------
    UnavailableError
        When the store takes no manifest. The change was made, so it must not look refused.
    """
    try:
        newest = fetch_latest_manifest(stores)
        manifest = replace(newest.value, nonce=draw_nonce(clock))
        with contextlib.suppress(RaceLostError):
            publish_manifest(stores, newest.number + 1, manifest, newest.value, clock)
    except TableNotFoundError:  # it was dropped meanwhile
        raise
    except (InvalidRequestError, UnavailableError) as exc:
        raise UnavailableError(
            f"{stores.url}: the definition was changed, but the change was not announced.",
            why=str(exc),
            todo="Do not repeat it. Processes that have the table open see it with the next commit.",
        ) from exc


def evolve_definition(
    stores: TableStores,
    clock: Clock,
    manifest: Manifest,
    change: Callable[[TableDefinition], TableDefinition],
    found: Version[TableDefinition] | None = None,
) -> TableDefinition:
    """Publish the result of `change` for the newest definition, and return the definition now in force.

    Readers that know the newest manifest see it with the next one: a commit follows, or `announce_definition`. A clone
    without its own definition gets a copy of its parent's.

    Parameters
    ----------
    manifest : a manifest of the table, so that a clone finds its parent's definition
    change : pure; returns its argument if there is nothing to do
    found : the newest definition, if that was looked for just now

    Raises
    ------
    UnsupportedFormatError
        When that next manifest could not be written, so that the definition is not either.
    CommitConflictError
        When too many races were lost.
    """
    refuse_unknown_fields(manifest.unknown_fields, f"{stores.url}: the manifest")

    def changed(newest: Version[TableDefinition]) -> TableDefinition | None:
        wanted = change(newest.value)
        is_stored = newest.number > 0 or wanted == NO_DEFINITION
        return None if wanted == newest.value and is_stored else wanted

    if found is not None and changed(found) is None:
        return found.value
    definition = VersionedObject(
        f"{stores.url}: the definition",
        partial(fetch_definition, stores, manifest),
        lambda version, _: publish_definition(stores, version),
    )
    return definition.update(clock, changed).value
