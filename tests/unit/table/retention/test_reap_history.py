"""Reaping history tables: instants, and the times of tombstones."""

from __future__ import annotations

from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from slatespark import OptionError, SlateStore
from slatespark.table.commit.commit import commit_write
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.retention import reap_run
from slatespark.table.retention.reap_report import ReapReport
from tests.support.fake_clock import FakeClock

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
_numbers = count()


class Table:
    """A history table with one version of each of some keys, so many days old; in one file if they are merged."""

    def __init__(self, *, merged: bool = True, **days: int) -> None:
        self.clock = FakeClock(NOW_MS)
        url = f"memory://reap-history/{next(_numbers)}"
        self.store = SlateStore.create(
            url, history=True, retention="7d", historyRetention="30d", autoCompact=False, clock=self.clock
        )
        for key, day in days.items():
            self.write(key, day)
        if merged:
            self.store.compact(full=True)

    def write(self, key: str, day: int) -> None:
        rows = {"key": [key.encode()], "value": [b"v"], "ts": [NOW_MS - day * DAY_MS]}
        self.store.write(pa.table(rows), timestampColumn="ts")

    def reap(self, day: int | None = None) -> ReapReport:
        return self.store.reap(now=None if day is None else NOW_MS - day * DAY_MS)

    def stored(self) -> list[tuple[str, str]]:
        rows = self.store.scan(readVersions="all", includeExpired=True).read_all()
        return [(row["key"].decode(), row["_op"]) for row in rows.to_pylist()]


def test_later_rows_of_a_reaped_key_may_be_written() -> None:
    table = Table(old=60, a=1, b=1, c=1)
    report = table.reap()
    assert (report.rows, report.tombstones) == (1, 1)
    table.write("old", 2)
    assert table.store.get(b"old") is not None


def test_tombstones_keep_their_time_above_another_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    table, others = Table(old=60, a=1, b=1, c=1), iter(["other"])

    def commit_later(*args: Any, **options: Any) -> CommitRecord | None:
        for key in others:
            table.clock.advance(30_000)
            table.store.write(pa.table({"key": [key.encode()], "value": [b"v"]}))
        return commit_write(*args, **options)

    monkeypatch.setattr(reap_run, "commit_write", commit_later)
    report = table.reap()
    assert (report.rows, report.tombstones, report.passes) == (1, 1, 1)
    rows = table.store.scan(readVersions="all", columns="key,_op,_create_ts,_seq").read_all().to_pylist()
    times = [(row["_op"], row["_create_ts"].timestamp() * 1000) for row in rows if row["key"] == b"old"]
    assert times == [(op, NOW_MS - 60 * DAY_MS) for op in ("delete", "put")]
    assert max(row["_seq"] for row in rows) > min(row["_seq"] for row in rows if row["key"] == b"other"), "it moved"


def test_a_compaction_removes_a_reaped_row_with_its_tombstone() -> None:
    table = Table(old=60, a=1, b=1, c=1)
    table.reap()
    assert table.stored() == [("a", "put"), ("b", "put"), ("c", "put"), ("old", "delete"), ("old", "put")]
    table.store.compact(full=True, force=True)
    assert table.stored() == [("a", "put"), ("b", "put"), ("c", "put")]


def test_a_longer_retention_does_not_bring_a_reaped_row_back() -> None:
    table = Table(old=60, a=1, b=1, c=1)
    table.reap()
    table.store.setProperties(retention="365d")
    for day in (20, 1):
        seen = table.store.scan(timestampAsOf=NOW_MS - day * DAY_MS).read_all()["key"].to_pylist()
        assert b"old" not in seen


@pytest.mark.parametrize(("day", "gone"), [(55, []), (20, ["a"]), (10, ["a"]), (None, ["a", "b"])])
def test_a_given_instant_judges_the_rows_and_the_floor(day: int | None, gone: list[str]) -> None:
    table = Table(merged=False, a=60, b=45, c=1)
    report = table.reap(day)
    assert report.rows == len(gone)
    assert table.stored() == [(key, "put") for key in "abc" if key not in gone]
    assert [key for key in "abc" if table.store.get(key.encode()) is None] == ["a", "b"], "by retention alone"
    floor_ms = table.store.definition.full_history_ts_low_ms
    assert floor_ms is None or floor_ms <= report.now_ms - 30 * DAY_MS


def test_an_instant_in_the_future_changes_nothing() -> None:
    table = Table(merged=False, a=60)
    before = table.store.definition
    with pytest.raises(OptionError):
        table.reap(-1)
    assert table.store.definition == before
