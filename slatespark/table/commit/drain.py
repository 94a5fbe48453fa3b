"""Draining the WAL: rows below the fence, which no manifest counts on after the commit, become files of the trees."""

from __future__ import annotations

from dataclasses import dataclass

from slatespark.format.manifest import Manifest
from slatespark.format.segments import KeySegments
from slatespark.kernels.columns import HAS_CREATE, RowColumns
from slatespark.options import WriteOptions
from slatespark.ranges import ALL_KEYS
from slatespark.storage.object_store import ObjectStore
from slatespark.table.clock import Clock
from slatespark.table.commit.tree_edit import TreeEdit
from slatespark.table.read.fetch import fetch_wal_rows
from slatespark.table.read.planning.row_cuts import rows_outside
from slatespark.table.rows.sorted_rows import SortedRows
from slatespark.table.rows.sst_upload import NewFile, upload_sorted
from slatespark.table.snapshot import WalTail
from slatespark.table.stores import TableStores


@dataclass(frozen=True, slots=True)
class Drained:
    """What the WAL held when it was fenced.

    Attributes
    ----------
    rows : sorted; None if there were none
    last_seq : the highest sequence number of trees and WAL
    tick_ms : the highest create_ts of `rows`; None if none has one
    """

    rows: RowColumns | None
    last_seq: int
    tick_ms: int | None


def drain_wal(stores: TableStores, base: Manifest, fence_id: int) -> Drained:
    """Return what the WAL holds above the trees of `base`, up to the fence."""
    rows = fetch_wal_rows(stores, WalTail(base.replay_after_wal_id + 1, fence_id), base.last_l0_seq, ALL_KEYS)
    if rows is None:
        return Drained(None, base.last_l0_seq, None)
    stamped = rows.create_ts[(rows.flags & HAS_CREATE) != 0]
    tick_ms = int(stamped.max()) if len(stamped) else None
    return Drained(rows, max(base.last_l0_seq, int(rows.seqs.max())), tick_ms)


def upload_drained(
    stores: TableStores, drained: Drained, edit: TreeEdit, segments: KeySegments, options: WriteOptions, clock: Clock
) -> tuple[NewFile, ...]:
    """Upload the drained rows that an edit keeps, and return the files in key order."""
    pieces = kept_rows(drained.rows, edit)
    return upload_sorted(stores.main, pieces, options, clock, clock.now_ms(), segments=segments)


def upload_tail(
    stores: TableStores,
    clock: Clock,
    source: Manifest,
    tail: WalTail,
    *,
    target: ObjectStore,
    segments: KeySegments,
    options: WriteOptions,
) -> tuple[NewFile, ...]:
    """Write the rows that a version has only in its WAL to files; they keep their sequence numbers.

    Parameters
    ----------
    source, tail : the version, and its WAL
    target : where the files go
    """
    rows = fetch_wal_rows(stores, tail, source.last_l0_seq, ALL_KEYS)
    if rows is None:
        return ()
    return upload_sorted(target, [SortedRows.whole(rows)], options, clock, clock.now_ms(), segments=segments)


def kept_rows(rows: RowColumns | None, edit: TreeEdit) -> list[SortedRows]:
    """Return the rows of the WAL that an edit keeps, in key order."""
    if rows is None or not edit.keeps_wal:
        return []
    return [SortedRows([rows], rows_outside(rows, 0, len(rows), edit.left_out_of_wal))]
