"""The WAL tail of a scan of several splits: decoded and sorted once, when the scan is planned.

Rows of the WAL lie in the order in which they were written, so each split would have to decode all of them for its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from slatespark.kernels import match_keys
from slatespark.ranges import KeyRange
from slatespark.table.read.held_tail import fetch_shared_tail
from slatespark.table.read.planning.plan import Split
from slatespark.table.read.planning.sent_rows import MOST_NUMBER_BYTES
from slatespark.table.read.planning.wal_share import WalShare
from slatespark.table.read.points import SoughtKeys
from slatespark.table.read.scan_settings import ScanSettings
from slatespark.table.snapshot import WalTail
from slatespark.table.stores import TableStores

# Spark refuses a task whose description is larger than 128 MiB (`spark.rpc.message.maxSize`).
MAX_SHARE_BYTES: Final = 96 << 20


def share_tail(stores: TableStores, splits: Sequence[Split], settings: ScanSettings) -> tuple[Split, ...]:
    """Return the splits with their rows of the WAL, if that spares anything; else each decodes the tail by itself.

    A single split does so anyway, and so do all where the tail is larger than `wal_buffer_bytes`, stored or decoded.
    Values are left out where the scan looks at none.

    Parameters
    ----------
    splits : splits in key order
    settings : of the scan

    Raises
    ------
    CorruptDataError, SnapshotExpiredError
    """
    if len(splits) < 2:
        return tuple(splits)
    keys = KeyRange(splits[0].keys.start, splits[-1].keys.end)
    limit_bytes = settings.wal_buffer_bytes
    tail = fetch_tail(stores, settings.wal, settings.wal_above_seq, keys, limit_bytes=limit_bytes)
    if tail is None:
        return tuple(splits)
    return with_tail(splits, tail if settings.reads_values else tail.without_values())


def fetch_tail(
    stores: TableStores, wal: WalTail, above_seq: int, keys: KeyRange, *, limit_bytes: int
) -> WalShare | None:
    """Return the rows of the WAL in a range, for `with_tail`; None where each split decodes them by itself.

    Parameters
    ----------
    wal : the files that are needed
    above_seq : rows with seq <= it are in the trees
    keys : the range
    limit_bytes : of the files, and of their rows

    Raises
    ------
    CorruptDataError, SnapshotExpiredError
    """
    if wal.last_seq <= above_seq or not wal.sizes or sum(wal.sizes) > limit_bytes:
        return None
    return fetch_shared_tail(stores, wal, above_seq, keys, limit_bytes=limit_bytes)


def with_tail(splits: Sequence[Split], tail: WalShare) -> tuple[Split, ...]:
    """Return the splits, each with its own of the rows of `fetch_tail`."""
    return tuple(_with_share(split, tail) for split in splits)


def _with_share(split: Split, tail: WalShare) -> Split:
    return replace(split, wal=cut_tail(tail, split.ranges or [split.keys], split.points, most_bytes=MAX_SHARE_BYTES))


def cut_tail(
    tail: WalShare, ranges: Sequence[KeyRange], points: Sequence[bytes] | None, *, most_bytes: int
) -> WalShare | None:
    """Return the rows of a tail in some ranges; None if a task may not be sent as many bytes.

    Parameters
    ----------
    ranges : ascending and apart
    points : only rows with one of these keys, which ascend; None for all
    """
    share = tail.within(ranges)
    if points is not None and len(share):
        sought = SoughtKeys.of(points)
        keys, start, end = share.keys()
        found = match_keys(keys, start, end, *sought.between(0, len(sought)))
        share = WalShare(share.sources, share.order[found - start])
    return None if share.exceeds(most_bytes - MOST_NUMBER_BYTES * len(share)) else share
