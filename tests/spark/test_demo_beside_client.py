"""The demo's scene about a live client, on a few rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from slatespark import SlateStore
from slatespark.spark.demo.beside_client import load_beside_client
from slatespark.spark.demo.tables import DemoTables

pytestmark = pytest.mark.spark


def test_the_client_writes_on_while_spark_loads(spark: SparkSession, tmp_path: Path) -> None:
    spark.createDataFrame([("N1",), ("N2",), ("N1",), (None,)], "tailnum STRING").createOrReplaceTempView("flights")
    *_, said = [event.text for event in load_beside_client(DemoTables(spark, tmp_path)) if event.kind == "result"]
    assert "shows 2 rows of Spark" in said
    assert said.endswith("It was never interrupted.")
    store = SlateStore.open(str(tmp_path / "planes"))
    assert [store.get(key) for key in (b"N1", b"N2")] == [
        {"key": b"N1", "value": b"2"},
        {"key": b"N2", "value": b"1"},
    ]
