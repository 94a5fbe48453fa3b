"""Times in SQL text: instants where they have an offset, else of the session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from slatespark.spark.sql.queries import instant_ms
from slatespark.spark.sql.session_times import in_session_zone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_text_with_an_offset_is_an_instant_whatever_timestamp_means(spark: SparkSession) -> None:
    """A cast to a timestamp without a zone, which TIMESTAMP is by a setting of Spark, drops the offset."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    session.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    late, noon = "'2024-01-01 00:00:00+02:00'", "TIMESTAMP '2024-01-01 12:00:00'"
    assert [instant_ms(session, text) for text in (late, noon)] == [1_704_060_000_000, 1_704_128_400_000]
    schema = pa.schema([("ts", pa.timestamp("us", tz="UTC"))])
    found = in_session_zone(f"ts >= {late} AND ts < {noon}", schema, session, name="where")
    assert "2023-12-31T22:00:00" in found
    assert "2024-01-01T17:00:00" in found
