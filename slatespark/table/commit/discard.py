"""Deleting the uploaded files of a failed commit, unless a version references them.

An error does not prove that the commit failed. So the published versions are read before anything is deleted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from slatespark.errors import SlateError
from slatespark.format.paths import copy_path, sst_path
from slatespark.format.ulid import Ulid
from slatespark.storage import run_in_groups
from slatespark.table.log.manifests import fetch_latest_manifest, fetch_manifest
from slatespark.table.stores import TableStores


def delete_files(stores: TableStores, ids: Iterable[Ulid]) -> None:
    """Delete files that were never part of a commit, and their copies; vacuum removes those that this misses."""
    unused = list(ids)
    with contextlib.suppress(SlateError):
        stores.main.delete_many([copy_path(sst_id) for sst_id in unused])
        stores.main.delete_many([sst_path(sst_id) for sst_id in unused])


def delete_unshown(stores: TableStores, ids: Iterable[Ulid], version: int) -> None:
    """Delete the files of a commit that no version after `version` references.

    If one of these versions cannot be read, all files are left to vacuum.
    """
    left = set(ids)

    def fetch_shown(number: int) -> set[Ulid]:
        return left.intersection(fetch_manifest(stores, number).ssts)

    with contextlib.suppress(SlateError):
        latest_id, latest = fetch_latest_manifest(stores)
        shown = left.intersection(latest.ssts)
        for _, found in run_in_groups(fetch_shown, range(version + 1, latest_id), is_remote=stores.main.is_remote):
            shown |= found
        delete_files(stores, left - shown)
