"""The WAL tail of a scan of several splits: decoded and sorted once, when the scan is planned.

Rows of the WAL lie in the order in which they were written, so each split would have to decode all of them for its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from slatespark.format.row import rows_to_columns
from slatespark.kernels import key_span, match_keys, take_rows
from slatespark.kernels.columns import RowColumns
from slatespark.ranges import KeyRange
from slatespark.table.read.fetch import fetch_wal_rows
from slatespark.table.read.plan import Split
from slatespark.table.read.points import SoughtKeys
from slatespark.table.read.row_cuts import cut_rows
from slatespark.table.read.wal_share import WalShare
from slatespark.table.snapshot import WalTail
from slatespark.table.stores import TableStores

# Spark refuses a task whose description is larger than 128 MiB (`spark.rpc.message.maxSize`).
MAX_SHARE_BYTES: Final = 64 << 20

NO_ROWS: Final = rows_to_columns([])


def share_tail(
    stores: TableStores, splits: Sequence[Split], wal: WalTail, above_seq: int, *, limit_bytes: int
) -> tuple[Split, ...]:
    """Return the splits with their rows of the WAL, if that spares anything; else each decodes the tail by itself.

    A single split does so anyway, and so do all where the tail is larger than `limit_bytes`, stored or decoded.

    Parameters
    ----------
    splits : in key order
    wal : the files that are needed
    above_seq : rows with seq <= it are in the trees

    Raises
    ------
    CorruptDataError, SnapshotExpiredError
    """
    if len(splits) < 2:
        return tuple(splits)
    keys = KeyRange(splits[0].keys.start, splits[-1].keys.end)
    rows = fetch_tail(stores, wal, above_seq, keys, limit_bytes=limit_bytes)
    return tuple(splits) if rows is None else with_tail(splits, rows)


def fetch_tail(
    stores: TableStores, wal: WalTail, above_seq: int, keys: KeyRange, *, limit_bytes: int
) -> RowColumns | None:
    """Return the rows of the WAL in a range, sorted, for `with_tail`; None where each split decodes them by itself.

    Parameters and errors as for `share_tail`.
    """
    if wal.last_seq <= above_seq or not wal.sizes or sum(wal.sizes) > limit_bytes:
        return None
    rows = fetch_wal_rows(stores, wal, above_seq, keys)
    if rows is not None and WalShare(rows).held_bytes > limit_bytes:  # the files are compressed
        return None
    return rows or NO_ROWS


def with_tail(splits: Sequence[Split], rows: RowColumns) -> tuple[Split, ...]:
    """Return the splits, each with its own of the rows of `fetch_tail`."""
    return tuple(_with_share(split, rows) for split in splits)


def _with_share(split: Split, rows: RowColumns) -> Split:
    share = WalShare.of(rows, *key_span(rows, split.keys))
    if split.points is not None:
        sought = SoughtKeys.of(split.points)
        positions = match_keys(share.rows, 0, len(share.rows), *sought.between(0, len(sought)))
        share = WalShare(take_rows([share.rows], positions))
    elif split.ranges:
        share = WalShare(cut_rows(share.rows, split.ranges) or NO_ROWS)
    return split if share.held_bytes > MAX_SHARE_BYTES else replace(split, wal=share)
