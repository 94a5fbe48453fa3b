"""Calls that differ between releases of PySpark, or with the packages next to it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkImportError
from pyspark.sql import DataFrame

from slatespark.spark.jobs.task_runner import SparkTasks
from slatespark.spark.pyspark_api import ArrowTask, arrow_frame, map_in_arrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def _refuse(*_: Any) -> DataFrame:
    raise PySparkImportError("pandas must be installed")


class Doubled(ArrowTask):
    """A task that is an object, as ours are: PySpark asks functions for their name."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = [2 * number for number in batch.column(0).to_pylist()]
            yield pa.record_batch([pa.array(numbers), batch.column(1)], ["doubled", "text"])


@pytest.mark.smoke
@pytest.mark.parametrize("has_pandas", [True, False])
def test_map_in_arrow_with_and_without_pandas(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, *, has_pandas: bool
) -> None:
    rows = spark.range(0, 4, 1, 2).selectExpr("id", "cast(id AS STRING) AS text")
    if not has_pandas:
        monkeypatch.setattr(type(rows), "mapInArrow", _refuse)
    found = map_in_arrow(rows, Doubled(), "doubled BIGINT, text STRING")
    assert found.columns == ["doubled", "text"]
    assert found.collect() == [(0, "0"), (2, "1"), (4, "2"), (6, "3")]


class Named(ArrowTask):
    """A task that tells the names of its columns."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch([batch.column(0), pa.array([str(batch.schema.names)] * len(batch))], ["id", "names"])


@pytest.mark.smoke
@pytest.mark.parametrize("has_pandas", [True, False])
def test_columns_of_any_name_are_mapped(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, *, has_pandas: bool
) -> None:
    names = ["a.b", "x`y *", "_0"]
    rows = spark.createDataFrame(pa.table([[1, 2], ["one", "two"], [3, 4]], names))
    if not has_pandas:
        monkeypatch.setattr(type(rows), "mapInArrow", _refuse)
    assert map_in_arrow(rows, Named(), "id BIGINT, names STRING").collect() == [(1, str(names)), (2, str(names))]


VALUES = pa.table(
    {
        "id": pa.array([1, 2], pa.int64()),
        "at": pa.array([0, None], pa.timestamp("us", "UTC")),
        "counts": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
        "keys": pa.array([[b"a", b""], None], pa.list_(pa.binary())),
    }
)
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # in the time zone of the session, as PySpark does
DDL = "id BIGINT, at TIMESTAMP_LTZ, counts MAP<STRING, BIGINT>, keys ARRAY<BINARY>"


@pytest.mark.smoke
def test_a_table_of_arrow_with_and_without_a_limit_of_batches(spark: SparkSession) -> None:
    limited, setting = arrow_frame(spark, VALUES, DDL).collect(), "spark.sql.execution.arrow.maxRecordsPerBatch"
    spark.conf.set(setting, "0")
    try:
        found = arrow_frame(spark, VALUES, DDL)
        assert found.collect() == limited
        assert arrow_frame(spark, VALUES.slice(0, 0), DDL).collect() == []
        assert list(SparkTasks(spark)(len, [b"a", b"bc"])) == [1, 2]
    finally:
        spark.conf.unset(setting)
    assert [tuple(row) for row in limited] == [
        (1, EPOCH, {"a": 1}, [bytearray(b"a"), bytearray()]),
        (2, None, {}, None),
    ]
