"""Spark writes typed tables: checked before any task, in one commit, whatever the time zone and the partitions."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from slatespark import SlateStore

pytestmark = pytest.mark.spark

EVERY_TYPE = """
    SELECT CAST(id AS TINYINT) AS b, CAST(id AS SMALLINT) AS s, CAST(id AS INT) AS i, id AS l, CAST(id AS FLOAT) AS f,
    id / 3 AS d, CAST(id * 1.25 AS DECIMAL(20,2)) AS dec, CAST(id AS STRING) AS str, id % 2 = 0 AS ok,
    CAST(CAST(id AS STRING) AS BINARY) AS bin, DATE'2026-01-01' + CAST(id AS INT) AS day,
    TIMESTAMP'2026-03-29 02:30:00' + id * INTERVAL '1' HOUR AS at, TIMESTAMP_NTZ'2026-03-29 02:30:00' AS ntz,
    INTERVAL '1 02:03:04.5' DAY TO SECOND AS span, array(id, NULL) AS list, map('k', id) AS m,
    named_struct('x', id, 'y', array('z')) AS st, parse_json('{"v": 1}') AS var, CAST(NULL AS INT) AS nothing
    FROM range(4)
"""


def save(frame: DataFrame, path: Path, mode: str = "append", **options: object) -> None:
    writer = frame.write.format("slate").mode(mode)
    for name, value in options.items():
        writer = writer.option(name, value)  # type: ignore[arg-type]
    writer.save(str(path))


def load(spark: SparkSession, path: Path) -> DataFrame:
    return spark.read.format("slate").load(str(path))


@pytest.mark.smoke
def test_every_type_in_another_time_zone(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        frame = spark.sql(EVERY_TYPE)
        save(frame, tmp_path / "t", keyColumns="day,at,dec,ok,str")
        found = load(spark, tmp_path / "t")
        assert [field.simpleString() for field in found.schema] == [field.simpleString() for field in frame.schema]
        names = [name for name in frame.columns if name != "var"]
        assert found.select(names).collect() == frame.select(names).collect()
        assert found.selectExpr("to_json(var) AS var").distinct().collect() == [Row(var='{"v":1}')]
        save(found, tmp_path / "t", mode="overwrite")
        assert load(spark, tmp_path / "t").select(names).collect() == frame.select(names).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_nothing_is_created_when_a_check_fails(spark: SparkSession, tmp_path: Path) -> None:
    for frame, options, message in [
        (spark.sql("SELECT 1 AS a"), {"keyColumns": "b"}, "SchemaError: .*missing"),
        (spark.sql("SELECT 1 AS a"), {}, "SchemaError: .*raw"),
        (spark.sql("SELECT array(1) AS a"), {"keyColumns": "a"}, "SchemaError: .*ARRAY"),
        (spark.sql("SELECT 1 AS a, NULL AS b"), {"keyColumns": "a"}, "SchemaError: .*CAST"),
        (spark.sql("SELECT 1 AS a"), {"keyColumns": "a", "retention": "long"}, "OptionError: retention"),
    ]:
        with pytest.raises(PySparkException, match=message):
            save(frame, tmp_path / "t", **options)
        assert not (tmp_path / "t").exists()


def test_a_failing_task_leaves_the_schema_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(spark.sql("SELECT id AS k, id AS v FROM range(3)"), path, keyColumns="k")
    before = SlateStore.open(str(path)).definition
    bad = spark.sql("SELECT id AS k, id AS v, IF(id = 1, raise_error('no'), id) AS more FROM range(3)")
    with pytest.raises(PySparkException):
        save(bad, path, mergeSchema="true")
    assert SlateStore.open(str(path)).definition == before
    new = tmp_path / "new"
    with pytest.raises(PySparkException):
        save(bad, new, keyColumns="k")
    save(spark.sql("SELECT 'x' AS other, 1 AS v"), new, keyColumns="other")
    assert load(spark, new).collect() == [Row(other="x", v=1)]


def test_the_sequence_column_decides_across_partitions(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.sql("SELECT id % 10 AS k, (id * 7) % 100 AS at, CAST(id AS STRING) AS v FROM range(100)").repartition(
        4
    )
    save(rows, tmp_path / "t", keyColumns="k", sequenceColumn="at")
    expected = rows.groupBy("k").max("at").orderBy("k").collect()
    assert [tuple(row)[:2] for row in load(spark, tmp_path / "t").collect()] == [tuple(row) for row in expected]


def test_sql_inserts_and_grown_columns(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(spark.sql("SELECT 1 AS k, 'a' AS v"), path, keyColumns="k")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW typed_rows USING slate OPTIONS (path '{path}')")
    spark.sql("INSERT INTO typed_rows VALUES (2, 'b')")
    save(spark.sql("SELECT 3L AS K, 'x' AS new"), path, mergeSchema="true")
    assert load(spark, path).collect() == [
        Row(k=1, v="a", new=None),
        Row(k=2, v="b", new=None),
        Row(k=3, v=None, new="x"),
    ]
    assert load(spark, path).schema["k"].dataType.simpleString() == "bigint"
    spark.catalog.dropTempView("typed_rows")
