"""Typed rows of Spark are read by programs without slatespark, and rows of such programs by Spark."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.client import Client, Location, Put, read_rows
from tests.support.foreign_rows import ForeignTable

pytestmark = pytest.mark.spark


def test_rows_of_the_client_in_sql(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "orders"
    frame = spark.sql(
        "SELECT 'a' AS tenant, DATE '2026-01-31' AS day, 12.50BD AS price, TIMESTAMP '2026-01-31 12:00:00' AS at, "
        "array('tea', NULL) AS items, map('k', named_struct('x', 1)) AS notes"
    )
    frame.write.format("slate").mode("append").option("keyColumns", "tenant,day").save(str(folder))
    noon = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)

    table = ForeignTable(folder)
    (row,) = read_rows(Location.local(folder))
    assert table.decode(row.key, row.value) == {
        "tenant": "a",
        "day": 20484,
        "price": Decimal("12.50"),
        "at": noon,
        "items": ["tea", None],
        "notes": {"k": {"x": 1}},
    }

    with Client.open(Location.local(folder)) as client:
        value = {"price": Decimal("0.25"), "at": noon, "items": [], "notes": {"n": {"x": 2}, "m": {"x": 3}}}
        client.write([Put(*table.encode(("b", 20485), value))])
        client.write([Put(*table.encode(("a", 20484), value | {"price": Decimal("1.00")}))])
        client.close()
    spark.read.format("slate").load(str(folder)).createOrReplaceTempView("orders")
    found = spark.sql("SELECT tenant, day, price, size(items) AS n, notes['m'].x AS m FROM orders ORDER BY 1").collect()
    assert [tuple(row) for row in found] == [
        ("a", dt.date(2026, 1, 31), Decimal("1.00"), 0, 3),
        ("b", dt.date(2026, 2, 1), Decimal("0.25"), 0, 3),
    ]
