"""Structs in merges: names of fields that differ by case alone, and another order of fields."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from slatespark import SchemaError, SlateTable

ON = "t.id = s.id"


def test_names_of_fields_that_differ_by_case_alone(spark: SparkSession, tmp_path: Path) -> None:
    table = SlateTable.create(spark, str(tmp_path / "t"), "id BIGINT, s STRUCT<Aa: INT>", "id")
    table.write(spark.sql("SELECT 1L AS id, named_struct('Aa', 1) AS s UNION ALL SELECT 2L, named_struct('Aa', 2)"))
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        source = spark.sql("SELECT 1L AS id, named_struct('AA', 4) AS s")
        table.alias("t").merge(source.alias("s"), ON).whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        rows = table.toDF().orderBy("id").collect()
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert [row.s.asDict() for row in rows] == [{"Aa": 4}, {"Aa": 2}]


def test_no_advice_to_cast_fields_of_another_order(spark: SparkSession, tmp_path: Path) -> None:
    """A cast goes by position: it would swap the values."""
    table = SlateTable.create(spark, str(tmp_path / "t"), "id BIGINT, s ARRAY<STRUCT<x: INT, y: INT>>", "id")
    table.write(spark.sql("SELECT 1L AS id, array(named_struct('x', 0, 'y', 0)) AS s"))
    source = spark.sql("SELECT 1L AS id, array(named_struct('y', 2, 'x', 1)) AS s")
    merge = table.alias("t").merge(source.alias("s"), ON).whenMatchedUpdateAll()
    with pytest.raises(SchemaError) as refused:
        merge.execute()
    assert "named_struct" in refused.value.todo
