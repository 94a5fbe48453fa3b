"""Layers made of rows written out by hand: as files in memory, cut into files and blocks wherever a test wants it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from slatespark.format.codecs import Compression
from slatespark.format.paths import sst_path
from slatespark.format.references import SstHandle
from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.format.sst import SstBuilder
from slatespark.format.ulid import Ulid
from slatespark.options import WriteOptions
from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.read.merge.cursor import layer_windows
from slatespark.table.read.merge.merge_function import row_at
from slatespark.table.read.planning.plan import FileSlice, Layer, SstFile
from slatespark.table.rows.sorted_rows import SortedRows
from slatespark.table.rows.sst_upload import NewFile, upload_sorted
from slatespark.table.stores import OWN_ROOT, TableStores
from tests.support.fake_clock import FakeClock

_numbers = itertools.count(1)


def new_stores() -> TableStores:
    """An empty place in memory."""
    store = MemoryStore(f"layers/{next(_numbers)}")
    return TableStores(main=store, wal=store)


def put_file(
    stores: TableStores,
    rows: Sequence[Row],
    *,
    block_size: int = 4096,
    compression: Compression = Compression.NONE,
    keys: KeyRange = ALL_KEYS,
) -> FileSlice:
    """Store rows as an SST, and return the slice that shows `keys` of it."""
    builder = SstBuilder(block_size=block_size, compression=compression, min_filter_keys=1)
    builder.add([rows_to_columns(rows)], np.arange(len(rows), dtype=np.int64))
    built = builder.finish()
    handle = SstHandle(Ulid(next(_numbers)), built.info)
    stores.main.put(sst_path(handle.id), built.parts)
    file = SstFile(OWN_ROOT, handle.id, handle.info, handle.format_version)
    return FileSlice(file, handle.key_range().intersect(keys))


def upload_rows(stores: TableStores, rows: Sequence[Row], clock: FakeClock, **options: str) -> tuple[NewFile, ...]:
    """Upload rows, which are sorted, as new files of a write."""
    piece = SortedRows([rows_to_columns(rows)], np.arange(len(rows), dtype=np.int64))
    return upload_sorted(
        stores.main, [piece], WriteOptions.parse({"path": stores.url, **options}), clock, clock.now_ms()
    )


def rows_of(stores: TableStores, file: NewFile) -> list[Row]:
    """The rows of a file, as stored."""
    windows = layer_windows(stores, Layer("new", (file.whole(),)), 1 << 20)
    return [row_at([span.rows], row) for span in windows for row in range(span.low, span.high)]


@dataclass(frozen=True)
class Shape:
    """Rows by layer, newest first, and where each layer is cut into files."""

    layers: tuple[tuple[Row, ...], ...]
    cuts: tuple[tuple[int, ...], ...]
    block_size: int
    compression: Compression

    def store(self, stores: TableStores) -> list[Layer]:
        layers = []
        for number, (rows, cuts) in enumerate(zip(self.layers, self.cuts, strict=True)):
            edges = sorted({0, len(rows), *(cut % len(rows) for cut in cuts)})
            slices = tuple(
                put_file(stores, rows[start:end], block_size=self.block_size, compression=self.compression)
                for start, end in itertools.pairwise(edges)
            )
            layers.append(Layer(f"run {number}", slices))
        return layers


@st.composite
def shapes(draw: st.DrawFn, *, expiry: bool = True) -> Shape:
    """A few keys, of which some have very many versions; every version in a newer layer is newer."""
    keys = draw(st.lists(st.binary(min_size=1, max_size=3), min_size=1, max_size=8, unique=True))
    layer_count = draw(st.integers(1, 4))
    layers: list[list[Row]] = [[] for _ in range(layer_count)]
    for key in sorted(keys):
        versions = draw(st.sampled_from([1, 1, 2, 5, 40]))
        seqs = sorted(draw(st.sets(st.integers(1, 300), min_size=versions, max_size=versions)), reverse=True)
        homes = sorted(draw(st.lists(st.integers(0, layer_count - 1), min_size=versions, max_size=versions)))
        for seq, home in zip(seqs, homes, strict=True):
            layers[home].append(draw(_rows(key, seq, expiry=expiry)))
    filled = tuple(tuple(rows) for rows in layers if rows)
    return Shape(
        layers=filled,
        cuts=tuple(tuple(draw(st.lists(st.integers(0, 200), max_size=3))) for _ in filled),
        block_size=draw(st.sampled_from([1, 40, 100, 4096])),
        compression=draw(st.sampled_from([Compression.NONE, Compression.ZSTD])),
    )


@st.composite
def _rows(draw: st.DrawFn, key: bytes, seq: int, *, expiry: bool) -> Row:
    kind = draw(st.sampled_from([RowKind.PUT, RowKind.MERGE, RowKind.MERGE, RowKind.DELETE]))
    gone = kind is RowKind.DELETE
    return Row(
        key=key,
        seq=seq,
        kind=kind,
        value=b"" if gone else b"%d," % seq,
        create_ts_ms=draw(st.sampled_from([None, seq])),
        expire_ts_ms=None if gone or not expiry else draw(st.sampled_from([None, None, 50, 150])),
    )
