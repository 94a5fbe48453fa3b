"""Planning a scan of a table of many files: manifest, what is known of the files, splits."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from benchmarks.data import DataFolder, make_batches
from benchmarks.harness import Alternative, Benchmark, Target
from benchmarks.worker import Sample, Stopwatch, Task
from slatespark import SlateStore
from slatespark.options import ReadOptions
from slatespark.table.clock import SystemClock
from slatespark.table.read.reader import fetch_read_plan
from slatespark.table.stores import open_stores

TITLE: Final = "Planning a scan of 10,000 files"
FILES: Final = 10_000
FILE_BYTES: Final = 4096
SPLIT_BYTES: Final = 512 << 10  # as many splits as a table of a hundred times the size has by default

FIRST: Final = "first of a process"
AGAIN: Final = "again"
FILTERED: Final = "again, filter _seq = 0"
LIMIT_S: Final = 1.0


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of a table of `rows` rows, about thirty in a file."""
    path = data.made(f"files-{rows}", lambda folder: _load(folder, rows))
    task = Task.of(plan, path=path, splitSize=SPLIT_BYTES)
    return Benchmark(
        alternatives=[
            Alternative(name=FIRST, task=task, fresh=True),
            Alternative(name=AGAIN, task=task),
            Alternative(name=FILTERED, task=Task.of(plan, path=path, splitSize=SPLIT_BYTES, filter="_seq = 0")),
        ],
        base=FIRST,
        targets=[Target(alternative=name, within_s=LIMIT_S) for name in (FIRST, AGAIN, FILTERED)],
        notes=[
            "One commit; planning reads the manifest, the commit record, and the indexes of 64 files.",
            "rows are files here.",
        ],
        same=(),
    )


def _load(path: Path, rows: int) -> None:
    store = SlateStore.create(str(path))
    store.write(make_batches(rows), compression="none", sstSize=FILE_BYTES, ttl="30d")


# --- tasks ----------------------------------------------------------------------------------------------------------


def plan(path: str, **options: object) -> Sample:
    """Plan a scan."""
    stores, parsed, clock = open_stores(path, storage={}), ReadOptions.parse({"path": path, **options}), SystemClock()
    with Stopwatch() as watch:
        found = fetch_read_plan(stores, parsed, clock)
    files = {part.file.id for split in found.splits for layer in split.layers for part in layer.slices}
    return watch.sample(rows=len(files), splits=len(found.splits))
