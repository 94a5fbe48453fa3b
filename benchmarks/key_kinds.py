"""Scans of tables whose keys are random, digits, or have a long common part, against Parquet of the visible rows."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.data import ROW_GROUP_ROWS, SEED, DataFolder, make_table, stored_bytes
from benchmarks.harness import Alternative, Benchmark, Target, Task
from benchmarks.worker import Sample, Stopwatch
from slatespark import SlateStore

TITLE: Final = "Scan by kind of key, number of layers and versions, against Parquet of the visible rows"
KINDS: Final = ("random", "digits", "structured")
LAYERS: Final = (1, 4, 16)
TENANTS: Final = 1000


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of tables that store `rows` row versions each."""
    alternatives, targets, notes = [], [], []
    for kind in KINDS:
        for layers, is_versioned in [*((count, False) for count in LAYERS), (4, True)]:
            folder = _made(data, rows, kind, layers, is_versioned=is_versioned)
            name = f"{kind}, {layers} layers" + (" of the same keys" if is_versioned else "")
            ours, parquet = (Path(folder) / each for each in ("slate", "rows.parquet"))
            alternatives += [
                Alternative(name=f"{name}, slate", task=Task("benchmarks.key_kinds:scan", {"path": str(ours)})),
                Alternative(name=f"{name}, Parquet", task=Task("benchmarks.key_kinds:read", {"path": str(parquet)})),
            ]
            targets.append(Target(alternative=f"{name}, slate", against=f"{name}, Parquet", at_most=1.2))
            notes.append(f"{name}: {stored_bytes(ours) / 1e6:.0f} MB, Parquet {stored_bytes(parquet) / 1e6:.0f} MB.")
    return Benchmark(
        alternatives=alternatives,
        base=alternatives[0].name,
        targets=targets,
        notes=["One thread each. Values of 100 bytes as elsewhere; Parquet: snappy, in key order.", *notes],
        same=(),
    )


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


def scan(path: str) -> Sample:
    """Drain a scan on one thread; finding the snapshot counts."""
    store = SlateStore.open(path)
    with Stopwatch() as watch:
        rows = sum(len(batch) for batch in store.scan(parallelism=1))
    return watch.sample(rows=rows)


def read(path: str) -> Sample:
    """Read a Parquet file batch by batch on one thread."""
    with Stopwatch() as watch:
        rows = sum(len(batch) for batch in pq.ParquetFile(path).iter_batches(65536, use_threads=False))
    return watch.sample(rows=rows)
