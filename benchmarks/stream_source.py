"""Batches of the stream source against those of Spark's rate source, and what an idle stream costs."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psutil
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from benchmarks.data import DataFolder
from benchmarks.harness import Alternative, Benchmark, Target
from benchmarks.spark_session import MASTER, spark_session
from benchmarks.worker import Sample, Task
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
    return Benchmark(
        alternatives=[
            Alternative(name=RATE, task=Task.of(rate, rows=rows), process="spark"),
            Alternative(name=SLATE, task=Task.of(slate, rows=rows), process="spark"),
        ],
        base=RATE,
        targets=[Target(alternative=SLATE, against=RATE, at_most=1.5)],
        notes=[
            f"{MASTER}, one trigger after the other, sink noop; seconds are the median of {BATCHES - SKIPPED} batches "
            f"of {rows:,} rows, as Spark's progress reports them.",
            "slate: a commit for each batch, which is made before the batch and not counted; 2 columns, pre-images.",
            f"idle: share of a core that all Python processes of another query take over {IDLE_S:g} s in which nothing "
            "is new, with the default `pollInterval`; idle_of_nothing: the same of a Python source that does nothing.",
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

    sample = _measure(source, rows, add)
    spark_session().dataSource.register(Nothing)
    waiting = spark_session().readStream.format("slate").option("readChangeFeed", "true").load(str(folder))
    nothing = spark_session().readStream.format("nothing").load()
    return {**sample, "idle": _idle_share(waiting), "idle_of_nothing": _idle_share(nothing)}


class Nothing(DataSource):
    """A source that has one empty batch, and does nothing from then on."""

    @classmethod
    def name(cls) -> str:
        """Return what `format` calls it."""
        return "nothing"

    def schema(self) -> str:
        """Return the columns of its rows."""
        return "value long"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return its reader."""
        return _NoRows()


class _NoRows(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"batch": 0}

    def latestOffset(self, start: object = None, limit: object = None) -> dict[str, int]:  # noqa: N802
        return {"batch": 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        return iter(())


@contextmanager
def _started(source: DataFrame) -> Iterator[StreamingQuery]:
    checkpoint = Path.cwd() / "stream-source-checkpoint"
    shutil.rmtree(checkpoint, ignore_errors=True)
    writer = source.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(processingTime="0 seconds").start()
    try:
        yield query
    finally:
        query.stop()


def _measure(source: DataFrame, rows: int, add: Callable[[int], None]) -> Sample:
    add(0)
    with _started(source) as query:
        for batch in range(1, BATCHES):
            _await(query, batch)
            add(batch)
        found = _await(query, BATCHES)[SKIPPED:BATCHES]
    seconds = statistics.median(each["durationMs"]["triggerExecution"] for each in found) / 1000
    return {"seconds": seconds, "cpu_seconds": seconds, "rows": rows}


def _await(query: StreamingQuery, count: int) -> list[Any]:
    """Wait until so many batches had rows, and return their progress."""
    while True:
        found = [each for each in query.recentProgress if each["numInputRows"]]
        if len(found) >= count:
            return found
        assert query.isActive, query.exception()
        time.sleep(0.01)


def _idle_share(source: DataFrame) -> float:
    """Return which share of a core Python takes while a query has nothing to do."""
    with _started(source) as query:
        while not query.recentProgress:
            assert query.isActive, query.exception()
            time.sleep(0.01)
        return _share_of_children()


def _share_of_children() -> float:
    started = [each for each in psutil.Process().children(recursive=True) if "python" in each.name()]
    before = {each: _cpu_seconds(each) for each in started}
    time.sleep(IDLE_S)
    return sum(max(0.0, _cpu_seconds(each) - spent) for each, spent in before.items()) / IDLE_S


def _cpu_seconds(process: psutil.Process) -> float:
    """Return the processor time of a process; 0 if it is gone, as Spark ends workers that were idle for a minute."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)
