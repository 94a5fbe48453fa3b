"""Versions of a clone that need files which it no longer keeps at the databases that it was cloned from."""

from __future__ import annotations

from dataclasses import replace

from slatespark.errors import HistoryTrimmedError
from slatespark.format.manifest import ExternalDb, Manifest
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.stores import TableStores, resolve_external


def used_databases(source: Manifest) -> tuple[ExternalDb, ...]:
    """Return the other databases whose files a version shows."""
    return tuple(database for database in source.external_dbs if database.sst_ids)


def refuse_released(stores: TableStores, source: Manifest, latest: Manifest) -> None:
    """Raise `HistoryTrimmedError` for a version with files that another database no longer keeps for this table."""
    shown = latest.shown_ssts()
    for database in used_databases(source):
        if shown.issuperset(database.sst_ids):
            continue
        url = resolve_external(stores, database)
        points = fetch_latest_manifest(replace(stores, main=stores.at(url)))[1].checkpoints
        if database.final_checkpoint_id not in {point.id for point in points}:
            raise HistoryTrimmedError(
                f"{stores.url}: this version needs files of {url}, which this clone has released.",
                why="That table may garbage-collect them at any time.",
                todo="Choose a later version.",
            )
