"""Loads that a live client commits: who sees what, and how the client goes on.

The client is open in another process. The first part has one test for each line of the table in
docs/explanation/cooperative-writes.md, also for what is not sound: it is documented, so it is asserted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from slatespark import CommitConflictError, HistoryTrimmedError, SlateStore, TransactionConflictError
from slatespark.format.paths import manifest_path
from slatespark.options import WriteOptions
from slatespark.storage.local_store import LocalStore
from slatespark.table.clock import SystemClock
from slatespark.table.commit.expiring_ids import FileGuard
from slatespark.table.compaction import auto, small_runs
from slatespark.table.cooperation import load_commit
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.records.handed_loads import HandedLoad
from slatespark.table.stores import TableStores
from slatespark.table.tasks import running
from slatespark.table.transaction import transaction as transaction_module
from slatespark.table.transaction.transaction import Transaction
from slatespark.table.write import load_commit as write_commit
from slatespark.table.write.load_commit import commit_load
from slatespark.table.write.load_plan import begin_load
from slatespark.table.write.load_task import run_task
from tests.faults.jobs import stores_of
from tests.support.client import ClientOptions, Location, Put, read_rows
from tests.support.client_admin import read_manifest
from tests.support.cooperative_loads import load_beside
from tests.support.live_client import LiveClient
from tests.support.observers import awaited

QUICK: dict[str, Any] = {"compactor_options.poll_interval": "50ms"}
WORKER: dict[str, Any] = {**QUICK, "compactor_options.worker": None}  # every job waits for us
IDLE = ClientOptions(compactor=True, settings=WORKER)  # flushes when it is told


@pytest.fixture
def live(database: Location) -> Iterator[LiveClient]:
    with LiveClient(database, IDLE) as client:
        yield client


def flushed(live: LiveClient, **rows: str) -> None:
    live.write([Put(key.encode(), value.encode()) for key, value in rows.items()])
    live.flush_memtable()


def shows(live: LiveClient, rows: dict[str, str]) -> None:
    def pairs() -> dict[str, str]:
        return {row.key.decode(): row.value.decode() for row in live.scan()}

    assert awaited(pairs, rows) == rows


# --- who sees what --------------------------------------------------------------------------------------------------


def test_a_kept_state_shows_own_loads_at_once(live: LiveClient) -> None:
    """Another thread reads after the last object of ours, and before the client commits."""
    flushed(live, a="old")
    store, has_ended = SlateStore.open(live.location.folder, refresh="1h"), threading.Event()

    def read() -> None:
        while not has_ended.is_set():
            store.get(b"a")

    with running([threading.Thread(target=read)], has_ended.set):
        store.write(pa.table({"key": [b"a"], "value": [b"load"]}), ifClientActive="cooperate")
        assert store.get(b"a") == {"key": b"a", "value": b"load"}


def test_rows_written_after_the_sources_win(live: LiveClient) -> None:
    flushed(live, a="old", b="old", c="old")
    live.put(b"b", b"memtable")
    live.flush_wal()
    live.put(b"c", b"not durable")
    load_beside(
        live.location.folder, {b"a": b"load", b"b": b"load", b"c": b"load"}, unflushedRows="win", clientTimeout="1s"
    )
    shows(live, {"a": "load", "b": "memtable", "c": "not durable"})
    live.flush_memtable()
    shows(live, {"a": "load", "b": "memtable", "c": "not durable"})


def test_operands_of_the_client_fold_onto_the_load(live: LiveClient) -> None:
    flushed(live, a="old")
    live.merge(b"a", b"+1")
    load_beside(live.location.folder, {b"a": b"load"})
    live.merge(b"a", b"+2")
    shows(live, {"a": "load+1+2"})


def test_a_snapshot_below_the_sources_does_not_change(live: LiveClient) -> None:
    flushed(live, a="old", b="old")
    snapshot = live.take_snapshot()
    flushed(live, b="new")
    load_beside(live.location.folder, {b"a": b"load", b"b": b"load", b"c": b"load"})
    assert [(row.key, row.value) for row in live.scan(at=snapshot)] == [(b"a", b"old"), (b"b", b"old")]
    assert [live.get(key, at=snapshot) for key in (b"a", b"b", b"c")] == [b"old", b"old", None]
    shows(live, {"a": "load", "b": "load", "c": "load"})


def test_unflushed_rows_of_the_load_refuse_it(live: LiveClient) -> None:
    flushed(live, a="old")
    live.put(b"a", b"acknowledged")
    live.flush_wal()
    with pytest.raises(CommitConflictError, match="61"):
        load_beside(live.location.folder, {b"a": b"load"}, clientTimeout="1s")
    shows(live, {"a": "acknowledged"})
    load_beside(live.location.folder, {b"b": b"other keys do not matter"}, clientTimeout="10s")


def test_unflushed_rows_may_win(live: LiveClient) -> None:
    """Not the order of time: the row was acknowledged before the load began."""
    flushed(live, a="old", b="old")
    live.put(b"a", b"acknowledged")
    live.flush_wal()
    rows: dict[bytes, bytes | None] = {b"a": b"load", b"b": b"load"}
    load_beside(live.location.folder, rows, clientTimeout="1s", unflushedRows="win")
    shows(live, {"a": "acknowledged", "b": "load"})


def test_a_snapshot_at_the_sources_shows_the_load(live: LiveClient) -> None:
    """Not sound: a snapshot that was opened before the commit changes."""
    flushed(live, a="old")
    snapshot = live.take_snapshot()
    assert live.get(b"a", at=snapshot) == b"old"
    load_beside(live.location.folder, {b"a": b"load"})
    assert awaited(lambda: live.get(b"a", at=snapshot), b"load") == b"load"


def test_a_transaction_at_the_sources_overwrites_the_load(live: LiveClient) -> None:
    """Not sound: a serializable transaction reads, the load is committed, and the transaction loses it."""
    flushed(live, counter="1")
    transaction = live.begin()
    value = live.get_in(transaction, b"counter")
    assert value == b"1"
    load_beside(live.location.folder, {b"counter": b"10"})
    live.put_in(transaction, b"counter", b"%d" % (int(value) + 1))
    live.commit(transaction)
    shows(live, {"counter": "2"})


def test_a_feed_by_number_misses_the_load(live: LiveClient) -> None:
    """No row of the load is in the WAL, nor above the last number that a reader of changes has seen."""
    flushed(live, a="old")
    seen = read_manifest(live.location).last_l0_seq
    wal = sorted(path.name for path in (live.location.folder / "wal").iterdir())
    record = load_beside(live.location.folder, {b"a": b"load", b"b": b"load"})
    assert record.last_seq == seen == read_manifest(live.location).last_l0_seq
    assert sorted(path.name for path in (live.location.folder / "wal").iterdir()) == wal
    assert SlateStore.open(str(live.location.folder)).history(1)[0].operation == "cooperativeWrite"


def rows_as_of(live: LiveClient, **options: Any) -> dict[bytes, bytes]:
    found = SlateStore.open(str(live.location.folder)).scan(**options).read_all()
    return {row["key"]: row["value"] for row in found.to_pylist()}


def test_a_read_as_of_a_number_does_not_change(live: LiveClient) -> None:
    """The load has a number from before, but whoever asks for that gets what was there before the load."""
    flushed(live, a="1", b="1")
    flushed(live, b="2")
    last = SlateStore.open(str(live.location.folder)).resolve().seq
    expected = [{b"a": b"1", b"b": b"2"} if seq == last else rows_as_of(live, seqAsOf=seq) for seq in range(last + 1)]

    def found() -> list[dict[bytes, bytes]]:
        return [rows_as_of(live, seqAsOf=seq) for seq in range(last + 1)]

    assert found() == expected
    assert load_beside(live.location.folder, {b"a": b"load", b"c": b"load"}).first_seq == last
    assert found() == expected
    flushed(live, b="3")
    assert found() == expected
    assert rows_as_of(live, seqAsOf=last + 1) == {b"a": b"load", b"b": b"3", b"c": b"load"}


def test_a_number_is_refused_once_only_the_load_shows_it(live: LiveClient) -> None:
    flushed(live, a="1")
    replaced = {path.name for path in (live.location.folder / "compacted").iterdir()}
    last = SlateStore.open(str(live.location.folder)).resolve().seq
    load_beside(live.location.folder, {b"a": b"load"})
    for name in replaced:  # as the client's collector does, though their version is there
        (live.location.folder / "compacted" / name).unlink()
    with pytest.raises(HistoryTrimmedError, match="load"):
        rows_as_of(live, seqAsOf=last)
    assert rows_as_of(live) == {b"a": b"load"}


def test_a_merge_serves_a_number_whose_files_are_gone(live: LiveClient) -> None:
    flushed(live, a="1", b="1")
    flushed(live, b="2")
    replaced = {path.name for path in (live.location.folder / "compacted").iterdir()}
    store = SlateStore.open(str(live.location.folder))
    last, first_version = store.resolve().seq, store.resolve().version
    store.compact(full=True, ifClientActive="cooperate")
    assert store.resolve(seqAsOf=last).version == first_version
    for name in replaced:
        (live.location.folder / "compacted" / name).unlink()
    assert store.resolve(seqAsOf=last).version > first_version
    assert rows_as_of(live, seqAsOf=last) == {b"a": b"1", b"b": b"2"}


def test_a_read_as_of_an_instant_between_loads(live: LiveClient) -> None:
    """No other version stands for a collected one there, though all of them end with the same number."""
    flushed(live, a="1")
    instants, versions = [], []
    for value in (b"first", b"second"):
        time.sleep(0.01)
        instants.append(SystemClock().now_ms())
        time.sleep(0.01)
        versions.append(load_beside(live.location.folder, {b"a": value}).manifest_id)
    assert [rows_as_of(live, timestampAsOf=at)[b"a"] for at in instants] == [b"1", b"first"]
    for number in range(*versions):
        (live.location.folder / manifest_path(number)).unlink()
    assert rows_as_of(live, timestampAsOf=instants[0]) == {b"a": b"1"}
    with pytest.raises(HistoryTrimmedError):
        rows_as_of(live, timestampAsOf=instants[1])


def test_a_last_sequence_number_does_not_tell_of_the_load(live: LiveClient) -> None:
    """Not sound: what was computed from the old row undoes the load."""
    flushed(live, a="1")
    store = SlateStore.open(str(live.location.folder))
    seq = store.resolve().seq
    load_beside(live.location.folder, {b"a": b"load"})
    assert store.resolve().seq == seq
    store.write(pa.table({"key": [b"a"], "value": [b"2"]}), ifLastSeq=seq, ifClientActive="fence")
    assert store.scan().read_all().to_pylist() == [{"key": b"a", "value": b"2"}]


@pytest.mark.parametrize("recorded", [True, False])
def test_our_transactions_notice_the_load(live: LiveClient, recorded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its record, since the numbers of its rows do not tell; also if the job died before the commit record."""
    flushed(live, a="1", b="1")
    flushed(live, z="1")
    path = str(live.location.folder)
    store = SlateStore.open(path)
    transaction, other = store.begin(ifClientActive="fence"), store.begin(ifClientActive="fence")
    assert transaction.getForUpdate([b"a"]).read_all().num_rows == 1
    assert other.getForUpdate([b"b"]).read_all().num_rows == 1
    if not recorded:

        def forget(stores: TableStores, load: HandedLoad, number: int, now_ms: int) -> CommitRecord:
            return replace(load.record, manifest_id=number)

        monkeypatch.setattr(load_commit, "record_load", forget)
    store.write(pa.table({"key": [b"a"], "value": [b"load"]}), ifClientActive="cooperate")
    with pytest.raises(TransactionConflictError, match="61"):
        rewrite(transaction, b"a")
    rewrite(other, b"b")
    assert {row["key"]: row["value"] for row in store.scan().read_all().to_pylist()} == {
        b"a": b"load",
        b"b": b"2",
        b"z": b"1",
    }


