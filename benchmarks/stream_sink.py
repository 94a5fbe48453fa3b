"""The sink of streams: small batches one after the other, as a day of them would leave the table."""

from __future__ import annotations

import shutil
import statistics
import time
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from benchmarks.data import DataFolder
from benchmarks.harness import Alternative, Benchmark, Target
from benchmarks.tasks import new_folder
from benchmarks.worker import Sample, Stopwatch, Task
from slatespark.options.streaming import StreamWriteOptions
from slatespark.table.clock import SystemClock
from slatespark.table.compaction.after_write import compact_after_write
from slatespark.table.stores import open_stores
from slatespark.table.write.load_plan import begin_load
from slatespark.table.write.load_task import run_task
from slatespark.table.write.stream_batch import StreamBatch, commit_batch

TITLE: Final = "Batches of 1,000 rows: the last 100 of 1,000 against the first 100"
BATCHES: Final = 1000
MEASURED: Final = 100
ROWS: Final = 1000
KEYS: Final = 10_000_000

FIRST: Final = f"the first {MEASURED}"
LAST: Final = f"the last {MEASURED} of {BATCHES:,}"


def make(data: DataFolder, batches: int) -> Benchmark:
    """Return the benchmark of so many batches."""
    before = batches - MEASURED
    filled = data.made(f"stream-{before}", lambda path: _write(path, range(before)))
    return Benchmark(
        alternatives=[
            Alternative(name=FIRST, task=Task.of(write_batches, before=None, number=0)),
            Alternative(name=LAST, task=Task.of(write_batches, before=filled, number=before)),
        ],
        base=FIRST,
        targets=[Target(alternative=LAST, against=FIRST, at_most=1.2, measure="median_s")],
        notes=[
            f"{ROWS:,} rows of random keys in each batch, planned, written and committed as by the sink; no Spark, and "
            "processes that run on, as Spark's do.",
            f"seconds: all {MEASURED} batches, merges of small runs included. median_s: of one batch.",
        ],
    )


# --- tasks ----------------------------------------------------------------------------------------------------------


def write_batches(before: str | None, number: int) -> Sample:
    """Write batches from `number` on into a copy of a table."""
    with new_folder() as folder:
        if before is not None:
            shutil.copytree(before, folder / "table", copy_function=shutil.copyfile)
        with Stopwatch() as watch:
            seconds = _write(folder / "table", range(number, number + MEASURED))
    return watch.sample(rows=MEASURED * ROWS, median_s=statistics.median(seconds))


def _write(path: Path, numbers: range) -> list[float]:
    """Write a batch of each number, and return how long each took."""
    clock, seconds = SystemClock(), []
    planner, committer = (open_stores(str(path), storage={}, wal_path=None) for _ in range(2))
    options = StreamWriteOptions.parse({"path": str(path), "keyColumns": "id"}).write
    generator = np.random.default_rng(numbers.start)
    for number in numbers:
        rows = pa.table({"id": generator.integers(0, KEYS, ROWS), "value": generator.random(ROWS)})
        began = time.perf_counter()
        load = begin_load(planner, clock, rows.schema, options)
        assert load is not None
        files = run_task(planner, clock, load, 0, rows.to_batches())
        record = commit_batch(committer, clock, load, [files], StreamBatch("benchmark", number))
        compact_after_write(committer, clock, record, options, load.job.definition)
        seconds.append(time.perf_counter() - began)
    return seconds
