"""Sorted chunks of one task on local disk, and their merge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from slatespark.format.codecs import Compression
from slatespark.format.manifest import SstHandle
from slatespark.format.paths import sst_path
from slatespark.format.sst import SST_FORMAT_VERSION, SstBuilder
from slatespark.format.ulid import make_ulid
from slatespark.kernels import gather_fields, new_key_mask, take_rows
from slatespark.kernels.columns import HAS_CREATE, RowColumns
from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.storage import ObjectStore, open_scratch
from slatespark.table.read.fold import Fold
from slatespark.table.read.plan import FileSlice, Layer, SstFile
from slatespark.table.rows.encoder import Stamp
from slatespark.table.rows.sequence import Ranks, order_repeats
from slatespark.table.rows.sorted_rows import SortedRows, one_version_per_key
from slatespark.table.rows.unpublished import merged_descending
from slatespark.table.stores import OWN_ROOT, TableStores

SPILL_BLOCK_BYTES = 65536


class SpillArea:
    """Sorted chunks of one task on local disk.

    A spill is an SST whose rows carry a number of the spill as seq: so the read path's merge, newest first, is what
    joins the spills, and the later row wins.

    Parameters
    ----------
    folder : of the disk
    seq : of the rows that the task has uploaded already; those of spills are above it
    """

    def __init__(self, folder: str, seq: int = 0) -> None:
        scratch = open_scratch(folder)
        self._stores = TableStores(main=scratch, wal=scratch)
        self._seq = seq
        self._files: list[SstFile] = []
        self._ranked = False

    @property
    def store(self) -> ObjectStore:
        """Where the spills lie."""
        return self._stores.main

    def add(self, sources: Sequence[RowColumns], rows: NDArray[np.int64], ranks: Ranks | None = None) -> None:
        """Write one chunk; a later one is newer, unless ranks decide."""
        number = len(self._files) + 1
        flat = take_rows(sources, rows)
        flat.seqs[:] = self._seq + number
        if ranks is not None:  # a spill needs no create_ts: its rows are stamped again
            self._ranked = True
            flat.create_ts[:] = ranks.order
            flat.flags[~ranks.there] &= np.uint8(~HAS_CREATE & 0xFF)
        builder = SstBuilder(
            block_size=SPILL_BLOCK_BYTES, compression=Compression.NONE, bloom_bits_per_key=0, created_ms=0
        )
        builder.add([flat], np.arange(len(flat), dtype=np.int64))
        built = builder.finish()
        spill_id = make_ulid(number, number)
        self.store.put(sst_path(spill_id), built.parts)
        handle = SstHandle(id=spill_id, info=built.info, format_version=SST_FORMAT_VERSION)
        self._files.append(SstFile(OWN_ROOT, handle.id, handle.info, handle.format_version))

    def merge(
        self, stamp: Stamp, fold: Fold | None, buffer_bytes: int, below: tuple[TableStores, Layer] | None = None
    ) -> Iterator[SortedRows]:
        """Yield all rows in key order, one version per key, stamped again with the write's seq.

        Parameters
        ----------
        below : rows older than all spills, with the seq given at first, and where they lie
        """
        layers = [Layer("spill", (FileSlice(file, _extent(file)),)) for file in reversed(self._files)]
        sources = [(self._stores, layer) for layer in layers] + ([] if below is None else [below])
        for window, ordered in merged_descending(sources, buffer_bytes):  # a spill holds a key once
            arranged = _by_rank(window, ordered) if self._ranked else ordered
            kept, rows = one_version_per_key(window, arranged, fold)
            flat = take_rows(kept, rows[::-1])
            flat.seqs[:] = stamp.seq
            if self._ranked:
                flat.create_ts[:] = stamp.create_ts_ms
                flat.flags[:] |= HAS_CREATE
            yield SortedRows([flat], np.arange(len(flat), dtype=np.int64))


def _by_rank(sources: list[RowColumns], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Arrange rows of spills, oldest first within a key, by the ranks that their create_ts holds."""
    fields = gather_fields(sources, rows)
    ranks = Ranks(fields.create_ts, (fields.flags & HAS_CREATE) != 0)
    arranged = order_repeats(new_key_mask(sources, rows), ranks)
    return rows if arranged is None else rows[arranged]


def _extent(file: SstFile) -> KeyRange:
    if file.info.first_entry is None or file.info.last_entry is None:
        return ALL_KEYS
    return KeyRange(file.info.first_entry, file.info.last_entry + b"\0")
