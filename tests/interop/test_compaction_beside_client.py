"""`compact(..., ifClientActive="cooperate")`: the live client commits it, and goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slatespark import (
    CommitConflictError,
    HistoryFloorFilter,
    InvalidRequestError,
    SlateStore,
    TransactionConflictError,
    UnavailableError,
)
from slatespark.format.compactions import CompactionStatus
from slatespark.format.references import SstHandle
from slatespark.table.clock import Clock, SystemClock
from slatespark.table.compaction.filter import CompactionFilter, FilterDecisions
from slatespark.table.compaction.merge import MergedRange, RangeTask
from slatespark.table.compaction.ranges import run_here
from slatespark.table.compaction.report import CompactionReport
from slatespark.table.compaction.worker import Worker
from slatespark.table.cooperation.claimed_job import ClaimedJob
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.stores import open_stores
from slatespark.table.upkeep.upkeep import Upkeep
from tests.interop.test_compaction_worker import (
    NOW_MS,
    entries,
    handed_over,
    scheduled_database,
    serving,
    statuses,
    wait_until,
    worker_of,
)
from tests.support.client import Client, ClientOptions, Location, Put, Ttl
from tests.support.client_admin import read_manifest
from tests.support.cooperative_loads import load_beside
from tests.support.live_client import LiveClient, Traffic
from tests.support.model import Model
from tests.support.observers import awaited, check_observers

IDLE = ClientOptions(compactor=True, settings={"compactor_options.worker": None})  # its scheduler plans nothing
BUSY = ClientOptions(compactor=True, compact_by_itself=True)


def fill(client: Client, batches: Sequence[int]) -> None:
    for number in batches:
        client.write([Put(b"%03d" % key, b"%d" % number) for key in range(number, 60)])
        client.flush_memtable()


def cooperate(location: Location, **arguments: Any) -> CompactionReport:
    given = {"ifClientActive": "cooperate", "mergeOperator": "concat", **arguments}
    return SlateStore.open(str(location.folder)).compact(**given)


def layers(location: Location) -> list[str]:
    return [layer.name for layer in SlateStore.open(str(location.folder)).runs()]


@contextmanager
def client_of(folder: Path, options: ClientOptions = IDLE) -> Iterator[Client]:
    with Client.open(Location.local(folder), options) as client:
        yield client


def test_each_kind_of_plan(tmp_path: Path) -> None:
    with client_of(tmp_path / "db") as client:
        location = client.location
        epochs = (read_manifest(location).writer_epoch, read_manifest(location).compactor_epoch)
        fill(client, range(3))
        assert cooperate(location, l0Only=True).jobs[0].destination == 0
        fill(client, range(3))
        assert cooperate(location, l0Only=True).jobs[0].destination == 1
        assert layers(location) == ["run 1", "run 0"]
        fill(client, range(5))
        expected = client.scan()
        report = cooperate(location)
        assert [(job.kind, job.destination) for job in report.jobs] == [("size-tiered", 2)]
        report = cooperate(location, startKey=b"000", endKey=b"010")
        assert [(job.kind, job.destination, job.is_lowest) for job in report.jobs] == [("interval", 0, True)]
        assert layers(location) == ["run 0"]
        fill(client, [0])
        report = cooperate(location, full=True)
        assert [(job.sources, job.destination) for job in report.jobs] == [(("L0", "run 0"), 0)]
        assert report.version == report.jobs[0].version == fetch_version(location)
        assert {row.key for row in client.scan()} == {row.key for row in expected}
        assert (read_manifest(location).writer_epoch, read_manifest(location).compactor_epoch) == epochs
        client.put(b"goes on", b"1")
        client.flush_memtable()
        assert not SlateStore.open(str(location.folder)).verify().has_damage
    history = SlateStore.open(str(location.folder)).history()
    assert [entry.operation for entry in history if entry.engine == "slatespark"] == ["compact"] * 5


def fetch_version(location: Location) -> int:
    return fetch_latest_manifest(open_stores(str(location.folder), storage={})).number


def test_copies_are_written_too(tmp_path: Path) -> None:
    """By the property, and by the call for what a load left without one."""
    SlateStore.create(str(tmp_path / "db"), columnar=True)
    with client_of(tmp_path / "db") as client:
        location = client.location
        store = SlateStore.open(str(location.folder))
        fill(client, range(3))
        [copy] = cooperate(location, full=True).copies
        assert (copy.rows, copy.refused) == (60, None)
        assert store.explain(columns="value").copies == {"from copies": 1}
        load_beside(location.folder, {b"000": b"load", b"~": b"load"})
        assert [file.copy_bytes for file in store.files()] == [None]
        [copy] = cooperate(location, columnar=True).copies
        assert (copy.rows, copy.refused) == (61, None)
        [file] = store.files()
        found = pq.read_table(location.folder / "slatespark/columns" / f"{file.id}.parquet").to_pylist()
        assert [(row["key"], row["value"]) for row in found] == [(row.key, row.value) for row in client.scan()]
        assert store.verify().findings == ()
        assert client.is_open()


def test_an_interval_takes_whole_layers_and_what_lies_between(tmp_path: Path) -> None:
    """L0 views 5 (newest) to 1; only 4 and 2 hold such keys, and the newest stays where it is."""
    with client_of(tmp_path / "db") as client:
        for key in (b"z1", b"a1", b"m1", b"a2", b"z2"):
            client.put(key, b"x")
            client.flush_memtable()
        report = cooperate(client.location, startKey=b"a", endKey=b"b", dryRun=True)
        assert report.jobs[0].sources == ("L0",) * 4
        report = cooperate(client.location, startKey=b"a", endKey=b"b")
        assert (report.jobs[0].sources, report.rows_out) == (("L0",) * 4, 4)
        assert [row.key for row in client.scan()] == [b"a1", b"a2", b"m1", b"z1", b"z2"]
        assert layers(client.location) == ["L0", "run 0"]


class DropOdd(CompactionFilter):
    """Drops keys that end in an odd digit."""

    def decide(self, versions: pa.RecordBatch) -> FilterDecisions:
        odd = [key[-1] % 2 for key in versions["key"].to_pylist()]
        return FilterDecisions(pa.array(["drop" if each else "keep" for each in odd]))


def test_filters_decide_and_wait_for_snapshots(tmp_path: Path) -> None:
    with client_of(tmp_path / "db") as client:
        fill(client, range(2))
        snapshot = client.take_snapshot()
        client.put(b"later", b"0")
        client.flush_memtable()
        assert cooperate(client.location, full=True, filters=[DropOdd()]).filters_waited
        assert len(client.scan()) == 61
        del snapshot
        client.put(b"later", b"1")
        client.flush_memtable()
        report = cooperate(client.location, full=True, filters=[DropOdd()])
        assert report.filtered > 0
        even = [0] * 31
        assert awaited(lambda: [row.key[-1] % 2 for row in client.scan()], even) == even


def test_filters_are_told_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Those of a worker: the client does not know of them, and its rows may go."""
    location = Location.local(tmp_path / "db")
    scheduled_database(location, handed_over())
    with Client.open(location, handed_over()), caplog.at_level("INFO"):
        wait_until(lambda: statuses(location) == [CompactionStatus.SCHEDULED])
        [outcome] = worker_of(location, filters=[DropOdd()]).runOnce()
        assert outcome.report is not None
        [job] = entries(location)
        assert f"filters decide about the rows of compaction {job.id}" in caplog.text


