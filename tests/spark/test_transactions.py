"""Transactions with DataFrames: tasks upload and read rows that nobody else sees, and one commit publishes them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from slatespark import InvalidRequestError, OptionError, SchemaError, SlateTable, TransactionConflictError
from slatespark.format.paths import COMPACTED_DIR
from slatespark.spark.transaction import SlateTransaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = "tenant STRING, id BIGINT, amount DECIMAL(9,2), at TIMESTAMP, tags ARRAY<STRING>"


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> SlateTable:
    table = SlateTable.create(spark, str(tmp_path / "table"), COLUMNS, ["tenant", "id"])
    load(table, range(100))
    return table


def load(table: SlateTable, numbers: Iterable[int]) -> None:
    """Write the rows of `frame` without a Spark job."""
    rows = [
        {
            "tenant": "b" if number % 2 else "a",
            "id": number,
            "amount": Decimal(number),
            "at": datetime.fromtimestamp(number, UTC),
            "tags": ["x", str(number)],
        }
        for number in numbers
    ]
    table._store.write(pa.Table.from_pylist(rows, schema=table._store.definition.schema))


def frame(spark: SparkSession, start: int, end: int, extra: int = 0) -> DataFrame:
    return spark.range(start, end, 1, 3).selectExpr(
        "if(id % 2 = 0, 'a', 'b') AS tenant",
        "id",
        f"CAST(id + {extra} AS DECIMAL(9,2)) AS amount",
        "timestamp_seconds(id) AS at",
        "array('x', CAST(id AS STRING)) AS tags",
    )


def ids(rows: DataFrame) -> list[int]:
    return sorted(row.id for row in rows.select("id").collect())


def files(table: SlateTable) -> set[str]:
    return {path.name for path in (Path(table._frames.path) / COMPACTED_DIR).iterdir()}


@pytest.mark.smoke
def test_reads_see_own_writes_and_one_commit_publishes_them(spark: SparkSession, table: SlateTable) -> None:
    before = files(table)
    txn = table.begin()
    assert isinstance(txn, SlateTransaction)
    assert txn.write(frame(spark, 90, 110, extra=1000)) == 20
    early = txn.read(where="id >= 88")
    assert txn.delete("tenant = 'a' AND amount % 4 = 0") == 28  # of 0 to 88 each fourth; 1092, 1096, ...
    assert txn.delete(keys=[("b", 1)]) == 1
    assert ids(early) == list(range(88, 110))
    expected = [i for i in range(110) if i != 1 and not (i % 2 == 0 and (i + (1000 if i >= 90 else 0)) % 4 == 0)]
    seen = txn.read()
    assert seen.schema == table.toDF().schema
    assert txn.read(columns="id, amount", where=F.col("id") == 109).collect() == [(109, 1109)]
    assert txn.get("b", 109)["tags"] == ["x", "109"]  # type: ignore[index]
    assert ids(table.toDF()) == list(range(100))
    rows = sorted(seen.collect())
    assert sorted(row.id for row in rows) == expected
    version = txn.commit()
    assert sorted(table.toDF().collect()) == rows
    assert table.history(1).collect()[0].version == version
    assert len(files(table) - before) <= 4, "what was uploaded before the commit moved it is gone"
    with pytest.raises(InvalidRequestError, match="committed"):
        txn.read()


def test_what_was_locked_is_validated(spark: SparkSession, table: SlateTable) -> None:
    for locked, conflicts in (
        ({"where": "tenant = 'b'"}, False),
        ({"where": F.col("amount") > 95}, True),  # a Column: the whole table
    ):
        txn = table.begin()
        given: dict[str, Any] = locked
        assert txn.getForUpdate(**given).count() > 0
        txn.write(frame(spark, 500, 501))
        load(table, [2])
        if conflicts:
            with pytest.raises(TransactionConflictError, match="tenant='a', id=2"):
                txn.commit()
            txn.rollback()
        else:
            txn.commit()


def test_conditions_see_columns_that_are_not_returned(spark: SparkSession, table: SlateTable) -> None:
    txn = table.begin()
    for where in ("amount >= 3 AND id < 5", "amount % 50 > 2 AND id < 5", F.expr("amount >= 3 AND id < 5")):
        rows = txn.getForUpdate(where=where, columns="ID, _seq", metadataColumns="seq")
        assert (rows.columns, ids(rows)) == (["id", "_seq"], [3, 4])
    assert txn.getForUpdate(keys=[("a", 3)], columns=["amount"]).columns == ["amount"]
    txn.rollback()


@pytest.mark.smoke
def test_errors_keep_their_class(spark: SparkSession, table: SlateTable) -> None:
    before = files(table)
    with pytest.raises(OptionError, match="commit"), table.begin() as txn:
        txn.write(frame(spark, 0, 3), timestamp=1)
    assert txn.state == "rolled back"
    txn = table.begin()
    with pytest.raises(InvalidRequestError, match="None"):
        txn.write(frame(spark, 0, 3).selectExpr("*", "CAST(NULL AS STRING) AS op"), opColumn="op")
    with pytest.raises(OptionError, match="condition"):
        txn.delete()
    with pytest.raises(OptionError, match="filter"):
        txn.read(where="id = 1", filter="id = 1")
    txn.write(frame(spark, 0, 3, extra=5))
    txn.rollback()
    assert ids(table.toDF()) == list(range(100))
    assert len(files(table) - before) <= 3


def test_names_that_spark_would_take_for_a_path(spark: SparkSession, tmp_path: Path) -> None:
    table = SlateTable.create(spark, tmp_path / "names", "`k.1` STRING, `a.b` INT, `x``y` INT, `*` INT", "k.1")
    with table.begin() as transaction:
        transaction.write(spark.sql("SELECT 'a' AS `k.1`, 1 AS `a.b`, 2 AS `x``y`, 3 AS `*`"))
        transaction.write(spark.sql("SELECT 'b' AS `k.1`, 4 AS `a.b`, 5 AS `x``y`, 6 AS `*`"))
        transaction.delete("`a.b` = 4")
    assert table.lookup(spark.sql("SELECT 'a' AS `k.1`")).collect() == [("a", 1, 2, 3)]


def test_columns_are_chosen_as_the_table_spells_them(table: SlateTable) -> None:
    by_text, by_column = "id = 3", F.col("id") == 3
    for where in (None, by_text, by_column):
        assert table.toDF(columns=["ID", "Tenant"], where=where).columns == ["id", "tenant"]
        for wrong in (["nope"], ["id", "ID"]):
            with pytest.raises(SchemaError):
                table.toDF(columns=wrong, where=where)
    with table.begin() as transaction:
        assert transaction.read(["ID"], where=by_column).collect() == [(3,)]
        assert transaction.read(["ID"], where=by_column).columns == ["id"]
