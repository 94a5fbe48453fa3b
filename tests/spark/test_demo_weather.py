"""The scenes of the demo in which weather expires and retires, on a few rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from slatespark import SlateStore
from slatespark.spark.demo import WEATHER_TTL_DAYS, _Demo
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
    demo = _Demo(spark, tmp_path)
    counts = [event.text.split() for event in demo.expire() if event.kind == "result"]
    assert counts == [["now", "weather", "rows", "today", "5", "in", "11", "days", "2", "in", "31", "days", "0"]]
    report, facts = [event.text for event in demo.retire() if event.kind == "result"]
    assert "1 dropped, 0 rewritten" in report
    assert [line.split()[-3] for line in facts.splitlines()[1:]] == ["5", "2", "2"]
    assert store.scan(includeExpired=True).read_all()["hour"].to_pylist() == [3, 4]
    assert not store.verify().has_damage
