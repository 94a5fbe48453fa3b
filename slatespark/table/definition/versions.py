"""The chain of definitions, `slatespark/table/<id>.json`: created if absent; readers use the highest."""

from __future__ import annotations

from typing import Final

from slatespark.encoding.row_codec import RowCodec
from slatespark.errors import InternalError, TableNotFoundError
from slatespark.format.manifest import ExternalDb, Manifest
from slatespark.storage.object_store import ObjectStore
from slatespark.table.definition.definition_json import decode_definition, encode_definition
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.log.numbered_log import NumberedLog
from slatespark.table.records.json_objects import ROOT
from slatespark.table.stores import TableStores, object_context, resolve_external

DEFINITION_DIR: Final = f"{ROOT}table/"


DEFINITION_EXTENSION: Final = "json"


def definition_log(store: ObjectStore) -> NumberedLog:
    """Return the chain of definitions."""
    return NumberedLog(store, DEFINITION_DIR, DEFINITION_EXTENSION, definition_path, None)


def definition_path(number: int) -> str:
    """Return the path of version `number` of the definition."""
    return f"{DEFINITION_DIR}{number:020d}.{DEFINITION_EXTENSION}"


def fetch_definition(stores: TableStores, manifest: Manifest | None = None) -> tuple[int, TableDefinition] | None:
    """Return number and content of the newest definition; None for a raw table without one.

    Parameters
    ----------
    manifest : of the table; with it, the definition of a clone made by the client is found at its parent. It has the
        number 0 then: the table itself has none yet.

    Raises
    ------
    CorruptDataError
        When it is damaged.
    UnsupportedFormatError
        When a later release wrote it.
    """
    own = _fetch_newest(stores.main)
    if own is not None or manifest is None:
        return own
    inherited = [found for database in manifest.external_dbs if (found := _fetch_parent(stores, database))]
    return (0, max(inherited, key=lambda found: found[0])[1]) if inherited else None


def _fetch_parent(stores: TableStores, database: ExternalDb) -> tuple[int, TableDefinition] | None:
    try:
        url = resolve_external(stores, database.path)
    except TableNotFoundError:
        if database.sst_ids:  # rows of it are needed
            raise
        return None
    return _fetch_newest(stores.at(url))


def _fetch_newest(store: ObjectStore) -> tuple[int, TableDefinition] | None:
    log = definition_log(store)
    found = log.latest()
    if found is None:
        return None
    number, data = found
    with object_context(store, log.path(number)):
        return number, decode_definition(bytes(data))


def resolve_codec(stores: TableStores, manifest: Manifest | None = None) -> RowCodec:
    """Return how the rows of a table are stored; `manifest` as for `fetch_definition`."""
    return resolve_definition(stores, manifest).codec()


def resolve_definition(stores: TableStores, manifest: Manifest | None = None) -> TableDefinition:
    """Return the newest definition, that of a raw table if there is none; `manifest` as for `fetch_definition`."""
    found = fetch_definition(stores, manifest)
    return TableDefinition() if found is None else found[1]


def publish_definition(stores: TableStores, number: int, definition: TableDefinition) -> None:
    """Create version `number`; raises `FileExistsError` when somebody else created it."""
    data = encode_definition(definition)
    if decode_definition(data) != definition:  # nobody could read the table any more
        raise InternalError("A definition does not come back from its JSON as it went in.")
    definition_log(stores.main).create(number, data)
