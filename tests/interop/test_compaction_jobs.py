"""Compactions of ours beside the real client: it lists them, reads during and after them, and goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from slatedb import uniffi

from slatespark import CommitConflictError, SlateStore
from slatespark.format.compactions import TieredSpec, decode_compactions
from slatespark.options import WriteOptions
from slatespark.table.clock import Clock, SystemClock
from slatespark.table.compaction.job import listed_job
from slatespark.table.compaction.merge import MergedRange, RangeTask
from slatespark.table.compaction.plan import SizeTiers, plan_size_tiered, trees_of
from slatespark.table.compaction.ranges import run_here
from slatespark.table.compaction.report import CompactionReport
from slatespark.table.compaction.request import CompactionRequest
from slatespark.table.compaction.run import compact_table
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.log.manifests import fetch_latest_manifest, fetch_manifest
from slatespark.table.read.planning.layers import fetch_layers
from slatespark.table.stores import TableStores, open_stores
from tests.support.client import Client, ClientOptions, Delete, Location, Merge, Put, ScanRow, read_rows
from tests.support.client_admin import clone_database, collect_garbage, compact_full, list_compactions
from tests.support.fake_clock import FakeClock
from tests.support.our_reads import our_rows

HOUR_MS = 3_600_000
SCHEDULED = ClientOptions(compactor=True, compact_by_itself=True)


def hooked(stores: TableStores, clock: Clock, hook: Callable[[], object]) -> Any:
    """A runner during which something else happens."""

    def run(tasks: Sequence[RangeTask]) -> Iterable[MergedRange]:
        merged = list(run_here(stores, clock, tasks))
        hook()
        return merged

    return run


def client_table(location: Location, batches: int = 5) -> list[ScanRow]:
    """A database at rest with rows, tombstones and operands in L0 views, and in the WAL."""
    with Client.open(location) as client:
        for number in range(batches):
            client.write([Put(b"%03d" % key, b"value %d" % number) for key in range(number, 40)])
            client.write([Delete(b"%03d" % (3 * number)), Merge(b"%03d" % (3 * number + 1), b"+")])
            client.flush_memtable()
        client.put(b"wal", b"only")
        client.flush_wal()
    return read_rows(location)


def overlapping_runs(location: Location) -> SlateStore:
    """A table of four runs that share most of their keys."""
    store = SlateStore.create(str(location.folder))
    for number in range(4):
        keys = [b"%02d" % key for key in range(number, 30)]
        store.write(pa.table({"key": keys, "value": [b"%d" % number] * len(keys)}))
    return store


def compact_during(location: Location, hook: Callable[[], object], **arguments: Any) -> CompactionReport:
    stores, clock = open_stores(str(location.folder), storage={}), SystemClock()
    given = {"path": str(location.folder), "mergeOperator": "concat", **arguments.pop("options", {})}
    options = WriteOptions.parse(given)
    return compact_table(stores, clock, CompactionRequest(**arguments), options, runner=hooked(stores, clock, hook))


@pytest.mark.parametrize("has_runs", [False, True])
def test_the_client_lists_the_job_and_goes_on(tmp_path: Path, has_runs: bool) -> None:
    """While it runs it is listed if it merges runs; its files are spared either way."""
    location = Location.local(tmp_path / "db")
    client_table(location)
    if has_runs:
        SlateStore.open(str(location.folder)).write(pa.table({"key": [b"run"], "value": [b"first"]}))
        client_table(location)
    expected = read_rows(location)
    running: list[Any] = []

    def look() -> None:
        running.extend(list_compactions(location))
        assert read_rows(location) == expected
        collect_garbage(location)  # takes nothing that the job has uploaded

    report = compact_during(location, look, full=True)
    assert [job.status for job in running] == [uniffi.CompactionStatus.RUNNING] * has_runs
    completed = list_compactions(location)
    assert [job.status for job in completed] == [uniffi.CompactionStatus.COMPLETED]
    assert completed[0].id in [job.id for job in running] or not has_runs
    assert report.jobs[0].files_out == 1
    assert read_rows(location) == expected
    with Client.open(location, SCHEDULED) as client:
        assert client.scan() == expected
        for number in range(8):
            client.put(b"later %d" % number, b"x")
            client.flush_memtable()
        wait_until_it_rests(location)
        compact_full(client)
        assert [row.value for row in client.scan()] == values_with_later(expected)
    collect_garbage(location)
    assert [row.value for row in read_rows(location)] == values_with_later(expected)
    assert not SlateStore.open(str(location.folder)).verify().has_damage


def values_with_later(expected: list[ScanRow]) -> list[bytes]:
    rows = {row.key: row.value for row in expected} | {b"later %d" % number: b"x" for number in range(8)}
    return [rows[key] for key in sorted(rows)]


def test_a_client_that_opens_meanwhile_keeps_the_table(tmp_path: Path) -> None:
    location = Location.local(tmp_path / "db")
    expected = client_table(location)

    def open_and_write() -> None:
        with Client.open(location, ClientOptions(compactor=True)) as client:  # which merges nothing by itself
            assert client.scan() == expected
            client.put(b"meanwhile", b"durable")
            client.flush_wal()

    before = set((location.folder / "compacted").iterdir())
    with pytest.raises(CommitConflictError, match="claim"):
        compact_during(location, open_and_write, full=True)
    assert set((location.folder / "compacted").iterdir()) == before, "the outputs are gone"
    store = SlateStore.open(str(location.folder))
    assert {row.key for row in read_rows(location)} == {row.key for row in expected} | {b"meanwhile"}
    assert our_rows(store) == read_rows(location)


def put_durably(client: Client, key: bytes) -> None:
    client.put(key, b"x")  # may be taken: who was fenced finds out when the WAL is written
    client.flush_wal()


def test_a_client_that_opens_meanwhile_is_fenced_on_demand(tmp_path: Path) -> None:
    location = Location.local(tmp_path / "db")
    expected = client_table(location)
    clients: list[Client] = []

    def open_and_write() -> None:
        client = Client.open(location)
        clients.append(client)
        client.put(b"meanwhile", b"durable")
        client.put(expected[0].key, b"newer")
        client.flush_memtable()
        client.put(b"meanwhile", b"newer")
        client.flush_wal()

    compact_during(location, open_and_write, full=True, options={"ifClientActive": "fence"})
    with pytest.raises(uniffi.Error.Closed):
        put_durably(clients[0], b"too late")
    rows = {row.key: row.value for row in read_rows(location)}
    wanted = {row.key: row.value for row in expected} | {b"meanwhile": b"newer", expected[0].key: b"newer"}
    assert rows == wanted
    with Client.open(location, SCHEDULED) as client:
        assert {row.key: row.value for row in client.scan()} == wanted
        compact_full(client)
        assert {row.key: row.value for row in client.scan()} == wanted


def test_the_client_takes_the_job_of_a_process_that_ended(tmp_path: Path) -> None:
    """Its heartbeat is old; a coordinator merges what the sources show by then."""
    location = Location.local(tmp_path / "db")
    store = overlapping_runs(location)
    stores, clock = open_stores(str(location.folder), storage={}), FakeClock()
    clock.advance(-HOUR_MS)
    listed = listed_job(stores, clock, TieredSpec((), (3, 2, 1, 0), 0), f"{7:016x}", is_held=False)
    entered = listed.__enter__()
    entered._ended.set()  # as if killed: no heartbeat follows, and nothing is listed at the end
    store.deleteRange(startKey=b"10", endKey=b"20")
    left = [job.status for job in fetch_compactions(stores)[1].jobs]
    assert left == [], "a commit takes a job off the list that nobody works on"
    expected = read_rows(location)
    with Client.open(location, SCHEDULED) as client:
        assert client.scan() == expected


@pytest.mark.parametrize("takes_over", [False, True])
def test_an_active_job_of_a_dead_process_brings_nothing_back(tmp_path: Path, takes_over: bool) -> None:
    location = Location.local(tmp_path / "db")
    overlapping_runs(location)
    stores, clock = open_stores(str(location.folder), storage={}), FakeClock()
    if takes_over:
        clock.advance(-HOUR_MS)
    entered = listed_job(stores, clock, TieredSpec((), (3, 2, 1, 0), 0), f"{7:016x}", is_held=False).__enter__()
    entered._ended.set()
    expected = read_rows(location)
    with Client.open(location, SCHEDULED) as client:
        client.put(b"z", b"z")
        client.flush_memtable()
        assert client.scan()[:-1] == expected
        if takes_over:
            wait_for_one_run(client)
        assert client.scan()[:-1] == expected
    collect_garbage(location)
    assert read_rows(location)[:-1] == expected


def wait_for_one_run(client: Client) -> None:
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s:
        runs = fetch_latest_manifest(open_stores(str(client.location.folder), storage={}))[1].compacted
        if len(runs) == 1:
            return
        time.sleep(0.02)
    raise TimeoutError("nobody took the job over")


def test_a_client_leaves_a_job_alone_that_holds_history(tmp_path: Path) -> None:
    """Whoever took it over would keep one version of each key."""
    location = Location.local(tmp_path / "db")
    store = SlateStore.create(str(location.folder), history=True, holdHistory=True)
    for number in range(4):
        store.write(pa.table({"key": [b"a"], "value": [b"%d" % number]}))
    stores, clock = open_stores(str(location.folder), storage={}), FakeClock()
    entered = listed_job(stores, clock, TieredSpec((), (3, 2, 1, 0), 0), f"{7:016x}", is_held=True).__enter__()
    entered._ended.set()  # as if killed
    with Client.open(location, SCHEDULED) as client:
        client.put(b"z", b"z")
        client.flush_memtable()
        wait_until_it_rests(location)
        assert [row.value for row in client.scan()] == [b"3", b"z"]
    stored = store.scan(readVersions="all").read_all()["value"].to_pylist()
    assert stored == [b"3", b"2", b"1", b"0", b"z"]
    compact_during(location, lambda: None, full=True)
    assert store.scan(readVersions="all").read_all()["value"].to_pylist() == stored
    (hold,) = fetch_compactions(stores)[1].active_jobs()
    assert hold.worker is not None
    assert hold.worker.worker_id == "slatespark-hold", "the job of the dead process has gone"


def test_a_clone_of_the_client(tmp_path: Path) -> None:
    """Files of the database that it was made from are merged into files of its own; that one stays as it is."""
    parent, clone = Location.local(tmp_path / "db"), Location.local(tmp_path / "clone")
    client_table(parent)
    with Client.open(parent) as client:
        client.flush_memtable()
    expected, files = read_rows(parent), set((parent.folder / "compacted").iterdir())
    clone_database(parent, clone.path)
    report = compact_during(clone, lambda: None, full=True)
    assert (report.jobs[0].files_out, len(SlateStore.open(str(clone.folder)).runs())) == (1, 1)
    assert read_rows(clone) == expected == read_rows(parent)
    assert set((parent.folder / "compacted").iterdir()) == files
    collect_garbage(clone)
    assert read_rows(clone) == expected


@pytest.mark.parametrize("comes", ["before", "meanwhile"])
def test_operands_in_the_wal_keep_rows_past_retention(tmp_path: Path, comes: str) -> None:
    location, clock = Location.local(tmp_path / "db"), FakeClock()
    clock.advance(-20 * HOUR_MS)
    store = SlateStore.create(str(location.folder), clock=clock, retention="10h", mergeOperator="concat")
    store.write(pa.table({"key": [b"a", b"b"], "value": [b"old", b"old"]}))

    def merge() -> None:
        with Client.open(location) as client:
            client.merge(b"a", b"+")
            client.flush_wal()

    if comes == "before":
        merge()
        assert compact_during(location, lambda: None, full=True).expired == 0
    else:
        with pytest.raises(CommitConflictError, match="operands"):
            compact_during(location, merge, full=True, options={"ifClientActive": "fence"})
    store = SlateStore.open(str(location.folder))
    assert store.get(b"a") == {"key": b"a", "value": b"old+"}
    assert store.get(b"b") is None


# --- the scheduler ----------------------------------------------------------------------------------------------------

TIERS = [
    ([100, 30, 9, 3, 1, 1, 1, 1], 0),
    ([1] * 20, 0),
    ([60, 60, 60, 60, 2, 2, 2, 2, 1], 5),
    ([3, 50, 1, 40, 2, 30, 1, 20], 11),
]


@pytest.mark.parametrize(("sizes", "l0"), TIERS)
def test_the_choice_is_that_of_the_scheduler(tmp_path: Path, sizes: list[int], l0: int) -> None:
    """Run by run, oldest first, in KiB; then L0 views. The client's scheduler merges until it rests, job by job."""
    location = Location.local(tmp_path / "db")
    store = SlateStore.create(str(location.folder), autoCompact=False)
    for number, size in enumerate(sizes):
        store.write(pa.table({"key": [b"%03d" % number], "value": [bytes(size << 10)]}))
    with Client.open(location) as client:
        for number in range(l0):
            client.put(b"l0 %d" % number, b"x" * 1000)
            client.flush_memtable()
    stores = open_stores(str(location.folder), storage={})
    opened = fetch_latest_manifest(stores)[0]
    with Client.open(location, SCHEDULED) as client:
        wait_until_nothing_is_due(stores)
        wait_until_it_rests(location)
        client.close()
    planned = [plan_at(stores, version) for version in range(opened, fetch_latest_manifest(stores)[0] + 1)]
    specs = list(dict.fromkeys(plan.spec for plan in planned if plan is not None))
    assert plan_at(stores, fetch_latest_manifest(stores)[0]) is None
    assert specs == scheduled_specs(stores)


def plan_at(stores: TableStores, version: int) -> Any:
    manifest = fetch_manifest(stores, version)
    (tree,) = trees_of(version, manifest, fetch_layers(stores, manifest))
    return plan_size_tiered(tree, SizeTiers())


def scheduled_specs(stores: TableStores) -> list[Any]:
    """The jobs that were ever listed, by their ids."""
    jobs = {
        job.id: job.spec
        for meta in stores.main.list("compactions/")
        for job in decode_compactions(bytes(stores.main.get(meta.path))).jobs
    }
    return [jobs[job_id] for job_id in sorted(jobs, key=lambda each: each.timestamp_ms)]


def wait_until_nothing_is_due(stores: TableStores) -> None:
    deadline_s = time.monotonic() + 60
    while plan_at(stores, fetch_latest_manifest(stores)[0]) is not None:
        assert time.monotonic() < deadline_s, "the scheduler leaves what we would merge"
        time.sleep(0.02)


def wait_until_it_rests(location: Location) -> None:
    quiet = 0
    seen = -1
    while quiet < 20:
        time.sleep(0.02)
        number = fetch_latest_manifest(open_stores(str(location.folder), storage={}))[0]
        quiet, seen = (quiet + 1 if number == seen else 0), number
