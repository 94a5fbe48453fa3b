"""`count(*)` and `sum(length(value))` through Spark: a raw table against Spark's own Parquet of the same rows."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from benchmarks.data import DataFolder, stored_bytes
from benchmarks.harness import Alternative, Benchmark, Target
from benchmarks.spark_session import MASTER, spark_session
from benchmarks.tasks import spark_sums
from benchmarks.worker import Task, WorkerProcess

TITLE: Final = "count(*) and sum(length(value)) through Spark, against Spark's Parquet"
PARTITIONS: Final = 4

PARQUET: Final = "parquet"
AS_IS: Final = "slate"
VALUE_ONLY: Final = "slate, columns=value"


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of `rows` rows."""
    loaded = data.made(f"spark-{rows}-{PARTITIONS}", lambda path: _load(data, rows, path))
    table, parquet = loaded / "slate", loaded / "parquet"
    one_run = data.slate_layers(rows, 1, sst_size="64m")
    one_split = {"splitSize": str(stored_bytes(table) // PARTITIONS + 1)}
    value_only = {"columns": "value"}
    return Benchmark(
        alternatives=[
            _query(PARQUET, "parquet", parquet),
            _query(AS_IS, "slate", table),
            _query(VALUE_ONLY, "slate", table, **value_only),
            _query(f"slate, {PARTITIONS} splits", "slate", table, **one_split),
            _query(f"slate, {PARTITIONS} splits, columns=value", "slate", table, **one_split, **value_only),
            _query("slate, one run, columns=value", "slate", one_run, **value_only),
        ],
        base=PARQUET,
        targets=[Target(alternative=name, against=PARQUET, at_most=1.5) for name in (AS_IS, VALUE_ONLY)],
        notes=[
            f"{rows:,} rows of 16 + 100 bytes, unique keys; {MASTER}, all in one session; warm page cache.",
            f"slate: one commit of {PARTITIONS} Spark tasks, so {PARTITIONS} overlapping runs, uncompressed, "
            f"{stored_bytes(table) / 1e6:.0f} MB; one run: one commit of SlateStore.",
            f"parquet: snappy, written by Spark in {PARTITIONS} tasks, {stored_bytes(parquet) / 1e6:.0f} MB; Spark "
            "reads only the value column.",
        ],
        same=("answer",),
        warm_ups=4,  # the JVM goes on compiling for some rounds
    )


def _query(name: str, kind: str, path: Path, **options: str) -> Alternative:
    task = Task.of(spark_sums, path=path, sums=["sum(length(value))"], options=options, kind=kind)
    return Alternative(name=name, task=task, process="spark")


def _load(data: DataFolder, rows: int, path: Path) -> None:
    source = data.parquet_parts(rows, PARTITIONS)
    with WorkerProcess("spark load", data.scratch) as worker:
        worker.run(Task.of(load, source=source, path=path))
    shutil.rmtree(source)


# --- tasks ----------------------------------------------------------------------------------------------------------


def load(source: str, path: str) -> None:
    """Write the rows with Spark, as a table and as Parquet, `PARTITIONS` tasks each."""
    frame = spark_session().read.parquet(source).repartition(PARTITIONS)
    frame.write.format("slate").mode("append").save(f"{path}/slate")
    frame.write.parquet(f"{path}/parquet", compression="snappy")
