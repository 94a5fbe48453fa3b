"""Merges and deletes of random rows, against the same statements as operations of plain DataFrames."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from slatespark import SlateTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "day DATE, place STRING, weight DOUBLE, seen TIMESTAMP, tags ARRAY<STRING>"
KEYS = ["day", "place"]


def random_rows(spark: SparkSession, rng: np.random.Generator, count: int) -> DataFrame:
    """Rows with distinct keys; with NaN, infinities and nulls in the values."""
    keys = {(int(rng.integers(0, 12)), str(rng.choice(["", "a", "b\0", "ä", "\U0001f600"]))) for _ in range(count)}
    rows = [
        (
            number,
            place,
            [None, float("nan"), float("inf"), -0.0, 1.5][int(rng.integers(0, 5))],
            int(rng.integers(-(10**15), 10**15)),
            [None, [], ["x", None]][int(rng.integers(0, 3))],
        )
        for number, place in sorted(keys)
    ]
    frame = spark.createDataFrame(rows, "n INT, place STRING, weight DOUBLE, us BIGINT, tags ARRAY<STRING>")
    return frame.selectExpr(
        "date_add(DATE'1969-12-28', n) AS day", "place", "weight", "timestamp_micros(us) AS seen", "tags"
    )


def values(frame: DataFrame) -> list[str]:
    """The rows as text, where NaN equals itself."""
    return sorted(map(str, frame.select("day", "place", "weight", "seen", "tags").collect()))


@pytest.mark.parametrize("seed", range(2))
def test_statements_do_what_plain_frames_do(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = SlateTable.create(spark, str(tmp_path / "table"), SCHEMA, KEYS)
    target, source = (random_rows(spark, rng, count).cache() for count in (40, 25))
    table.write(target)
    assert values(table.toDF()) == values(target)

    by_key = "t.day = s.day AND t.place = s.place"
    statement = table.alias("t").merge(source.alias("s"), by_key)
    statement = statement.whenMatchedDelete("s.weight IS NULL").whenMatchedUpdateAll("t.weight > s.weight")
    statement = statement.whenNotMatchedInsertAll("s.tags IS NOT NULL")
    statement.whenNotMatchedBySourceUpdate("t.weight > 1", {"tags": "array('far')"}).execute()

    pairs = source.alias("s").join(target.alias("t"), KEYS, "inner")
    deleted = pairs.where("s.weight IS NULL").select(*KEYS)
    updated = pairs.where("s.weight IS NOT NULL AND t.weight > s.weight").select(*KEYS, "s.weight", "s.seen", "s.tags")
    inserted = source.where("tags IS NOT NULL").join(target, KEYS, "left_anti")
    lonely = target.join(source, KEYS, "left_anti").where("weight > 1")
    far = lonely.selectExpr("day", "place", "weight", "seen", "array('far') AS tags")
    changed = deleted.union(updated.select(*KEYS)).union(far.select(*KEYS))
    expected = target.join(changed, KEYS, "left_anti").union(updated).union(far).union(inserted).cache()
    assert values(table.toDF()) == values(expected)

    condition = "isnan(weight) OR seen > '1970-01-01' AND place <> 'a'"
    table.delete(condition)
    assert values(table.toDF()) == values(expected.where(f"NOT coalesce({condition}, false)"))


# --- every type, under names that SQL has to quote -------------------------------------------------------------------

COLUMNS = {
    "k`1": "CAST(id AS DECIMAL(20, 3))",
    "K 2": "DATE'2020-01-01' + CAST(id AS INT)",
    "k.3": "named_struct('a', CAST(id AS STRING), 'b', id % 2 = 0)",
    "even": "id % 2 = 0",
    "tiny": "CAST(id AS TINYINT)",
    "small": "CAST(id AS SMALLINT)",
    "float": "CAST(id AS FLOAT)",
    "bytes": "CAST(CAST(id AS STRING) AS BINARY)",
    "instant": "timestamp_micros(id)",
    "local": "TIMESTAMP_NTZ'2020-01-01 00:00:00'",
    "span": "INTERVAL '1' DAY * id",
    "time": "TIME'12:34:56.789'",
    "x,y": "array(id, NULL)",
    "Ünï": "map('a', id)",
    "part": "named_struct('p', id, 'q', array('z'))",
    "any": """parse_json(concat('{"a":', id, '}'))""",
}


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


@pytest.fixture
def in_berlin(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.timeType.enabled", "true")  # otherwise Spark refuses to join columns of that type
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    yield
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.unset("spark.sql.timeType.enabled")


@pytest.mark.usefixtures("in_berlin")
def test_every_type_under_any_name(spark: SparkSession, tmp_path: Path) -> None:
    columns = [f"{value} AS {quoted(name)}" for name, value in COLUMNS.items()]
    rows = spark.range(20).selectExpr(*columns)
    keys = list(COLUMNS)[:3]
    table = SlateTable.create(spark, str(tmp_path / "table"), rows.schema, keys)
    assert table.toDF().dtypes == rows.dtypes
    table.write(rows)
    assert sorted(map(str, table.toDF().collect())) == sorted(map(str, rows.collect()))

    changes = spark.range(15, 25).selectExpr(*columns).withColumn("small", F.lit(7).cast("smallint"))
    by_key = " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in keys)
    statement = table.alias("t").merge(changes.alias("s"), by_key).whenMatchedUpdateAll("s.even")
    statement = statement.whenMatchedUpdate(set={"x,y": "array()", "t.`Ünï`": "map('b', 1)", "float": "2.5D"})
    statement.whenNotMatchedInsertAll().whenNotMatchedBySourceUpdate("t.tiny = 3", {"tiny": "tiny + 1"}).execute()
    after = table.toDF()
    assert after.count() == 25
    assert after.where("small = 7").count() == 8  # 7 itself, 16, 18, and those inserted
    assert after.where("element_at(`Ünï`, 'b') = 1 AND size(`x,y`) = 0 AND float = 2.5").count() == 3
    assert after.where("tiny = 4").count() == 2
    table.delete("`k.3`.a = '4'")
    assert table.toDF(columns=["x,y"]).count() == 24
    assert table.toDF(columns=["K 2"], where="`k``1` = 5").collect() == [(dt.date(2020, 1, 6),)]
    assert table.get(Decimal(4), dt.date(2020, 1, 5), {"a": "4", "b": True}) is None