def test_transactions_notice_what_filters_removed(tmp_path: Path) -> None:
    with client_of(tmp_path / "db") as client:
        for key in (b"1", b"2"):
            client.put(key, b"x")
            client.flush_memtable()
        transaction = SlateStore.open(str(tmp_path / "db")).begin()
        assert transaction.getForUpdate([b"1"]).read_all().num_rows == 1
        assert cooperate(client.location, full=True, filters=[DropOdd()]).filtered == 1
    transaction.write(pa.table({"key": [b"copy"], "value": [b"computed"]}))
    with pytest.raises(TransactionConflictError, match="31"):
        transaction.commit()


def test_expired_rows_go_as_in_every_compaction(tmp_path: Path) -> None:
    with client_of(tmp_path / "db") as client:
        client.put(b"stays", b"x")
        client.put(b"gone", b"x", Ttl(after_ms=1))  # last: a flush judges expiry by the newest row
        client.flush_memtable()
        time.sleep(0.005)
        client.put(b"later", b"x")
        client.flush_memtable()
        assert cooperate(client.location, full=True).expired == 1
        left = [b"later", b"stays"]
        assert awaited(lambda: [row.key for row in client.scan()], left) == left


def test_a_floor_filter_raises_the_floor_while_the_client_goes_on(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "db"), history=True)
    for value in (b"1", b"2", b"3"):
        store.write(pa.table({"key": [b"a"], "value": [value]}))
    floor_ms = SystemClock().now_ms()
    with client_of(tmp_path / "db") as client:
        report = cooperate(client.location, full=True, filters=[HistoryFloorFilter(floor_ms)])
        assert (report.rows_in, report.rows_out) == (3, 1)
        assert store.definition.full_history_ts_low_ms == floor_ms
        client.put(b"goes on", b"1")
        client.flush_memtable()


