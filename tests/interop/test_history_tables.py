"""History tables and the real client: what its compactor keeps, what it may cost, and what it never touches."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest

from slatespark import CommitConflictError, HistoryTrimmedError, SlateStore
from slatespark.format.compactions import TieredSpec
from slatespark.options import WriteOptions
from slatespark.table.clock import SystemClock
from slatespark.table.commit.commit import commit_write
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.stores import open_stores
from slatespark.table.write.load_run import load_batches
from slatespark.units import ms_to_text
from tests.support.client import Client, ClientOptions, Location, read_rows
from tests.support.client_admin import compact_full

WITH_COMPACTOR = ClientOptions(compactor=True)


@pytest.fixture
def base() -> int:
    """A while ago: times that the client's clock is past."""
    return SystemClock().now_ms() - 3_600_000


@pytest.fixture
def store(database: Location, base: int) -> SlateStore:
    """Key a with a version at each of five seconds from `base` on, a commit each."""
    table = SlateStore.create(str(database.folder), history=True)
    for number in range(5):
        write(table, b"a", base + 1000 * number)
    return table


def write(store: SlateStore, key: bytes, ts: int) -> None:
    store.write(pa.table({"key": [key], "value": [b"%d" % ts], "ts": [ts]}), timestampColumn="ts")


def stored(store: SlateStore) -> list[bytes]:
    values: list[bytes] = store.scan(readVersions="all").read_all()["value"].to_pylist()
    return values


def value_as_of(store: SlateStore, ts: int) -> bytes | None:
    row = store.get(b"a", timestampAsOf=ts)
    return None if row is None else row["value"]


def test_its_compactor_keeps_all_versions_without_a_floor(database: Location, store: SlateStore, base: int) -> None:
    before = stored(store)
    with Client.open(database, WITH_COMPACTOR) as client:
        assert compact_full(client) is not None
    assert stored(store) == before
    assert len(before) == 5


def test_its_compactor_keeps_what_the_floor_needs(database: Location, store: SlateStore, base: int) -> None:
    store.setHistoryFloor(base + 2500)
    write(store, b"b", base + 5000)
    with Client.open(database, WITH_COMPACTOR) as client:
        compact_full(client)
    kept = [int(value) - base for value in stored(store)]
    assert kept == [4000, 3000, 2000, 5000], "the newest version at the floor stays, and all above"
    assert [row.value for row in read_rows(database)] == [b"%d" % (base + 4000), b"%d" % (base + 5000)]


@pytest.mark.parametrize("has_committed", [False, True])
def test_reads_from_before_its_compaction_are_refused(
    database: Location, store: SlateStore, base: int, has_committed: bool
) -> None:
    tick = base + 4000
    with Client.open(database, WITH_COMPACTOR) as client:
        compact_full(client)
    if has_committed:  # which raises the bound for good
        write(store, b"a", base + 6000)
        assert store.definition.lost_through_ms == tick
    for ts in (base, base + 2500, tick - 1):
        with pytest.raises(HistoryTrimmedError, match=ms_to_text(tick)):
            value_as_of(store, ts)
    assert value_as_of(store, tick) == b"%d" % tick
    assert value_as_of(store, base + 5999) == b"%d" % tick
    assert value_as_of(store, base + 6001) == b"%d" % (base + 6000 if has_committed else tick)
    assert [row["value"] for row in store.versions().read_all().to_pylist()][-1] == b"%d" % tick


def test_a_checkpoint_and_its_clone_keep_the_past_that_a_client_drops(
    database: Location, store: SlateStore, base: int
) -> None:
    store.createCheckpoint("whole")
    with Client.open(database, WITH_COMPACTOR) as client:
        compact_full(client)
    write(store, b"a", base + 6000)
    store.setHistoryFloor(base + 6000)
    whole = [b"%d" % (base + 1000 * number) for number in (4, 3, 2, 1, 0)]
    assert store.versions().read_all()["value"].to_pylist() == [b"%d" % (base + 6000)]
    assert store.versions(checkpoint="whole").read_all()["value"].to_pylist() == whole
    copied = store.clone(str(database.folder) + "-clone", checkpoint="whole")
    assert copied.versions().read_all()["value"].to_pylist() == whole
    assert value_as_of(copied, base + 1500) == b"%d" % (base + 1000)


def test_an_as_of_join_sees_what_the_client_wrote(database: Location, store: SlateStore, base: int) -> None:
    with Client.open(database) as client:
        last = client.put(b"a", b"in the WAL").create_ts
        client.flush_wal()
        client.close(flush=False)
    times = [base - 1, base, base + 1999, last - 1, last]
    rows = pa.table({"key": [b"a"] * 5, "at": times})
    found = store.asOf(rows, "at").read_all()["value"].to_pylist()
    assert found == [None, *(b"%d" % (base + 1000 * number) for number in (0, 1, 4)), b"in the WAL"]


