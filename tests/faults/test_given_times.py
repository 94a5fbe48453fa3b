"""Writes with a `timestamp` of their own beside others: what would become older than the table is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from slatespark import ClockRegressionError, SlateStore
from slatespark.storage.local_store import LocalStore
from slatespark.table.log.manifests import MAX_AHEAD_MS
from tests.faults.busy_database import check_serves_on
from tests.faults.jobs import Job, table_of
from tests.support.client import Client, ClientOptions, Location, ScanRow, read_rows
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock
from tests.support.our_reads import our_rows


def times(folder: Path) -> list[tuple[bytes, int, int | None]]:
    found = our_rows(SlateStore.open(str(folder)), includeExpired=True)
    assert found == read_rows(Location.local(folder))
    return [(row.key, row.seq, row.create_ts) for row in found]


def new_database(folder: Path) -> FakeClock:
    clock = FakeClock()
    clock.advance(-10_000)
    SlateStore.create(str(folder), clock=clock)
    return clock


@pytest.mark.parametrize("ahead_ms", [0, -1, -1000])
def test_above_a_sibling_with_no_later_time_only_seqs_move(ahead_ms: int, tmp_path: Path) -> None:
    folder = tmp_path / "db"
    at_ms = (clock := new_database(folder)).now_ms() - 50
    job = Job(folder, clock, timestamp=at_ms, ttl=60_000).upload(table_of([(b"a", b"1"), (b"c", b"1")]))
    Job(folder, clock, timestamp=at_ms + ahead_ms).upload(table_of([(b"a", b"2"), (b"b", b"2")])).commit()
    record = job.commit()
    assert record is not None
    assert record.write_time_ms == at_ms
    assert times(folder) == [(b"a", 2, at_ms), (b"b", 1, at_ms + ahead_ms), (b"c", 2, at_ms)]


def test_a_sibling_with_a_later_time_is_a_regression(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    at_ms = (clock := new_database(folder)).now_ms() - 50
    job = Job(folder, clock, timestamp=at_ms).upload(table_of([(b"a", b"1")]))
    Job(folder, clock, timestamp=at_ms + 1).upload(table_of([(b"a", b"2")])).commit()
    with pytest.raises(ClockRegressionError, match=rf"\({at_ms}\).*\({at_ms + 1}\)"):
        job.commit()
    assert times(folder) == [(b"a", 1, at_ms + 1)]
    check_serves_on(folder, [(b"a", b"2")])


@pytest.mark.parametrize("when", ["planned", "committed", "drained"])
def test_the_tick_of_a_client_counts(when: str, tmp_path: Path) -> None:
    folder, clock = tmp_path / "db", FakeClock()
    with Client.open(Location.local(folder), ClientOptions()) as client:
        at_ms = client.put(b"a", b"client").create_ts
        client.flush_wal()
        if when == "planned":
            with pytest.raises(ClockRegressionError, match=rf"\({at_ms - 1}\).*\({at_ms}\)"):
                Job(folder, clock, timestamp=at_ms - 1)
            client.put(b"b", b"client")  # it was left alone
            return
        job = Job(folder, clock, timestamp=at_ms, ifClientActive="fence").upload(table_of([(b"a", b"1")]))
        last = client.put(b"b", b"client")
        while last.create_ts == at_ms:
            last = client.put(b"b", b"client")
        client.flush_memtable() if when == "committed" else client.flush_wal()
        with pytest.raises(ClockRegressionError, match=rf"\({at_ms}\).*\({last.create_ts}\)"):
            job.commit()
    check_serves_on(folder, [(b"a", b"client"), (b"b", b"client")])


@pytest.mark.parametrize("at_ms", [-(10**12), 0, 1_600_000_000_000])
def test_the_client_reads_and_continues(at_ms: int, tmp_path: Path) -> None:
    folder = tmp_path / "db"
    store = SlateStore.create(str(folder))
    store.write(table_of([(b"a", b"1"), (b"b", b"1")]), timestamp=at_ms, ttl=5)
    assert read_rows(Location.local(folder)) == [
        ScanRow(key, b"1", 1, at_ms, at_ms + 5) for key in (b"a", b"b")
    ]  # expired long ago, which the client does not mind
    store.write(table_of([(b"a", b"2"), (b"b", b"2")]), timestamp=at_ms)
    check_serves_on(folder, [(b"a", b"2"), (b"b", b"2")])


@pytest.mark.parametrize("own_time", [False, True])
@pytest.mark.parametrize("exists", [True, False])
def test_a_clock_that_was_set_back_since_the_plan_is_a_regression(exists: bool, own_time: bool, tmp_path: Path) -> None:
    """Nothing is claimed: rows and files of the write would be in the future."""
    folder, clock = tmp_path / "db", FakeClock()
    if exists:
        new_database(folder)
    job = Job(folder, clock, own_time=own_time).upload(table_of([(b"a", b"1")]))
    before = LocalStore(folder).list("manifest/")
    clock.advance(-MAX_AHEAD_MS - 1)
    with pytest.raises(ClockRegressionError, match="set back during the write"):
        job.commit()
    assert LocalStore(folder).list("manifest/") == before
    Job(folder, clock).upload(table_of([(b"a", b"2")])).commit()
    check_serves_on(folder, [(b"a", b"2")])


def test_a_clock_that_is_set_back_under_the_claim_is_a_regression(tmp_path: Path) -> None:
    clock = new_database(tmp_path / "db")
    store = FailingStore(LocalStore(tmp_path / "db"))
    job = Job(store, clock).upload(table_of([(b"a", b"1")]))
    store.run(lambda: clock.advance(-2 * MAX_AHEAD_MS), "create", "wal/*")
    with pytest.raises(ClockRegressionError, match="set back during the write"):
        job.commit()
    Job(store, clock).upload(table_of([(b"a", b"2")])).commit()
    check_serves_on(tmp_path / "db", [(b"a", b"2")])
