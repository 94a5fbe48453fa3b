"""Spark loads years of history in one commit, and writes of overlapping tasks are merged by time."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from slatespark import (
    CommitConflictError,
    InvalidRequestError,
    OptionError,
    SchemaError,
    SlateStore,
    SlateTable,
)
from slatespark.spark.merge.builder import SlateMergeBuilder
from tests.support.our_reads import to_ms

pytestmark = pytest.mark.spark

TIMED: Final = {"timestampColumn": "at"}
HISTORY = """
    SELECT CAST(id % 50 AS INT) AS sensor, CAST(id AS STRING) AS value,
           timestamp_millis(1700000000000 + (id * 7919) % 2000 * 3600000) AS at
    FROM range(0, 2000, 1, 2)
"""


def versions(path: Path) -> list[tuple[int, str, int | None]]:
    rows = SlateStore.open(str(path)).scan(readVersions="all").read_all().to_pylist()
    return [(row["sensor"], row["value"], to_ms(row["_create_ts"])) for row in rows]


def expected() -> list[tuple[int, str, int]]:
    rows = [(number % 50, str(number), 1700000000000 + number * 7919 % 2000 * 3600000) for number in range(2000)]
    return sorted(rows, key=lambda row: (row[0], -row[2]))


def test_years_of_history_in_one_commit(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        table = SlateTable.create(
            spark, str(path), "sensor INT, value STRING, at TIMESTAMP", "sensor", history=True, defaultTtl="365000d"
        )
        table.write(spark.sql(HISTORY), timestampColumn="at")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert versions(path) == expected()
    assert len(SlateStore.open(str(path)).runs()) == 1  # no two files overlap
    with pytest.raises(CommitConflictError, match="sensor=3"):
        table.write(spark.sql("SELECT 3 AS sensor, 'old' AS value, TIMESTAMP'2023-11-14' AS at"), timestampColumn="at")
    with pytest.raises(OptionError, match="history"):
        table.write(spark.sql(HISTORY), mode="overwrite", timestampColumn="at")
    assert versions(path) == expected()


def test_tasks_that_share_keys(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    options = {"keyColumns": "sensor", "history": "true", "timestampColumn": "at", "writeBuffer": "20k"}
    write = spark.sql(HISTORY).write.format("slate").options(**options).mode("append")
    with pytest.raises(PySparkException, match=r"InvalidRequestError: .*SlateTable\.write"):
        write.option("commitRewriteLimit", "10k").save(str(path))
    assert not SlateTable.isSlateTable(str(path))
    write.option("commitRewriteLimit", "10m").save(str(path))
    assert versions(path) == expected()


def merged(table: SlateTable, source: str) -> SlateMergeBuilder:
    return table.alias("t").merge(table.toDF().sparkSession.sql(source).alias("s"), "t.sensor = s.sensor")


def test_a_merge_deletes_at_the_time_of_the_source(spark: SparkSession, tmp_path: Path) -> None:
    table = SlateTable.create(
        spark, str(tmp_path / "t"), "sensor INT, value STRING, at TIMESTAMP", "sensor", history=True
    )
    table.write(spark.sql("SELECT id AS sensor, 'old' AS value, TIMESTAMP'2023-01-01' AS at FROM range(3)"), **TIMED)
    changes = "SELECT id AS sensor, 'new' AS value, id = 0 AS gone, timestamp_millis(1700000000000 + id) AS At FROM "
    merge = merged(table, changes + "range(2)").whenMatchedDelete("s.gone")
    merge.whenMatchedUpdate(set={"value": "s.value", "at": "s.At"}).execute(**TIMED)
    rows = SlateStore.open(str(tmp_path / "t")).scan(readVersions="all", includeDeleted=True).read_all().to_pylist()
    found = [(row["sensor"], to_ms(row["_create_ts"])) for row in rows if row["value"] != "old"]
    assert found == [(0, 1700000000000), (1, 1700000000001)]
    assert {(row.sensor, row.value) for row in table.toDF().collect()} == {(1, "new"), (2, "old")}
    assert {row.sensor for row in table.toDF(timestampAsOf="2023-06-01").collect()} == {0, 1, 2}


def test_a_merge_without_the_time_of_a_deletion_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = SlateTable.create(
        spark, str(tmp_path / "t"), "sensor INT, value STRING, at TIMESTAMP", "sensor", history=True
    )
    table.write(spark.sql("SELECT 1 AS sensor, 'old' AS value, TIMESTAMP'2023-01-01' AS at"), **TIMED)
    with pytest.raises(SchemaError, match="whenMatchedDelete"):
        merged(table, "SELECT 1 AS sensor").whenMatchedDelete().execute(**TIMED)
    with pytest.raises(InvalidRequestError, match="whenNotMatchedBySourceDelete"):
        merged(table, HISTORY).whenMatchedUpdateAll().whenNotMatchedBySourceDelete().execute(**TIMED)
    merged(table, "SELECT 1 AS sensor").whenMatchedDelete().execute(timestamp="2023-02-01")
    assert table.toDF().count() == 0
