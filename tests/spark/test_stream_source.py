"""The stream source through Spark: triggers, restarts, limits, and errors of ours."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql.datasource import DataSourceStreamReader

from slatespark import InvalidRequestError, OptionError, SchemaError, SlateError, SlateStore
from slatespark.spark.failures import find_own_error
from tests.support.client import Location
from tests.support.feeds import State, applied, state_of
from tests.support.live_client import LiveClient, Traffic, writes_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])
WAIT_S = 300
LIMITS_ARE_TOLD = hasattr(DataSourceStreamReader, "getDefaultReadLimit")  # by Spark from 4.2 on; 4.1 stops at each


def rows(ids: range, n: int = 0) -> pa.Table:
    return pa.table({"id": list(ids), "n": [n] * len(ids)}, SCHEMA)


class Mirror:
    """A copy of a table that a query keeps, batch by batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.store = SlateStore.create(str(folder / "t"), SCHEMA, "id", autoCompact=False)
        self.state: State = {}
        self.sizes: dict[int, int] = {}
        self.fails: Callable[[int], None] = lambda _: None

    def load(self, **options: Any) -> DataFrame:
        given = {"readChangeFeed": "true", "pollInterval": "100ms", **options}
        return self.spark.readStream.format("slate").options(**given).load(self.store.url)

    def start(self, trigger: dict[str, Any], **options: Any) -> StreamingQuery:
        writer = self.load(**options).writeStream.option("checkpointLocation", str(self.folder / "checkpoint"))
        return writer.trigger(**trigger).foreachBatch(self._take).start()

    def run(self, trigger: dict[str, Any] | None = None, **options: Any) -> StreamingQuery:
        query = self.start(trigger or {"availableNow": True}, **options)
        assert query.awaitTermination(WAIT_S)
        return query

    def _take(self, frame: DataFrame, batch: int) -> None:
        found = [(row._change_type, {"id": row.id, "n": row.n}) for row in frame.collect()]
        self.fails(batch)
        self.sizes[batch] = len(found)
        self.state = applied(self.state, found, ["id"])

    def now(self) -> State:
        return state_of(self.store, ["id"], self.store.resolve().version)

    def wait(self) -> None:
        ends = time.monotonic() + WAIT_S
        while self.state != self.now():
            assert time.monotonic() < ends
            time.sleep(0.05)


def error_of(query: StreamingQuery) -> SlateError:
    """The error of ours that ended a query."""
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination(WAIT_S)
    found = find_own_error(str(caught.value))
    assert found is not None
    assert "UnboundLocalError" not in str(caught.value)  # of Spark, where there is no reader
    return found


@pytest.mark.smoke
def test_a_copy_follows_its_table(spark: SparkSession, tmp_path: Path) -> None:
    mirror = Mirror(spark, tmp_path)
    mirror.store.write(rows(range(20)))
    query = mirror.run()
    assert mirror.state == mirror.now()
    assert query.lastProgress is not None
    [source] = query.lastProgress["sources"]
    shown = source["endOffset"].replace("'", '"')  # PySpark 4.1 shows an offset as Python writes it
    assert f'"version": {mirror.store.resolve().version - 1}, "seq": 1' in shown
    mirror.store.write(rows(range(10, 30), 1))
    mirror.store.delete("id < 3")
    query = mirror.start({"processingTime": "100 milliseconds"})
    mirror.wait()
    mirror.store.write(rows(range(40, 50), 2))
    mirror.wait()
    query.stop()
    assert sum(mirror.sizes.values()) == 20 + 3 + 2 * 10 + 10 + 10


def test_limits_split_a_batch_and_a_failed_one_comes_again(spark: SparkSession, tmp_path: Path) -> None:
    mirror = Mirror(spark, tmp_path)
    mirror.store.write(rows(range(7)))

    def fail(batch: int) -> None:
        if batch == 1:
            raise RuntimeError("the batch fails")

    mirror.fails = fail
    if not LIMITS_ARE_TOLD:
        mirror.run(maxRowsPerTrigger="3")
    with pytest.raises(StreamingQueryException):
        mirror.run(maxRowsPerTrigger="3")
    mirror.store.write(rows(range(7), 1))
    mirror.store.vacuum(minAge="0s", force=True)
    mirror.fails = lambda _: None
    mirror.run({"once": True}, maxRowsPerTrigger="3")
    assert mirror.sizes == {0: 3, 1: 3}
    assert mirror.state == {(key,): {"id": key, "n": 0} for key in range(6)}
    if LIMITS_ARE_TOLD:
        mirror.run({"once": True}, maxRowsPerTrigger="3")
        assert mirror.sizes[2] == 1
        mirror.run(maxRowsPerTrigger="3")
    while mirror.state != mirror.now():
        mirror.run(maxRowsPerTrigger="3")
    assert max(mirror.sizes.values()) <= 3


