"""The change feed through Spark: planned once, in as many tasks as it has ranges of keys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, PySparkException

from slatespark import InvalidRequestError, SchemaError, SlateStore, SlateTable
from slatespark.spark.jobs.run_job import run_job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "id BIGINT, price BIGINT"


def test_changes_are_those_between_two_states(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = SlateTable.create(spark, path, SCHEMA, "id")
    table.write(spark.range(500).selectExpr("id", "10 * id AS price"))
    first = table.resolve().version
    table.write(spark.range(400, 600).selectExpr("id", "CASE WHEN id < 450 THEN 10 * id ELSE id END AS price"))
    table.deleteRange("id < 20")

    def feed(**options: Any) -> DataFrame:
        given = {"readChangeFeed": "true", "startingVersion": first, "startingBoundInclusive": "false", **options}
        return spark.read.format("slate").options(**given).load(path)

    changes = feed(splitSize="300")
    assert changes.columns == ["id", "price", "_change_type", "_commit_version", "_commit_timestamp"]
    assert changes.rdd.getNumPartitions() > 2
    found = {(row.id, row._change_type): row.price for row in changes.collect()}
    expected = {(key, "delete"): 10 * key for key in range(20)}
    expected |= {(key, "update_preimage"): 10 * key for key in range(450, 500)}
    expected |= {(key, "update_postimage"): key for key in range(450, 500)}
    expected |= {(key, "insert"): key for key in range(500, 600)}
    assert found == expected
    assert {row._commit_version for row in changes.collect()} == {table.resolve().version}

    blind = {(row.id, row._change_type): row.price for row in feed(preImages="false", filter="id < 401").collect()}
    assert blind == {**{(key, "delete"): None for key in range(20)}, (400, "upsert"): 4000}
    named = table.changes(["id", "_change_type"], "id >= 598", startingVersion=first)
    SlateStore.open(path).delete("id = 598")  # after the call, which chose the versions
    tasks: list[int] = []
    counted = named.groupBy("_change_type").count().collect
    assert run_job(spark, counted, progress=lambda _, done, total: tasks.append(total)) == [("insert", 2)]
    assert tasks[-1] == 1  # of one split, which needs no shuffle
    assert feed(startingVersion=table.resolve().version).collect() == []


def test_the_log_has_every_write_in_as_many_tasks_as_it_needs(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = SlateTable.create(spark, path, SCHEMA, "id")
    for price in (1, 2):
        table.write(spark.range(200).selectExpr("id", f"{price} AS price"))
    table.delete("id < 3")
    feed = table.changes(changes="log", startingVersion=1, splitSize="300")
    assert feed.columns == ["id", "price", "_change_type", "_commit_version", "_commit_timestamp", "_seq"]
    assert feed.rdd.getNumPartitions() > 2
    found = [(row._change_type, row.id, row.price) for row in feed.orderBy("_seq", "id").collect()]
    puts = [("upsert", key, price) for price in (1, 2) for key in range(200)]
    assert found == [*puts, *(("delete", key, None) for key in range(3))]
    assert table.changes(["id"], "id = 7", changes="log", startingVersion=1).count() == 2


def test_what_is_wrong_is_said_before_the_first_task(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = SlateTable.create(spark, path, SCHEMA, "id")

    def load(**options: Any) -> DataFrame:
        return spark.read.format("slate").options(**options).load(path)

    with pytest.raises(AnalysisException, match=r"OptionError: .*readChangeFeed"):
        load(startingVersion=1)
    with pytest.raises(AnalysisException, match=r"OptionError: .*changes"):
        load(readChangeFeed="true", startingVersion=1, changes="all")
    with pytest.raises(PySparkException, match=r"InvalidRequestError: .*startingVersion 9"):
        load(readChangeFeed="true", startingVersion=9).collect()
    with pytest.raises(InvalidRequestError, match="startingVersion 9"):
        table.changes(startingVersion=9)
    clash = SlateTable.create(spark, str(tmp_path / "clash"), "id BIGINT, _change_type STRING", "id")
    with pytest.raises(SchemaError, match="_change_type"):
        clash.changes(startingVersion=1)
    assert table.changes(startingVersion=1).collect() == []
