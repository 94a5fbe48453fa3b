"""Bad input for typed tables through Spark: our error in one line, and the table is unchanged or not created."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.types import StructType

from slatespark import CorruptDataError, InvalidRequestError, OptionError, SchemaError, SlateStore, SlateTable
from tests.support.typed_tables import write_raw

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "table")


@pytest.fixture
def table(spark: SparkSession, path: str) -> Iterator[SlateTable]:
    """A table with one row; the test must leave it unchanged."""
    made = SlateTable.create(spark, path, "k INT NOT NULL, v INT NOT NULL, w STRING, at TIMESTAMP", "k")
    made.write(spark.sql("SELECT 7 AS k, 7 AS v, 'x' AS w, TIMESTAMP '2020-01-01 00:00:00' AS at"))
    before = facts(path)
    yield made
    assert facts(path) == before
    assert SlateStore.open(path).scan(columns="k,v").read_all().to_pylist() == [{"k": 7, "v": 7}]


def facts(path: str) -> list[str]:
    """Manifests and definitions."""
    folder = Path(path)
    return sorted(file.name for place in ("manifest", "slatespark/table") for file in (folder / place).glob("*"))


def save(frame: DataFrame, path: str, **options: str) -> None:
    frame.write.format("slate").mode("append").options(**options).save(path)


@pytest.mark.parametrize(
    ("columns", "key", "message"),
    [
        ("1 AS a", "b", "SchemaError: .*missing"),
        ("1 AS a, NULL AS b", "a", "SchemaError: .*CAST"),
        ("1 AS a, INTERVAL '1' MONTH AS b", "a", "SchemaError: .*INT"),
        ("1 AS a, named_struct('x', array(NULL)) AS b", "a", r"SchemaError: .*b\.x\.element"),
        (
            "array(1) AS a, 1 AS b",
            "a",
            "SchemaError: .*ARRAY",
        ),
        ("map('x', 1) AS a", "a", "SchemaError: .*MAP"),
        ("INTERVAL '1' DAY AS a", "a", "SchemaError: .*INTERVAL"),
        ("parse_json('1') AS a", "a", "SchemaError: .*variant_get"),
        ("'x' COLLATE UTF8_LCASE AS a", "a", "SchemaError: .*UTF8_LCASE"),
        ("1 AS a, 2 AS _seq", "a", "SchemaError: .*_seq"),
        ("1 AS a", "a,A", "OptionError: keyColumns"),
    ],
)
def test_tables_that_cannot_be(spark: SparkSession, path: str, columns: str, key: str, message: str) -> None:
    frame = spark.sql(f"SELECT {columns}")
    with pytest.raises(Exception, match=message):
        save(frame, path, keyColumns=key)
    assert not Path(path).exists()


@pytest.mark.parametrize(
    ("columns", "options", "error", "message"),
    [
        ("1 AS v, 'x' AS w, now() AS at", {}, SchemaError, "[Kk]ey"),
        ("1 AS k, 1 AS v", {}, SchemaError, "mergeSchema"),
        ("CAST(NULL AS INT) AS k, 1 AS v, 'x' AS w, now() AS at", {}, SchemaError, "null"),
        ("1 AS k, CAST(NULL AS INT) AS v, 'x' AS w, now() AS at", {}, SchemaError, "null"),
        ("1 AS k, 'x' AS v, 'x' AS w, now() AS at", {}, SchemaError, "STRING"),
        ("1 AS k, 'x' AS v", {"mergeSchema": True}, SchemaError, "STRING"),
        ("1 AS k, 1 AS v, 'x' AS w, now() AS at", {"keyColumns": "v"}, SchemaError, "columns"),
        ("3000000000 AS k, 1 AS v, 'x' AS w, now() AS at", {}, SchemaError, "BIGINT"),
        ("1 AS k, 1 AS v, CAST(X'ff' AS STRING) AS w, now() AS at", {}, SchemaError, "UTF-8"),
        (
            "1 AS k, 1 AS v, 'x' AS w, localtimestamp() AS at",
            {},
            SchemaError,
            "TIMESTAMP_NTZ",
        ),
        ("1 AS k, 1 AS v, 'x' AS w, now() AS at", {"sequenceColumn": "w"}, OptionError, "sequenceColumn"),
        ("1 AS k, 1 AS v, 'x' AS w, now() AS at", {"ifLastSeq": 0}, Exception, "CommitConflictError|above"),
    ],
)
def test_rows_that_do_not_fit(
    spark: SparkSession, table: SlateTable, columns: str, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        table.write(spark.sql(f"SELECT {columns}"), **options)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("v = 1 OR v = 2", "character 7"),
        ("vv = 1", "'vv'"),
        ("v = ", "literal"),
    ],
)
def test_filters_that_cannot_be(table: SlateTable, condition: str, message: str) -> None:
    acts: list[Callable[[], Any]] = [
        lambda: table.toDF(where=condition),
        lambda: table.toDF(filter=condition),
    ]
    for act in acts:
        with pytest.raises(OptionError, match=message):
            act()


def test_a_schema_without_columns(spark: SparkSession, table: SlateTable, path: str) -> None:
    with pytest.raises(PySparkException, match="SchemaError"):
        spark.read.format("slate").schema(StructType([])).load(path).count()


def test_a_filter_is_never_dropped(spark: SparkSession, path: str) -> None:
    table = SlateTable.create(spark, path, "k INT, v INT", "k")
    table.write(spark.range(3).selectExpr("CAST(id AS INT) AS k", "7 AS v"))
    assert [row.k for row in table.toDF("k, v", filter="k = 1").collect()] == [1]
    assert [row.k for row in table.toDF(where=F.col("k") < 2, filter="k > 0").collect()] == [1]
    with pytest.raises(OptionError, match="filter"):
        table.toDF(where="k = 1", Filter="k = 2")  # type: ignore[call-arg]


def test_rows_that_do_not_decode(spark: SparkSession, path: str) -> None:
    table = SlateTable.create(spark, path, "k INT, v INT", "k")
    table.write(spark.range(3).selectExpr("CAST(id AS INT) AS k", "7 AS v"))
    write_raw(path, pa.table({"key": [b"\x15\x09"], "value": [b"\xc3\x01ABCDEFGH?"]}))
    acts: list[Callable[[], Any]] = [
        lambda: table.toDF().collect(),
        lambda: table.delete("v = 7"),
        lambda: table.merge(table.toDF(), "true").whenMatchedDelete().execute(),
    ]
    before = facts(path)
    for act in acts:
        with pytest.raises(Exception, match="4847464544434241"):
            act()
    with pytest.raises(CorruptDataError):
        table.delete("v = 7")
    assert facts(path) == before
    assert sorted(row.k for row in table.toDF(ignoreUndecodable=True).collect()) == [0, 1, 2]
    assert sorted(row.k for row in table.toDF(columns=["k"]).collect()) == [0, 1, 2, 9]


def test_nan_and_signed_zero_in_keys(spark: SparkSession, path: str) -> None:
    """Spark and the table agree on equality of keys, so writes, merges and deletes hit the same rows."""
    table = SlateTable.create(spark, path, "x DOUBLE, y FLOAT, v INT", ["x", "y"])
    nan = math.nan
    keys = [0.0, -0.0, nan, math.inf, -math.inf, None, -nan, 0.0]
    frame = spark.createDataFrame([(x, x, v) for v, x in enumerate(keys)], "x DOUBLE, y FLOAT, v INT").repartition(
        3, "v"
    )
    table.write(frame, sequenceColumn="v")
    assert [row["v"] for row in SlateStore.open(path).scan().read_all().to_pylist()] == [5, 4, 7, 3, 6]
    source = spark.createDataFrame([(-0.0, 0.0, 70), (nan, nan, 60), (None, None, 50)], "x DOUBLE, y FLOAT, v INT")
    on = F.expr("t.x <=> s.x AND t.y <=> s.y")
    merge = table.alias("t").merge(source.alias("s"), on)
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert [row["v"] for row in SlateStore.open(path).scan().read_all().to_pylist()] == [50, 4, 70, 3, 60]
    twice = spark.createDataFrame([(0.0, 0.5, 1), (-0.0, 0.5, 2)], "x DOUBLE, y FLOAT, v INT")
    with pytest.raises(InvalidRequestError, match="insert"):
        table.alias("t").merge(twice.alias("s"), on).whenNotMatchedInsertAll().execute()
    table.delete(F.col("x") == 0)
    table.delete("x = 'NaN'")
    assert [row["v"] for row in SlateStore.open(path).scan().read_all().to_pylist()] == [50, 4, 3]


def test_times_beyond_the_years_of_python(spark: SparkSession, path: str) -> None:
    """Values that Spark can hold and Python cannot are stored, ordered, found and deleted too."""
    us = [-(2**63), -62_135_596_800_000_001, 0, 253_402_300_800_000_000, 2**63 - 1]
    table = SlateTable.create(spark, path, "at TIMESTAMP, d DATE, n TIMESTAMP_NTZ, v BIGINT", ["at", "d"])
    frame = spark.createDataFrame([(one,) for one in us], "v BIGINT").selectExpr(
        "timestamp_micros(v) AS at",
        "date_from_unix_date(CAST(v DIV 86400000000 AS INT)) AS d",
        "CAST(NULL AS TIMESTAMP_NTZ) AS n",
        "v",
    )
    table.write(frame)
    read = table.toDF().selectExpr("unix_micros(at) AS at", "unix_date(d) AS d", "v").collect()
    assert sorted((row.at, row.v) for row in read) == [(one, one) for one in us]
    found = SlateStore.open(path).scan().read_all()
    assert found["at"].cast(pa.int64()).to_pylist() == found["v"].to_pylist() == us
    assert found["d"].cast(pa.int32()).to_pylist() == sorted(row.d for row in read)
    table.delete("at > TIMESTAMP '9999-12-31 23:59:59.999999'")
    table.delete(F.expr("at < TIMESTAMP '0001-01-01 00:00:00'"))
    assert [row.v for row in table.toDF(columns=["v"]).collect()] == [0]
