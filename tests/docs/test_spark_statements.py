"""What docs/reference/spark.md says of SQL statements and catalog tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slatespark import SlateStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

ROW = "SELECT X'61' AS key, X'31' AS value"


@pytest.fixture
def path(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """A table of one row, and the view `v` of it."""
    path = str(tmp_path / "table")
    spark.sql(ROW).write.format("slate").mode("append").save(path)
    make_view(spark, f"path '{path}'")
    yield path
    spark.catalog.dropTempView("v")


def make_view(spark: SparkSession, options: str) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING slate OPTIONS ({options})")


def stored_keys(path: str) -> list[bytes]:
    keys: list[bytes] = SlateStore.open(path).scan().read_all()["key"].to_pylist()
    return keys


def test_views_read_and_insert(spark: SparkSession, path: str) -> None:
    assert spark.sql("SELECT * FROM v").collect() == [(b"a", b"1")]
    spark.sql("INSERT INTO v VALUES (X'62', X'32')")
    assert stored_keys(path) == [b"a", b"b"]
    spark.sql("INSERT OVERWRITE v VALUES (X'63', X'33')")
    assert stored_keys(path) == [b"c"]


def test_a_view_keeps_its_snapshot_until_it_is_made_again(spark: SparkSession, path: str) -> None:
    assert spark.sql("SELECT * FROM v").count() == 1
    spark.sql("INSERT INTO v VALUES (X'62', X'32')")
    spark.sql("REFRESH TABLE v")
    assert spark.sql("SELECT * FROM v").count() == 1
    make_view(spark, f"path '{path}', splitSize '1m'")
    assert spark.sql("SELECT * FROM v").count() == 2


def test_a_view_with_options_of_reading_takes_no_rows(spark: SparkSession, path: str) -> None:
    make_view(spark, f"path '{path}', splitSize '1m'")
    with pytest.raises(Exception, match=r"OptionError: .*splitsize"):
        spark.sql("INSERT INTO v VALUES (X'62', X'32')")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DELETE FROM v WHERE key = X'61'", "(?i)delete"),
        ("UPDATE v SET value = X'00'", "UPDATE"),
        ("MERGE INTO v USING v s ON v.key = s.key WHEN MATCHED THEN DELETE", "MERGE"),
        ("SELECT * FROM v VERSION AS OF 1", "UNSUPPORTED_FEATURE.TIME_TRAVEL"),
        ("SELECT * FROM slate.`{path}`", "UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY"),
        ("CREATE TABLE t USING slate OPTIONS (path '{path}')", "OptionError"),
        ("CREATE TABLE t USING slate OPTIONS (path '{path}') AS " + ROW, "Catalog"),
        ("INSERT INTO v (key) VALUES (X'62')", "SchemaError: .*null"),
    ],
)
def test_what_is_refused(spark: SparkSession, path: str, statement: str, message: str) -> None:
    with pytest.raises(Exception, match=message):
        spark.sql(statement.format(path=path))
    assert stored_keys(path) == [b"a"]


def test_a_catalog_table_of_listed_columns_cannot_be_read(spark: SparkSession, path: str) -> None:
    spark.sql(f"CREATE TABLE unread (key BINARY, value BINARY) USING slate OPTIONS (path '{path}')")
    try:
        with pytest.raises(Exception, match=r"OptionError: .*Catalog"):
            spark.table("unread").collect()
    finally:
        spark.sql("DROP TABLE unread")
    assert stored_keys(path) == [b"a"]


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("options", [{}, {"path": "{path}"}], ids=["without a path", "with a path"])
def test_no_catalog_table_is_written(spark: SparkSession, path: str, options: dict[str, str], mode: str) -> None:
    given = {name: value.format(path=path) for name, value in options.items()}
    other = spark.sql("SELECT X'62' AS key, X'32' AS value")
    with pytest.raises(Exception, match=r"OptionError: .*Catalog"):
        other.write.format("slate").mode(mode).options(**given).saveAsTable("nowhere")
    with pytest.raises(Exception, match=r"OptionError: .*Catalog"):
        other.writeTo("nowhere").using("slate").options(**given).createOrReplace()
    assert stored_keys(path) == [b"a"]
    assert not spark.catalog.tableExists("nowhere")
    assert not list(Path(path).glob("slatespark/leases/*"))


def test_each_batch_of_a_stream_may_save_by_path(spark: SparkSession, path: str, tmp_path: Path) -> None:
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 2).option("numPartitions", 1).load()

    def save(batch: DataFrame, number: int) -> None:
        pairs = batch.selectExpr("CAST(CAST(value AS STRING) AS BINARY) AS key", "X'31' AS value")
        pairs.write.format("slate").mode("append").save(path)

    sink = rows.writeStream.foreachBatch(save).option("checkpointLocation", str(tmp_path / "progress"))
    assert sink.trigger(availableNow=True).start().awaitTermination(60)
    assert stored_keys(path) == [b"0", b"1", b"a"]


@pytest.mark.parametrize("mode", ["error", "ignore"])
def test_spark_refuses_other_modes(spark: SparkSession, path: str, mode: str) -> None:
    with pytest.raises(Exception, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
        spark.sql(ROW).write.format("slate").mode(mode).save(path)


def test_several_paths_and_partition_columns_are_refused(spark: SparkSession, path: str) -> None:
    with pytest.raises(Exception, match="paths"):
        spark.read.format("slate").load([path, path])
    with pytest.raises(Exception, match="partitioning"):
        spark.sql(ROW).write.format("slate").mode("append").partitionBy("key").save(path)


def test_an_empty_dataframe_with_overwrite_empties_the_table(spark: SparkSession, path: str) -> None:
    spark.sql(ROW).limit(0).write.format("slate").mode("overwrite").save(path)
    assert stored_keys(path) == []
