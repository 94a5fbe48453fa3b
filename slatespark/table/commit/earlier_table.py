"""What an earlier table left at a place without a manifest: it was deleted in part, or its manifests are missing.

A new table would take them for its own. The record of an idempotent write that the earlier table had committed would
let the first write under that pair vanish, and a boundary would hide the first versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from slatespark.errors import InvalidRequestError, TableExistsError
from slatespark.format.paths import COMPACTED_DIR, COMPACTIONS_DIR, GC_DIR, MANIFEST_DIR, WAL_DIR, sst_id
from slatespark.storage import ObjectMeta, run_concurrently
from slatespark.table.commit.client_place import refuse_place
from slatespark.table.commit.own_names import is_own
from slatespark.table.commit.wal_place import refuse_dropped
from slatespark.table.definition.versions import DEFINITION_DIR
from slatespark.table.log.manifests import find_latest_manifest
from slatespark.table.log.versioned_object import RaceLostError
from slatespark.table.records.claims import CLAIMS_DIR
from slatespark.table.records.commit_record import COMMITS_DIR
from slatespark.table.records.filtered_jobs import FILTERED_DIR
from slatespark.table.records.handed_loads import HANDED_LOADS_DIR
from slatespark.table.records.idempotent_writes import TXN_DIR
from slatespark.table.records.identity import IDENTITY_PATH
from slatespark.table.records.json_objects import ROOT
from slatespark.table.stores import TableStores

_FOLDERS: Final = (COMPACTIONS_DIR, GC_DIR)

# What comes after manifest 1 only. A creation that died leaves SSTs with columnar copies, a lease, a definition, and
# the name of a stream: that one is no sign, since its query comes again, and any other one is refused by name.
_RECORDS: Final = (CLAIMS_DIR, COMMITS_DIR, TXN_DIR, HANDED_LOADS_DIR, FILTERED_DIR, IDENTITY_PATH)


def find_earlier_objects(stores: TableStores) -> list[str]:
    """Return the paths of objects that only a table has: one of each folder where there are any.

    Requires: there was no manifest right before.

    Raises
    ------
    RaceLostError
        When they are those of a table that was created meanwhile.
    """
    listings: list[Callable[[], Sequence[ObjectMeta]]] = [
        partial(stores.wal.list, WAL_DIR),
        *(partial(stores.main.list, folder) for folder in _FOLDERS),
        partial(stores.main.list_below, ROOT),  # one request, as most folders are empty
    ]
    folders = run_concurrently(listings, is_remote=stores.main.is_remote)
    found = (next(_left_by_a_table(listed), None) for listed in folders)
    left = [path for path in found if path is not None]
    if left and find_latest_manifest(stores) is not None:
        raise RaceLostError("the table was created meanwhile")
    return left


def refuse_earlier_table(stores: TableStores) -> None:
    """Refuse a place where an earlier table left objects.

    Raises
    ------
    RaceLostError
        As `find_earlier_objects`.
    InvalidRequestError
        When there are any.
    """
    found = find_earlier_objects(stores)
    if not found:
        return
    folders = ", ".join(_url_of(stores, path.partition("/")[0]) for path in found)
    raise InvalidRequestError(
        f"{stores.url} holds no manifest, but {found[0]} of an earlier table.",
        why="A table was partly deleted here, or the path is wrong. A new table would take what is left for its own, "
        "and skip writes that the earlier one has recorded.",
        todo=f"Choose an empty place, restore the manifests, or delete what is left: {folders}.",
    )


def refuse_occupied(stores: TableStores, exists: TableExistsError, *, resumes: bool = False) -> None:
    """Refuse a place for a clone or a copy that holds anything.

    Parameters
    ----------
    exists : the error for a table
    resumes : accept what a copy leaves that died: SSTs, a lease, a definition

    Raises
    ------
    TableExistsError
        When there is a table.
    InvalidRequestError
        When there is anything else, a table that is being dropped, or a client's database of the same name; or when it
        is in a folder of another table.
    """
    refuse_dropped(stores)
    if stores.main.list(MANIFEST_DIR):
        raise exists
    try:
        refuse_earlier_table(stores)
    except RaceLostError as exc:
        raise exists from exc
    refuse_place(stores)
    ssts, definitions = stores.main.list(COMPACTED_DIR), [] if resumes else stores.main.list(DEFINITION_DIR)
    others = [meta for meta in ssts if not resumes or sst_id(meta.path) is None]
    if found := [*stores.main.list(""), *others, *definitions]:
        raise InvalidRequestError(
            f"{stores.url} is not empty: it holds {found[0].path}.",
            todo="Choose another path, or empty that folder.",
        )


def _left_by_a_table(listed: Sequence[ObjectMeta]) -> Iterator[str]:
    """Leave out files of others, which a drop leaves where they are, and records that are no sign."""
    paths = (meta.path for meta in listed if is_own(meta.path))
    return (path for path in paths if not path.startswith(ROOT) or path.startswith(_RECORDS))


def _url_of(stores: TableStores, folder: str) -> str:
    store = stores.wal if f"{folder}/" == WAL_DIR else stores.main
    return f"{store.url}/{folder}/"
