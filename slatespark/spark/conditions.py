"""SQL conditions of Spark that the option `filter` understands as well, so that a read can skip what they exclude."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from slatespark.encoding.predicates import bind_filter, parse_filter
from slatespark.errors import OptionError, SchemaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UTC: Final = ("UTC", "ETC/UTC", "Z", "GMT", "+00:00")


def is_filter(condition: object, schema: pa.Schema, spark: SparkSession) -> bool:
    """Tell whether a condition is text that means the same as the option `filter`: every row it selects passes that.

    The two differ where Spark is told to: in another time zone than UTC, without ANSI mode, and by settings that change
    what double quotes and backslashes mean.

    Parameters
    ----------
    schema : the columns that may be named
    """
    if not isinstance(condition, str) or str(spark.conf.get("spark.sql.ansi.enabled")).lower() != "true":
        return False
    if '"' in condition or "\\" in condition:
        return False
    try:
        columns = bind_filter(parse_filter(condition), schema).columns
    except (OptionError, SchemaError):
        return False
    in_utc = str(spark.conf.get("spark.sql.session.timeZone")).upper() in _UTC
    return in_utc or not any(pa.types.is_temporal(schema.field(name).type) for name in columns)