# --- retention --------------------------------------------------------------------------------------------------------


class LongAgo(Clock):
    """Ten days behind."""

    def now_ms(self) -> int:
        return SystemClock().now_ms() - 10 * 86_400_000


def old_row(folder: Path, **properties: Any) -> SlateStore:
    store = SlateStore.create(str(folder), retention="1d", clock=LongAgo(), **properties)
    store.write(pa.table({"key": [b"a"], "value": [b"base"]}))
    return SlateStore.open(str(folder))


def test_rows_past_retention_go_where_nobody_uses_operands(tmp_path: Path) -> None:
    store = old_row(tmp_path / "db")
    with client_of(tmp_path / "db") as client:
        client.put(b"b", b"new")
        client.flush_memtable()
        assert cooperate(client.location, full=True, mergeOperator=None).expired == 1
    assert store.scan(readVersions="all").read_all()["key"].to_pylist() == [b"b"]


@pytest.mark.parametrize("has_operator", [True, False])
def test_an_operand_that_comes_meanwhile_keeps_its_row(has_operator: bool, tmp_path: Path) -> None:
    """It is written, and flushed, while the row is merged: neither the claim nor the newest WAL shows it."""
    store = old_row(tmp_path / "db", **({"mergeOperator": "concat"} if has_operator else {}))
    with client_of(tmp_path / "db") as client:

        def revive() -> None:
            client.merge(b"a", b"+1", Ttl())
            client.flush_memtable()

        arguments = {"full": True, "mergeOperator": None, "runner": during(client.location, revive)}
        if has_operator:
            assert cooperate(client.location, **arguments).expired == 0
        else:
            with pytest.raises(CommitConflictError, match="merge operands were written"):
                cooperate(client.location, **arguments)
        assert client.get(b"a") == b"base+1"
    assert store.scan(mergeOperator="concat").read_all()["value"].to_pylist() == [b"base+1"]


