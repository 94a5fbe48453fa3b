"""The WAL of lookups: what one has decoded is kept, within a bound, for the next ones of the same open table.

A scan reads each row once. A lookup wants a few rows of a tail that it would have to decode and sort as a whole.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from slatespark.kernels import merge_all, take_rows
from slatespark.kernels.columns import RowColumns
from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.table.heads import HeldTail
from slatespark.table.read.fetch import fetch_wal_rows
from slatespark.table.read.planning.row_cuts import cut_rows
from slatespark.table.snapshot import WalTail
from slatespark.table.stores import TableStores

HELD_WAL_BYTES: Final = 32 << 20  # of files, and of their rows in memory


def fetch_held_rows(stores: TableStores, tail: WalTail, above_seq: int, keys: KeyRange) -> RowColumns | None:
    """Return what `fetch_wal_rows` returns, and read only files that no lookup before has read.

    A file is known by its id, its size, and when it was changed: its content never changes, but a table may have been
    created anew at the same place.
    """
    if not tail.changed_ms or sum(tail.sizes) > HELD_WAL_BYTES:
        return fetch_wal_rows(stores, tail, above_seq, keys)
    files = tuple(zip(tail.sizes, tail.changed_ms, strict=True))
    held = stores.heads.tail
    if held is None or (held.start, held.above_seq) != (tail.start, above_seq) or not _starts_with(files, held.files):
        held = HeldTail(tail.start, (), above_seq, None)
    if len(files) > len(held.files):
        newer = fetch_wal_rows(stores, tail.since(tail.start + len(held.files)), above_seq, ALL_KEYS)
        if newer is not None and held.rows is not None and newer.seqs.min() <= held.rows.seqs.max():
            newer, held = fetch_wal_rows(stores, tail, above_seq, ALL_KEYS), HeldTail(tail.start, (), above_seq, None)
        held = HeldTail(tail.start, files, above_seq, _merged(newer, held.rows))
        stores.heads.tail = held if _held_bytes(held.rows) <= HELD_WAL_BYTES else None
    return None if held.rows is None else cut_rows(held.rows, [keys])


def _starts_with(files: tuple[tuple[int, int], ...], held: tuple[tuple[int, int], ...]) -> bool:
    return files[: len(held)] == held


def _merged(newer: RowColumns | None, older: RowColumns | None) -> RowColumns | None:
    """Return the rows of two sorted sources as one."""
    if newer is None or older is None:
        return older if newer is None else newer
    sources = [newer, older]
    highs = np.array([len(newer), len(older)], np.int64)
    return take_rows(sources, merge_all(sources, np.zeros(2, np.int64), highs))


def _held_bytes(rows: RowColumns | None) -> int:
    if rows is None:
        return 0
    columns = (rows.key_offsets, rows.seqs, rows.flags, rows.create_ts, rows.expire_ts, rows.value_starts)
    return len(rows.key_bytes) + len(rows.value_bytes) + sum(column.nbytes for column in columns) + 8 * len(rows)
