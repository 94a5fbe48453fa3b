"""Plans of the expiry report as text: `tests/data/maintenance/expiry.txt`; and cases that text shows badly."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slatespark.format.row import Row, rows_to_columns
from slatespark.table.retention.expiry_plan import (
    PERIODS,
    ExpirySlots,
)
from slatespark.table.retention.expiry_tally import ExpiryTally, count_rows
from slatespark.units import HOUR_MS
from tests.unit.table.retention.test_expiry_plan import DAY_MS

INSTANTS = st.integers(-(2**63), 2**63 - 1)


@given(INSTANTS, st.one_of(INSTANTS, st.integers(-10, 10)), st.sampled_from(["hour", "day"]))
def test_every_instant_has_one_slot(now_ms: int, expire_ts: int, per: str) -> None:
    for instant in {expire_ts, min(now_ms + abs(expire_ts), 2**63 - 1)}:
        slots = ExpirySlots(now_ms, PERIODS[per])
        slot = int(slots.of_times(np.array([instant], np.int64))[0])
        assert slot == slots.of_time(instant)
        assert (slot == 0) == (instant <= now_ms)
        if slot:
            assert slots.start_ms(slot) <= instant
            assert slots.start_ms(slot) % PERIODS[per] == 0
            assert slot == slots.later or instant < slots.start_ms(slot + 1)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 50)), min_size=1, max_size=30), st.integers(1, 2**40))
def test_shares_add_up_and_do_not_depend_on_periods(rows: list[tuple[int, int]], size: int) -> None:
    hours, days = ExpirySlots(0, HOUR_MS), ExpirySlots(0, DAY_MS)
    columns = rows_to_columns([Row(b"k" * length, 1, expire_ts_ms=10 * HOUR_MS * at) for at, length in rows])
    tallies = []
    for slots in (hours, days):
        tally = ExpiryTally.of_slots(slots)
        count_rows(tally, slots.of_rows(columns), columns, np.zeros(1, np.int64), np.array([size], np.int64))
        assert tally.stored_bytes.sum() == size
        assert (tally.stored_bytes >= 0).all()
        tallies.append(tally)
    hourly = tallies[0].by_day(hours)
    assert (hourly.rows == tallies[1].rows).all()
    assert (hourly.stored_bytes == tallies[1].stored_bytes).all()
