"""Retention through Spark: reads hide retired rows, and a merge inserts instead of updating them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from slatespark import SlateStore, SlateTable
from slatespark.table.clock import SystemClock
from tests.support.fake_clock import FakeClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HOUR_MS = 3_600_000
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])


def test_reads_and_merges(spark: SparkSession, tmp_path: Path) -> None:
    past = FakeClock(SystemClock().now_ms() - 2 * HOUR_MS)
    old = SlateStore.create(str(tmp_path / "table"), SCHEMA, "id", clock=past)
    old.write(pa.table({"id": [1, 2], "name": ["old", "old"]}, schema=SCHEMA))
    table = SlateTable.forPath(spark, str(tmp_path / "table"))
    table.write(spark.createDataFrame([(3, "new")], "id BIGINT, name STRING"))
    assert table.toDF().count() == 3
    table.setProperties(retention="1h")
    read = spark.read.format("slate")
    assert [tuple(row) for row in read.option("splitSize", 1).load(str(tmp_path / "table")).collect()] == [(3, "new")]
    assert table.toDF(includeExpired=True).count() == 3
    assert table.toDF(now=past.now_ms()).count() == 3
    assert table.toDF(where="id = 1").count() == 0
    source = spark.createDataFrame([(1, "x"), (3, "y")], "id BIGINT, name STRING").alias("s")
    merge = table.alias("t").merge(source, "t.id = s.id")
    merge.whenMatchedUpdate(set={"name": "'updated'"}).whenNotMatchedInsert(
        values={"id": "s.id", "name": "'inserted'"}
    ).execute()
    assert {tuple(row) for row in table.toDF().collect()} == {(1, "inserted"), (3, "updated")}
    report = table.reap(maxBatchRows=100, maxBatchBytes="1m")
    assert (report.rows, report.passes) == (2, 1), "the file of two old rows, of which one is hidden by now"
    assert {tuple(row) for row in table.toDF(includeExpired=True).collect()} == {(1, "inserted"), (3, "updated")}
