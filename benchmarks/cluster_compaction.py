"""A full compaction as a Spark job: two executors of one core each, against one."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from benchmarks.compaction import linked_copy
from benchmarks.data import DataFolder, stored_bytes
from benchmarks.harness import Alternative, Benchmark, Target, Task
from benchmarks.spark_session import build_session
from benchmarks.worker import Sample, Stopwatch
from slatespark import SlateTable
from slatespark.spark.java import ensure_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TITLE: Final = "Full compaction as a Spark job by two executors, against one"
LAYERS: Final = 4
EXECUTOR_MB: Final = 1024

ONE: Final = "one executor"
TWO: Final = "two executors"


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of `rows` rows in all layers together."""
    source = data.slate_layers(rows, LAYERS, sst_size="128m")
    return Benchmark(
        alternatives=[
            Alternative(
                name=name,
                task=Task("benchmarks.cluster_compaction:compact", {"source": str(source), "executors": executors}),
            )
            for name, executors in ((ONE, 1), (TWO, 2))
        ],
        base=ONE,
        targets=[Target(alternative=TWO, against=ONE, at_least=1.7)],
        notes=[
            f"{rows:,} rows of 16 + 100 bytes, {stored_bytes(source) / 1e9:.1f} GB in {LAYERS} sorted runs whose keys "
            "overlap; uncompressed.",
            f"local-cluster[n,1,{EXECUTOR_MB}]: executors with a core each. Files are synced to disk.",
        ],
    )


@cache
def _session(executors: int) -> SparkSession:
    ensure_java()
    return build_session({"spark.master": f"local-cluster[{executors},1,{EXECUTOR_MB}]"})


def compact(source: str, executors: int) -> Sample:
    """Merge everything with `SlateTable.compact`."""
    with linked_copy(source) as path:
        table = SlateTable.forPath(_session(executors), str(path))
        with Stopwatch(children=True) as watch:
            report = table.compact(full=True)
        return watch.sample(rows=report.rows_out, jobs=len(report.jobs))
