"""The chain of compactions files: the jobs of the coordinator and its workers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

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
from slatespark.storage.object_store import Buffer
from slatespark.table.clock import Clock
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
    found = compactions_log(stores).latest()
    return Version(0, Compactions(compactor_epoch=0, jobs=())) if found is None else _decoded(stores, *found)


def fetch_compactions_since(stores: TableStores, known: Version[Compactions]) -> Version[Compactions]:
    """Return the newest version, which is `known` or a later one; without a later one it costs no listing."""
    found = compactions_log(stores).latest_since(known.number)
    return known if found is None else _decoded(stores, *found)


def _decoded(stores: TableStores, number: int, data: Buffer) -> Version[Compactions]:
    with object_context(stores.main, compactions_path(number)):
        return Version(number, decode_compactions(bytes(data)))


def edit_compactions(
    stores: TableStores,
    clock: Clock,
    change: Callable[[Compactions], Compactions | None],
    *,
    fetch: Callable[[], Version[Compactions]] | None = None,
    is_done: Callable[[Compactions], bool] | None = None,
) -> Version[Compactions]:
    """Publish a changed list under its current epoch; return the version in force.

    Parameters
    ----------
    change, is_done : see `VersionedObject.update`
    fetch : returns the newest version; by default the stored one
    """
    return VersionedObject(
        f"{stores.url}: the list of compactions",
        fetch or partial(fetch_compactions, stores),
        lambda version, _: create_compactions(stores, version),
    ).update(clock, lambda newest: change(newest.value), is_done=is_done)


def create_compactions(stores: TableStores, version: Version[Compactions]) -> None:
    """Create a version of the list of compactions; raises `RaceLostError` when its number is taken."""
    try:
        compactions_log(stores).create(version.number, encode_compactions(version.value))
    except FileExistsError as exc:
        raise RaceLostError(f"compactions file {version.number} exists") from exc
