from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest

from slatespark.encoding.row_codec import RAW_CODEC
from slatespark.spark.shown_times import EARLIEST_MS, LATEST_MS, bounded_ms, with_bounded_times
from slatespark.table.read.arrow import ADDED_TYPES, Projection
from slatespark.units import MAX_MS, MIN_MS


@pytest.mark.parametrize("hours", [-16, -12, 0, 14, 15.5])
def test_every_time_zone_has_a_date_for_the_bounds(hours: float) -> None:
    for ms in (EARLIEST_MS, *([LATEST_MS] if hours <= 14 else [])):
        local = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
        assert local.astimezone(timezone(timedelta(hours=hours))).year in (1, 9999)


@pytest.mark.parametrize("name", ["_expire_ts", "_valid_to", "_commit_timestamp"])
def test_times_that_are_added_are_bounded_and_others_stay(name: str) -> None:
    limit = MAX_MS // 1000 * 1000
    kind = ADDED_TYPES[name]
    times = pa.array([None, -limit, 0, limit], pa.int64()).view(kind)
    projection = Projection(("key", name, "_seq"), codec=RAW_CODEC)
    batch = pa.record_batch([pa.array([b"k"] * 4), times, pa.array(range(4))], schema=projection.schema)
    [shown] = with_bounded_times([batch], projection)
    assert shown.column(1).cast(pa.int64()).to_pylist() == [None, EARLIEST_MS * 1000, 0, LATEST_MS * 1000]
    assert (shown.schema, shown.column(0), shown.column(2)) == (batch.schema, batch.column(0), batch.column(2))
    assert [bounded_ms(ms) for ms in (MIN_MS, 5, MAX_MS)] == [EARLIEST_MS, 5, LATEST_MS]
