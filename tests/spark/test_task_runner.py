"""The tasks of one Spark job: each gets its own item, and nothing of the others."""

from __future__ import annotations

import errno
import os
import socket
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


def sends_at_once(_: object) -> bool:
    """Tell whether a connection of this worker sends small messages without waiting."""
    for file in Path("/proc/self/fd").iterdir():
        try:
            end = socket.socket(fileno=os.dup(int(file.name)))
        except OSError:  # no socket
            continue
        with end:
            if end.family != socket.AF_UNIX and end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY):
                return True
    return False


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux acknowledges on demand")
def test_no_task_waits_for_its_input(spark: SparkSession) -> None:
    assert all(SparkTasks(spark)(sends_at_once, [1, 2]))


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
