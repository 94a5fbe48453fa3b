"""Vacuum and the proof of absence, of a table that Spark wrote."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slatespark import SlateStore, SlateTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_customer_is_forgotten(spark: SparkSession, tmp_path: Path) -> None:
    schema = "id BIGINT, name STRING"
    table = SlateTable.create(spark, str(tmp_path / "table"), schema, "id", versionRetention="none")
    table.write(spark.createDataFrame([(1, "Ada"), (2, "Bob")], schema))
    table.delete("id = 1")
    assert not table.proveAbsent(1).gone
    SlateStore.open(str(tmp_path / "table")).compact(full=True)
    for point in table.checkpoints().collect():
        table.deleteCheckpoint(point["id"])
    would = table.vacuum(0, dryRun=True)
    assert would.counts == table.vacuum(0).counts
    table.vacuum(0)
    assert table.proveAbsent(1).gone
    assert not table.proveAbsent(where="id = 2").gone
    assert [row["name"] for row in table.toDF().collect()] == ["Bob"]
