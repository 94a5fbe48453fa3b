"""Spark writes rows with their own expiry, for every type of the column and every time zone."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from slatespark import ClockRegressionError, OptionError, SlateStore, SlateTable
from slatespark.spark.shown_times import EARLIEST_MS, LATEST_MS
from slatespark.units import MAX_MS
from tests.support.client import Client, Location, Put, Ttl

pytestmark = pytest.mark.spark


def test_intervals_numbers_and_instants(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        rows = spark.sql(
            "SELECT id, id * 2 AS n, IF(id < 3, make_dt_interval(0, 0, 0, id), NULL) AS keep FROM range(5)"
        )
        rows.write.format("slate").options(keyColumns="id", ttlColumn="KEEP", ttl="1h").mode("append").save(path)
        first = SlateStore.open(path).get(4, metadataColumns=True)
        assert first is not None
        at_ms = round(first["_create_ts"].timestamp() * 1000)
        more = spark.sql("SELECT 10L AS id, 0L AS n, TIMESTAMP'2100-01-01 05:30:00' AS at")
        more.write.format("slate").options(expireAtColumn="at", timestamp=at_ms).mode("append").save(path)
        table = SlateTable.forPath(spark, path)
        table.write(spark.sql("SELECT 11L AS id, 0L AS n, 7 AS ms UNION ALL SELECT 11L, 1L, 8"), ttlColumn="ms")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    shown = SlateStore.open(path).scan(metadataColumns=True, includeExpired=True).read_all().to_pylist()
    lived = {row["id"]: (row["_expire_ts"] - row["_create_ts"]).total_seconds() for row in shown if row["id"] != 10}
    assert lived == {0: 0.0, 1: 1.0, 2: 2.0, 3: 3600.0, 4: 3600.0, 11: 0.008}
    assert [row["_expire_ts"].isoformat() for row in shown if row["id"] == 10] == ["2100-01-01T00:00:00+00:00"]
    assert {round(row["_create_ts"].timestamp() * 1000) for row in shown if row["id"] != 11} == {at_ms}
    assert [row["n"] for row in shown if row["id"] == 11] == [1]
    assert SlateStore.open(path).scan().schema.names == ["id", "n"]


def test_what_is_refused_leaves_the_table_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    good = spark.sql("SELECT 1 AS id, 5 AS n")
    good.write.format("slate").option("keyColumns", "id").mode("append").save(path)
    for sql, option, message in [
        ("SELECT 1 AS id, 6 AS n, -5 AS t", "ttlColumn", "SchemaError: .*-5"),
        ("SELECT 1 AS id, 6 AS n, 5.5D AS t", "ttlColumn", "SchemaError: .*DOUBLE"),
        ("SELECT 1 AS id, 6 AS n, 9223372036854775807L AS t", "ttlColumn", "SchemaError: .*1,000 years"),
        ("SELECT 1 AS id, 6 AS n, TIMESTAMP'+12000-01-01' AS t", "expireAtColumn", "SchemaError: .*9999"),
        ("SELECT 1 AS id, 6 AS n, 5L AS t", "expireAtColumn", "SchemaError: .*BIGINT"),
    ]:
        with pytest.raises(PySparkException, match=message):
            spark.sql(sql).write.format("slate").option(option, "t").mode("append").save(path)
    with pytest.raises(PySparkException, match=r"ClockRegressionError: .*946684800000"):
        good.write.format("slate").option("timestamp", "2000-01-01").mode("append").save(path)
    assert [row.asDict() for row in spark.read.format("slate").load(path).collect()] == [{"id": 1, "n": 5}]


def test_a_table_with_a_clock_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    rows = spark.sql("SELECT 1 AS id, 5 AS n UNION ALL SELECT 2, 6")
    rows.write.format("slate").options(keyColumns="id", clock="custom", timestamp=7, ttl=2).mode("append").save(path)
    with pytest.raises(PySparkException, match=r"OptionError: .*clock=custom"):
        rows.write.format("slate").mode("append").save(path)
    table = SlateTable.forPath(spark, path)
    assert table.toDF().count() == 2
    table.write(spark.sql("SELECT 3 AS id, 7 AS n"), timestamp=9)
    assert [row.asDict() for row in table.toDF().collect()] == [{"id": 3, "n": 7}]
    assert table.toDF(now=8).count() == 3


def test_changes_of_a_table_with_a_clock_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = SlateTable.create(spark, path, "id INT, n INT", "id", clock="custom", defaultTtl=10)
    table.write(spark.sql("SELECT CAST(id AS INT) AS id, 0 AS n FROM range(5)"), timestamp=100)
    changes = spark.sql("SELECT 1 AS id, 1 AS n UNION ALL SELECT 8, 8")
    merge = table.alias("t").merge(changes.alias("s"), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    before = SlateStore.open(path).history(1)[0].version
    without_time: tuple[Callable[[], object], ...] = (lambda: table.delete("id = 2"), merge.execute)
    for refused in without_time:
        with pytest.raises(OptionError, match="clock"):
            refused()
    with pytest.raises(ClockRegressionError, match=r"\(99\).*\(100\)"):
        table.delete("id = 2", timestamp=99)
    assert SlateStore.open(path).history(1)[0].version == before
    table.delete("n = 0 AND id = 2", timestamp=103)
    merge.execute(timestamp=105)
    assert rows_of(path) == {0: 0, 1: 1, 3: 0, 4: 0, 8: 8}, "at the last tick"
    assert rows_of(path, now=109) == {0: 0, 1: 1, 3: 0, 4: 0, 8: 8}
    assert rows_of(path, now=110) == {1: 1, 8: 8}, "the TTL counts from the timestamp"
    assert rows_of(path, now=115) == {}
    table.delete(F.col("id") == 8, timestamp=110)
    assert {row["id"]: row["n"] for row in table.toDF().collect()} == {1: 1}


def rows_of(path: str, **options: Any) -> dict[int, int]:
    return {row["id"]: row["n"] for row in SlateStore.open(path).scan(**options).read_all().to_pylist()}


def test_tasks_divide_the_rate(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    rows = spark.range(0, 4000, 1, 4).selectExpr("id", "sha2(string(id), 256) AS text")
    started_s = time.monotonic()
    rows.write.format("slate").options(keyColumns="id", throughputMBPerSec="0.2").mode("append").save(path)
    took_s = time.monotonic() - started_s
    stored = sum(file.stat().st_size for file in (tmp_path / "t" / "compacted").iterdir())
    assert took_s > stored / 200_000
    assert not list((tmp_path / "t" / "slatespark" / "leases").iterdir())
    SlateTable.forPath(spark, path).write(rows, throughputMBPerSec=1000.5)
    assert spark.read.format("slate").load(path).count() == 4000


def test_times_of_another_client_that_python_cannot_tell_are_shown_at_its_bounds(
    spark: SparkSession, tmp_path: Path
) -> None:
    """In the year 12,000, at the end of 64 bits, and long before the first year."""
    year_12000_ms, day_ms = 316_516_204_800_000, 86_400_000
    instants = {b"a": year_12000_ms, b"b": MAX_MS, b"c": -(10**17), b"d": 4_102_444_800_000}
    with Client.open(Location.local(tmp_path / "t")) as client:
        client.write([Put(key, b"v", Ttl(at_ms=ms)) for key, ms in instants.items()])
        client.flush_wal()
    table = SlateTable.forPath(spark, tmp_path / "t")
    rows = table.toDF(metadataColumns=True, includeExpired=True).collect()
    transaction = table.begin()
    own = transaction.read(metadataColumns=True, includeExpired=True).collect()
    transaction.rollback()
    for shown in (rows, own):
        days = {bytes(row["key"]): round(row["_expire_ts"].timestamp() * 1000) // day_ms for row in shown}
        assert days == {b"a": LATEST_MS // day_ms, b"b": LATEST_MS // day_ms, b"c": EARLIEST_MS // day_ms, b"d": 47482}
    beyond = table.toDF(where="_expire_ts > '9999-12-31 12:00:00'", includeExpired=True)
    assert [bytes(row["key"]) for row in beyond.collect()] == [b"a", b"b"]  # judged by what is stored
    stored = SlateStore.open(tmp_path / "t").get(b"a", metadataColumns=True)
    assert stored is not None
    assert stored["_expire_ts"] == year_12000_ms
