"""Byte ranges -> decoded parts of SSTs and WAL files: the order of reads, no knowledge of bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np

from slatespark.errors import CorruptDataError
from slatespark.format.filter import FilterSet, decode_filter_section
from slatespark.format.index import SstIndex, decode_index_section
from slatespark.format.manifest import Manifest
from slatespark.format.paths import wal_path
from slatespark.format.ulid import Ulid
from slatespark.format.wal import decode_wal
from slatespark.kernels import lower_bound, sort_rows, take_rows
from slatespark.kernels.columns import ROW_BITS, RowColumns
from slatespark.ranges import KeyRange
from slatespark.table.located import reading as reading
from slatespark.table.read.plan import CutPoint, SstFile
from slatespark.table.snapshot import WalTail
from slatespark.table.stores import TableStores, resolve_external

INDEX_CACHE_BYTES = 16 << 20


@dataclass(slots=True)
class IndexCache:
    """Indexes of SSTs, the least recently used dropped first; SSTs never change, so entries stay valid."""

    limit_bytes: int = INDEX_CACHE_BYTES
    _entries: OrderedDict[tuple[str, str], SstIndex] = field(default_factory=OrderedDict)
    _held_bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, key: tuple[str, str]) -> SstIndex | None:
        """Return an index that is held."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
            return self._entries.get(key)

    def hold(self, key: tuple[str, str], index: SstIndex) -> None:
        """Hold an index, dropping others beyond the limit."""
        with self._lock:
            if key in self._entries:
                return
            self._entries[key] = index
            self._held_bytes += index.held_bytes
            while self._held_bytes > self.limit_bytes and len(self._entries) > 1:
                _, dropped = self._entries.popitem(last=False)
                self._held_bytes -= dropped.held_bytes


_indexes = IndexCache()


def fetch_index(stores: TableStores, file: SstFile) -> SstIndex:
    """Return the index of an SST."""
    store = stores.at(file.root)
    key = (store.url, file.path)
    index = _indexes.find(key)
    if index is None:
        info = file.info
        with reading(store, file.path, info.index_offset):
            index = decode_index_section(store.get_range(file.path, info.index_range), info)
        _indexes.hold(key, index)
    return index


def fetch_filter(stores: TableStores, file: SstFile) -> FilterSet | None:
    """Return the filters of an SST; None if it has none."""
    span = file.info.filter_range
    if span is None:
        return None
    store = stores.at(file.root)
    with reading(store, file.path, span.start):
        return decode_filter_section(store.get_range(file.path, span), file.info)


def sample_index(stores: TableStores, file: SstFile, spacing_bytes: int) -> list[CutPoint]:
    """Return cut points of a file, about `spacing_bytes` of stored data apart."""
    index = fetch_index(stores, file)
    steps = np.arange(0, file.data_bytes, spacing_bytes)
    blocks = np.unique(np.searchsorted(index.block_offsets, steps, side="right") - 1)
    sizes: list[int] = np.diff(index.block_edges(file.info)[np.append(blocks, len(index))]).tolist()
    keys = [index.first_key(block) if block else file.info.first_entry or b"" for block in blocks.tolist()]
    return [CutPoint(key, size) for key, size in zip(keys, sizes, strict=True)]


def fetch_wal_rows(stores: TableStores, tail: WalTail, above_seq: int, keys: KeyRange) -> RowColumns | None:
    """Return the rows of a WAL tail as one sorted source; None if there are none.

    Parameters
    ----------
    tail : which files
    above_seq : rows with seq <= it are in the trees already (spec 4.1, `replay_after_wal_id`)
    keys : only rows with these keys

    Raises
    ------
    CorruptDataError
        When a file is damaged or sequence numbers do not grow from file to file (spec 2.13).
    """
    files: list[RowColumns] = []
    reached = -1
    for number in range(tail.start, tail.end):
        path = wal_path(number)
        with reading(stores.wal, path):
            data = bytes(stores.wal.get(path))
            rows = decode_wal(data) if data else None  # an empty object is a fence
            if rows is None or not len(rows):
                continue
            if int(rows.seqs[0]) <= reached:
                raise CorruptDataError(f"first seq is {int(rows.seqs[0])}, but an earlier file reached {reached}.")
            reached = int(rows.seqs[-1])
        if reached > above_seq:
            files.append(rows)
    return _sort_newest_first(files, above_seq, keys)


def _sort_newest_first(files: list[RowColumns], above_seq: int, keys: KeyRange) -> RowColumns | None:
    """Return the wanted rows of WAL files (given oldest first) by (key, seq descending)."""
    newest_first = [
        (np.int64(source) << ROW_BITS) + np.flatnonzero(rows.seqs > np.uint64(above_seq))[::-1]
        for source, rows in reversed(list(enumerate(files)))
    ]
    if not newest_first:
        return None
    flat = take_rows(files, np.concatenate(newest_first))
    ordered = take_rows([flat], sort_rows(flat))  # stable, so versions of a key stay newest first
    low = lower_bound(ordered, keys.start, 0, len(ordered))
    high = len(ordered) if keys.end is None else lower_bound(ordered, keys.end, low, len(ordered))
    if low == high:
        return None
    return take_rows([ordered], np.arange(low, high, dtype=np.int64))


def external_roots(stores: TableStores, manifest: Manifest) -> dict[Ulid, str]:
    """Return, for the SSTs of other databases that a clone reads, the URL of their owner."""
    return {
        sst_id: root
        for database in manifest.external_dbs
        if database.sst_ids
        for root in [resolve_external(stores, database.path)]
        for sst_id in database.sst_ids
    }
