"""The demo's scenes about time, on a few rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from slatespark import SlateStore
from slatespark.spark.demo.tables import DemoTables
from slatespark.spark.demo.times import (
    INSTANTS,
    WEATHER_TTL_DAYS,
    expire_weather,
    retire_weather,
    show_timetable,
    undo_delete,
)
from slatespark.table.clock import SystemClock

pytestmark = pytest.mark.spark

DAY_MS = 86_400_000


def test_rows_expire_and_retire_by_when_they_came_in(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([pa.field("origin", pa.string()), pa.field("hour", pa.int32()), pa.field("temp", pa.float64())])
    store = SlateStore.create(str(tmp_path / "weather"), schema, "origin,hour")
    now_ms = SystemClock().now_ms()
    for days_ago, hours in ((20, range(3)), (0, range(3, 5))):
        rows = [{"origin": "JFK", "hour": hour, "temp": 1.5} for hour in hours]
        at_ms = now_ms - days_ago * DAY_MS
        store.write(pa.Table.from_pylist(rows, schema), timestamp=at_ms, ttl=f"{WEATHER_TTL_DAYS}d")
    tables = DemoTables(spark, tmp_path)
    counts = [event.text.split() for event in expire_weather(tables) if event.kind == "result"]
    assert counts == [["now", "weather", "rows", "today", "5", "in", "11", "days", "2", "in", "31", "days", "0"]]
    report, facts = [event.text for event in retire_weather(tables) if event.kind == "result"]
    assert "1 dropped, 0 rewritten" in report
    assert [line.split()[-3] for line in facts.splitlines()[1:]] == ["5", "2", "2"]
    assert store.scan(includeExpired=True).read_all()["hour"].to_pylist() == [3, 4]
    assert not store.verify().has_damage


def test_a_day_as_it_became_known_and_an_undo(spark: SparkSession, tmp_path: Path) -> None:
    """Two flights: one lands, the other is planned for the evening and never leaves."""
    tables = DemoTables(spark, tmp_path)
    rows = spark.sql(
        "SELECT 2013 AS year, 7 AS month, 4 AS day, 'B6' AS carrier, 1 AS flight, 'JFK' AS origin, 'FLL' AS dest, "
        "TIMESTAMP'2013-07-04T12:00:00Z' AS time_hour, 30 AS minute, 15 AS dep_delay, 5 AS arr_delay, 120 AS air_time "
        "UNION ALL SELECT 2013, 7, 4, 'UA', 2, 'EWR', 'ORD', TIMESTAMP'2013-07-04T22:00:00Z', 0, NULL, NULL, NULL"
    )
    tables.write("flights", rows, keyColumns="year,month,day,carrier,flight,origin")
    tables.view("flights")
    before = tables.version("flights")
    _, as_of, flight = [event.text for event in show_timetable(tables) if event.kind == "result"]
    assert [line.split() for line in as_of.splitlines()[1:]] == [
        [INSTANTS[0], "2", "0", "0"],
        [INSTANTS[1], "1", "0", "1"],
        [INSTANTS[2], "1", "0", "1"],
    ]
    assert [line.split() for line in flight.splitlines()[1:]] == [
        ["planned", "2013-07-03", "12:30:00", "2013-07-04", "12:45:00"],
        ["in", "the", "air", "15", "2013-07-04", "12:45:00", "2013-07-04", "14:45:00"],
        ["landed", "5", "2013-07-04", "14:45:00"],
    ]
    tables.table("flights").delete("carrier = 'UA'")
    *_, back = [event.text for event in undo_delete(tables, before)]
    assert back == "2 flights are back."