# --- a client with jobs of its own ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_beside_a_client_that_merges_and_writes_all_the_time(tmp_path: Path) -> None:
    location = Location.local(tmp_path / "db")
    options = ClientOptions(compactor=True, compact_by_itself=True, flush_interval="20ms")
    with LiveClient(location, options) as live:
        live.start_writing(
            Traffic(writes_per_s=300, keys=2000, deletes=0.1, merges=0.1, ttls=0.1, past_ttls=0.05, flush_every=15)
        )
        wait_until(lambda: (location.folder / "compactions").exists() and len(entries(location)) > 0)
        done = 0
        for number in range(12):
            try:
                done += len(cooperate(location, full=number % 2 == 0, l0Only=number % 2 == 1).jobs)
            except CommitConflictError:
                continue  # the client had one job after the other
        live.stop_writing()
        assert done >= 6
        check_observers(live, Model(), NOW_MS)
        found = read_manifest(location)
        assert (found.writer_epoch, found.compactor_epoch) == (1, 1)
    assert not SlateStore.open(str(location.folder)).verify().has_damage


def test_a_job_in_the_way_is_waited_for(tmp_path: Path) -> None:
    """The client's scheduler has a job for all L0 views, and a worker comes late."""
    location = Location.local(tmp_path / "db")
    with client_of(tmp_path / "db", handed_over()) as client:
        fill(client, range(4))
        wait_until(lambda: statuses(location) == [CompactionStatus.SCHEDULED])
        with pytest.raises(CommitConflictError, match="scheduled"):
            cooperate(location, full=True, clientTimeout="300ms")
        assert statuses(location) == [CompactionStatus.SCHEDULED], "as it was"
        reports: list[CompactionReport] = []
        waiting = threading.Thread(target=lambda: reports.append(cooperate(location, full=True, force=True)))
        waiting.start()
        with serving(Worker([str(location.folder)], pollInterval="20ms")):
            waiting.join(60)
        assert [job.sources for report in reports for job in report.jobs] == [("run 0",)]
        assert len(client.scan()) == 60


# --- when it fails ----------------------------------------------------------------------------------------------------


def test_no_client_is_there(tmp_path: Path) -> None:
    with client_of(tmp_path / "db") as client:
        fill(client, range(3))
    with pytest.raises(CommitConflictError, match="ifClientActive=fail"):
        cooperate(client.location, full=True, clientTimeout="300ms")
    assert SlateStore.open(str(client.location.folder)).compact(full=True).jobs, "at rest, as the message says"
    with client_of(tmp_path / "db", BUSY) as client:
        assert len(client.scan()) == 60
        fill(client, range(5))
        wait_until(lambda: len(read_manifest(client.location).l0) < 4)


def during(location: Location, hook: Callable[[], object]) -> Any:
    stores = open_stores(str(location.folder), storage={})

    def run(tasks: Sequence[RangeTask]) -> Iterator[MergedRange]:
        yield from run_here(stores, SystemClock(), tasks)
        hook()

    return run


