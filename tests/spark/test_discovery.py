from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import slatespark
from tests.support.client import Client, Location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def path(database: Location) -> str:
    with Client.open(database) as client:
        client.put(b"k", b"v")
        client.flush_memtable()
    return str(database.folder)


@pytest.mark.smoke
def test_spark_finds_the_format_without_registration(spark: SparkSession, path: str) -> None:
    assert spark.read.format("slate").load(path).collect() == [(b"k", b"v")]


def test_writes_in_a_thread_of_the_program(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame([(1,)], "id BIGINT")
    path = str(tmp_path / "t")
    table = slatespark.SlateTable.create(spark, path, "id BIGINT", "id")

    def write() -> None:
        rows.write.format("slate").mode("append").save(path)

    with pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND"):  # Spark's thread has no active session
        in_new_thread(write)
    in_new_thread(partial(slatespark.register, spark), write)
    in_new_thread(partial(table.write, rows.selectExpr("id + 1 AS id")))
    assert slatespark.SlateStore.open(path).scan().read_all()["id"].to_pylist() == [1, 2]


def in_new_thread(*calls: Callable[[], None]) -> None:
    with ThreadPoolExecutor(1) as pool:
        for call in calls:
            pool.submit(call).result()


def test_registration_works_as_well(spark: SparkSession, path: str) -> None:
    session = spark.newSession()
    slatespark.register(session)
    assert session.read.format("slate").load(path).collect() == [(b"k", b"v")]
