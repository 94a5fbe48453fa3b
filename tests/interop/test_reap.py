"""The real client after every kind of pass of a reaping: it reads what is left, writes on, and compacts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import CommitConflictError, Reaper, SlateStore
from slatespark.table.retention.reap_report import ReapReport
from tests.support.client import Client, ClientOptions, Location, Merge, Put, ScanRow, read_rows
from tests.support.client_admin import compact_full
from tests.support.fake_clock import FakeClock
from tests.support.moto_server import MotoServer
from tests.support.moto_server import moto_server as moto_server
from tests.support.our_reads import our_rows

HOUR_MS = 3_600_000
CLIENT = ClientOptions(compactor=True, block_bytes=1024)


def client_goes_on(location: Location, expected: list[ScanRow]) -> None:
    """It sees the rows, writes one more, compacts everything, and sees the same."""
    with Client.open(location, CLIENT) as client:
        assert client.scan() == expected
        assert [client.get(row.key) for row in expected] == [row.value for row in expected]
        client.put(b"~", b"written later")
        compact_full(client)
        assert [row.value for row in client.scan()] == [*(row.value for row in expected), b"written later"]
    assert SlateStore.open(str(location.folder)).verify().has_damage is False


def young(rows: list[ScanRow], until_ms: int) -> list[ScanRow]:
    return [row for row in rows if row.create_ts is None or row.create_ts > until_ms]


def test_rows_of_the_client(tmp_path: Path) -> None:
    """Files without properties of ours, and rows that only the WAL has."""
    location = Location.local(tmp_path / "db")
    with Client.open(location, CLIENT) as client:
        client.write([Put(b"a%02d" % number, b"old") for number in range(30)])
        client.flush_memtable()
        last = client.write([Put(b"b%02d" % number, b"old") for number in range(30)]).create_ts
        compact_full(client)
        while client.put(b"tick", b"x").create_ts <= last:
            pass
        client.write([Put(b"a00", b"new"), Put(b"b00", b"new"), Merge(b"a01", b"+"), Put(b"c", b"new")])
        client.flush_wal()
    store = SlateStore.open(str(location.folder))
    rows = read_rows(location)
    now_ms = max(row.create_ts or 0 for row in rows)
    store.setProperties(retention=f"{now_ms - last}ms")
    kept = young(rows, last)
    assert [row.key for row in kept] == [b"a00", b"a01", b"b00", b"c", b"tick"]
    report = store.reap(now=now_ms)
    assert (report.rows, report.tombstones, report.files_dropped) == (57, 57, 0), "a young operand lies above the file"
    assert our_rows(store, includeExpired=True) == kept
    client_goes_on(location, kept)


def test_rows_that_only_the_wal_has_become_due_too(tmp_path: Path) -> None:
    location = Location.local(tmp_path / "db")
    with Client.open(location) as client:
        first = client.put(b"a", b"x").create_ts
        client.put(b"b", b"x")
        client.flush_wal()
    store = SlateStore.open(str(location.folder), clock=FakeClock(first + HOUR_MS // 2))
    store.setProperties(retention="1h")
    report = store.reap()
    assert (report.rows, report.next_deadline_ms) == (0, first + HOUR_MS)


@pytest.mark.parametrize("kind", ["dropped", "rewritten", "tombstones"])
def test_each_kind_of_pass(kind: str, tmp_path: Path) -> None:
    location, clock = Location.local(tmp_path / "db"), FakeClock()
    clock.advance(-20 * HOUR_MS)
    store = SlateStore.create(str(location.folder), clock=clock, retention="10h")
    write(store, range(60), b"old")
    clock.advance(15 * HOUR_MS)
    if kind == "dropped":
        write(store, range(10), b"new")
    else:
        write(store, range(55, 155) if kind == "tombstones" else range(55, 75), b"new")
        with Client.open(location, CLIENT) as client:
            compact_full(client)
        # Then a file of the client, whose rows have to be looked at.
    before = our_rows(store, includeExpired=True)
    clock.advance(5 * HOUR_MS - 1000)
    report = store.reap()
    assert done(report) == {kind}
    kept = young(before, report.reaped_through_ms or 0)
    assert 0 < len(kept) < len(before)
    assert our_rows(store, includeExpired=True) == kept
    assert read_rows(location) == kept
    client_goes_on(location, kept)


def write(store: SlateStore, numbers: range, value: bytes) -> None:
    store.write(pa.table({"key": [b"k%03d" % number for number in numbers], "value": [value] * len(numbers)}))


def done(report: ReapReport) -> set[str]:
    counts = {
        "dropped": report.files_dropped,
        "rewritten": report.files_rewritten,
        "tombstones": report.tombstones,
    }
    return {name for name, count in counts.items() if count}


def test_a_client_at_work_is_left_in_peace(tmp_path: Path) -> None:
    location, clock = Location.local(tmp_path / "db"), FakeClock()
    clock.advance(-20 * HOUR_MS)
    store = SlateStore.create(str(location.folder), clock=clock, retention="10h")
    write(store, range(5), b"old")
    clock.advance(20 * HOUR_MS)
    with Client.open(location, CLIENT) as client:

        class Busy(FakeClock):
            """Whenever the reaper draws an id for a job, the client writes."""

            def random_bits(self, count: int) -> int:
                client.put(b"busy", b"%d" % count)
                client.flush_wal()
                return super().random_bits(count)

        busy = SlateStore.open(str(location.folder), clock=Busy(clock.now_ms()))
        with pytest.raises(CommitConflictError):
            busy.reap()
        client.put(b"still", b"open")
        client.flush_wal()
        assert len(client.scan()) == 7
    assert store.reap().rows == 5


@pytest.mark.s3
def test_a_reaper_of_tables_in_a_bucket(moto_server: MotoServer) -> None:
    bucket, clock = moto_server.create_bucket("reaped"), FakeClock()
    storage: dict[str, Any] = {**moto_server.options}
    clock.advance(-20 * HOUR_MS)
    urls = [f"{bucket}/{name}" for name in ("ours", "clients")]
    for url in urls:
        store = SlateStore.create(url, clock=clock, retention="10h", **storage)
        write(store, range(30), b"old")
    clock.advance(15 * HOUR_MS)
    for url in urls:
        write(SlateStore.open(url, clock=clock, **storage), range(25, 50), b"new")
    with Client.open(moto_server.location(urls[1]), CLIENT) as client:
        compact_full(client)
    clock.advance(5 * HOUR_MS - 1000)
    outcomes = Reaper(urls, clock=clock, **storage).runOnce()
    assert [done(outcome.report) for outcome in outcomes if outcome.report] == [{"dropped"}, {"tombstones"}]
    for url in urls:
        keys = [row.key for row in read_rows(moto_server.location(url))]
        assert keys == [b"k%03d" % number for number in range(25, 50)]
