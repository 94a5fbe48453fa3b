"""`historyRetention`: reads reach back that far, and what they can no longer ask for goes with the next compaction."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import CommitConflictError, HistoryTrimmedError, OptionError, SlateStore
from slatespark.display.describe_text import describe_text
from slatespark.table.read.versions.floor import HistoryFloors
from slatespark.table.retention import reap_run
from slatespark.table.retention.deletion_time import SKEW_MS
from slatespark.table.retention.history_floor import follow_history_retention
from slatespark.table.stores import open_stores
from slatespark.units import ms_to_text
from tests.support.fake_clock import FakeClock

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
_numbers = count()


class Table:
    """A history table with a version of one key for each of the last five days, and a clock that stands."""

    def __init__(self, **properties: Any) -> None:
        self.clock = FakeClock(NOW_MS)
        url = f"memory://history-floor-{next(_numbers)}/table"
        SlateStore.create(url, **{"history": True, "historyRetention": "3d", "clock": self.clock, **properties})
        self.store = SlateStore.open(url, clock=self.clock)
        days = range(5, 0, -1)
        self.write(*(NOW_MS - day * DAY_MS for day in days))

    def write(self, *times: int) -> int:
        rows = {"key": [b"a"] * len(times), "value": [b"%d" % ts for ts in times], "ts": list(times)}
        return self.store.write(pa.table(rows), timestampColumn="ts")

    def stored_days(self) -> list[int]:
        """The ages of the stored versions, newest first."""
        found = self.store.scan(readVersions="all").read_all()["value"].to_pylist()
        return [(NOW_MS - int(value)) // DAY_MS for value in found]

    def days(self, **options: Any) -> list[int]:
        """The ages of the versions that reads show, newest first."""
        found = self.store.versions(**options).read_all()["value"].to_pylist()
        return [(NOW_MS - int(value)) // DAY_MS for value in found]

    def stored_floor(self) -> int | None:
        return self.store.definition.full_history_ts_low_ms

    def effective_floor(self) -> int | None:
        floors = self.store.detail().history_floors
        assert floors is not None
        return floors.effective_ms


def test_reads_reach_back_that_far_and_no_farther() -> None:
    table = Table()
    floor = NOW_MS - 3 * DAY_MS
    assert table.days() == [1, 2, 3]
    assert table.days(timestampAsOf=floor) == [3]
    for by in (0, 1000):
        table.clock.advance(by)
        with pytest.raises(HistoryTrimmedError, match=ms_to_text(floor + by)):
            table.store.scan(timestampAsOf=floor + by - 1)
    table.clock.advance(DAY_MS)
    assert table.days() == [1, 2]
    assert table.stored_floor() is None
    table.store.setProperties(historyRetention="none")
    assert table.days() == [1, 2, 3, 4, 5], "nothing has gone yet"


def test_a_higher_floor_counts() -> None:
    table = Table()
    table.store.setHistoryFloor(NOW_MS - 2 * DAY_MS)
    assert table.effective_floor() == NOW_MS - 2 * DAY_MS
    table.clock.advance(4 * DAY_MS)
    assert table.effective_floor() == NOW_MS + DAY_MS


def test_a_compaction_drops_what_lies_below() -> None:
    table = Table()
    table.store.createCheckpoint("before")
    table.clock.advance(SKEW_MS)  # by the slowest clock
    table.store.compact(full=True)
    assert table.stored_days() == [1, 2, 3]
    assert table.stored_floor() == NOW_MS - 3 * DAY_MS
    assert table.days(checkpoint="before") == [1, 2, 3, 4, 5], "a chosen version shows what it holds"


def test_a_plan_and_small_steps_change_nothing() -> None:
    table = Table()
    table.store.compact(full=True, dryRun=True)
    assert table.stored_floor() is None
    table.store.compact(full=True)
    first = table.stored_floor()
    table.clock.advance(3 * DAY_MS // 100 - 1)
    table.store.compact(full=True)
    assert table.stored_floor() == first
    table.clock.advance(1)
    table.store.compact(full=True)
    assert table.stored_floor() == NOW_MS - 3 * DAY_MS - SKEW_MS + 3 * DAY_MS // 100


def test_the_reaper_moves_the_floor_too() -> None:
    """Retention of a history table is judged at the floor."""
    table = Table(retention="1d")
    table.clock.advance(SKEW_MS + 3 * DAY_MS)
    report = table.store.reap()
    assert table.stored_floor() == NOW_MS
    assert report.rows == 5


def test_the_reaper_moves_the_floor_after_a_lost_race(monkeypatch: pytest.MonkeyPatch) -> None:
    table, lost = Table(retention="1d"), iter([CommitConflictError("others changed the definition too often", todo="")])
    table.clock.advance(SKEW_MS + 3 * DAY_MS)

    def follow(*given: Any) -> int | None:
        for error in lost:
            raise error
        return follow_history_retention(*given)

    monkeypatch.setattr(reap_run, "follow_history_retention", follow)
    assert table.store.reap().rows == 5


def test_a_clock_of_its_own_counts_in_its_ticks() -> None:
    table = Table(clock="custom", historyRetention=2 * DAY_MS)
    assert table.effective_floor() == NOW_MS - 3 * DAY_MS
    follow_history_retention(open_stores(table.store.url, storage={}), table.clock)
    assert table.stored_floor() == NOW_MS - 3 * DAY_MS
    table.clock.advance(DAY_MS)
    assert table.days() == [1, 2, 3]


def test_late_rows_are_taken_down_to_the_stored_floor() -> None:
    table = Table()
    late = {"key": [b"b"], "value": [b"late"], "ts": [NOW_MS - 9 * DAY_MS]}
    table.store.write(pa.table(late), timestampColumn="ts")
    assert table.store.get(b"b") == {"key": b"b", "value": b"late"}


def test_the_floor_is_shown() -> None:
    table = Table()
    effective = NOW_MS - 3 * DAY_MS
    floors = HistoryFloors(None, effective)
    assert table.store.detail().history_floors == table.store.resolve().history_floors == floors
    text = f"{ms_to_text(effective)} (stored: -)"
    for shown in (describe_text(table.store.detail()), str(table.store), table.store._repr_html_()):
        assert text in shown
    assert f"history floor at {ms_to_text(effective)}" in str(table.store.resolve())
    table.store.setHistoryFloor(effective)
    assert table.store.detail().history_floors == HistoryFloors(effective, effective)
    assert f"history floor     {ms_to_text(effective)}\n" in describe_text(table.store.detail())
    plain = SlateStore.create(f"memory://history-floor-{next(_numbers)}")
    assert plain.detail().history_floors is plain.resolve().history_floors is None
    assert "history floor" not in describe_text(plain.detail())


def test_only_history_tables_have_it() -> None:
    with pytest.raises(OptionError, match="historyRetention"):
        SlateStore.create(f"memory://history-floor-{next(_numbers)}", historyRetention="1d")
    plain = SlateStore.create(f"memory://history-floor-{next(_numbers)}")
    plain.setProperties(historyRetention="none")
    assert follow_history_retention(open_stores(plain.url, storage={}), FakeClock(NOW_MS)) is None


def test_a_row_that_expired_after_the_floor_is_kept_for_reads_before() -> None:
    table = Table()
    rows = {"key": [b"b"], "value": [b"1"], "ts": [NOW_MS - 5 * DAY_MS]}
    table.store.write(pa.table(rows), timestampColumn="ts", ttl="3d")
    table.store.setHistoryFloor(NOW_MS - 3 * DAY_MS)

    def shown() -> list[bytes]:
        found: list[bytes] = table.store.scan(timestampAsOf=NOW_MS - 5 * DAY_MS // 2).read_all()["key"].to_pylist()
        return found

    before = shown()
    table.store.compact(full=True)
    assert shown() == before == [b"a", b"b"]


def test_a_clone_is_not_cut_by_the_retention_of_its_parent(tmp_path: Path) -> None:
    clock = FakeClock(NOW_MS)
    parent = SlateStore.create(str(tmp_path / "parent"), history=True, clock=clock)
    times = [NOW_MS - day * DAY_MS for day in range(5, 0, -1)]
    parent.write(pa.table({"key": [b"a"] * 5, "value": [b"v"] * 5, "ts": times}), timestampColumn="ts")
    parent.clone(str(tmp_path / "clone"))
    shutil.rmtree(tmp_path / "clone" / "slatespark")  # a clone that the client makes has no records
    clone = SlateStore.open(str(tmp_path / "clone"), clock=clock)
    parent.setProperties(historyRetention="2d")
    clock.advance(SKEW_MS + 1)
    clone.compact(full=True)
    assert clone.scan(readVersions="all").read_all().num_rows == 5
    assert clone.definition.full_history_ts_low_ms is None
