"""The user's clock in Spark's reads, writes and `SlateTable`: `clock=module:function`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slatespark import Clock, OptionError, SlateStore, SlateTable
from tests.support.named_clocks import HOUR_MS, NOON_MS
from tests.support.our_reads import our_rows, to_ms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NOON = "tests.support.named_clocks:noon"
LATER = "tests.support.named_clocks:hour_later"


def test_reads_and_writes_by_path(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    row = spark.sql("SELECT X'61' AS key, X'31' AS value")
    row.write.format("slate").mode("append").options(clock=NOON, ttl="1h").save(path)
    assert [row.create_ts for row in our_rows(SlateStore.open(path), includeExpired=True)] == [NOON_MS]
    frames = {name: spark.read.format("slate").option("clock", name).load(path) for name in (NOON, LATER)}
    assert {name: frame.count() for name, frame in frames.items()} == {NOON: 1, LATER: 0}
    with pytest.raises(Exception, match=r"OptionError: .*clock"):
        spark.read.format("slate").option("clock", "nowhere:now").load(path).count()


def test_everything_that_a_table_does(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "table"
    table = SlateTable.create(spark, path, "id BIGINT, n INT", ["id"], clock=NOON)
    table.write(spark.sql("SELECT 1L AS id, 1 AS n UNION ALL SELECT 2L, 2"), ttl="1h")
    table.delete("id = 2")
    with table.begin() as txn:
        txn.write(spark.sql("SELECT 3L AS id, 3 AS n"))
    later = SlateTable.forPath(spark, path, clock=LATER)
    assert [row.id for row in table.toDF().collect()] == [1, 3]
    assert [row.id for row in later.toDF().collect()] == [3]
    assert later.resolve().now_ms == NOON_MS + HOUR_MS
    later.compact(full=True)
    rows = SlateStore.open(path).scan(columns=["id", "_create_ts"], metadataColumns="create_ts").read_all()
    assert [(row["id"], to_ms(row["_create_ts"])) for row in rows.to_pylist()] == [(3, NOON_MS)]
    assert [facts.committed_ms for facts in SlateStore.open(path).history(1)] == [NOON_MS + HOUR_MS]


def test_a_clock_object_stays_in_its_process(spark: SparkSession, tmp_path: Path) -> None:
    class Own(Clock):
        def now_ms(self) -> int:
            return NOON_MS

    with pytest.raises(OptionError, match="clock"):
        SlateTable.create(spark, tmp_path / "table", "id BIGINT", ["id"], clock=Own())
    SlateTable.create(spark, tmp_path / "custom", "id BIGINT", ["id"], clock="custom")
    assert SlateStore.open(tmp_path / "custom").definition.has_own_time
