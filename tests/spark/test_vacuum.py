"""Vacuum, erasure and the proof of absence through `SlateTable`, without Spark jobs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from slatespark import OptionError, SlateStore, SlateTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])


@pytest.mark.smoke
def test_a_customer_is_forgotten(spark: SparkSession, tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "table"), SCHEMA, "id", versionRetention="none")
    store.write(pa.table({"id": [1, 2], "name": ["Ada", "Bob"]}, schema=SCHEMA))
    store.delete("id = 1")
    table = SlateTable.forPath(spark, str(tmp_path / "table"))
    assert not table.proveAbsent(1).gone
    store.compact(full=True)
    for point in store.checkpoints():
        table.deleteCheckpoint(point.id)
    would = table.vacuum("0s", dryRun=True)
    assert would.counts == table.vacuum("0s", force=True).counts
    table.vacuum("0s", force=True)
    assert table.proveAbsent(1).gone
    assert not table.proveAbsent(where="id = 2").gone
    assert store.get(2) == {"id": 2, "name": "Bob"}
    people = spark.createDataFrame([("Bob", 2), ("Cyd", 3)], "name STRING, ID INT")
    assert not table.proveAbsent(keys=people).gone
    report = table.erase(keys=people)
    assert report.erasure is not None
    assert (report.gone, report.erasure.removed.rows) == (True, 1)
    assert table.proveAbsent(keys=people).gone


def test_keys_may_have_a_length(spark: SparkSession, tmp_path: Path) -> None:
    """PySpark converts no VARCHAR to Arrow, where the session keeps that type."""
    store = SlateStore.create(str(tmp_path / "table"), "id STRING, n BIGINT", "id", versionRetention="none")
    store.write(pa.table({"id": ["a", "b"], "n": [1, 2]}))
    session = spark.newSession()
    session.conf.set("spark.sql.preserveCharVarcharTypeInfo", "true")
    keys = session.sql("SELECT CAST('a' AS VARCHAR(3)) AS id")
    table = SlateTable.forPath(session, str(tmp_path / "table"))
    assert not table.proveAbsent(keys=keys).gone
    assert table.erase(keys=keys, releaseVersions=True).erasure is not None
    assert store.scan().read_all()["id"].to_pylist() == ["b"]
    assert table.explain("erase", keys=keys) is not None


def test_a_wrong_flag_is_refused_before_the_keys_are_read(spark: SparkSession, tmp_path: Path) -> None:
    table = SlateTable.create(spark, tmp_path / "table", "id BIGINT", "id")
    keys = spark.sql("SELECT CAST(raise_error('The keys were read.') AS BIGINT) AS id")
    with pytest.raises(OptionError):
        table.erase(keys=keys, releaseVersions="maybe")  # type: ignore[arg-type]
    with pytest.raises(OptionError):
        table.explain("erase", keys=keys, analyze="maybe")  # type: ignore[arg-type]
