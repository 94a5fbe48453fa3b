"""Spark loads beside a live client, which commits the rows and goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from slatespark import OptionError, SlateStore, SlateTable, TransactionConflictError
from slatespark.spark.pyspark_api import ArrowTask, map_in_arrow
from tests.support.client import ClientOptions, Location, Put
from tests.support.client_admin import read_manifest
from tests.support.live_client import LiveClient
from tests.support.observers import awaited

pytestmark = pytest.mark.spark

COOPERATE = {"ifClientActive": "cooperate"}
OPTIONS = ClientOptions(
    compactor=True, settings={"compactor_options.poll_interval": "50ms", "compactor_options.worker": None}
)


@pytest.fixture
def live(database: Location) -> Iterator[LiveClient]:
    with LiveClient(database, OPTIONS) as client:
        client.write([Put(b"k%02d" % number, b"client") for number in range(0, 20, 2)])
        client.flush_memtable()
        yield client


def rows(spark: SparkSession, value: str) -> DataFrame:
    """Keys 0 to 29 in two partitions that both have rows all over."""
    numbers = spark.range(30).select(F.format_string("k%02d", "id").cast("binary").alias("key"))
    return numbers.withColumn("value", F.lit(value).cast("binary")).repartition(2)


def shows(live: LiveClient, expected: dict[bytes, bytes]) -> None:
    assert awaited(lambda: {row.key: row.value for row in live.scan()}, expected) == expected


def keys(*numbers: int) -> list[bytes]:
    return [b"k%02d" % number for number in numbers]


def test_format_and_slate_table(spark: SparkSession, live: LiveClient) -> None:
    path, before = str(live.location.folder), read_manifest(live.location)
    rows(spark, "format").write.format("slate").mode("append").options(**COOPERATE).save(path)
    shows(live, dict.fromkeys(keys(*range(30)), b"format"))
    table = SlateTable.forPath(spark, path)
    table.write(rows(spark, "table").where("key < X'6b3037'"), **COOPERATE)
    deleted = rows(spark, "").select("key").where("key < X'6b3033'")
    deleted.write.format("slate").mode("append").options(operation="delete", **COOPERATE).save(path)
    shows(live, dict.fromkeys(keys(*range(3, 7)), b"table") | dict.fromkeys(keys(*range(7, 30)), b"format"))
    after = read_manifest(live.location)
    assert (after.writer_epoch, after.compactor_epoch) == (before.writer_epoch, before.compactor_epoch)
    assert [row.operation for row in table.history().where("engine = 'slatespark'").collect()] == [
        "cooperativeWrite"
    ] * 3
    assert live.is_open()


def test_the_last_partition_wins(spark: SparkSession, live: LiveClient) -> None:
    twice = spark.createDataFrame([(b"k00", b"1"), (b"k00", b"2")], "key BINARY, value BINARY").coalesce(1)
    frame = twice.limit(1).union(twice.where("value = X'32'"))
    frame.write.format("slate").mode("append").options(**COOPERATE).save(str(live.location.folder))
    shows(live, {**dict.fromkeys(keys(*range(0, 20, 2)), b"client"), b"k00": b"2"})


@dataclass(frozen=True)
class Loading(ArrowTask):
    """Loads a row when the first partition is read."""

    path: str
    loaded: Path

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if not self.loaded.exists():
            self.loaded.touch()
            SlateStore.open(self.path).write(pa.table({"key": [b"k02"], "value": [b"load"]}), **COOPERATE)
        yield from batches


def test_a_merge_notices_a_load_that_came_meanwhile(spark: SparkSession, live: LiveClient, tmp_path: Path) -> None:
    """The load is committed while the merge reads its source."""
    path, loaded = str(live.location.folder), tmp_path / "loaded"
    source = spark.createDataFrame([(b"k02", b"merged")], "key BINARY, value BINARY").coalesce(1)
    source = map_in_arrow(source, Loading(path, loaded), "key BINARY, value BINARY")
    target = SlateTable.forPath(spark, path).alias("t")
    merge = target.merge(source.alias("s"), "t.key = s.key").whenMatchedUpdateAll()
    with pytest.raises((TransactionConflictError, PySparkException), match="6b3032"):
        merge.execute(ifClientActive="fence")
    assert loaded.exists()
    shows(live, dict.fromkeys(keys(*range(0, 20, 2)), b"client") | {b"k02": b"load"})
    assert live.is_open()


def test_what_needs_checks_is_refused_before_any_task(spark: SparkSession, live: LiveClient) -> None:
    path = str(live.location.folder)
    table = SlateTable.forPath(spark, path)
    merge = table.alias("t").merge(rows(spark, "x").alias("s"), "t.key = s.key").whenMatchedUpdateAll()
    overwrite = rows(spark, "x").write.format("slate").mode("overwrite").options(**COOPERATE)
    calls: list[Callable[[], object]] = [
        lambda: overwrite.save(path),
        lambda: merge.execute(**COOPERATE),
        lambda: table.delete("value = X'00'", **COOPERATE),
        lambda: table.update("true", {"value": "X'00'"}, **COOPERATE),
        lambda: table.begin(**COOPERATE),
    ]
    before = sorted(live.location.folder.rglob("*"))
    for call in calls:
        with pytest.raises((OptionError, PySparkException), match="ifClientActive=fail or fence"):
            call()
    assert sorted(live.location.folder.rglob("*")) == before
    assert SlateStore.open(path).scan().read_all().num_rows == 10
