"""History tables read and trimmed, and ranges deleted, through SlateTable."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, PySparkException

from slatespark import OptionError, SchemaError, SlateTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "id BIGINT, price BIGINT, since TIMESTAMP"


def at(day: int) -> datetime:
    return datetime(2026, 1, day, tzinfo=UTC)


def test_an_as_of_join_is_a_job_over_ranges_of_the_rows(spark: SparkSession, tmp_path: Path) -> None:
    table = SlateTable.create(spark, str(tmp_path / "t"), SCHEMA, "id", history=True)
    rows = [(key, 100 * key + day, at(day)) for key in range(50) for day in (2, 4)]
    version = table.resolve().version
    table.write(spark.createDataFrame(rows, SCHEMA), timestampColumn="since")
    table.deleteRange("id >= 40", at(6))
    probes = [(number, number % 60, at(1 + number % 7) if number % 11 else None) for number in range(400)]
    df = spark.createDataFrame(probes, "number INT, ID INT, seen TIMESTAMP").repartition(5)
    joined = table.asOf(df, "seen", columns="price")
    assert joined.columns == ["number", "ID", "seen", "price"]
    days = {number: 1 + number % 7 for number, _, seen in probes if seen is not None}
    since = {number: max((start for start in (2, 4) if start <= day), default=None) for number, day in days.items()}
    expected = {
        number: 100 * key + start
        for number, key, _ in probes
        if key < 50 and (start := since.get(number)) is not None and not (key >= 40 and days[number] >= 6)
    }
    found = {row.number: row.price for row in joined.collect()}
    assert found == {number: expected.get(number) for number, _, _ in probes}
    assert {row.number: row.price for row in table.asOf(df, "seen", "inner", "price").collect()} == expected
    assert table.asOf(df, "seen", "inner", versionAsOf=version).count() == 0, "nothing was known then"
    table.setHistoryFloor(at(3))
    with pytest.raises(PySparkException, match=r"HistoryTrimmedError: .*2026-01-03T00"):
        table.asOf(df, "seen", columns="price").count()
    with pytest.raises(SchemaError, match="price"):
        table.asOf(df.withColumnRenamed("number", "price"), "seen")


def test_intervals_floors_trims_and_ranges(spark: SparkSession, tmp_path: Path) -> None:
    table = SlateTable.create(spark, str(tmp_path / "t"), SCHEMA, "id", history=True)
    rows = [(1, 10, at(1)), (1, 11, at(3)), (2, 20, at(2)), (1, 12, at(5))]
    table.write(spark.createDataFrame(rows, SCHEMA), timestampColumn="since")
    versions = table.versions()
    assert versions.columns == ["id", "price", "since", "_valid_from", "_valid_to", "_is_current"]
    shown = versions.orderBy("id", "_valid_from").select("price", "_valid_from", "_valid_to", "_is_current").collect()
    first, second, third, fifth = (at(day).astimezone().replace(tzinfo=None) for day in (1, 2, 3, 5))
    assert [tuple(row) for row in shown] == [
        (10, first, third, False),
        (11, third, fifth, False),
        (12, fifth, None, True),
        (20, second, None, True),
    ]
    then = table.versions(filter="_valid_from <= '2026-01-04' AND id = 1", columns="price,_is_current")
    assert sorted(then.collect()) == [(10, False), (11, False)]
    version = table.resolve().version
    table.deleteRange("id >= 2", at(6))
    known_then = table.toDF(columns="price", timestampAsOf=at(7), versionAsOf=version)
    assert sorted(known_then.collect()) == [(12,), (20,)]
    assert table.get(2) is None
    table.setHistoryFloor(at(3))
    with pytest.raises(AnalysisException, match=r"HistoryTrimmedError: .*2026-01-03T00"):
        table.toDF(timestampAsOf=at(2)).count()
    table.trimHistory(at(4))
    assert [table.get(key, columns="price") for key in (1, 2)] == [{"price": 11}, {"price": 20}]
    plain = SlateTable.create(spark, str(tmp_path / "plain"), SCHEMA, "id")
    with pytest.raises(OptionError, match="history"):
        plain.versions()
