"""The tasks of one Spark job: each gets its own item, and nothing of the others."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from slatespark.spark import task_runner
from slatespark.spark.pyspark_api import ArrowTask, map_in_arrow
from slatespark.spark.task_runner import SparkTasks, pack

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
