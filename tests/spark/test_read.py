"""Spark reads raw tables: the fixtures, options, splits, SQL, and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from slatespark import SlateStore
from tests.support.fixture_databases import FIXTURES, FixtureDatabase, fixture_databases
from tests.support.our_reads import to_ms

pytestmark = pytest.mark.spark

DATABASES = fixture_databases()


def load(spark: SparkSession, path: Path | str, **options: Any) -> DataFrame:
    return spark.read.format("slate").options(**options).load(str(path))


@pytest.mark.parametrize("database", DATABASES, ids=[database.name for database in DATABASES])
def test_fixtures_read_as_the_client_read_them(spark: SparkSession, database: FixtureDatabase) -> None:
    options = {"storage.root": str(FIXTURES), "includeExpired": True, "mergeOperator": "concat"}
    rows = load(spark, database.path, metadataColumns=True, **options).collect()
    found = [
        (bytes(row.key), bytes(row.value), row._seq, to_utc_ms(row._create_ts), to_utc_ms(row._expire_ts))
        for row in rows
    ]
    assert found == [(*row[:3], row[3] or 0, row[4]) for row in database.visible_rows()]


def to_utc_ms(moment: Any) -> int | None:
    """Spark returns timestamps in local time, without an offset."""
    return None if moment is None else to_ms(moment.astimezone())


@pytest.fixture
def table(tmp_path: Path) -> SlateStore:
    """1000 rows in several blocks, in two overlapping files."""
    store = SlateStore.create(str(tmp_path / "table"))
    for parity in (0, 1):
        keys = [b"%06d" % number for number in range(parity, 1000, 2)]
        store.write(pa.table({"key": keys, "value": [b"v" * 50 + key for key in keys]}), blockSize=1024)
    return store


def test_splits_together_hold_every_row_once(spark: SparkSession, table: SlateStore) -> None:
    frame = load(spark, table.url, splitSize=8000)
    assert frame.rdd.getNumPartitions() > 3
    keys = [bytes(row.key) for row in frame.collect()]
    assert keys == [b"%06d" % number for number in range(1000)]


def test_columns_and_schemas_select(spark: SparkSession, table: SlateStore) -> None:
    assert load(spark, table.url, columns="value").columns == ["value"]
    asked = spark.read.format("slate").schema("value binary").load(table.url)
    assert asked.selectExpr("sum(length(value))").first()[0] == 56 * 1000  # type: ignore[index]
    with_seq = spark.read.format("slate").option("metadataColumns", "seq").schema("_seq bigint, key binary")
    assert with_seq.load(table.url).selectExpr("max(_seq)").first()[0] == 2  # type: ignore[index]


def test_key_ranges_and_prefixes(spark: SparkSession, table: SlateStore) -> None:
    assert load(spark, table.url, keyPrefix=b"0001".hex()).count() == 100
    assert load(spark, table.url, startKey=b"000990".hex()).count() == 10
    assert load(spark, table.url, startKey=b"5".hex(), endKey=b"4".hex()).count() == 0


def test_a_dataframe_keeps_its_snapshot(spark: SparkSession, table: SlateStore) -> None:
    frame = load(spark, table.url)
    assert frame.count() == 1000
    table.write(pa.table({"key": [b"zzz"], "value": [b"new"]}))
    assert frame.count() == 1000
    assert load(spark, table.url).count() == 1001
    assert load(spark, table.url, versionAsOf=5).count() == 1000
    assert load(spark, table.url, versionAsOf=3).count() == 500


@pytest.mark.smoke
def test_temporary_views_in_sql(spark: SparkSession, table: SlateStore) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW slate_view USING slate OPTIONS (path '{table.url}')")
    assert spark.sql("SELECT count(*) FROM slate_view WHERE key >= X'303030393930'").first()[0] == 10  # type: ignore[index]
    spark.sql("INSERT INTO slate_view VALUES (X'7a', X'31')")
    assert table.get(b"z") == {"key": b"z", "value": b"1"}


def test_deleted_and_expired_rows_show_on_demand(spark: SparkSession, table: SlateStore) -> None:
    table.write(pa.table({"key": [b"000000"]}), operation="delete")
    table.write(pa.table({"key": [b"000001"], "value": [b"short"]}), ttl=0)
    assert load(spark, table.url).count() == 998
    deleted = load(spark, table.url, includeDeleted=True, metadataColumns="op").where("_op = 'delete'").collect()
    assert [(bytes(row.key), row.value) for row in deleted] == [(b"000000", None)]
    assert load(spark, table.url, includeExpired=True).count() == 999
    assert load(spark, table.url, readVersions="all").count() == 1002


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"splitsize": "lots"}, "OptionError: splitSize"),
        ({"versionAsOff": "1"}, "OptionError: .*versionAsOf"),
        ({"columns": "color"}, "SchemaError: .*color"),
    ],
)
def test_wrong_options_are_named(spark: SparkSession, table: SlateStore, options: dict[str, str], message: str) -> None:
    with pytest.raises(Exception, match=message):
        load(spark, table.url, **options).collect()


def test_a_missing_table_is_noticed_at_load(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="TableNotFoundError"):
        load(spark, tmp_path / "nothing")


def test_catalog_tables_are_explained(spark: SparkSession, table: SlateStore) -> None:
    with pytest.raises(Exception, match="Catalog"):
        spark.read.format("slate").load()


def test_operands_without_an_operator_are_refused(spark: SparkSession) -> None:
    with pytest.raises(Exception, match=r"OptionError: .*operands"):
        load(spark, FIXTURES / "merge").collect()


def test_creating_a_catalog_table_is_refused(spark: SparkSession, table: SlateStore) -> None:
    with pytest.raises(Exception, match=r"OptionError: .*catalog"):
        spark.sql(f"CREATE TABLE catalog_slate USING slate OPTIONS (path '{table.url}')")