def delete_in_transaction(store: SlateStore) -> None:
    with store.begin(ifClientActive="fence") as transaction:
        transaction.delete("value = X'31'")


CHANGES: dict[str, Callable[[SlateStore], object]] = {
    "delete": lambda store: store.delete("value = X'31'", ifClientActive="fence"),
    "update": lambda store: store.update("value = X'31'", {"value": b"2"}, ifClientActive="fence"),
    "transaction": delete_in_transaction,
}


@pytest.mark.parametrize("name", CHANGES)
def test_our_changes_by_a_condition_notice_the_load(
    name: str, live: LiveClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The load comes right before their commit, and adds a row that they have not read."""
    flushed(live, a="1", b="2")
    loads: Iterator[dict[bytes, bytes | None]] = iter([{b"b": b"1"}])
    for module in (write_commit, transaction_module):
        monkeypatch.setattr(module, "commit_write", behind_loads(live, loads, module.commit_write))
    with pytest.raises(TransactionConflictError, match=r"62|changed"):
        CHANGES[name](SlateStore.open(str(live.location.folder)))
    assert list(loads) == [], "the load was committed"
    shows(live, {"a": "1", "b": "1"})
    assert live.is_open()


def behind_loads(
    live: LiveClient, loads: Iterator[dict[bytes, bytes | None]], commit: Callable[..., Any]
) -> Callable[..., Any]:
    def late(*given: Any, **named: Any) -> Any:
        for rows in loads:
            load_beside(live.location.folder, rows)
        return commit(*given, **named)

    return late


def rewrite(transaction: Transaction, key: bytes) -> None:
    transaction.write(pa.table({"key": [key], "value": [b"2"]}))
    transaction.commit()


def test_a_row_keeps_its_number_through_flushes_and_compactions(live: LiveClient) -> None:
    flushed(live, a="old", z="old")
    record = load_beside(live.location.folder, {b"a": b"load"})
    flushed(live, b="new")
    load_beside(live.location.folder, {b"c": b"load"})
    shows(live, {"a": "load", "b": "new", "c": "load", "z": "old"})
    assert {row.key: row.seq for row in live.scan()}[b"a"] == record.first_seq


def test_readers_follow(live: LiveClient) -> None:
    flushed(live, a="old")
    before = SlateStore.open(str(live.location.folder)).scan()
    load_beside(live.location.folder, {b"a": b"load"})
    assert before.read_all().to_pylist() == [{"key": b"a", "value": b"old"}]
    assert [(row.key, row.value) for row in read_rows(live.location)] == [(b"a", b"load")]


# --- the client goes on ---------------------------------------------------------------------------------------------


def test_no_epoch_moves_and_no_job_stays(live: LiveClient) -> None:
    flushed(live, a="old")
    stores = stores_of(LocalStore(live.location.folder))
    before = fetch_latest_manifest(stores).value
    for number in range(3):
        load_beside(live.location.folder, {b"k%d" % number: b"load"})
    after = fetch_latest_manifest(stores).value
    assert (after.writer_epoch, after.compactor_epoch) == (before.writer_epoch, before.compactor_epoch)
    assert fetch_compactions(stores).value.active_jobs() == ()
    assert list((live.location.folder / "slatespark").glob("le*/*")) == []
    assert list((live.location.folder / "slatespark").glob("loads/*")) == []
    assert live.is_open()


def test_no_client_answers(database: Location) -> None:
    with LiveClient(database, ClientOptions()) as live:  # without a compactor
        flushed(live, a="old")
        with pytest.raises(CommitConflictError, match="fence"):
            load_beside(database.folder, {b"a": b"load"}, clientTimeout="300ms")
        shows(live, {"a": "old"})


def test_a_closed_client_does_not_answer(database: Location) -> None:
    with LiveClient(database, IDLE) as live:
        flushed(live, a="old")
        live.close()
    with pytest.raises(CommitConflictError, match="fence"):
        load_beside(database.folder, {b"a": b"load"}, clientTimeout="300ms")
    with LiveClient(database, IDLE) as live:  # the submitted job was taken back
        flushed(live, b="new")
        load_beside(database.folder, {b"a": b"load"})
        shows(live, {"a": "load", "b": "new"})


def test_nothing_flushed_is_nothing_to_merge_with(live: LiveClient) -> None:
    with pytest.raises(CommitConflictError, match="flushed"):
        load_beside(live.location.folder, {b"a": b"load"}, clientTimeout="300ms")


def test_a_second_load_is_merged_with_the_run_of_the_first(live: LiveClient) -> None:
    flushed(live, a="old", b="old")
    load_beside(live.location.folder, {b"a": b"1", b"c": b"1"})
    assert read_manifest(live.location).l0 == []
    load_beside(live.location.folder, {b"b": None, b"c": b"2"})
    shows(live, {"a": "1", "c": "2"})
    with pytest.raises(CommitConflictError, match="commitRewriteLimit"):
        load_beside(live.location.folder, {b"d": b"3"}, commitRewriteLimit=1, clientTimeout="300ms")


def test_the_files_of_a_load_are_refreshed_after_the_wait_for_its_sources(
    live: LiveClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait may last for `clientTimeout`, and a collector may have removed them since."""
    steps: list[str] = []

    def recorded(step: str, real: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            found = real(*given, **named)
            steps.append(step)
            return found

        return call

    commit = load_commit._LoadCommit
    monkeypatch.setattr(commit, "_await_sources", recorded("sources", commit._await_sources))
    monkeypatch.setattr(FileGuard, "check", recorded("refreshed", FileGuard.check))
    flushed(live, a="1")
    load_beside(live.location.folder, {b"a": b"load"})
    assert steps[:2] == ["sources", "refreshed"]


def test_deletes_of_the_only_rows(live: LiveClient) -> None:
    flushed(live, a="old", b="old")
    load_beside(live.location.folder, {b"a": None, b"b": None})
    shows(live, {})
    load_beside(live.location.folder, {b"a": None})
    shows(live, {})
    flushed(live, b="new")
    load_beside(live.location.folder, {b"a": b"load", b"b": None})
    shows(live, {"a": "load"})


def test_merge_operands(live: LiveClient) -> None:
    flushed(live, a="1", b="1")
    rows: dict[bytes, bytes | None] = {b"a": b"+2", b"c": b"+2"}
    load_beside(live.location.folder, rows, operands=True, mergeOperator="concat")
    live.merge(b"a", b"+3")
    shows(live, {"a": "1+2+3", "b": "1", "c": "+2"})


def test_a_load_over_the_last_task_of_a_write(database: Location) -> None:
    """Its rows are below the newest run, as they overlap the first two tasks nowhere."""
    store, clock = SlateStore.create(str(database.folder)), SystemClock()
    tasks = [pa.table({"key": [*keys], "value": [b"old"] * 2}) for keys in ((b"a", b"f"), (b"d", b"k"), (b"p", b"z"))]
    load = begin_load(store._stores, clock, tasks[0].schema, WriteOptions.parse({"path": str(database.folder)}))
    assert load is not None
    outputs = [run_task(store._stores, clock, load, at, task.to_batches()) for at, task in enumerate(tasks)]
    commit_load(store._stores, clock, load, outputs)
    assert [layer.name for layer in store.runs()] == ["run 1", "run 0"]
    with LiveClient(database, IDLE) as live:
        load_beside(database.folder, {b"p": b"load"})
        load_beside(database.folder, {b"z": b"+1"}, operands=True, mergeOperator="concat")
        rows = {"a": "old", "d": "old", "f": "old", "k": "old", "p": "load", "z": "old+1"}
        shows(live, rows)
        SlateStore.open(str(database.folder)).compact(full=True, mergeOperator="concat", ifClientActive="cooperate")
        shows(live, rows)


def test_operands_of_the_client_need_no_operator(live: LiveClient) -> None:
    flushed(live, a="1")
    live.merge(b"a", b"+2")
    live.flush_memtable()
    load_beside(live.location.folder, {b"b": b"load"})
    shows(live, {"a": "1+2", "b": "load"})


def test_small_runs_of_loads_are_merged_beside_the_client(database: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    """By `autoCompact`, which lets the client commit the merge as it committed the load."""
    for module in (small_runs, auto):
        monkeypatch.setattr(module, "MIN_RUNS", 4)
    SlateStore.create(str(database.folder), autoCompact=True)
    with LiveClient(database, IDLE) as live:
        before = read_manifest(database)
        for number in range(4):
            flushed(live, **{f"c{number}": "client"})
            load_beside(database.folder, {b"l%d" % number: b"load"})
        assert SlateStore.open(str(database.folder)).history(1)[0].operation == "compact"
        after = read_manifest(database)
        assert (len(after.l0), len(after.compacted)) == (0, 1)
        assert (after.writer_epoch, after.compactor_epoch) == (before.writer_epoch, before.compactor_epoch)
        shows(live, {f"c{number}": "client" for number in range(4)} | {f"l{number}": "load" for number in range(4)})
        live.put(b"z", b"still open")
        assert live.is_open()
