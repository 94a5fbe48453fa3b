"""Rows that say when they expire, moved above what others committed: TTLs go along, instants stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slatespark import SlateStore
from slatespark.units import MAX_MS
from tests.faults.jobs import Job, table_of
from tests.support.client import Client, ClientOptions, Location, Put, ScanRow, Ttl, Write, read_rows
from tests.support.fake_clock import FakeClock
from tests.support.our_reads import our_rows
from tests.support.row_expiry import expiring_table

TTL_MS = 3_600_000
LATER_MS = 700


def by_ttl() -> list[Write]:
    return [Put(b"a", b"1", Ttl(after_ms=5_000)), Put(b"b", b"2", Ttl(after_ms=0)), Put(b"c", b"3")]


def by_instant(now_ms: int) -> list[Write]:
    return [Put(b"a", b"1", Ttl(at_ms=now_ms + 5_000)), Put(b"b", b"2", Ttl(at_ms=now_ms - 1)), Put(b"c", b"3")]


def stored(folder: Path) -> list[ScanRow]:
    """The rows of both readers, which agree."""
    found = our_rows(SlateStore.open(str(folder)), includeExpired=True)
    assert found == read_rows(Location.local(folder))
    return found


def raced(folder: Path, writes: list[Write], **options: Any) -> tuple[int, int, list[ScanRow]]:
    """When a job was planned, when a sibling with two tasks got ahead of it, and what is stored in the end."""
    clock = FakeClock()
    clock.advance(-10_000)
    SlateStore.create(str(folder), clock=clock)
    planned_ms = clock.now_ms()
    job = Job(folder, clock, opColumn="op", ttl=TTL_MS, **options)
    job.upload(expiring_table(writes, instants="expireAtColumn" in options))
    clock.advance(LATER_MS)
    Job(folder, clock).upload(table_of([(b"b", b"sibling")]), table_of([(b"d", b"sibling")])).commit()
    assert job.commit() is not None
    return planned_ms, clock.now_ms(), stored(folder)


def test_ttls_go_along_with_their_rows(tmp_path: Path) -> None:
    _, later_ms, rows = raced(tmp_path / "db", by_ttl(), ttlColumn="when")
    assert rows == [
        ScanRow(b"a", b"1", 3, later_ms, later_ms + 5_000),
        ScanRow(b"b", b"2", 3, later_ms, later_ms),
        ScanRow(b"c", b"3", 3, later_ms, later_ms + TTL_MS),
        ScanRow(b"d", b"sibling", 2, later_ms, None),
    ]


def test_of_rows_with_instants_only_seqs_move(tmp_path: Path) -> None:
    now_ms = FakeClock().now_ms()
    planned_ms, later_ms, rows = raced(tmp_path / "db", by_instant(now_ms), expireAtColumn="when")
    assert rows == [
        ScanRow(b"a", b"1", 3, planned_ms, now_ms + 5_000),
        ScanRow(b"b", b"2", 3, planned_ms, now_ms - 1),
        ScanRow(b"c", b"3", 3, planned_ms, planned_ms + TTL_MS),
        ScanRow(b"d", b"sibling", 2, later_ms, None),
    ]


def test_instants_also_stay_where_the_drain_finds_rows(tmp_path: Path) -> None:
    folder, clock = tmp_path / "db", FakeClock()
    at_ms = clock.now_ms() + TTL_MS
    with Client.open(Location.local(folder), ClientOptions()) as client:
        client.put(b"0", b"client")
        client.flush_wal()
        clock.advance(-5_000)
        job = Job(folder, clock, opColumn="op", expireAtColumn="when", ifClientActive="fence")
        created_ms = job.plan.create_ts_ms
        job.upload(expiring_table([Put(b"a", b"1", Ttl(at_ms=at_ms)), Put(b"b", b"2")], instants=True))
        last = client.put(b"a", b"client")
        client.flush_wal()
        record = job.commit()
    assert record is not None
    assert (record.first_seq, record.write_time_ms) == (last.seq + 1, created_ms)
    found = {row.key: row for row in stored(folder)}
    assert found[b"a"] == ScanRow(b"a", b"1", last.seq + 1, created_ms, at_ms)
    assert found[b"b"] == ScanRow(b"b", b"2", last.seq + 1, created_ms, None)


@pytest.mark.parametrize("late", [0, 1, LATER_MS - 1, LATER_MS])
def test_an_expiry_that_moves_beyond_64_bits_never_comes(late: int, tmp_path: Path) -> None:
    clock = FakeClock()
    clock.advance(-10_000)
    ttl_ms = MAX_MS - clock.now_ms() - late
    SlateStore.create(str(tmp_path / "db"), clock=clock)
    job = Job(tmp_path / "db", clock, own_time=True, ttlColumn="when", opColumn="op")
    job.upload(expiring_table([Put(b"a", b"1", Ttl(after_ms=ttl_ms))], instants=False))
    clock.advance(LATER_MS)
    Job(tmp_path / "db", clock).upload(table_of([(b"b", b"sibling")])).commit()
    job.commit()
    expected = MAX_MS if late == LATER_MS else None
    [row, _] = read_rows(Location.local(tmp_path / "db"))
    assert (row.create_ts, row.expire_ts) == (clock.now_ms(), expected)
