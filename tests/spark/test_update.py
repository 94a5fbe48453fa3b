"""`SlateTable.update`, as Delta's."""

from __future__ import annotations

import math
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

import slatespark
from slatespark import InvalidRequestError, SchemaError, SlateStore, SlateTable, TransactionConflictError
from slatespark.spark.frames.table_frames import TableFrames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

START = [("a", 1, 10, "one"), ("a", 2, 20, None), ("b", 1, 30, "three")]


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> SlateTable:
    table = SlateTable.create(
        spark, tmp_path / "table", "tenant STRING, id BIGINT, n INT NOT NULL, note STRING", ["tenant", "id"]
    )
    table.write(spark.createDataFrame(START, table.toDF().schema))
    return table


def shown(table: SlateTable) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in table.toDF().collect())


def test_values_are_sql_or_columns(table: SlateTable) -> None:
    named = table.alias("t")
    named.update("t.tenant = 'a' AND t.note IS NULL", {"t.note": "concat(t.tenant, '-', t.id)", "N": F.col("n") + 1})
    assert shown(table) == [("a", 1, 10, "one"), ("a", 2, 21, "a-2"), ("b", 1, 30, "three")]
    table.update(F.col("id") == 1, {"n": "n * 2", "note": F.lit(None)})
    assert shown(table) == [("a", 1, 20, None), ("a", 2, 21, "a-2"), ("b", 1, 60, None)]
    table.update(set={"note": "cast(n AS STRING)", "n": "0"})
    assert shown(table) == [("a", 1, 0, "20"), ("a", 2, 0, "21"), ("b", 1, 0, "60")], "expressions see the old values"


def test_what_is_refused(table: SlateTable) -> None:
    for assigned, error, word in [
        ({}, InvalidRequestError, "nothing"),
        ("n = 5", InvalidRequestError, "maps"),
        ({"ID": "1"}, InvalidRequestError, "key column"),
        ({"n": 5}, InvalidRequestError, "expression"),
        ({1: "5"}, InvalidRequestError, "text"),
        ({None: "5"}, InvalidRequestError, "text"),
        ({"color": "1"}, SchemaError, "color"),
        ({"n": "'x'"}, SchemaError, "n"),
        ({"n": "n + 10000000000"}, SchemaError, "n"),
        ({"n": "NULL"}, SchemaError, "n"),
    ]:
        with pytest.raises(error, match=word):
            table.update("tenant = 'a'", assigned)  # type: ignore[arg-type]  # a number, for one
    assert shown(table) == START


def test_a_generator_is_no_value_of_a_row(table: SlateTable) -> None:
    before = shown(table)
    for value in ("explode(array(1, 2))", F.explode(F.array().cast("array<int>"))):
        with pytest.raises(AnalysisException, match="UNSUPPORTED_GENERATOR"):
            table.update(set={"n": value})
    assert shown(table) == before


def test_a_name_in_backticks(spark: SparkSession, tmp_path: Path) -> None:
    table = SlateTable.create(spark, tmp_path / "t", "id BIGINT, `x``y` INT", "id")
    table.write(spark.sql("SELECT 1L AS id, 2 AS `x``y`"))
    table.update(set={"`x``y`": "`x``y` + 1"})
    table.alias("t").update(set={"t.`x``y`": "`x``y` + 1"})
    table.update(set={"x`y": "`x``y` + 1"})
    assert shown(table) == [(1, 5)]


def test_intervals_of_less_precision(spark: SparkSession, tmp_path: Path) -> None:
    table = SlateTable.create(spark, tmp_path / "t", "id BIGINT, i INTERVAL DAY TO SECOND", "id")
    table.write(spark.sql("SELECT 1L AS id, INTERVAL '3' DAY AS i"))
    table.update(set={"i": "INTERVAL '7' HOUR"})
    assert shown(table) == [(1, timedelta(hours=7))]
    source = spark.sql("SELECT 1L AS id, INTERVAL '5' DAY AS i")
    table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdateAll().execute()
    assert shown(table) == [(1, timedelta(days=5))]


