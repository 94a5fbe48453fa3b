"""Scans into Arrow batches: SlateStore, the real client, pyarrow's Parquet readers."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow.dataset as ds
import pyarrow.parquet as pq

from benchmarks.client import scan_to_arrow
from benchmarks.data import DataFolder, sizes_note
from benchmarks.harness import Alternative, Benchmark, Target
from benchmarks.tasks import scan
from benchmarks.worker import Sample, Stopwatch, Task

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
        _slate(SLATE, client_files),
        _slate(ALL_CORES, client_files, None),
        _slate("slate, own files", slate_files),
    ]
    compressed = {name: data.slate_layers(rows, LAYERS, compression=name) for name in ("lz4", "zstd")}
    slate_peers += [_slate(f"slate, own files, {name}", path) for name, path in compressed.items()]
    parquet_peers = [
        Alternative(
            name=f"parquet {name}, {'threads' if threads else 'one thread'}",
            task=Task.of(read, path=parquet, threads=threads),
        )
        for name, read in (("iter_batches", iterate_batches), ("scanner", drain_scanner))
        for threads in (False, True)
    ]
    client_peers = [
        Alternative(
            name=f"client next_batch({count})",
            task=Task.of(scan_to_arrow, path=client_files, rows_per_call=count),
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
            sizes_note(sizes),
            "slate: uncompressed files written by the client, as the client reads them; one thread but for all cores.",
            "Parquet: the same rows, already merged and in key order, one snappy file.",
        ],
    )


def _slate(name: str, path: Path, parallelism: int | None = 1) -> Alternative:
    return Alternative(name=name, task=Task.of(scan, path=path, parallelism=parallelism))


# --- tasks ----------------------------------------------------------------------------------------------------------


def iterate_batches(path: str, *, threads: bool) -> Sample:
    """Drain `ParquetFile.iter_batches`; opening the file counts."""
    with Stopwatch() as watch, pq.ParquetFile(path) as file:
        rows = sum(len(batch) for batch in file.iter_batches(batch_size=BATCH_ROWS, use_threads=threads))
    return watch.sample(rows=rows)


def drain_scanner(path: str, *, threads: bool) -> Sample:
    """Drain a dataset scanner; opening the file counts."""
    with Stopwatch() as watch:
        scanner = ds.dataset(path).scanner(batch_size=BATCH_ROWS, use_threads=threads)
        rows = sum(len(batch) for batch in scanner.to_batches())
    return watch.sample(rows=rows)
