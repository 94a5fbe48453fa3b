"""Filters select the same rows as Spark's `where`: random rows and random filters, evaluated by both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from slatespark import OptionError
from slatespark.encoding.predicates import bind_filter, parse_filter
from slatespark.spark.type_mapping import spark_schema
from tests.support.random_filters import Dice, random_filter, random_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 400
FILTERS = 250  # for each seed, in one query

REFUSED = """
    number = 'x'
    number = '1.0'
    number = true
    number = 1Y2
    number = 128Y
    number = X'01'
    number IN ()
    number = 0.123456789012345678901234567890123456789
    big = 123456789012345678901234567890123456789
    tiny = DATE '2020-01-01'
    price = 'abc'
    double = '1_0'
    double = 1e400
    flag = 'maybe'
    flag = 1
    data = 1
    day = 5
    day = '2020-02-30'
    moment = '2020-02-29 24:00:00'
    moment = '2020-02-29 01:02:03+19:00'
    text LIKE 'a\\\\'
    text LIKE 'a\\\\b%'
    nothing = 1
""".strip().splitlines()


def frame_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    return spark.createDataFrame(rows, spark_schema(rows.schema))


def ours(text: str, rows: pa.Table) -> list[bool]:
    condition = bind_filter(parse_filter(text), rows.schema)
    arrays = {name: rows[name].combine_chunks() for name in condition.columns}
    mask: list[bool] = condition.mask(arrays).tolist()
    return mask


@pytest.mark.parametrize("seed", range(4))
def test_random_filters(spark: SparkSession, seed: int) -> None:
    dice = Dice(seed)
    rows = random_rows(dice, ROWS)
    filters = [random_filter(dice) for _ in range(FILTERS)]
    frame = frame_of(spark, rows).coalesce(1)
    answers = frame.selectExpr(*(f"coalesce({text}, false) AS c{at}" for at, text in enumerate(filters))).toArrow()
    wrong = [text for at, text in enumerate(filters) if answers[f"c{at}"].to_pylist() != ours(text, rows)]
    assert not wrong, f"{len(wrong)} of {FILTERS}: {wrong[:10]}"


def test_where(spark: SparkSession) -> None:
    """The optimiser rewrites expressions in a condition of `where` that it leaves alone elsewhere."""
    dice = Dice(99)
    rows = random_rows(dice, ROWS)
    frame = frame_of(spark, rows).coalesce(1)
    for _ in range(12):
        text = random_filter(dice)
        assert frame.where(text).count() == sum(ours(text, rows)), text


@pytest.mark.parametrize("text", [line.strip() for line in REFUSED])
def test_what_spark_refuses(spark: SparkSession, text: str) -> None:
    rows = random_rows(Dice(5), 20)
    with pytest.raises(Exception, match=r"\w"):
        frame_of(spark, rows).where(text).count()
    with pytest.raises(OptionError):
        ours(text, rows)


def test_where_spark_is_not_followed(spark: SparkSession) -> None:
    """Two rewrites of Spark that differ from SQL; the page on filters names them."""
    rows = pa.table({"number": pa.array([1, None], pa.int32()), "wide": pa.array([2, None], pa.decimal128(38, 0))})
    frame = frame_of(spark, rows)
    for text, theirs, exact in [("number < 1e20BD", 2, 1), ("wide = 1.5", 1, 0)]:
        assert frame.where(text).count() == theirs
        assert sum(ours(text, rows)) == exact
