"""The chain of compactions files: the jobs of the coordinator and its workers."""

from __future__ import annotations

from slatespark.format.compactions import (
    Compactions,
    decode_compactions,
    encode_compactions,
)
from slatespark.format.paths import (
    COMPACTIONS_DIR,
    COMPACTIONS_EXTENSION,
    compactions_path,
)
from slatespark.table.log.numbered_log import NumberedLog
from slatespark.table.log.versioned_object import RaceLostError, Version, VersionedObject
from slatespark.table.stores import TableStores, object_context


def compactions_log(stores: TableStores) -> NumberedLog:
    """Return the chain of compactions files."""
    return NumberedLog(
        stores.main, COMPACTIONS_DIR, COMPACTIONS_EXTENSION, compactions_path, "compactions", stores.heads
    )


def fetch_compactions(stores: TableStores) -> Version[Compactions]:
    """Return id and content of the newest compactions file; number 0 and no jobs if there is none."""
    log = compactions_log(stores)
    found = log.latest()
    if found is None:
        return Version(0, Compactions(compactor_epoch=0, jobs=()))
    with object_context(stores.main, log.path(found[0])):
        return Version(found[0], decode_compactions(bytes(found[1])))


def compactions_object(stores: TableStores) -> VersionedObject[Compactions]:
    """Return the list of compactions as an object that can be updated."""

    def create(version: Version[Compactions], _: Compactions) -> None:
        create_compactions(stores, version)

    return VersionedObject(f"{stores.url}: the list of compactions", lambda: fetch_compactions(stores), create)


def create_compactions(stores: TableStores, version: Version[Compactions]) -> None:
    """Create a version of the list of compactions; raises `RaceLostError` when its number is taken."""
    try:
        compactions_log(stores).create(version.number, encode_compactions(version.value))
    except FileExistsError as exc:
        raise RaceLostError(f"compactions file {version.number} exists") from exc
