"""Batches of the stream source against those of Spark's rate source, and what an idle stream costs."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psutil
import pyarrow as pa

from benchmarks.data import DataFolder
from benchmarks.harness import Alternative, Benchmark, Target, Task
from benchmarks.spark_session import MASTER, spark_session
from benchmarks.worker import Sample
from slatespark import SlateStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

TITLE: Final = "Batches of a stream of changes, against those of Spark's rate source"
BATCHES: Final = 8  # of one sample
SKIPPED: Final = 2  # the first ones start processes
IDLE_S: Final = 5.0
SCHEMA: Final = pa.schema([("timestamp", pa.timestamp("us", "UTC")), ("value", pa.int64())])

RATE: Final = "rate"
SLATE: Final = "slate"


def make(data: DataFolder, rows: int) -> Benchmark:
    """Return the benchmark of batches of `rows` rows."""

    def task(name: str) -> Task:
        return Task(f"benchmarks.stream_source:{name}", {"rows": rows})

    return Benchmark(
        alternatives=[
            Alternative(name=RATE, task=task("rate"), process="spark"),
            Alternative(name=SLATE, task=task("slate"), process="spark"),
        ],
        base=RATE,
        targets=[Target(alternative=SLATE, against=RATE, at_most=1.5)],
        notes=[
            f"{MASTER}, one trigger after the other, sink noop; seconds are the median of {BATCHES - SKIPPED} batches "
            f"of {rows:,} rows, as Spark's progress reports them.",
            "slate: a commit for each batch, which is made before the batch and not counted; 2 columns, pre-images.",
            f"idle: share of a core that the source's process takes while nothing is new, over {IDLE_S:g} s.",
        ],
        same=("rows",),
        warm_ups=1,
    )


def rate(rows: int) -> Sample:
    """Run batches of Spark's rate source."""
    source = spark_session().readStream.format("rate-micro-batch").option("rowsPerBatch", rows).load()
    return _measure(source, rows, lambda _: None)


def slate(rows: int) -> Sample:
    """Run batches of a table's changes."""
    folder = Path.cwd() / "stream-source"
    shutil.rmtree(folder, ignore_errors=True)
    store = SlateStore.create(str(folder), SCHEMA, "value")
    given = {"readChangeFeed": "true", "pollInterval": "10ms"}
    source = spark_session().readStream.format("slate").options(**given).load(str(folder))

    def add(batch: int) -> None:
        values = range(batch * rows, (batch + 1) * rows)
        store.write(pa.table({"timestamp": [batch] * rows, "value": values}, SCHEMA))

    return _measure(source, rows, add, has_process=True)


def _measure(source: DataFrame, rows: int, add: Callable[[int], None], *, has_process: bool = False) -> Sample:
    checkpoint = Path.cwd() / "stream-source-checkpoint"
    shutil.rmtree(checkpoint, ignore_errors=True)
    add(0)
    writer = source.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(processingTime="0 seconds").start()
    try:
        for batch in range(1, BATCHES):
            _await(query, batch)
            add(batch)
        found = _await(query, BATCHES)[SKIPPED:BATCHES]
        measures: dict[str, Any] = {"idle": _idle_share()} if has_process else {}
    finally:
        query.stop()
    seconds = statistics.median(each["durationMs"]["triggerExecution"] for each in found) / 1000
    return {"seconds": seconds, "cpu_seconds": seconds, "rows": rows, **measures}


def _await(query: StreamingQuery, count: int) -> list[Any]:
    """Wait until so many batches had rows, and return their progress."""
    while True:
        found = [each for each in query.recentProgress if each["numInputRows"]]
        if len(found) >= count:
            return found
        assert query.isActive, query.exception()
        time.sleep(0.01)


def _idle_share() -> float:
    """Return which share of a core the process of the source takes."""
    started = [each for each in psutil.Process().children(recursive=True) if "python" in each.name()]
    before = {each: each.cpu_times() for each in started}
    time.sleep(IDLE_S)
    spent = [each.cpu_times().user + each.cpu_times().system - sum(before[each][:2]) for each in started]
    return sum(spent) / IDLE_S
