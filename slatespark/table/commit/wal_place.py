"""Whether the WAL is the table's: a wrong `walPath` leads to the WAL of another database, or to none."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from slatespark.errors import InvalidRequestError, TableNotFoundError, UnavailableError
from slatespark.format.manifest import Manifest
from slatespark.format.paths import DELETING_MARKER, MANIFEST_DIR, SST_EXTENSION, WAL_DIR, numbered, wal_path
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.snapshot import TableState, fetch_newest_state, starts_after
from slatespark.table.stores import TableStores

_ATTEMPTS: Final = 4


def fetch_state_with_wal(stores: TableStores, when_seen: Callable[[], None] | None = None) -> TableState:
    """Return the newest version with its WAL, after checking that this is the table's.

    Parameters
    ----------
    when_seen : as for `fetch_newest_state`

    Raises
    ------
    InvalidRequestError
        When the WAL is elsewhere, or the one found belongs to another database.
    UnavailableError
        When newer versions keep coming.
    """
    refuse_other_database(stores)
    for _ in range(_ATTEMPTS):
        state = fetch_newest_state(stores, when_seen)
        if not stores.wal_is_apart or _is_of(stores, state.manifest):
            return state
        # In a later version replay may start later, and this file be collected.
        if fetch_latest_manifest(stores).number == state.number:
            missing = wal_path(state.manifest.replay_after_wal_id)
            raise InvalidRequestError(
                f"{stores.wal.url} is not the WAL of {stores.url}: it lacks {missing}.",
                why="Replay starts after that file, and no collector deletes it. Only a clone without writes lacks it: "
                "there it is in the WAL of the parent.",
                todo="Give the location of the WAL with the option walPath.",
            )
    raise UnavailableError(f"{stores.url}: the manifest changes faster than its WAL can be found.", todo="Retry.")


def find_state_with_wal(stores: TableStores, when_seen: Callable[[], None] | None = None) -> TableState | None:
    """Return what `fetch_state_with_wal` returns; None if there is no table."""
    try:
        return fetch_state_with_wal(stores, when_seen)
    except TableNotFoundError:
        return None


def refuse_dropped(stores: TableStores) -> None:
    """Raise `InvalidRequestError` if a table that was here is being dropped, or its drop has died."""
    with suppress(FileNotFoundError):
        stores.main.head(DELETING_MARKER)
        raise InvalidRequestError(
            f"{stores.url}: the table that was here is being dropped.", todo="Finish that with drop, or wait for it."
        )


def refuse_other_database(stores: TableStores) -> None:
    """Raise `InvalidRequestError` if the place of a separate WAL is a database of its own."""
    if stores.wal_is_apart and stores.wal.url != stores.url and stores.wal.list(MANIFEST_DIR):
        raise InvalidRequestError(
            f"{stores.wal.url} is a database of its own.",
            why=f"Its WAL is not that of {stores.url}.",
            todo="Give the location of the WAL with the option walPath.",
        )


def _is_of(stores: TableStores, manifest: Manifest) -> bool:
    """Tell whether a separate WAL belongs to a version, by the file behind which replay starts."""
    after = manifest.replay_after_wal_id
    if not after:  # nothing was flushed yet
        return True
    try:
        stores.wal.head(wal_path(after))
    except FileNotFoundError:
        # A clone starts without its parent's file of this number, and without any earlier one.
        numbers = (numbered(meta.path, SST_EXTENSION) for meta in stores.wal.list(WAL_DIR))
        return bool(manifest.external_dbs) and all(number is None or number > after for number in numbers)
    return not manifest.external_dbs or not starts_after(stores, after)
