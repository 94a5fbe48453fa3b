"""The first use in a new process, with empty caches: what a container, a pod or a CI job waits for."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.data import DataFolder
from benchmarks.harness import Alternative, Benchmark, Target
from benchmarks.spark_session import spark_session
from benchmarks.spark_session import start as start_spark
from benchmarks.worker import REPOSITORY, Sample, Stopwatch, Task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TITLE: Final = "First use in a new process, empty caches"
READ, WRITE, HELP = "first read", "first write", "slatespark --help"
COMPILED: Final = "first write, kernels compiled by numba"
SPARK: Final = {"slate": "Spark, one row: slate", "parquet": "Spark, one row: Parquet"}

# Prints the processor time of what follows the import of pyarrow.
_PROGRAM: Final = """
import sys, time
import pyarrow as pa
columns = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
rows = pa.table([pa.nulls(1, pa.int64()).fill_null(1), pa.nulls(1, pa.string())], schema=columns)
started = time.process_time()
from slatespark import SlateStore
"""
_STEPS: Final = {
    READ: "assert SlateStore.open(sys.argv[1]).scan().read_all().num_rows == 1",
    WRITE: "SlateStore.open(sys.argv[1]).write(rows)",
}
_END: Final = "\nprint(time.process_time() - started)"


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of a table of a few rows; `rows` is not used."""
    del rows
    path = data.made("cold", _load)
    steps = [(READ, ""), (WRITE, ""), (COMPILED, "numba"), (HELP, "")]
    return Benchmark(
        alternatives=[
            *(
                Alternative(
                    name=name,
                    task=Task.of(start, step=name, path=path, kernels=kernels),
                    max_rounds=1 if kernels else None,
                    warm_up=not kernels,
                )
                for name, kernels in steps
            ),
            *(
                Alternative(
                    name=SPARK[source],
                    task=Task.of(use_spark, source=source),
                    prepare=Task.of(start_spark),
                    fresh=True,
                    max_rounds=3,
                    warm_up=False,
                )
                for source in SPARK
            ),
        ],
        base=READ,
        targets=[
            Target(alternative=READ, within_s=0.35, measure="cpu_seconds"),
            Target(alternative=WRITE, within_s=0.35, measure="cpu_seconds"),
            Target(alternative=HELP, within_s=0.25, measure="cpu_seconds"),
        ],
        notes=[
            "Processor time of a read and a write is what is spent beyond importing pyarrow; of --help, all.",
            "Spark's session has started, and nothing has run in it.",
        ],
        same=(),
    )


def _load(path: Path) -> None:
    start(step="", path=str(path), kernels="")


# --- tasks ----------------------------------------------------------------------------------------------------------


def start(step: str, path: str, kernels: str) -> Sample:
    """Use a table, or the shell, in a new process."""
    command = [sys.executable, "-m", "slatespark", "--help"]
    if step != HELP:
        create = 'SlateStore.create(sys.argv[1], columns, "id").write(rows)'
        command = [sys.executable, "-c", _PROGRAM + _STEPS.get(WRITE if kernels else step, create) + _END, path]
    with tempfile.TemporaryDirectory() as caches, Stopwatch() as watch:
        variables = {**os.environ, "SLATESPARK_KERNELS": kernels, "NUMBA_CACHE_DIR": caches}
        before = _children_cpu()
        done = subprocess.run(command, cwd=REPOSITORY, env=variables, capture_output=True, text=True, check=True)
    cpu = _children_cpu() - before if step == HELP else float(done.stdout)
    return {**watch.sample(rows=1), "cpu_seconds": cpu}


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def use_spark(source: str) -> Sample:
    """Write one row, and read it again: the first things that this Spark does."""
    session = spark_session()
    with tempfile.TemporaryDirectory() as folder, Stopwatch(children=True) as watch:
        path = str(Path(folder) / "table")
        rows: DataFrame = session.sql("SELECT X'61' AS key, X'62' AS value")
        rows.write.format(source).mode("append").save(path)
        assert session.read.format(source).load(path).count() == 1
    return watch.sample(rows=1)
