"""Large batches of a stream, against the batch writer on the same rows."""

from __future__ import annotations

from typing import Final

from benchmarks.data import DataFolder
from benchmarks.harness import Alternative, Benchmark, Target
from benchmarks.spark_session import MASTER, spark_session
from benchmarks.tasks import new_folder
from benchmarks.worker import Sample, Stopwatch, Task

TITLE: Final = "One batch of a stream, against the batch writer"
PARTITIONS: Final = 2

BATCH: Final = "df.write"
STREAM: Final = "writeStream"


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of `rows` rows."""
    source = data.parquet_parts(rows, PARTITIONS)
    return Benchmark(
        alternatives=[
            Alternative(name=BATCH, task=Task.of(write_batch, source=source), process="spark"),
            Alternative(name=STREAM, task=Task.of(write_stream, source=source), process="spark"),
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


def write_batch(source: str) -> Sample:
    """Write the rows by `df.write`."""
    frame = spark_session().read.parquet(source)
    with new_folder() as folder, Stopwatch(children=True) as watch:
        frame.write.format("slate").mode("append").save(str(folder / "table"))
    return watch.sample(rows=frame.count(), write_s=watch.seconds)


def write_stream(source: str) -> Sample:
    """Write the rows as a stream of one batch."""
    spark = spark_session()
    schema = spark.read.parquet(source).schema
    with new_folder() as folder:
        with Stopwatch(children=True) as watch:
            sink = spark.readStream.schema(schema).parquet(source).writeStream.format("slate")
            sink = sink.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
            query = sink.start(str(folder / "table"))
            query.awaitTermination()
        [progress] = [each for each in query.recentProgress if each.numInputRows]
    return watch.sample(rows=progress.numInputRows, write_s=progress.durationMs["addBatch"] / 1000)
