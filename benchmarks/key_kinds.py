"""Scans of tables whose keys are random, digits, or have a long common part, against Parquet of the visible rows."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.client import put_batches
from benchmarks.data import ONE_FILE_PER_FLUSH, ROW_GROUP_ROWS, SEED, DataFolder, make_table, stored_bytes
from benchmarks.harness import Alternative, Benchmark, Target
from benchmarks.tasks import scan
from benchmarks.worker import Sample, Stopwatch, Task
from slatespark import SlateStore
from tests.support.client import Location

TITLE: Final = "Scan by kind of key, number of layers and versions, against Parquet of the visible rows"
KINDS: Final = ("random", "digits", "structured")
LAYERS: Final = (1, 4, 16)
TENANTS: Final = 1000


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of tables that store `rows` row versions each."""
    alternatives, targets, notes = [], [], []
    for name, (folder, at_most) in _tables(data, rows).items():
        ours, parquet = folder / "slate", folder / "rows.parquet"
        alternatives += [
            Alternative(name=f"{name}, slate", task=Task.of(scan, path=ours, parallelism=1)),
            Alternative(name=f"{name}, Parquet", task=Task.of(read, path=parquet)),
        ]
        targets.append(Target(alternative=f"{name}, slate", against=f"{name}, Parquet", at_most=at_most))
        notes.append(f"{name}: {stored_bytes(ours) / 1e6:.0f} MB, Parquet {stored_bytes(parquet) / 1e6:.0f} MB.")
    return Benchmark(
        alternatives=alternatives,
        base=alternatives[0].name,
        targets=targets,
        notes=[
            "One thread each. Values of 100 bytes, as elsewhere, but random ones in the client's files.",
            "Parquet: snappy, in key order.",
            *notes,
        ],
        same=(),
    )


def _tables(data: DataFolder, rows: int) -> dict[str, tuple[Path, float]]:
    """Return the folder of each table, and at most how many times Parquet's time its scan may take."""
    tables = {}
    for kind in KINDS:
        for layers in LAYERS:
            tables[f"{kind}, {layers} layers"] = _made(data, rows, kind, layers, is_versioned=False), 1.2
        tables[f"{kind}, 4 layers of the same keys"] = _made(data, rows, kind, 4, is_versioned=True), 2.0
        tables[f"{kind}, 4 files of the client, a third superseded"] = _made_by_client(data, rows, kind), 2.0
    return tables


def _made_by_client(data: DataFolder, rows: int, kind: str) -> Path:
    """Return a database of the client with random values; each layer has two thirds of its keys from the one before."""
    layers = 4

    def fill(path: Path) -> None:
        per_layer = rows // layers
        step = round((rows * 2 / 3 - per_layer) / (layers - 1))
        keys = make_keys(kind, per_layer + step * (layers - 1))
        generator = np.random.default_rng([SEED, 4])
        tables = []
        for layer in range(layers):
            values = pa.array(list(map(bytes, generator.integers(0, 256, (per_layer, 100), np.uint8))), pa.binary())
            tables.append(pa.table({"key": keys.slice(layer * step, per_layer), "value": values}))
        asyncio.run(put_batches(Location.local(path / "slate"), ONE_FILE_PER_FLUSH, tables))
        shown = [table.slice(0, step) for table in tables[:-1]] + tables[-1:]
        table = pa.concat_tables(shown).sort_by("key")
        pq.write_table(table, path / "rows.parquet", compression="snappy", row_group_size=ROW_GROUP_ROWS)

    return data.made(f"keys-{rows}-{kind}-{layers}-client", fill)


def _made(data: DataFolder, rows: int, kind: str, layers: int, *, is_versioned: bool) -> Path:
    def fill(path: Path) -> None:
        store = SlateStore.create(str(path / "slate"), autoCompact=False)
        values = make_table(rows // layers).column("value")
        count = rows // layers if is_versioned else rows
        keys = make_keys(kind, count)
        tables = []
        for layer in range(layers):
            chosen = keys if is_versioned else keys.take(pa.array(np.arange(layer, count, layers)))
            tables.append(pa.table({"key": chosen, "value": values.slice(0, len(chosen))}))
            store.write(tables[-1], sstSize="4g")
        shown = tables[-1:] if is_versioned else tables
        table = pa.concat_tables(shown).sort_by("key")
        pq.write_table(table, path / "rows.parquet", compression="snappy", row_group_size=ROW_GROUP_ROWS)

    versions = "versions" if is_versioned else "unique"
    return data.made(f"keys-{rows}-{kind}-{layers}-{versions}", fill)


def make_keys(kind: str, count: int) -> pa.Array:
    """Return distinct keys in random order: 16 random bytes, 16 digits, or `tenant-000001/user/<12 digits>`."""
    generator = np.random.default_rng([SEED, 3])
    if kind == "random":
        return pa.array(list(map(bytes, generator.integers(0, 256, (count, 16), np.uint8))), pa.binary())
    numbers = generator.permutation(count)
    if kind == "digits":
        return _digits(numbers, 16).cast(pa.binary())
    tenants, users = _digits(numbers % TENANTS, 6), _digits(numbers // TENANTS, 12)
    return pc.binary_join_element_wise("tenant-", tenants, "/user/", users, "").cast(pa.binary())


def _digits(numbers: NDArray[np.int64], width: int) -> pa.Array:
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width, "0")


# --- tasks ----------------------------------------------------------------------------------------------------------


def read(path: str) -> Sample:
    """Read a Parquet file batch by batch on one thread."""
    with Stopwatch() as watch:
        rows = sum(len(batch) for batch in pq.ParquetFile(path).iter_batches(65536, use_threads=False))
    return watch.sample(rows=rows)
