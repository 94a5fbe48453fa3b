"""The rows of the benchmarks, and databases and Parquet files that hold them; made once per set of parameters.

Keys are 16 random bytes, so any two files overlap over all their keys. Values are 100 bytes of text like JSON: fixed
names and random letters. Alone they compress 2.0 : 1 with snappy, 2.1 : 1 with lz4 and 3.8 : 1 with zstd, as records of
that kind do; the keys do not compress at all. Everything follows from fixed seeds.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.client import put_batches
from slatespark import SlateStore
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.stores import open_stores
from tests.support.client import ClientOptions, Location

SEED: Final = 20250
KEY_BYTES: Final = 16
BATCH_ROWS: Final = 1 << 16
ROW_GROUP_ROWS: Final = 128 << 10

_SCHEMA: Final = pa.schema([("key", pa.binary()), ("value", pa.binary())])
_VALUE: Final = b'{"name":"**************","city":"**********","amount":****.**,"status":"active","email":"*******@m"}'
_LETTERS: Final = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8)

# One memtable holds a file's rows; nothing is flushed but by the call.
ONE_FILE_PER_FLUSH: Final = ClientOptions(
    wal=False,
    merge_operator=False,
    min_filter_keys=1000,
    settings={"l0_sst_size_bytes": 8 << 30, "max_unflushed_bytes": 16 << 30},
)


def make_batches(rows: int, part: int = 0) -> Iterator[pa.RecordBatch]:
    """Yield rows in random key order.

    Parameters
    ----------
    rows : how many
    part : parts have no key in common
    """
    generator = np.random.default_rng([SEED, part])
    for start in range(0, rows, BATCH_ROWS):
        count = min(BATCH_ROWS, rows - start)
        keys = generator.integers(0, 256, (count, KEY_BYTES), np.uint8)
        yield pa.record_batch([_binary(keys), _binary(_make_values(generator, count))], schema=_SCHEMA)


def make_table(rows: int, part: int = 0) -> pa.Table:
    """Return the rows of `make_batches` as a table."""
    return pa.Table.from_batches(make_batches(rows, part), _SCHEMA)


def _make_values(generator: np.random.Generator, count: int) -> NDArray[np.uint8]:
    values = np.tile(np.frombuffer(_VALUE, np.uint8), (count, 1))
    slots = np.flatnonzero(values[0] == ord("*"))
    values[:, slots] = _LETTERS[generator.integers(0, len(_LETTERS), (count, len(slots)), np.uint8)]
    return values


def _binary(cells: NDArray[np.uint8]) -> pa.Array:
    rows, width = cells.shape
    offsets = np.arange(rows + 1, dtype=np.int32) * width
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets.data), pa.py_buffer(cells.data)])


def stored_bytes(path: Path) -> int:
    """Return the size of a file, or of all files below a folder."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


def sizes_note(paths: Mapping[str, Path]) -> str:
    """Return the sizes of files or folders as a note for readers."""
    return "MB stored: " + ", ".join(f"{name} {stored_bytes(path) / 1e6:.0f}" for name, path in paths.items()) + "."


class DataFolder:
    """Where data is made and kept.

    Parameters
    ----------
    root : what an earlier run made there is used again
    scratch : for what the benchmarks write, and for logs
    """

    def __init__(self, root: Path, scratch: Path) -> None:
        self.root, self.scratch = root, scratch

    def made(self, name: str, make: Callable[[Path], object]) -> Path:
        """Return `root/name`, calling `make` with a place to make it where it is not there yet."""
        found = self.root / name
        if not found.exists():
            unfinished = self.root / f"unfinished-{name}"
            if unfinished.is_dir():
                shutil.rmtree(unfinished)
            make(unfinished)
            unfinished.rename(found)
        return found

    def client_layers(self, rows: int, layers: int, *, codec: str | None = None) -> Path:
        """Return a database of the real client: an L0 file per layer, 4 KiB blocks, never compacted.

        Parameters
        ----------
        codec : as the client calls it; None for uncompressed files
        """

        def make(path: Path) -> None:
            parts = [make_table(rows // layers, part) for part in range(layers)]
            asyncio.run(put_batches(Location.local(path), replace(ONE_FILE_PER_FLUSH, codec=codec), parts))
            _, manifest = fetch_latest_manifest(open_stores(str(path), storage={}))
            assert (len(manifest.l0), len(manifest.compacted)) == (layers, 0), "the client made another layout"

        kind = "" if codec is None else f"-{codec.lower()}"
        return self.made(f"client-{rows}-{layers}{kind}", make)

    def slate_layers(self, rows: int, layers: int, *, compression: str = "none", sst_size: str = "4g") -> Path:
        """Return a database of `SlateStore` with the same rows: one commit per layer, so one sorted run each."""

        def make(path: Path) -> None:
            store = SlateStore.create(str(path))
            for part in range(layers):
                store.write(make_batches(rows // layers, part), compression=compression, sstSize=sst_size)

        return self.made(f"slate-{rows}-{layers}-{compression}-{sst_size}", make)

    def sorted_parquet(self, rows: int, layers: int) -> Path:
        """Return the same rows in key order as one snappy Parquet file with row groups of 128 Ki rows."""

        def make(path: Path) -> None:
            table = pa.concat_tables([make_table(rows // layers, part) for part in range(layers)])
            pq.write_table(table.sort_by("key"), path, compression="snappy", row_group_size=ROW_GROUP_ROWS)

        return self.made(f"sorted-{rows}-{layers}.parquet", make)

    def parquet_parts(self, rows: int, parts: int) -> Path:
        """Return a folder of snappy Parquet files, each a part in random key order."""

        def make(path: Path) -> None:
            path.mkdir()
            for part in range(parts):
                pq.write_table(make_table(rows // parts, part), path / f"part-{part}.parquet", compression="snappy")

        return self.made(f"parts-{rows}-{parts}", make)
