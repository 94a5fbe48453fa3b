"""Structs in merges and updates: names of fields that differ by case alone, another order, and missing fields."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession

import slatespark
from slatespark import SchemaError, SlateTable
from slatespark.spark.merge.builder import SlateMergeBuilder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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


def merge(table: SlateTable, source: DataFrame) -> SlateMergeBuilder:
    return table.alias("t").merge(source.alias("s"), ON)


def test_fields_of_structs_go_by_their_names(spark: SparkSession, tmp_path: Path) -> None:
    kinds = (
        "s STRUCT<x: INT, Y: STRING>, a ARRAY<STRUCT<x: INT, y: BIGINT>>, "
        "m MAP<STRUCT<p: INT, q: INT>, STRUCT<x: INT, y: INT>>"
    )
    table = SlateTable.create(spark, tmp_path / "structs", f"id INT, {kinds}", "id")
    source = spark.sql(
        "SELECT 1 AS id, named_struct('y', 'two', 'x', 1) AS s, "
        "array(named_struct('y', 4, 'x', 3), NULL, named_struct('y', 6, 'x', 5)) AS a, "
        "map(named_struct('q', 2, 'p', 1), named_struct('y', 8)) AS m"
    )
    expected = [(1, (1, "two"), [(3, 4), None, (5, 6)], {(1, 2): (None, 8)})]

    def found() -> list[tuple[Any, ...]]:
        return [tuple(row) for row in table.toDF().collect()]

    merge(table, source).whenNotMatchedInsertAll().execute()
    assert found() == expected
    table.update(set={"s": "NULL", "a": "NULL", "m": "NULL"})
    merge(table, source).whenMatchedUpdateAll().execute()
    assert found() == expected
    table.update(set={"s": "named_struct('Y', 'b', 'X', 7)"})
    assert found()[0][1] == (7, "b")
    table.update(set={"s": "if(id = 1, NULL, named_struct('y', 'b', 'x', 7))"})
    assert found()[0][1] is None
    with pytest.raises(SchemaError) as refused:
        table.update(set={"s": "named_struct('z', 1, 'x', 7)"})
    assert "named_struct" in refused.value.todo  # a cast goes by position


def test_structs_in_parts_of_others_go_by_their_names(spark: SparkSession, tmp_path: Path) -> None:
    pair = "STRUCT<p: INT, q: INT>"
    outer = f"STRUCT<n: {pair}>"
    kinds = f"n: {pair}, l: ARRAY<ARRAY<{pair}>>, m: MAP<STRING, ARRAY<{pair}>>, k: MAP<{outer}, {outer}>"
    table = SlateTable.create(spark, tmp_path / "nested", f"id INT, s STRUCT<{kinds}>", "id")
    table.write(spark.createDataFrame([(1, None), (2, None)], table.toDF().schema))

    def turned(p: int, q: int) -> str:
        return f"named_struct('q', {q}, 'p', {p})"

    value = (
        f"named_struct('k', map(named_struct('n', {turned(1, 2)}), named_struct('n', {turned(3, 4)})), "
        f"'m', map('a', array({turned(5, 6)}, NULL)), 'l', array(array({turned(7, 8)}), NULL), 'n', {turned(9, 10)})"
    )
    table.update("id = 1", {"s": value})
    source = spark.sql(f"SELECT 2 AS id, {value} AS s")
    merge(table, source).whenMatchedUpdateAll().execute()
    for row in table.toDF().collect():
        assert row.s.asDict() == {
            "n": (9, 10),
            "l": [[(7, 8)], None],
            "m": {"a": [(5, 6), None]},
            "k": {((1, 2),): ((3, 4),)},
        }


def test_parts_are_widened_and_names_may_be_any(spark: SparkSession, tmp_path: Path) -> None:
    table = SlateTable.create(spark, tmp_path / "names", "id INT, s STRUCT<`a b`: DOUBLE, `it's`: BIGINT>", "id")
    table.write(spark.sql("SELECT 1 AS id, named_struct('a b', 1.5D, 'it\\'s', 1L) AS s"))
    table.update(set={"s": "named_struct('it\\'s', 3, 'A B', 2)"})
    assert table.toDF().collect()[0].s == (2.0, 3)
    spark.conf.set("spark.sql.parser.quotedRegexColumnNames", "true")
    try:
        table.update(set={"s": "named_struct('a b', 4)"})
    finally:
        spark.conf.unset("spark.sql.parser.quotedRegexColumnNames")
    assert table.toDF().collect()[0].s == (4.0, None)


def test_fields_are_set_by_themselves(spark: SparkSession, tmp_path: Path) -> None:
    kinds = "s STRUCT<x: SMALLINT, `a.b`: STRING, n: STRUCT<p: DOUBLE, q: STRING>>"
    table = SlateTable.create(spark, tmp_path / "fields", f"id INT, {kinds}", "id")
    table.write(
        spark.sql(
            "SELECT 1 AS id, named_struct('x', 1S, 'a.b', 'one', 'n', named_struct('p', 0.5D, 'q', 'q')) AS s "
            "UNION ALL SELECT 2, NULL"
        )
    )

    def found() -> list[Any]:
        return [row.s for row in table.toDF().orderBy("id").collect()]

    table.update(set={"s.x": "s.x + 1", "S.N.Q": "concat(s.`a.b`, s.n.q)", "s.`a.b`": "'two'"})
    assert found() == [(2, "two", (0.5, "oneq")), (None, "two", (None, None))]
    source = spark.sql("SELECT 2 AS id, named_struct('x', 7L) AS s")
    merge(table, source).whenMatchedUpdate(set={"t.s.x": "s.s.x", "t.s.n.p": "t.s.x"}).execute()
    assert found()[1] == (7, "two", (None, None))
    slatespark.sql(spark, f"UPDATE slate.`{tmp_path / 'fields'}` AS u SET u.s.n.p = 3 WHERE u.id = 2")
    assert found()[1] == (7, "two", (3.0, None))
    for wrong in (
        {"s.x": "1", "s": "NULL"},
        {"s.n": "NULL", "s.n.q": "'q'"},
        {"s.z": "1"},
        {"s.x.y": "1"},
        {"id.x": "1"},
        {"s.n.p": "array(1)"},
    ):
        with pytest.raises(SchemaError):
            table.update(set=wrong)
    with pytest.raises(SchemaError):
        table.update(set={"s.x": "40000"})
    with pytest.raises(SchemaError):
        merge(table, source).whenNotMatchedInsert(values={"id": "s.id", "s.x": "1"}).execute()
    assert found()[1] == (7, "two", (3.0, None))


def test_names_are_read_as_elsewhere_in_a_statement(spark: SparkSession, tmp_path: Path) -> None:
    """The alias first, then columns; backticks hold a name with dots together."""
    path = str(tmp_path / "names")
    columns = "s STRUCT<y: STRUCT<z: INT>, `c.d`: INT, c: STRUCT<d: INT>>, y STRUCT<z: INT>, `y.z` INT"
    table = SlateTable.create(spark, path, f"id INT, {columns}", "id")
    table.write(
        spark.sql(
            "SELECT 1 AS id, named_struct('y', named_struct('z', 0), 'c.d', 0, 'c', named_struct('d', 0)) AS s, "
            "named_struct('z', 0) AS y, 0 AS `y.z`"
        )
    )

    def numbers() -> tuple[int, ...]:
        return tuple(table.toDF().selectExpr("s.y.z", "s.`c.d`", "s.c.d", "y.z", "`y.z`").collect()[0])

    def run(text: str) -> None:
        slatespark.sql(spark, text.replace("@T", f"slate.`{path}`"))

    run("UPDATE @T AS s SET s.y.z = 1")
    assert numbers() == (0, 0, 0, 1, 0)
    run("UPDATE @T AS s SET s.s.y.z = 2, s.`y.z` = 3")
    assert numbers() == (2, 0, 0, 1, 3)
    run("UPDATE @T SET s.`c.d` = 4, s.c.d = 5, y.z = 6")
    assert numbers() == (2, 4, 5, 6, 3)
    source = "(SELECT 1 AS n, named_struct('z', 7) AS y, named_struct('y', 0) AS s)"
    run(f"MERGE INTO @T USING {source} AS b ON id = b.n WHEN MATCHED THEN UPDATE SET y.z = b.y.z, s.y.z = 8")
    assert numbers() == (8, 4, 5, 7, 3)
    other = "(SELECT 2 AS n, 9 AS m)"
    run(
        f"MERGE INTO @T USING {other} AS b ON id = b.n WHEN NOT MATCHED BY SOURCE AND s.y.z = 8 "
        "THEN UPDATE SET s.y.z = y.z + 2, `y`.`z` = 10"
    )
    assert numbers() == (9, 4, 5, 10, 3)
    table.alias("y").update(set={"y.y.z": "11"})
    assert numbers() == (9, 4, 5, 11, 3)
    table.alias("t").update(set={"s.y.z": "12"})  # no column y of a table s
    assert numbers() == (12, 4, 5, 11, 3)
