"""Rows that must move above what others committed meanwhile, files that aged, and clocks that disagree."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import ClockRegressionError, CommitConflictError, SlateStore, TableNotFoundError
from slatespark.format.manifest import Manifest
from slatespark.storage.local_store import LocalStore
from slatespark.table.log.manifests import fetch_latest_manifest
from tests.faults.busy_database import check_serves_on, client_pairs, make_busy, our_pairs, upserted
from tests.faults.jobs import Job, Pair, stores_of, table_of
from tests.support.client import Client, ClientOptions, Location, Merge, Put, ScanRow, read_rows
from tests.support.client_admin import collect_garbage
from tests.support.fake_clock import FakeClock
from tests.support.our_reads import our_rows

HOUR_MS = 3_600_000
OURS: list[Pair] = [(b"k002", b"ours"), (b"k050", b"ours")]


def newest(folder: Path) -> Manifest:
    return fetch_latest_manifest(stores_of(LocalStore(folder)))[1]


def changes(count: int) -> pa.Table:
    """Puts of distinct keys, a delete and an operand."""
    puts = [(b"p%04d" % number, b"v%d" % number, "put") for number in range(count)]
    rows = [*puts, (b"gone", None, "delete"), (b"m", b"+ours", "merge")]
    return pa.table(
        {
            "key": pa.array([row[0] for row in rows], pa.binary()),
            "value": pa.array([row[1] for row in rows], pa.binary()),
            "op": [row[2] for row in rows],
        }
    )


@pytest.mark.parametrize("codec", ["none", "snappy", "zlib", "lz4", "zstd"])
def test_rows_move_above_those_that_the_drain_finds(codec: str, tmp_path: Path) -> None:
    folder, ttl_ms, rows = tmp_path / "db", 10 * HOUR_MS, 300
    clock = FakeClock()
    with Client.open(Location.local(folder), ClientOptions()) as client:
        client.write([Put(b"gone", b"1"), Put(b"m", b"base")])
        client.flush_wal()
        clock.advance(-5_000)  # behind the client's, as clocks are
        options: dict[str, Any] = {
            "compression": codec,
            "opColumn": "op",
            "ttl": ttl_ms,
            "blockSize": 1024,
            "sstSize": 4000,
        }
        job = Job(folder, clock, ifClientActive="fence", **options).upload(changes(rows), changes(rows + 50))
        planned = job.plan
        written = [client.put(b"p%04d" % number, b"client") for number in range(20)]
        client.write([Merge(b"m", b"+client"), Put(b"gone", b"again")])
        last = client.put(b"p0019", b"client again")
        client.flush_wal()
        clock.advance(last.create_ts - 5_000 - clock.now_ms())
        record = job.commit()
    assert record is not None
    assert planned.base_seq < written[0].seq
    assert (record.first_seq, record.last_seq) == (last.seq + 1, last.seq + 2)
    assert record.write_time_ms == last.create_ts > planned.create_ts_ms
    found = our_rows(SlateStore.open(str(folder)), now=last.create_ts)
    assert found == read_rows(Location.local(folder))
    by_key = {row.key: row for row in found}
    assert b"gone" not in by_key
    assert by_key[b"m"].value == b"base+client+ours+ours"
    assert by_key.pop(b"m").seq == last.seq + 2
    expire_ts = last.create_ts + ttl_ms
    assert list(by_key.values()) == [
        ScanRow(b"p%04d" % number, b"v%d" % number, last.seq + 2, last.create_ts, expire_ts)
        for number in range(rows + 50)
    ]
    check_serves_on(folder, our_pairs(folder))


def test_a_sibling_moves_rows_before_the_claim(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    rows = make_busy(folder)
    first, second, third = (Job(folder) for _ in range(3))
    for job, name in ((first, b"first"), (second, b"second"), (third, b"third")):
        job.upload(table_of([(b"k002", name), (name, b"1")]), table_of([(b"k003", name)]))
    records = [job.commit() for job in (third, first, second)]
    seqs = [(record.first_seq or 0, record.last_seq or 0) for record in records if record is not None]
    assert all(after[0] > before[1] for before, after in pairwise(seqs))
    names = (b"first", b"second", b"third")
    both = [(b"k002", b"second"), (b"k003", b"second")]
    check_serves_on(folder, upserted(rows, [*both, *((name, b"1") for name in names)]))


def test_a_limit_on_what_a_commit_rewrites(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    rows = make_busy(folder)
    job = Job(folder, commitRewriteLimit=100).upload(table_of(OURS))
    Job(folder).upload(table_of([(b"k002", b"sibling")])).commit()
    with pytest.raises(CommitConflictError, match="commitRewriteLimit"):
        job.commit()
    check_serves_on(folder, upserted(rows, [(b"k002", b"sibling")]))


def test_the_limit_also_holds_after_the_drain(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    with Client.open(Location.local(folder), ClientOptions()) as client:
        client.put(b"a", b"1")
        client.flush_wal()
        job = Job(folder, commitRewriteLimit=100, ifClientActive="fence").upload(table_of(OURS))
        client.put(b"b", b"2")
        client.flush_wal()
        with pytest.raises(CommitConflictError, match="commitRewriteLimit"):
            job.commit()
    check_serves_on(folder, [(b"a", b"1"), (b"b", b"2")])


@pytest.mark.parametrize(("age_ms", "renamed"), [(149_000, False), (151_000, True)])
def test_files_that_aged_get_fresh_ids(age_ms: int, renamed: bool, tmp_path: Path) -> None:
    folder = tmp_path / "db"
    clock = FakeClock()
    clock.advance(-HOUR_MS)
    job = Job(folder, clock, gcMinAge="300s").upload(table_of(OURS), table_of([(b"x" * 10, b"y" * 2000)]))
    uploaded = {file.handle.id for files in job.outputs for file in files}
    clock.advance(age_ms)
    job.commit()
    shown = set(newest(folder).ssts)
    assert shown.isdisjoint(uploaded) == renamed
    assert {ulid.timestamp_ms for ulid in shown} == {clock.now_ms() if renamed else job.plan.planned_ms}
    rows = sorted([*OURS, (b"x" * 10, b"y" * 2000)])
    assert our_pairs(folder) == client_pairs(folder) == rows
    collect_garbage(Location.local(folder))
    check_serves_on(folder, rows)


# --- clocks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flushed", [True, False], ids=["tick in the manifest", "tick in the WAL"])
def test_a_clock_far_behind_the_last_tick_is_refused(flushed: bool, tmp_path: Path) -> None:
    folder = tmp_path / "db"
    with Client.open(Location.local(folder), ClientOptions()) as client:
        tick_ms = client.put(b"a", b"1").create_ts
        client.flush_memtable() if flushed else client.flush_wal()
    clock = FakeClock(tick_ms - HOUR_MS)
    with pytest.raises(ClockRegressionError, match=f"{tick_ms}.*{clock.now_ms()}"):
        Job(folder, clock)
    check_serves_on(folder, [(b"a", b"1")])


@pytest.mark.parametrize("flushed", [True, False], ids=["tick in the manifest", "tick in the WAL"])
def test_a_clock_a_little_behind_writes_at_the_tick(flushed: bool, tmp_path: Path) -> None:
    folder = tmp_path / "db"
    with Client.open(Location.local(folder), ClientOptions()) as client:
        tick_ms = client.put(b"a", b"1").create_ts
        client.flush_memtable() if flushed else client.flush_wal()
    clock = FakeClock(tick_ms - 9_000)
    record = Job(folder, clock).upload(table_of([(b"b", b"2")])).commit()
    assert record is not None
    assert record.write_time_ms == tick_ms
    assert newest(folder).last_l0_clock_tick == tick_ms
    check_serves_on(folder, [(b"a", b"1"), (b"b", b"2")])


def test_a_clock_set_back_during_the_job(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    rows = make_busy(folder)
    clock = FakeClock()
    job = Job(folder, clock).upload(table_of(OURS))
    clock.advance(-2_000)
    job.commit()
    check_serves_on(folder, upserted(rows, OURS))


@pytest.mark.parametrize("flushed", [True, False], ids=["tick in the manifest", "tick in the WAL"])
def test_a_tick_of_the_future_that_appears_during_the_job(flushed: bool, tmp_path: Path) -> None:
    """The other client's clock is an hour ahead of ours: its rows stay, ours would have to be of the future."""
    folder = tmp_path / "db"
    clock = FakeClock()
    clock.advance(-HOUR_MS)
    Job(folder, clock).upload(table_of([(b"a", b"1")])).commit()
    job = Job(folder, clock, ifClientActive="fence").upload(table_of(OURS))
    with Client.open(Location.local(folder), ClientOptions()) as client:
        tick_ms = client.put(b"b", b"2").create_ts
        client.flush_memtable() if flushed else client.flush_wal()
    with pytest.raises(ClockRegressionError, match=f"{tick_ms}.*{clock.now_ms()}"):
        job.commit()
    check_serves_on(folder, [(b"a", b"1"), (b"b", b"2")])


# --- a table that is gone -------------------------------------------------------------------------------------------


def test_a_table_that_vanished_is_not_made_anew(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    make_busy(folder)
    job = Job(folder).upload(table_of(OURS))
    for file in (folder / "manifest").iterdir():
        file.unlink()
    with pytest.raises(TableNotFoundError):
        job.commit()
    with pytest.raises(TableNotFoundError):
        SlateStore.open(str(folder))