def test_a_client_that_only_looked_in_costs_nothing(database: Location, store: SlateStore, base: int) -> None:
    with Client.open(database, WITH_COMPACTOR) as client:
        assert client.get(b"a") == b"%d" % (base + 4000)
        client.put(b"b", b"left in the WAL")
        client.flush_wal()
        client.close(flush=False)
    assert value_as_of(store, base + 1000) == b"%d" % (base + 1000)
    write(store, b"c", base)
    assert store.definition.lost_through_ms is None
    assert value_as_of(store, base + 1000) == b"%d" % (base + 1000)


def test_a_flush_keeps_one_version_of_a_key(database: Location, store: SlateStore, base: int) -> None:
    with Client.open(database) as client:
        client.put(b"a", b"first")
        last = client.put(b"a", b"second").create_ts
        client.flush_wal()
        assert b"first" in stored(store), "both are in the WAL"
        client.flush_memtable()
    assert b"first" not in stored(store)
    with pytest.raises(HistoryTrimmedError, match=ms_to_text(last)):
        value_as_of(store, base + 1000)
    assert value_as_of(store, last) == b"second"


def test_the_client_reads_a_trimmed_table_and_goes_on(database: Location, store: SlateStore, base: int) -> None:
    with Client.open(database) as client:
        client.put(b"z", b"goes, though only the WAL has it")
        client.flush_wal()
        client.close(flush=False)
    store.trimHistory(base + 2000)
    assert [(row.key, row.value) for row in read_rows(database)] == [(b"a", b"%d" % (base + 2000))]
    with Client.open(database, WITH_COMPACTOR) as client:
        client.put(b"a", b"from the client")
        compact_full(client)
        assert client.get(b"a") == b"from the client"
        assert client.get(b"z") is None
    assert store.get(b"a") == {"key": b"a", "value": b"from the client"}
    assert store.verify().findings == ()


SCHEDULING = ClientOptions(compactor=True, compact_by_itself=True)


def wait_for_compaction(store: SlateStore, *, runs: int, patience_s: float) -> int:
    """Give the client's scheduler, which looks every 20 ms, some time; return how many runs there are."""
    deadline_s = time.monotonic() + patience_s
    while time.monotonic() < deadline_s:
        if (found := store.detail().sorted_runs) < runs:
            return found
        time.sleep(0.05)
    return runs


def test_a_hold_keeps_its_scheduler_off_the_runs(database: Location, store: SlateStore, base: int) -> None:
    store.setProperties(holdHistory=True)
    write(store, b"a", base + 5000)
    with Client.open(database, SCHEDULING) as client:
        assert wait_for_compaction(store, runs=6, patience_s=1) == 6
        assert client.get(b"a") == b"%d" % (base + 5000)
    assert value_as_of(store, base + 1000) == b"%d" % (base + 1000)
    write(store, b"b", base)
    [hold] = fetch_compactions(open_stores(store.url, storage={}))[1].active_jobs()
    assert isinstance(hold.spec, TieredSpec)
    assert len(hold.spec.sorted_runs) == 7, "each commit holds what it leaves"
    store.setProperties(holdHistory=False)
    write(store, b"c", base)
    with Client.open(database, SCHEDULING):
        assert wait_for_compaction(store, runs=8, patience_s=60) < 8, "without it, that many runs are compacted"
    assert store.verify().findings == ()


def test_a_load_that_creates_the_table_is_held(database: Location, base: int) -> None:
    rows = pa.table({"key": [b"a", b"a"], "value": [b"1", b"2"], "ts": [base, base + 1]})
    options = {"history": "true", "holdHistory": "true", "timestampColumn": "ts"}
    open_and_write(str(database.folder), rows, options)
    stores = open_stores(str(database.folder), storage={})
    assert len(fetch_compactions(stores)[1].active_jobs()) == 1
    with Client.open(database, SCHEDULING) as client:
        client.put(b"b", b"3")
    assert SlateStore.open(str(database.folder)).get(b"a") == {"key": b"a", "value": b"2"}


def open_and_write(path: str, rows: pa.Table, options: dict[str, str]) -> None:
    parsed = WriteOptions.parse({"path": path, **options})
    load_batches(open_stores(path, storage={}), SystemClock(), rows.schema, rows.to_batches(), parsed)


def test_a_flush_while_a_trim_is_planned_is_a_conflict(
    database: Location, store: SlateStore, base: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row that was to go with the WAL would stay in the new file, and the one that stays would be there twice."""
    with Client.open(database) as client:
        client.put(b"z", b"in the WAL")
        client.flush_wal()
        client.close(flush=False)

    def late(*arguments: Any, **options: Any) -> CommitRecord | None:
        with Client.open(database) as client:
            client.flush_memtable()
        return commit_write(*arguments, **options)

    monkeypatch.setattr("slatespark.table.write.trim.commit_write", late)
    with pytest.raises(CommitConflictError, match="trimmed"):
        store.trimHistory(base + 2000, ifClientActive="fence")
    assert store.get(b"a") == {"key": b"a", "value": b"%d" % (base + 4000)}
