"""The demo's scene about a live client, on a few rows."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from slatespark import SlateStore
from slatespark.errors import InternalError
from slatespark.spark.demo import beside_client
from slatespark.spark.demo.beside_client import ClientReport, load_beside_client
from slatespark.spark.demo.tables import DemoEvent, DemoTables

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


def test_an_interrupted_client_is_told_before_anything_else(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(folder: Path, wanted: int, is_open: threading.Event, is_loaded: threading.Event) -> object:
        return ClientReport(1, 1, wanted, "fenced")

    monkeypatch.setattr(beside_client, "_serve", interrupted)
    spark.createDataFrame([("N1",)], "tailnum STRING").createOrReplaceTempView("flights")
    tables, said = DemoTables(spark, tmp_path), list[str]()
    monkeypatch.setattr(DemoTables, "write", lambda *_, **__: DemoEvent("result", "written"))
    SlateStore.create(str(tmp_path / "planes"))
    with pytest.raises(InternalError, match="fenced"):
        said.extend(event.text for event in load_beside_client(tables))
    assert not any("interrupted" in text for text in said)
