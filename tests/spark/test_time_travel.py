"""Time travel through Spark: read options, `SlateTable.toDF`, and the sequence tracker as a DataFrame."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from slatespark import HistoryTrimmedError, OptionError, SlateStore, SlateTable
from slatespark.table.clock import SystemClock
from slatespark.units import ms_to_text
from tests.support.fake_clock import FakeClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.smoke
def test_reads_of_the_past(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    clock = FakeClock(SystemClock().now_ms() - 3_600_000)
    store = SlateStore.create(path, clock=clock)
    then_ms = clock.now_ms()
    for key in (b"a", b"b"):
        store.write(pa.table({"key": [key], "value": [b"v"]}))
        clock.advance(60_000)
    table = SlateTable.forPath(spark, path)
    for options in (
        {"timestampAsOf": then_ms},
        {"timestampAsOf": ms_to_text(then_ms + 59_999)},
        {"seqAsOf": 1},
        {"versionAsOf": 3},
    ):
        assert [row.key for row in spark.read.format("slate").options(**options).load(path).collect()] == [b"a"]
        assert table.toDF(**options).count() == 1
        assert table.get(b"b", **options) is None
        assert table.resolve(**options).seq == 1
    assert [tuple(row) for row in table.sequences().selectExpr("seq", "unix_millis(timestamp)").collect()] == [
        (point.seq, point.time_ms) for point in store.sequences()
    ]
    found = table.timestampToSeq(then_ms + 60_000, round="down")
    assert found is not None
    assert table.seqToTimestamp(found.seq, round="up") is not None
    assert found.seq == 2
    with pytest.raises(OptionError, match="future"):
        table.resolve(timestampAsOf="2100-01-01")
    with pytest.raises(HistoryTrimmedError):
        table.resolve(timestampAsOf=then_ms - 1)
    with pytest.raises(Exception, match="HistoryTrimmedError"):
        spark.read.format("slate").option("timestampAsOf", then_ms - 1).load(path).count()
