"""`slatespark.sql` at the edges of a statement: what follows it, views without a path, properties that are none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import slatespark
from slatespark import OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_semicolons_and_comments_may_follow(spark: SparkSession, tmp_path: Path) -> None:
    table = f"slate.`{tmp_path / 't;'}`"

    def run(statement: str) -> list[Any]:
        found = slatespark.sql(spark, statement)
        return [tuple(row) for row in found.collect()] if found.columns else []

    run(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, s STRING);;")
    run(f"INSERT INTO {table} VALUES (1, 'a;') ; -- ; done\n")
    run(f"WITH q AS (SELECT 2 AS id, ';' AS s) INSERT INTO {table} SELECT * FROM q; /* ; */")
    run(f"UPDATE {table} SET s = 'b;' WHERE id = 1; -- done")
    assert run(f"SELECT s FROM {table} ORDER BY id; -- done") == [("b;",), (";",)]
    assert run("SELECT 1; -- done") == [(1,)]
    with pytest.raises(OptionError):
        run(f"DELETE FROM {table}; DELETE FROM {table}")
    assert run(f"SELECT count(*) FROM {table}") == [(2,)]


@pytest.mark.parametrize(
    "statement",
    ["DELETE FROM sql_nowhere", "DESCRIBE HISTORY sql_nowhere", "SELECT * FROM sql_nowhere VERSION AS OF 1"],
)
def test_a_view_without_a_path_is_refused(spark: SparkSession, statement: str) -> None:
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW sql_nowhere (id BIGINT) USING slate")
    with pytest.raises(OptionError):
        slatespark.sql(spark, statement)
    spark.catalog.dropTempView("sql_nowhere")


@pytest.mark.parametrize("properties", ["'cls' = 'x'", "'defaultTtl' = '1d', 'defaultTtl' = '2d'"])
def test_properties_that_are_none_or_given_twice(spark: SparkSession, tmp_path: Path, properties: str) -> None:
    create = f"CREATE TABLE slate.`{tmp_path / 't'}` (id BIGINT PRIMARY KEY)"
    with pytest.raises(OptionError):
        slatespark.sql(spark, f"{create} TBLPROPERTIES ({properties})")
    assert not (tmp_path / "t").exists()
