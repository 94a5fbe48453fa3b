"""What settings of Spark, and the size of splits, do to a read: a scan, and many small tasks."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.data import DataFolder, stored_bytes
from benchmarks.harness import Alternative, Benchmark, Task
from benchmarks.spark_session import MASTER, build_session
from benchmarks.worker import Sample, Stopwatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TITLE: Final = "A scan and 100 small tasks under settings of Spark"
TASKS: Final = 100
SMALL_ROWS: Final = 100_000

SETTINGS: Final = (
    "",
    "spark.python.unix.domain.socket.enabled=true",
    "spark.python.worker.reuse=false",
    "spark.sql.execution.arrow.maxRecordsPerBatch=1000",
    "spark.sql.execution.arrow.maxRecordsPerBatch=100000",
    "spark.buffer.size=1048576",
)
SPLITS: Final = ("8m", "32m", "512m")


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of `rows` rows; each setting has a session of its own."""
    table, small = data.slate_layers(rows, 1, sst_size="64m"), data.slate_layers(SMALL_ROWS, 1, sst_size="1m")
    tiny_splits = str(stored_bytes(small) // TASKS)
    return Benchmark(
        alternatives=[
            *(_scan("scan", setting or "defaults", table, setting) for setting in SETTINGS),
            *(_scan("scan", f"splitSize={size}", table, "", splitSize=size) for size in SPLITS),
            *(_scan("tasks", setting or "defaults", small, setting, splitSize=tiny_splits) for setting in SETTINGS[:3]),
        ],
        base="scan, defaults",
        notes=[
            f"sum(length(value)) of {rows:,} rows of 16 + 100 bytes, {stored_bytes(table) / 1e6:.0f} MB in one run; "
            f"{MASTER}; warm page cache.",
            f"tasks: {SMALL_ROWS:,} rows in about {TASKS} tasks.",
        ],
        same=("rows", "value_bytes"),
        warm_ups=3,
    )


def _scan(work: str, name: str, path: Path, setting: str, **options: str) -> Alternative:
    arguments = {"setting": setting, "path": str(path), "options": options}
    return Alternative(
        name=f"{work}, {name}",
        task=Task("benchmarks.spark_settings:scan", arguments),
        process=f"spark {setting}",
        work=work,
    )


# --- tasks ----------------------------------------------------------------------------------------------------------


@cache
def _session(setting: str) -> SparkSession:
    from slatespark.spark.java import ensure_java

    ensure_java()
    name, _, value = setting.partition("=")
    return build_session({name: value} if name else {})


def scan(setting: str, path: str, options: dict[str, Any]) -> Sample:
    """Run the query; planning counts."""
    spark = _session(setting)
    with Stopwatch(children=True) as watch:
        frame = spark.read.format("slate").options(columns="value", **options).load(path)
        [row] = frame.selectExpr("count(*) as n", "sum(length(value)) as value_bytes").collect()
    return watch.sample(rows=row.n, value_bytes=row.value_bytes, partitions=frame.rdd.getNumPartitions())
