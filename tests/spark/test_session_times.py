"""Times in SQL text: instants where they have an offset, else of the session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from slatespark import SlateTable
from slatespark.spark.sql.queries import instant_ms
from slatespark.spark.sql.session_times import in_session_zone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COLUMNS = "id INT, at TIMESTAMP_LTZ, n STRUCT<at: TIMESTAMP_LTZ, note: STRING>"
_NOON = "TIMESTAMP_LTZ '2024-01-01 12:00:00+00:00'"


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


def test_a_merge_and_an_update_store_instants_whatever_timestamp_means(spark: SparkSession, tmp_path: Path) -> None:
    """Types in SQL text have to name the type that a column has."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    session.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    table = SlateTable.create(session, tmp_path / "t", _COLUMNS, "id")
    noon = f"{_NOON} AS at, named_struct('note', 'n', 'at', {_NOON}) AS n"
    table.write(session.sql("SELECT explode(array(1, 2)) AS id"), mergeSchema=True)
    table.update("id = 1", {"at": _NOON, "n": f"named_struct('note', 'n', 'at', {_NOON})"})
    source = session.sql(f"SELECT explode(array(2, 3)) AS id, {noon}")
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    merge.whenNotMatchedBySourceDelete("t.id = 4").execute()
    found = table.toDF().selectExpr("id", "unix_seconds(at) AS at", "unix_seconds(n.at) AS inner", "n.note")
    assert sorted(found.collect()) == [(number, 1_704_110_400, 1_704_110_400, "n") for number in (1, 2, 3)]
