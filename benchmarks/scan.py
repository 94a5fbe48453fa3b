"""Scans into Arrow batches: SlateStore, the real client, pyarrow's Parquet readers."""

from __future__ import annotations

from typing import Any, Final

import pyarrow.dataset as ds
import pyarrow.parquet as pq

from benchmarks.client import scan_to_arrow
from benchmarks.data import DataFolder, stored_bytes
from benchmarks.harness import Alternative, Benchmark, Target, Task
from benchmarks.worker import Sample, Stopwatch
from slatespark import SlateStore

TITLE: Final = "Scan of 4 overlapping files to Arrow, against the SlateDB client and against Parquet"
LAYERS: Final = 4
BATCH_ROWS: Final = 65536

SLATE: Final = "slate"
ALL_CORES: Final = "slate, all cores"


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of `rows` rows in all files together."""
    client_files, slate_files = data.client_layers(rows, LAYERS), data.slate_layers(rows, LAYERS)
    parquet = data.sorted_parquet(rows, LAYERS)
    slate_peers = [
        _slate(SLATE, str(client_files)),
        _slate(ALL_CORES, str(client_files), None),
        _slate("slate, own files", str(slate_files)),
    ]
    compressed = {name: data.slate_layers(rows, LAYERS, compression=name) for name in ("lz4", "zstd")}
    slate_peers += [_slate(f"slate, own files, {name}", str(path)) for name, path in compressed.items()]
    parquet_peers = [
        _task(f"parquet {reader}, {'threads' if threads else 'one thread'}", reader, path=str(parquet), threads=threads)
        for reader in ("iter_batches", "scanner")
        for threads in (False, True)
    ]
    client_peers = [
        Alternative(
            name=f"client next_batch({count})",
            task=Task("benchmarks.scan:scan_client", {"path": str(client_files), "rows_per_call": count}),
            max_rounds=3,
            warm_up=False,
        )
        for count in (1000, 4096)
    ]
    sizes = {"client's files": client_files, "own files": slate_files, **compressed, "Parquet": parquet}
    return Benchmark(
        alternatives=[*slate_peers, *parquet_peers, *client_peers],
        base=SLATE,
        targets=[
            Target(alternative=ALL_CORES, against=SLATE, at_least=1.7),
            Target(alternative=SLATE, against="client next_batch(1000)", at_least=30),
            Target(alternative=SLATE, against="client next_batch(4096)", at_least=12),
            *(Target(alternative=SLATE, against=peer.name, at_most=2) for peer in parquet_peers),
        ],
        notes=[
            f"{rows:,} rows of 16 + 100 bytes, unique keys, {LAYERS} files that overlap fully; warm page cache.",
            "MB stored: " + ", ".join(f"{name} {stored_bytes(path) / 1e6:.0f}" for name, path in sizes.items()) + ".",
            "slate: uncompressed files written by the client, as the client reads them; one thread but for all cores.",
            "Parquet: the same rows, already merged and in key order, one snappy file.",
        ],
    )


def _slate(name: str, path: str, parallelism: int | None = 1) -> Alternative:
    task = Task("benchmarks.scan:scan_slate", {"path": path, "parallelism": parallelism})
    return Alternative(name=name, task=task)


def _task(name: str, function: str, **arguments: Any) -> Alternative:
    return Alternative(name=name, task=Task(f"benchmarks.scan:scan_{function}", arguments))


# --- tasks ----------------------------------------------------------------------------------------------------------


def scan_slate(path: str, parallelism: int | None) -> Sample:
    """Drain a scan; finding the snapshot counts."""
    store = SlateStore.open(path)
    with Stopwatch() as watch:
        rows = sum(len(batch) for batch in store.scan(parallelism=parallelism))
    return watch.sample(rows=rows)


def scan_client(path: str, rows_per_call: int) -> Sample:
    """Drain a scan of the client."""
    return scan_to_arrow(path, rows_per_call)


def scan_iter_batches(path: str, *, threads: bool) -> Sample:
    """Drain `ParquetFile.iter_batches`; opening the file counts."""
    with Stopwatch() as watch, pq.ParquetFile(path) as file:
        rows = sum(len(batch) for batch in file.iter_batches(batch_size=BATCH_ROWS, use_threads=threads))
    return watch.sample(rows=rows)


def scan_scanner(path: str, *, threads: bool) -> Sample:
    """Drain a dataset scanner; opening the file counts."""
    with Stopwatch() as watch:
        scanner = ds.dataset(path).scanner(batch_size=BATCH_ROWS, use_threads=threads)
        rows = sum(len(batch) for batch in scanner.to_batches())
    return watch.sample(rows=rows)
