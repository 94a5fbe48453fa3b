"""The tasks of one Spark job: each gets its own item, and nothing of the others."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.types import StructType

from slatespark import SlateError, SlateTable
from slatespark.spark.jobs import task_runner
from slatespark.spark.jobs.task_runner import SparkTasks, pack
from slatespark.spark.pyspark_api import ArrowTask, map_in_arrow

ITEM_BYTES = 100_000


def test_each_task_gets_its_own_item(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    shared: list[int] = []

    def watched(rows: DataFrame, task: ArrowTask, schema: StructType | str) -> DataFrame:
        shared.append(len(pack(task)))
        assert rows.rdd.glom().map(len).collect() == [1] * 5
        return map_in_arrow(rows, task, schema)

    monkeypatch.setattr(task_runner, "map_in_arrow", watched)
    items = [bytes([number]) * (ITEM_BYTES + number) for number in range(5)]
    assert list(SparkTasks(spark)(len, items)) == [len(item) for item in items]
    assert len(shared) == 1
    assert shared[0] < ITEM_BYTES
    assert list(SparkTasks(spark)(len, [])) == []


def fill_disk(_: object) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_of_a_task_is_an_error_of_ours(spark: SparkSession) -> None:
    with pytest.raises(SlateError, match=r"No space left on device\. Make room"):
        list(SparkTasks(spark)(fill_disk, [1]))


def test_the_same_error_of_a_users_function_stays_his(spark: SparkSession, tmp_path: Path) -> None:
    table = SlateTable.create(spark, tmp_path / "t", "id BIGINT, n INT", "id")
    rows = spark.range(3).withColumn("n", F.udf(fill_disk, "int", useArrow=False)("id"))
    with pytest.raises(PySparkException, match="No space left on device"):
        table.write(rows)
