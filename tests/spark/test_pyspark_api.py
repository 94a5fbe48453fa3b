"""Calls that differ between releases of PySpark, or with the packages next to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkImportError
from pyspark.sql import DataFrame

from slatespark.spark.pyspark_api import ArrowTask, map_in_arrow

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
