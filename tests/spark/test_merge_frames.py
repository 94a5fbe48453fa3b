"""Merges and deletes of random rows, against the same statements as operations of plain DataFrames."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

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
    """The rows as text: NaN is equal to itself there."""
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
