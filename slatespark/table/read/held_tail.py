"""The WAL of an open table: what a read has decoded is kept, within a bound, and the next one reads new files alone.

Newer rows are merged into older ones once they are half as many, so each row is copied a few times at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from slatespark.kernels import merge_all, take_rows
from slatespark.kernels.columns import RowColumns
from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.table.read.fetch import fetch_limited_share, fetch_wal_rows
from slatespark.table.read.planning.wal_share import NO_ROWS, WalShare
from slatespark.table.snapshot import WalTail
from slatespark.table.stores import TableStores


@dataclass(frozen=True, slots=True, eq=False)
class HeldTail:
    """Rows of the WAL that a read decoded, for the next ones.

    Attributes
    ----------
    start, files : the ids from `start` on, with the size of each file and when it was changed
    above_seq : sequence number up to which rows were left out
    levels : the rows, newest first: those of later files are in earlier ones; None if they take too much memory
    limit_bytes : how much they might take then
    """

    start: int
    files: tuple[tuple[int, int], ...]
    above_seq: int
    levels: tuple[WalShare, ...] | None
    limit_bytes: int = 0

    @property
    def memory_bytes(self) -> int:
        """What the rows take in memory."""
        return sum(map(_held_bytes, self.levels or ()))

    def is_start_of(self, tail: WalTail, above_seq: int, limit_bytes: int) -> bool:
        """Tell whether a tail has these files, and perhaps more, and if they take too much memory, also more than this.

        A file is known by its id, its size, and when it was changed: its content never changes, but a table may have
        been created anew at the same place.
        """
        is_same = (self.start, self.above_seq) == (tail.start, above_seq)
        is_decided = self.levels is not None or limit_bytes <= self.limit_bytes
        return is_same and is_decided and _files(tail)[: len(self.files)] == self.files


def fetch_sorted_tail(
    stores: TableStores, tail: WalTail, above_seq: int, keys: KeyRange, *, limit_bytes: int
) -> list[RowColumns]:
    """Return the rows of a WAL tail as sorted sources, newer ones first; none without rows.

    Parameters
    ----------
    tail, above_seq : as for `fetch_wal_share`; raises as that does
    keys : rows with other keys may be missing
    limit_bytes : the most that is kept: of files, and of their rows in memory
    """
    held = _fetch_held(stores, tail, above_seq, limit_bytes)
    if held is None:
        rows = fetch_wal_rows(stores, tail, above_seq, keys)
        return [] if rows is None else [rows]
    _keep(stores, tail, above_seq, held, limit_bytes)
    cuts = (level if level.is_source else level.within([keys]) for level in held)
    return [cut.rows() for cut in cuts if len(cut)]


def fetch_shared_tail(
    stores: TableStores, tail: WalTail, above_seq: int, keys: KeyRange, *, limit_bytes: int
) -> WalShare | None:
    """Return the rows of a WAL tail as `fetch_limited_share` does; `limit_bytes` also as for `fetch_sorted_tail`."""
    held = _fetch_held(stores, tail, above_seq, limit_bytes)
    if held is None:
        return fetch_limited_share(stores, tail, above_seq, keys, limit_bytes=limit_bytes)
    while len(held) > 1:
        held = _newest_merged(held)
    _keep(stores, tail, above_seq, held, limit_bytes)
    share = held[0] if held else NO_ROWS
    return share if keys == ALL_KEYS else share.within([keys])


def _fetch_held(stores: TableStores, tail: WalTail, above_seq: int, limit_bytes: int) -> Sequence[WalShare] | None:
    """Return all rows of a tail, newest level first, reading only new files; None where nothing is kept."""
    if not stores.heads.keeps_tail or not tail.changed_ms or sum(tail.sizes) > limit_bytes:
        return None
    held = stores.heads.tail
    if isinstance(held, HeldTail) and tail.end < held.start + len(held.files):
        return None  # of an earlier version, or of a snapshot: the newest rows are wanted more often
    if not isinstance(held, HeldTail) or not held.is_start_of(tail, above_seq, limit_bytes):
        held = HeldTail(tail.start, (), above_seq, ())
    if held.levels is None:
        return None
    levels = tuple(level.as_source() for level in held.levels)  # the first read has no use for a copy in order
    if len(tail.sizes) == len(held.files):
        return levels
    fetch = partial(fetch_limited_share, stores, above_seq=above_seq, keys=ALL_KEYS, limit_bytes=limit_bytes)
    found = fetch(tail.since(tail.start + len(held.files)))
    if found is not None and not _is_newer(found, levels, above_seq):
        levels, found = (), fetch(tail)  # a file is damaged: who reads all of them names it
    if found is None:
        _keep(stores, tail, above_seq, None, limit_bytes)
        return None
    return _with_newest(found, levels)


def _files(tail: WalTail) -> tuple[tuple[int, int], ...]:
    return tuple(zip(tail.sizes, tail.changed_ms, strict=True))


def _is_newer(share: WalShare, levels: Sequence[WalShare], above_seq: int) -> bool:
    """Tell whether rows are newer than all of some levels."""
    seqs = [rows.seqs[rows.seqs > np.uint64(above_seq)] for rows in share.sources]
    least = min((int(each.min()) for each in seqs if len(each)), default=None)
    return least is None or all(least > int(rows.seqs.max()) for level in levels for rows in level.sources)


def _with_newest(newer: WalShare, levels: tuple[WalShare, ...]) -> tuple[WalShare, ...]:
    """Return levels with one more, merged so that each has more than twice as many rows as the one before it."""
    if not len(newer):
        return levels
    levels = (newer, *levels)
    while len(levels) > 1 and 2 * len(levels[0]) >= len(levels[1]):
        levels = _newest_merged(levels)
    return levels


def _newest_merged(levels: Sequence[WalShare]) -> tuple[WalShare, ...]:
    """Return levels of which the newest two are one."""
    sources = [level.rows() for level in levels[:2]]
    order = merge_all(sources, np.zeros(2, np.int64), np.array([*map(len, sources)], np.int64))
    return WalShare.of(take_rows(sources, order)), *levels[2:]


def _keep(
    stores: TableStores, tail: WalTail, above_seq: int, levels: Sequence[WalShare] | None, limit_bytes: int
) -> None:
    """Keep the rows of a tail, or that they take too much memory."""
    held = stores.heads.tail
    if levels and isinstance(held, HeldTail) and held.levels == tuple(levels) and len(held.files) == len(tail.sizes):
        return  # nothing is new; a WAL may have many files
    if levels is not None and sum(map(_held_bytes, levels)) > limit_bytes:
        levels = None
    for rows in (rows for level in levels or () for rows in level.sources):
        for column in (rows.flags, rows.create_ts, rows.expire_ts, rows.value_lengths):
            column.flags.writeable = False  # whoever changes rows in place must change a copy of these
    kept = None if levels is None else tuple(levels)
    stores.heads.tail = HeldTail(tail.start, _files(tail), above_seq, kept, limit_bytes)


def _held_bytes(level: WalShare) -> int:
    return level.order.nbytes + sum(rows.nbytes for rows in level.sources)
