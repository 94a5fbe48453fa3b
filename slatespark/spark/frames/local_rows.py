"""Rows of the driver as a DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import StructType

from slatespark.spark.pyspark_api import arrow_frame
from slatespark.spark.shown_times import bounded_ms
from slatespark.spark.type_mapping import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_US = 1000


def local_frame(spark: SparkSession, ddl: str, rows: Sequence[tuple[Any, ...]]) -> DataFrame:
    """Return rows as a DataFrame; Spark reads them without a job, where a list of Python objects needs a Python worker.

    Parameters
    ----------
    ddl : the columns
    rows : times in ms, limited to those that a datetime can hold
    """
    schema = StructType.fromDDL(ddl)
    assert isinstance(schema, StructType)
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [
        pa.array([_arrow_value(value, item.type) for value in column], item.type)
        for column, item in zip(columns, arrow_schema(schema), strict=True)
    ]
    return arrow_frame(spark, pa.table(arrays, schema.names), schema)


def _arrow_value(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_timestamp(kind):
        return bounded_ms(value) * _US
    return list(value.items()) if pa.types.is_map(kind) else value
