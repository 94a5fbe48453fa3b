"""Rows that the client acknowledged before a load and has not flushed: they would win over those of the load.

A load gets the highest sequence number of the trees, so everything that is only in the WAL is above it. That is right
for what is written during the load, and wrong for what was durable before it began, if it has a key of the load.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slatespark.encoding.row_codec import RowCodec
from slatespark.errors import CommitConflictError, SnapshotExpiredError
from slatespark.kernels import new_key_mask
from slatespark.kernels.columns import RowColumns
from slatespark.options import WriteOptions
from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.table.clock import Clock, TimedWait
from slatespark.table.cooperation.outcome import poll_ms
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.fetch import fetch_wal_rows
from slatespark.table.read.planning.key_prefixes import name_key
from slatespark.table.read.points import key_rows
from slatespark.table.rows.sst_upload import NewFile, new_layer
from slatespark.table.snapshot import WalTail
from slatespark.table.stores import TableStores
from slatespark.texts import name_some


@dataclass(frozen=True, slots=True)
class UnflushedRows:
    """Rows with keys of the load that were only in the WAL when it began.

    Attributes
    ----------
    keys : ascending
    last_seq : the highest sequence number; once it is in the trees, all are
    """

    keys: tuple[bytes, ...]
    last_seq: int


def await_flush(
    stores: TableStores,
    clock: Clock,
    wal_end: int,
    codec: RowCodec,
    options: WriteOptions,
    *,
    keys: KeyRange = ALL_KEYS,
    files: Sequence[NewFile] | None = None,
) -> None:
    """Wait until the trees hold all rows that were durable when the WAL had an end.

    Parameters
    ----------
    wal_end : the first WAL id that did not exist
    options : `clientTimeout` bounds the wait, `unflushedRows` says what follows, `writeBuffer` bounds the memory
    keys, files : only rows count with these keys, and with keys that these files have; None for any

    Raises
    ------
    CommitConflictError
        When they are not flushed in time, naming keys, and `unflushedRows` is `fail`.
    """
    rows = _wal_rows(stores, wal_end, keys)
    unflushed = None if rows is None else _with_keys_of(stores, rows, files, options.write_buffer_bytes)
    if unflushed is None:
        return
    wait = TimedWait(clock, options.client_timeout_ms)
    while fetch_latest_manifest(stores).value.last_l0_seq < unflushed.last_seq:
        if not wait.is_over:
            wait.pause(poll_ms(stores))
            continue
        if options.unflushed_rows == "win":
            return
        raise _refusal(stores, unflushed, codec, options.client_timeout_ms)


def _wal_rows(stores: TableStores, wal_end: int, keys: KeyRange) -> RowColumns | None:
    """Return the rows that were only in the WAL when it had that end, and still are; None for none."""
    while True:
        number, manifest = fetch_latest_manifest(stores)
        tail = WalTail(manifest.replay_after_wal_id + 1, wal_end)
        try:
            return fetch_wal_rows(stores, tail, manifest.last_l0_seq, keys)
        except SnapshotExpiredError:  # flushed and collected meanwhile, unless no newer version exists
            if fetch_latest_manifest(stores).number == number:
                raise


def _with_keys_of(
    stores: TableStores, rows: RowColumns, files: Sequence[NewFile] | None, buffer_bytes: int
) -> UnflushedRows | None:
    """Return those of some rows, sorted, whose keys files have; None if there is none."""
    starts = np.flatnonzero(new_key_mask([rows], np.arange(len(rows), dtype=np.int64)))
    keys = [rows.key(at) for at in starts.tolist()]
    if files is None:
        return UnflushedRows(tuple(keys), int(rows.seqs[starts].max()))
    found: set[bytes] = set()
    for file in files:
        low = bisect_left(keys, file.keys.start)
        high = len(keys) if file.keys.end is None else bisect_left(keys, file.keys.end)
        if low < high:
            for span, first, end in key_rows(stores, [new_layer(file)], keys[low:high], buffer_bytes=buffer_bytes):
                found.update(span.key(at) for at in range(first, end))
    if not found:
        return None
    chosen = np.array([key in found for key in keys])
    newest = rows.seqs[starts[chosen]]  # versions of a key follow each other, newest first
    return UnflushedRows(tuple(sorted(found)), int(newest.max()))


def _refusal(stores: TableStores, unflushed: UnflushedRows, codec: RowCodec, waited_ms: int) -> CommitConflictError:
    named = name_some(name_key(codec, key) for key in unflushed.keys)
    return CommitConflictError(
        f"{stores.url}: the client wrote {named} before this write, and has not flushed them for {waited_ms} ms.",
        why="Its rows would win over those of this write, although they are older.",
        todo="Let the client flush its memtable, give a longer clientTimeout, or set unflushedRows=win.",
    )
