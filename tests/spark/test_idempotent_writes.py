"""Spark jobs that run again under their `txnAppId` and `txnVersion`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from slatespark import OptionError, SlateStore, SlateTable

PAIR: dict[str, Any] = {"txnAppId": "Nightly load", "txnVersion": 1}


def files(path: str) -> list[str]:
    return sorted(str(file) for file in Path(path).rglob("*"))


def test_a_batch_that_is_written_again(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "hits")

    def write(batch_id: int) -> None:
        rows = spark.sql("SELECT CAST('hits' AS BINARY) AS key, CAST('x' AS BINARY) AS value")
        options: dict[str, Any] = {"operation": "merge", "txnAppId": "hits", "txnVersion": batch_id}
        rows.write.format("slate").mode("append").options(**options).save(path)

    for batch_id in (0, 1, 0):  # the first one creates the table
        write(batch_id)
    left = files(path)
    write(1)
    assert files(path) == left, "no task uploaded anything"
    store = SlateStore.open(path)
    assert store.get(b"hits", mergeOperator="concat") == {"key": b"hits", "value": b"xx"}
    assert store.resolve().version == 3


def test_changes_that_read_the_table_are_skipped_too(spark: SparkSession, tmp_path: Path) -> None:
    table = SlateTable.create(spark, str(tmp_path / "users"), "id BIGINT, name STRING", ["id"])
    table.write(spark.sql("SELECT 1L AS id, 'ada' AS name"))
    source = spark.sql("SELECT 1L AS id, 'grace' AS name UNION ALL SELECT 2L, 'edsger'").alias("s")
    merge = table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    merge.execute(**PAIR)
    table.delete("length(name) = 6", **{**PAIR, "txnVersion": 2})
    later = spark.sql("SELECT 1L AS id, 'barbara' AS name UNION ALL SELECT 3L, 'adele!'")
    table.write(later)
    merge.execute(**PAIR)
    table.delete("length(name) = 6", **{**PAIR, "txnVersion": 2})
    assert {(row.id, row.name) for row in table.toDF().collect()} == {(1, "barbara"), (3, "adele!")}
    with pytest.raises(OptionError, match="txnAppId"):
        table.write(later, txnAppId="Nightly load")
