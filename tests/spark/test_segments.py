"""Spark writes, merges, compacts and drops segments; the real client reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from slatespark import SlateTable
from tests.support.client import Client, ClientOptions, Location
from tests.support.segments import UpTo

pytestmark = pytest.mark.spark

TENANT = UpTo(b"\0", "tenant")


def test_a_segmented_table(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    rows = spark.range(300).selectExpr("concat('t', id % 3) AS tenant", "id", "id AS n").repartition(4)
    writer = rows.write.format("slate").option("keyColumns", "tenant,id").option("segmentExtractor", "tenant")
    writer.option("segmentDelimiter", "X'00'").mode("append").save(path)
    table = SlateTable.forPath(spark, path)
    assert [bytes(row.segment) for row in table.files().select("segment").distinct().sort("segment").collect()] == [
        b"\2t0\0",
        b"\2t1\0",
        b"\2t2\0",
    ]
    table.write(rows.where("id < 30").selectExpr("tenant", "id", "-1L AS n"))  # the definition has the extractor
    source = rows.where("id % 3 = 1 AND id < 40").selectExpr("tenant", "id", "-2L AS n")
    table.alias("t").merge(source.alias("s"), "t.tenant = s.tenant AND t.id = s.id").whenMatchedUpdateAll().execute()
    table.delete("id = 5")
    report = table.compact(full=True)
    assert len(report.jobs) == 3
    table.deleteRange("tenant = 't2'")
    (facts,) = table.detail().collect()
    assert (facts.segmentExtractor, [bytes(prefix) for prefix in facts.segments]) == ("tenant", [b"\2t0\0", b"\2t1\0"])
    expected = {
        (f"t{number % 3}", number): -2 if number % 3 == 1 and number < 40 else -1 if number < 30 else number
        for number in range(300)
        if number % 3 != 2
    }
    assert {(row.tenant, row.id): row.n for row in table.toDF().collect()} == expected
    with Client.open(Location.local(tmp_path / "table"), ClientOptions(segments=TENANT)) as client:
        assert len(client.scan()) == len(expected)
