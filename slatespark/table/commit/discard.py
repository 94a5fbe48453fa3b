"""Deleting the uploaded files of a failed commit, unless a version references them.

An error does not prove that the commit failed. So the published versions are read before anything is deleted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from functools import partial

from slatespark.errors import SlateError
from slatespark.format.paths import copy_path, sst_path
from slatespark.format.ulid import Ulid
from slatespark.storage import run_concurrently
from slatespark.table.log.manifests import fetch_latest_manifest, fetch_manifest
from slatespark.table.stores import TableStores


def delete_files(stores: TableStores, ids: Iterable[Ulid]) -> None:
    """Delete files that were never part of a commit, and their copies; vacuum removes those that this misses."""
    for sst_id in list(ids):
        with contextlib.suppress(SlateError):
            stores.main.delete(copy_path(sst_id))
            stores.main.delete(sst_path(sst_id))


def delete_unshown(stores: TableStores, ids: Iterable[Ulid], version: int) -> None:
    """Delete the files of a commit that no version after `version` references.

    If one of these versions cannot be read, all files are left to vacuum.
    """
    with contextlib.suppress(SlateError):
        latest_id, latest = fetch_latest_manifest(stores)
        fetches = [partial(fetch_manifest, stores, number) for number in range(version + 1, latest_id)]
        between = run_concurrently(fetches, is_remote=stores.main.is_remote)
        shown = {sst_id for manifest in (latest, *between) for sst_id in manifest.ssts}
        delete_files(stores, set(ids) - shown)
