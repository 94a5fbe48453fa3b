"""Snapshots of a live client on a history table: they may need versions below the floor."""

from __future__ import annotations

from typing import Final

from slatespark.format.manifest import Manifest
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.records.commit_record import CLIENT_EPOCH
from slatespark.table.records.commits import newest_commit_records
from slatespark.table.stores import TableStores

MAX_RECORDS: Final = 16  # searched for slatespark's last commit; without it more is kept


def find_snapshot_seq(stores: TableStores, manifest: Manifest, definition: TableDefinition) -> int | None:
    """Return the lowest sequence number at which a live client may have a snapshot of a history table; None for none.

    The manifest has the lowest one of the client's last flush. Before its first flush it has that of slatespark's last
    commit, by which a client's compactor keeps the past. That commit fenced whoever had an earlier snapshot.
    """
    noted_seq, floor_ms = manifest.recent_snapshot_min_seq, definition.full_history_ts_low_ms
    if not definition.has_history or floor_ms is None or noted_seq >= manifest.last_l0_seq:
        return None
    records = newest_commit_records(stores.main, MAX_RECORDS, sound_only=True)
    own = next((record for record in records if record.compactor_epoch != CLIENT_EPOCH), None)
    return noted_seq if own is None or own.end_seq is None else max(noted_seq, own.end_seq - 1)