def test_a_change_after_the_read_is_a_conflict(
    spark: SparkSession, table: SlateTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = TableFrames.read

    def overtaken(frames: TableFrames, options: Any) -> DataFrame:
        monkeypatch.setattr(TableFrames, "read", read)
        SlateTable.forPath(spark, frames.path).write(spark.createDataFrame([START[1]], table.toDF().schema))
        return read(frames, options)

    monkeypatch.setattr(TableFrames, "read", overtaken)
    with pytest.raises(TransactionConflictError, match="id=2"):
        table.update("tenant = 'a'", {"n": "0"})
    assert shown(table) == START


def test_a_condition_by_the_alias_depends_on_the_same_keys(
    spark: SparkSession, table: SlateTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, other = TableFrames.read, spark.createDataFrame([START[1]], table.toDF().schema)

    def overtaken(frames: TableFrames, options: Any) -> DataFrame:
        SlateTable.forPath(spark, frames.path).write(other)
        return read(frames, options)

    named = table.alias("t")
    with monkeypatch.context() as patched:
        patched.setattr(TableFrames, "read", overtaken)
        named.update("`T`.tenant = 'b' AND t.n > 1", {"n": "t.n + 1"})
        slatespark.sql(spark, f"DELETE FROM slate.`{table._store.url}` AS x WHERE x.tenant = 'a' AND x.id = 1")
    with named.begin() as txn:
        locked = txn.getForUpdate("t.tenant = 'b'", columns="n").collect()
        table.write(other)
        txn.delete("t.tenant = 'b' AND t.id = 7")
    assert locked == [(31,)]
    assert shown(table) == [START[1], ("b", 1, 31, "three")]


def test_a_column_called_like_the_alias_but_for_its_case(spark: SparkSession, tmp_path: Path) -> None:
    table = SlateTable.create(spark, tmp_path / "t", "id BIGINT, T STRUCT<id: BIGINT>", "id")
    table.write(spark.sql("SELECT id, named_struct('id', id + 5) AS T FROM range(3)"))
    try:
        spark.conf.set("spark.sql.caseSensitive", True)
        table.alias("t").delete("T.id = 6")
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert [row[0] for row in shown(table)] == [0, 2]


def test_an_update_that_runs_again_takes_effect_once(table: SlateTable) -> None:
    for _ in range(2):
        table.update("tenant = 'b'", {"n": "n + 1"}, txnAppId="fees", txnVersion=1)
    assert shown(table)[2][2] == 31


@pytest.mark.parametrize(
    "value", ["1e300", "-1e300D", "16777217", "CAST('1e39' AS DOUBLE)", "9223372036854775807", "9007199254740993"]
)
def test_a_number_beyond_a_float_is_refused(spark: SparkSession, tmp_path: Path, value: str) -> None:
    table = SlateTable.create(spark, tmp_path / "floats", "k INT, f FLOAT", "k")
    table.write(spark.sql("SELECT 1 AS k, 1.5F AS f"))
    with pytest.raises(SchemaError):
        table.update("k = 1", {"f": value})
    source = spark.sql(f"SELECT 1 AS k, {value} AS f")
    with pytest.raises(SchemaError):
        table.alias("t").merge(source.alias("s"), "t.k = s.k").whenMatchedUpdateAll().execute()
    assert shown(table) == [(1, 1.5)]
    for fitting, kept in (("16777216", 2.0**24), ("0.1D", pytest.approx(0.1)), ("double('-Infinity')", -math.inf)):
        table.update("k = 1", {"f": fitting})
        assert shown(table) == [(1, kept)]


def test_whole_numbers_at_the_ends_of_64_bits(spark: SparkSession, tmp_path: Path) -> None:
    table = SlateTable.create(spark, tmp_path / "ends", "k INT, n BIGINT, f DOUBLE, d DECIMAL(19)", "k")
    table.write(spark.sql("SELECT 1 AS k, 5L AS n, 0.5D AS f, CAST(1 AS DECIMAL(19)) AS d"))
    for refused in ({"n": "9223372036854775808D"}, {"n": "float(9223372036854775807)"}, {"f": "9223372036854775807"}):
        with pytest.raises(SchemaError):
            table.update("k = 1", refused)
    assert shown(table) == [(1, 5, 0.5, 1)]
    table.update("k = 1", {"n": "9223372036854775807BD", "f": "-9223372036854775807 - 1", "d": "9223372036854775807"})
    assert shown(table) == [(1, 2**63 - 1, -(2.0**63), 2**63 - 1)]
    table.update("k = 1", {"n": "-9223372036854775808D", "f": "9223372036854774784"})
    assert shown(table) == [(1, -(2**63), 9223372036854774784.0, 2**63 - 1)]


def test_a_change_folds_operands_by_the_operator_that_it_is_given(spark: SparkSession, tmp_path: Path) -> None:
    """Those of other clients need one, and one that is given goes before that of the table."""
    store = SlateStore.create(str(tmp_path / "operands"))
    for operand in (b"1", b"2"):
        store.write(pa.table({"key": [b"a"], "value": [operand]}), operation="merge", mergeOperator="concat")
    table = SlateTable.forPath(spark, store.url)
    table.update("value = X'3132'", {"value": "concat(value, X'33')"}, mergeOperator="concat")
    store.write(pa.table({"key": [b"a"], "value": [b"4"]}), operation="merge", mergeOperator="concat")
    source = spark.createDataFrame([(b"a", b"5")], "key BINARY, value BINARY").alias("s")
    merge = table.alias("t").merge(source, "t.key = s.key")
    merge.whenMatchedUpdate(set={"value": "concat(t.value, s.value)"}).execute(merge_operator="concat")
    assert store.get(b"a") == {"key": b"a", "value": b"12345"}
    store.write(pa.table({"key": [b"a"], "value": [b"6"]}), operation="merge", mergeOperator="concat")
    table.delete("value = X'313233343536'", mergeOperator="concat")
    assert table.toDF().count() == 0