@pytest.mark.parametrize("options", [{}, {"maxRowsPerTrigger": "3"}, {"changes": "log", "startingVersion": "1"}])
def test_the_first_batch_comes_again_too(spark: SparkSession, tmp_path: Path, options: dict[str, Any]) -> None:
    mirror = Mirror(spark, tmp_path)
    mirror.store.write(rows(range(7)))

    def fail(_: int) -> None:
        raise RuntimeError("the batch fails")

    mirror.fails = fail
    with pytest.raises(StreamingQueryException):
        mirror.run(**options)
    mirror.store.write(rows(range(5, 9), 1))
    mirror.store.vacuum(minAge="0s", force=True)
    mirror.fails = lambda _: None
    while mirror.state != mirror.now():
        mirror.run(**options)


def test_errors_are_ours(spark: SparkSession, tmp_path: Path) -> None:
    mirror, other = Mirror(spark, tmp_path / "a"), Mirror(spark, tmp_path / "b")
    for each in (mirror, other):
        each.store.write(rows(range(3)))
    with pytest.raises(AnalysisException, match=r"OptionError: .*readChangeFeed"):
        mirror.load(readChangeFeed="false")
    with pytest.raises(AnalysisException, match=r"OptionError: .*maxRowsPerTrigger"):
        mirror.load(maxRowsPerTrigger="0")
    batch = spark.read.format("slate").options(readChangeFeed="true", startingVersion="1", streamId="s")
    with pytest.raises(Exception, match=r"OptionError: .*streamId"):
        batch.load(mirror.store.url).collect()
    assert isinstance(error_of(mirror.start({"once": True}, endingVersion="3")), OptionError)
    mirror.run()
    other.folder = mirror.folder
    assert isinstance(error_of(other.start({"availableNow": True})), InvalidRequestError)
    assert other.sizes == {}


def test_a_frame_that_was_loaded_before_a_column_was_added(spark: SparkSession, tmp_path: Path) -> None:
    mirror = Mirror(spark, tmp_path)
    mirror.store.write(rows(range(2)))
    values: list[Any] = []

    def run(frame: DataFrame) -> StreamingQuery:
        writer = frame.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        take = writer.foreachBatch(lambda batch, _: values.extend(row.asDict().get("more") for row in batch.collect()))
        return take.trigger(availableNow=True).start()

    loaded = mirror.load()
    assert run(loaded).awaitTermination(WAIT_S)
    mirror.store.write(rows(range(2, 3)).append_column("more", pa.array(["x"])), mergeSchema=True)
    for _ in range(2):  # a loop that starts a query again when it ends
        assert isinstance(error_of(run(loaded)), SchemaError)
    assert values == [None, None]
    assert run(mirror.load()).awaitTermination(WAIT_S)
    assert values == [None, None, "x"]


def test_every_write_of_a_client_that_stays_open(spark: SparkSession, tmp_path: Path) -> None:
    database = Location.local(tmp_path / "database")
    batches: dict[int, list[tuple[str, bytes, bytes | None]]] = {}

    def take(frame: DataFrame, batch: int) -> None:
        batches[batch] = [
            (row._change_type, bytes(row.key), None if row.value is None else bytes(row.value))
            for row in frame.collect()
        ]

    def found() -> list[tuple[str, bytes, bytes | None]]:
        return [row for number in sorted(batches) for row in batches[number]]

    def follow_until(is_done: Callable[[], bool]) -> None:
        given = {"readChangeFeed": "true", "changes": "log", "startingVersion": "1", "pollInterval": "50ms"}
        source = spark.readStream.format("slate").options(**given).load(str(database.folder))
        writer = source.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(processingTime="0 seconds").start()
        ends = time.monotonic() + WAIT_S
        while not is_done():
            assert query.isActive, query.exception()
            assert time.monotonic() < ends
            time.sleep(0.02)
        query.stop()

    with LiveClient(database) as live:
        live.start_writing(Traffic(keys=20, deletes=0.1, merges=0.2, flush_every=60, writes_per_s=100))
        follow_until(lambda: len(batches) >= 2)
        more = len(batches) + 2
        follow_until(lambda: len(batches) >= more)
        live.stop_writing()
        live.flush_wal()
        wanted = writes_of(live)
        follow_until(lambda: len(found()) >= len(wanted))
    assert found() == wanted
