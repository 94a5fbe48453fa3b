"""Large batches of a stream, against the batch writer on the same rows."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.data import DataFolder
from benchmarks.harness import Alternative, Benchmark, Target, Task
from benchmarks.spark_session import MASTER, spark_session
from benchmarks.worker import Sample, Stopwatch

TITLE: Final = "One batch of a stream, against the batch writer"
PARTITIONS: Final = 2

BATCH: Final = "df.write"
STREAM: Final = "writeStream"


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of `rows` rows."""
    given = {"source": str(data.parquet_parts(rows, PARTITIONS))}
    return Benchmark(
        alternatives=[
            Alternative(name=BATCH, task=Task("benchmarks.stream_load:write_batch", given), process="spark"),
            Alternative(name=STREAM, task=Task("benchmarks.stream_load:write_stream", given), process="spark"),
        ],
        base=BATCH,
        targets=[Target(alternative=STREAM, against=BATCH, at_most=1.2, measure="write_s")],
        notes=[
            f"{rows:,} rows of 16 + 100 bytes from {PARTITIONS} Parquet files, {MASTER}, into an empty table.",
            "write_s of writeStream: `addBatch` of its progress; the rest of seconds is the start and end of a query.",
        ],
        warm_ups=2,
    )


# --- tasks ----------------------------------------------------------------------------------------------------------


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(dir=Path.cwd()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def write_batch(source: str) -> Sample:
    """Write the rows by `df.write`."""
    frame = spark_session().read.parquet(source)
    with _folder() as folder, Stopwatch(children=True) as watch:
        frame.write.format("slate").mode("append").save(str(folder / "table"))
    return watch.sample(rows=frame.count(), write_s=watch.seconds)


def write_stream(source: str) -> Sample:
    """Write the rows as a stream of one batch."""
    spark = spark_session()
    schema = spark.read.parquet(source).schema
    with _folder() as folder:
        with Stopwatch(children=True) as watch:
            sink = spark.readStream.schema(schema).parquet(source).writeStream.format("slate")
            sink = sink.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
            query = sink.start(str(folder / "table"))
            query.awaitTermination()
        [progress] = [each for each in query.recentProgress if each.numInputRows]
    return watch.sample(rows=progress.numInputRows, write_s=progress.durationMs["addBatch"] / 1000)
