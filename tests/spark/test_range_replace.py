"""Key intervals replaced and deleted from Spark, and the timeline as a DataFrame."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, DateType, StringType, StructField, StructType

from slatespark import InvalidRequestError, SlateTable


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> SlateTable:
    path = str(tmp_path / "visits")
    made = SlateTable.create(spark, path, "tenant STRING, day DATE, n BIGINT", ["tenant", "day"])
    made.write(rows(spark, "VALUES ('a'), ('b')", 1, 28, 1))
    return made


def rows(spark: SparkSession, tenants: str, first: int, last: int, n: int) -> DataFrame:
    days = f"explode(sequence(DATE'2026-01-{first:02d}', DATE'2026-01-{last:02d}'))"
    return spark.sql(f"SELECT tenant, {days} AS day, {n}L AS n FROM {tenants} AS t(tenant)")


def counts(table: SlateTable) -> dict[tuple[str, int], int]:
    return {(row.tenant, row.n): row["count"] for row in table.toDF().groupBy("tenant", "n").count().collect()}


WHERE = "tenant = 'a' AND day BETWEEN '2026-01-05' AND '2026-01-20'"


def test_an_interval_is_replaced_by_all_tasks_together(spark: SparkSession, table: SlateTable) -> None:
    version = table._store.resolve().version
    corrected = rows(spark, "VALUES ('a')", 6, 15, 2)
    corrected.repartition(3).write.format("slate").mode("overwrite").option("replaceWhere", WHERE).save(
        table._frames.path
    )
    assert counts(table) == {("a", 1): 12, ("a", 2): 10, ("b", 1): 28}
    assert table._store.resolve().version == version + 2, "one commit"
    table.write(rows(spark, "VALUES ('a')", 5, 5, 3), mode="overwrite", replaceWhere=WHERE)
    assert counts(table) == {("a", 1): 12, ("a", 3): 1, ("b", 1): 28}


def test_rows_outside_are_refused_with_their_class(spark: SparkSession, table: SlateTable) -> None:
    outside = rows(spark, "VALUES ('a')", 19, 21, 2).coalesce(1)
    with pytest.raises(InvalidRequestError, match="tenant=a, day=2026-01-21"):
        table.write(outside, mode="overwrite", replaceWhere=WHERE)
    with pytest.raises(Exception, match=r"InvalidRequestError: .*outside"):
        outside.write.format("slate").mode("overwrite").option("replaceWhere", WHERE).save(table._frames.path)
    assert counts(table) == {("a", 1): 28, ("b", 1): 28}


@pytest.mark.smoke
def test_the_timeline_as_a_frame(spark: SparkSession, table: SlateTable) -> None:
    replaced = table.deleteRange(WHERE)
    frame = table.timeline()
    key = StructType([StructField("tenant", StringType()), StructField("day", DateType())])
    assert [frame.schema[name].dataType for name in ("first", "last", "startKey")] == [key, key, BinaryType()]
    frame.createOrReplaceTempView("timeline")
    found = spark.sql("SELECT first.day, last.day, state, since FROM timeline WHERE first.tenant = 'a'").collect()
    told = [(first.day, last.day, state, since) for first, last, state, since in found]
    assert told == [(1, 5, "visible", None), (5, 21, "overshadowed", replaced), (21, 28, "visible", None)]
    assert table.timeline(replaced - 2).count() == 1
    assert SlateTable.create(spark, table._frames.path + "-empty", "id BIGINT", "id").timeline().count() == 0
