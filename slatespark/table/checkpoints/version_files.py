"""The check that all files of an older version still exist: its SSTs, those of other databases, its WAL files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from slatespark.errors import SnapshotExpiredError
from slatespark.format.manifest import Manifest
from slatespark.format.paths import COMPACTED_DIR, sst_path
from slatespark.format.ulid import Ulid
from slatespark.table.snapshot import fetch_wal_tail
from slatespark.table.stores import OWN_ROOT, TableStores, external_roots


def refuse_collected_files(stores: TableStores, number: int, manifest: Manifest, latest: Manifest) -> None:
    """Refuse a version with collected files, of the WAL too: costs a listing of it; else as `refuse_collected_ssts`."""
    fetch_wal_tail(stores, manifest, manifest.wal_id_last_seen + 1)
    refuse_collected_ssts(stores, number, manifest, latest)


def refuse_collected_ssts(stores: TableStores, number: int, manifest: Manifest, latest: Manifest) -> None:
    """Refuse a version with collected SSTs.

    Costs a listing of each SST folder with files that the newest version no longer shows.

    Parameters
    ----------
    number, manifest : the version
    latest : the newest one; its files exist

    Raises
    ------
    SnapshotExpiredError
        When a file is gone.
    TableNotFoundError
        When another database that owns files cannot be found.
    """
    for root, wanted in _by_root(stores, manifest, (ulid for ulid in manifest.ssts if ulid not in latest.ssts)).items():
        store = stores.at(root)
        present = {meta.path for meta in store.list(COMPACTED_DIR)}
        for ulid in wanted:
            if sst_path(ulid) not in present:
                raise SnapshotExpiredError(
                    f"{store.url}/{sst_path(ulid)} does not exist, and version {number} of {stores.url} needs it.",
                    why="Files of this version were collected.",
                    todo="Choose a newer version.",
                )


def _by_root(stores: TableStores, manifest: Manifest, ulids: Iterable[Ulid]) -> dict[str, list[Ulid]]:
    roots = external_roots(stores, manifest)
    found: dict[str, list[Ulid]] = defaultdict(list)
    for ulid in ulids:
        found[roots.get(ulid, OWN_ROOT)].append(ulid)
    return found
