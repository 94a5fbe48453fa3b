"""What settings of Spark, and the size of splits, do to a read: a scan, and many small tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from benchmarks.data import DataFolder, stored_bytes
from benchmarks.harness import Alternative, Benchmark
from benchmarks.spark_session import MASTER
from benchmarks.tasks import spark_sums
from benchmarks.worker import Task

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
        same=("answer",),
        warm_ups=3,
    )


def _scan(work: str, name: str, path: Path, setting: str, **options: str) -> Alternative:
    given = {"columns": "value", **options}
    task = Task.of(spark_sums, path=path, sums=["sum(length(value))"], options=given, setting=setting)
    return Alternative(name=f"{work}, {name}", task=task, process=f"spark {setting}", work=work)
