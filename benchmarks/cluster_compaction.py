"""A full compaction as a Spark job: two executors of one core each, against one."""

from __future__ import annotations

from typing import Final

from benchmarks.data import DataFolder, stored_bytes
from benchmarks.harness import Alternative, Benchmark, Target
from benchmarks.spark_session import spark_session
from benchmarks.tasks import linked_copy
from benchmarks.worker import Sample, Stopwatch, Task
from slatespark import SlateTable

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
            Alternative(name=name, task=Task.of(compact, source=source, executors=executors))
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


def compact(source: str, executors: int) -> Sample:
    """Merge everything with `SlateTable.compact`."""
    with linked_copy(source) as path:
        spark = spark_session(f"spark.master=local-cluster[{executors},1,{EXECUTOR_MB}]")
        table = SlateTable.forPath(spark, str(path))
        with Stopwatch(children=True) as watch:
            report = table.compact(full=True)
        return watch.sample(rows=report.rows_out, jobs=len(report.jobs))
