"""Collated text: keys are equal as their bytes are, so no call takes it for a key column."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from slatespark import SchemaError, SlateStore, SlateTable

pytestmark = pytest.mark.spark

KEY: Final = "'A' COLLATE UTF8_LCASE AS k"


def _in_transaction(table: SlateTable, rows: DataFrame) -> None:
    with table.begin() as txn:
        txn.write(rows)


def _url(table: SlateTable) -> str:
    found: str = table.detail().collect()[0]["url"]
    return found


def _append(table: SlateTable, rows: DataFrame, **options: Any) -> None:
    rows.write.format("slate").mode("append").options(**options).save(_url(table))


CALLS: Final[dict[str, Callable[[SlateTable, DataFrame], Any]]] = {
    "append": _append,
    "delete": lambda table, rows: _append(table, rows, operation="delete"),
    "write": lambda table, rows: table.write(rows),
    "transaction": _in_transaction,
    "lookup": lambda table, rows: table.lookup(rows),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_a_key_column(spark: SparkSession, tmp_path: Path, call: Callable[[SlateTable, DataFrame], Any]) -> None:
    table = SlateTable.create(spark, str(tmp_path / "t"), "k STRING, v INT", ["k"])
    table.write(spark.sql("SELECT 'a' AS k, 1 AS v"))
    with pytest.raises((SchemaError, PySparkException), match=r"SchemaError|collated"):
        call(table, spark.sql(f"SELECT {KEY}, 2 AS v"))
    assert SlateStore.open(str(tmp_path / "t")).scan().read_all().to_pylist() == [{"k": "a", "v": 1}]


def test_the_key_of_a_new_table(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SchemaError):
        SlateTable.create(spark, str(tmp_path / "t"), "k STRING COLLATE UTF8_LCASE, v INT", ["k"])
    with pytest.raises(PySparkException, match="SchemaError"):
        spark.sql(f"SELECT {KEY}, 2 AS v").write.format("slate").mode("append").option("keyColumns", "k").save(
            str(tmp_path / "t")
        )
    assert not (tmp_path / "t").exists()


def test_a_look_up_as_of_a_time(spark: SparkSession, tmp_path: Path) -> None:
    table = SlateTable.create(spark, str(tmp_path / "t"), "k STRING, v INT", ["k"], history=True)
    table.write(spark.sql("SELECT 'a' AS k, 1 AS v"))
    with pytest.raises(SchemaError):
        table.asOf(spark.sql(f"SELECT {KEY}, current_timestamp() AS at"), "at")
    with pytest.raises(SchemaError):
        table.asOf(spark.sql("SELECT 'a' AS k, 'b' AS K, current_timestamp() AS at"), "at")


def test_a_value_column_keeps_its_text(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.sql("SELECT 1 AS k, 'Abc' COLLATE UTF8_LCASE AS v")
    rows.write.format("slate").mode("append").option("keyColumns", "k").save(str(tmp_path / "t"))
    found = spark.read.format("slate").load(str(tmp_path / "t"))
    assert (found.schema["v"].dataType.simpleString(), found.collect()) == ("string", rows.collect())
