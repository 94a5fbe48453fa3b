"""Scans of rows that expire, against the same rows without an expiry: what hiding expired rows costs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from benchmarks.data import DataFolder, make_batches, sizes_note
from benchmarks.harness import Alternative, Benchmark, Target
from benchmarks.tasks import scan
from benchmarks.worker import Task
from slatespark import SlateStore

TITLE: Final = "Scan of rows with a TTL to Arrow, against the same rows without"
LAYERS: Final = 4
HOUR_MS: Final = 3_600_000
START_MS: Final = 1_700_000_000_000  # of all rows
NOW_MS: Final = START_MS + 2 * HOUR_MS

PLAIN: Final = "no TTL"
# Alternative -> TTLs that follow each other from row to row.
TTLS_MS: Final[dict[str, tuple[int, ...]]] = {
    "TTL, none expired": (24 * HOUR_MS,),
    "TTL, half expired": (24 * HOUR_MS, HOUR_MS),
}


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of `rows` rows in all files together."""
    tables = {PLAIN: _table(data, rows, ()), **{name: _table(data, rows, ttls) for name, ttls in TTLS_MS.items()}}
    return Benchmark(
        alternatives=[
            Alternative(name=name, task=Task.of(scan, path=path, now=NOW_MS)) for name, path in tables.items()
        ],
        base=PLAIN,
        targets=[Target(alternative=name, against=PLAIN, at_most=1.1) for name in TTLS_MS],
        notes=[
            f"{rows:,} rows of 16 + 100 bytes, {LAYERS} files that overlap fully, uncompressed; one thread.",
            "No file has expired as a whole, so every row is judged. Half of them are shown where half expired.",
            sizes_note(tables),
        ],
        same=(),
    )


def _table(data: DataFolder, rows: int, ttls_ms: tuple[int, ...]) -> Path:
    def fill(path: Path) -> None:
        store = SlateStore.create(str(path), clock="custom")
        options = {"ttlColumn": "ttl"} if ttls_ms else {}
        for part in range(LAYERS):
            batches = _with_ttls(make_batches(rows // LAYERS, part), ttls_ms)
            store.write(batches, timestamp=START_MS, compression="none", sstSize="4g", **options)

    return data.made(f"expiry-{rows}-{'-'.join(str(ttl_ms // HOUR_MS) for ttl_ms in ttls_ms) or 'none'}", fill)


def _with_ttls(batches: Iterator[pa.RecordBatch], ttls_ms: tuple[int, ...]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if not ttls_ms:
            yield batch
            continue
        ttls = pa.array((ttls_ms * (len(batch) // len(ttls_ms) + 1))[: len(batch)], pa.int64())
        yield batch.append_column("ttl", ttls)