def test_a_failure_leaves_the_client_as_it_was(tmp_path: Path) -> None:
    with client_of(tmp_path / "db") as client:
        fill(client, range(4))
        expected, files = client.scan(), set((client.location.folder / "compacted").iterdir())
        with pytest.raises(ZeroDivisionError):
            cooperate(client.location, full=True, runner=during(client.location, lambda: 1 // 0))
        wait_until(lambda: statuses(client.location) == [CompactionStatus.FAILED])
        assert set((client.location.folder / "compacted").iterdir()) == files
        assert client.scan() == expected
        cooperate(client.location, full=True)
        assert client.scan() == expected


def test_the_client_takes_outputs_although_the_answer_to_the_hand_over_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand_over = ClaimedJob.hand_over

    def lose_the_answer(job: ClaimedJob, outputs: Sequence[SstHandle]) -> None:
        hand_over(job, outputs)
        raise UnavailableError("The answer was lost.")

    monkeypatch.setattr(ClaimedJob, "hand_over", lose_the_answer)
    with client_of(tmp_path / "db") as client:
        fill(client, range(3))
        expected = client.scan()
        with pytest.raises(UnavailableError, match="answer"):
            cooperate(client.location, full=True)
        wait_until(lambda: layers(client.location) == ["run 0"])
        assert client.scan() == expected
    assert not SlateStore.open(str(tmp_path / "db")).verify().findings


def test_the_client_closes_and_another_one_opens(tmp_path: Path) -> None:
    """The claim outlives the client, and the next one commits the result."""
    location = Location.local(tmp_path / "db")
    with client_of(location.folder) as client:
        fill(client, range(4))
        expected = client.scan()
        opened: list[Client] = []

        def reopen() -> None:
            client.close()
            opened.append(Client.open(location, IDLE))

        assert cooperate(location, full=True, runner=during(location, reopen)).jobs
        with opened[0] as later:
            assert later.scan() == expected
            assert layers(location) == ["run 0"]


def test_the_client_closes_for_good(tmp_path: Path) -> None:
    location = Location.local(tmp_path / "db")
    with client_of(location.folder) as client:
        fill(client, range(4))
        expected = client.scan()
        with pytest.raises(CommitConflictError):
            cooperate(location, full=True, clientTimeout="300ms", runner=during(location, client.close))
    with client_of(location.folder) as later:
        wait_until(lambda: statuses(location) == [CompactionStatus.FAILED])
        assert later.scan() == expected


def test_the_upkeep_merges_one_after_the_other(tmp_path: Path) -> None:
    location = Location.local(tmp_path / "db")
    with client_of(location.folder) as client:
        for number in range(4):
            fill(client, [number])
            cooperate(location, l0Only=True)
        before, epochs = client.scan(), shown_epochs(location)
        assert len(layers(location)) == 4
        upkeep = Upkeep([location.folder], duties=["compact"], options={"ifClientActive": "cooperate"})
        upkeep.runOnce()
        assert len(layers(location)) == 1
        assert client.scan() == before
        assert shown_epochs(location) == epochs
        assert client.is_open()


def shown_epochs(location: Location) -> tuple[int, int]:
    manifest = read_manifest(location)
    return manifest.writer_epoch, manifest.compactor_epoch


def test_held_history_is_refused(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "db"), history=True, holdHistory=True)
    store.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    with client_of(tmp_path / "db") as client, pytest.raises(InvalidRequestError):
        cooperate(client.location, full=True, force=True)


def test_a_history_table_keeps_its_versions(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "db"), history=True)
    for number in range(3):
        store.write(pa.table({"key": [b"a"], "value": [b"%d" % number]}))
    with client_of(tmp_path / "db") as client:
        cooperate(client.location, full=True)
        assert client.get(b"a") == b"2"
    assert store.scan(readVersions="all").read_all()["value"].to_pylist() == [b"2", b"1", b"0"]


@pytest.mark.parametrize("by_worker", [False, True])
def test_a_snapshot_sees_what_lies_below_the_floor(by_worker: bool, tmp_path: Path) -> None:
    """The row that it shows, and those that hide it from others, are from before the floor, which was raised later."""
    store = SlateStore.create(str(tmp_path / "db"), history=True)
    store.write(pa.table({"key": [b"z"], "value": [b"ours"]}))
    with LiveClient(Location.local(tmp_path / "db"), handed_over() if by_worker else IDLE) as live:
        live.put(b"a", b"old")
        live.flush_memtable()
        snapshot = live.take_snapshot()
        for number in range(3):
            live.put(b"a", b"%d" % number)
            live.flush_memtable()
        store.setHistoryFloor(SystemClock().now_ms())
        if by_worker:
            wait_until(lambda: CompactionStatus.SCHEDULED in statuses(live.location))
            [outcome] = worker_of(live.location).runOnce()
            assert outcome.report is not None
            assert outcome.report.rows_out == 4
            wait_until(lambda: not read_manifest(live.location).l0)
        else:
            assert cooperate(live.location, full=True).rows_out == 5
        assert live.get(b"a", at=snapshot) == b"old"
        assert live.get(b"a") == b"2"
        live.release(snapshot)
        live.put(b"z", b"theirs")
        live.flush_memtable()
        if not by_worker:
            assert cooperate(live.location, full=True).rows_out == 3, "the newest ones, and one at the floor"
