"""Columnar copies by Spark's tasks, and Spark's own reader of Parquet on them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from slatespark import SlateStore, SlateTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("scores", pa.map_(pa.string(), pa.float64()))])


def test_tasks_write_copies_that_spark_reads_as_parquet(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "table")
    store = SlateStore.create(place, SCHEMA, "id", columnar=True, autoCompact=False)
    for start in (0, 300):
        rows = [{"id": start + at, "name": f"n{at}", "scores": [("a", at / 2)]} for at in range(600)]
        store.write(pa.Table.from_pylist(rows, schema=SCHEMA), sstSize="4k")
    table = SlateTable.forPath(spark, place)
    report = table.compact(full=True, sstSize="4k")
    assert {copy.refused for copy in report.copies} == {None}
    paths = [f"{place}/slatespark/columns/{file.id}.parquet" for file in store.files()]
    assert len(paths) == len(report.copies) > 1
    copied = spark.read.parquet(*paths).where("id >= 880").orderBy("id").select("id", "name", "scores").collect()
    expected = spark.read.format("slate").load(place).where("id >= 880").orderBy("id").collect()
    assert [row.asDict() for row in copied] == [row.asDict() for row in expected]
    assert [row["copies"] for row in table.detail().collect()] == [len(paths)]
