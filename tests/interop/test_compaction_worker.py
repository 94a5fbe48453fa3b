"""The compaction worker beside live clients that hand their compactions over: nobody is fenced, and nothing is lost."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slatespark import OptionError, SlateStore
from slatespark.format.compactions import Compaction, CompactionStatus, TieredSpec
from slatespark.format.ulid import Ulid
from slatespark.table.clock import SystemClock
from slatespark.table.compaction.merge import MergedRange, RangeTask
from slatespark.table.compaction.ranges import run_here
from slatespark.table.compaction.worker import Worker
from slatespark.table.compaction.worker_report import WorkerOutcome
from slatespark.table.cooperation.job_rules import next_job_id, with_job
from slatespark.table.log.compactions import edit_compactions, fetch_compactions
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.stores import TableStores, open_stores
from tests.support.client import Client, ClientOptions, Location, Merge, Put, ScanRow, Ttl
from tests.support.client_admin import clone_database, read_manifest
from tests.support.live_client import LiveClient, Traffic
from tests.support.model import Model
from tests.support.observers import check_observers
from tests.support.workload import FAR_FUTURE_MS

NOW_MS = 2_000_000_000_000  # 2033: later than every write, before the far future
LIMITS = {"l0_max_ssts": 8, "l0_max_ssts_per_key": 8}  # the client's own: without a worker its writer would stall


def handed_over(codec: str | None = None, **settings: object) -> ClientOptions:
    """A client that merges nothing itself."""
    return ClientOptions(
        codec=codec,
        compactor=True,
        compact_by_itself=True,
        flush_interval="20ms",
        settings={"compactor_options.worker": None, **LIMITS, **settings},
    )


def worker_of(*databases: Location, **arguments: Any) -> Worker:
    given = {"pollInterval": "20ms", "mergeOperator": "concat", **arguments}
    return Worker([str(database.folder) for database in databases], **given)


@contextmanager
def serving(*workers: Worker) -> Iterator[list[WorkerOutcome]]:
    """Workers at work; the outcomes of all."""
    outcomes: list[WorkerOutcome] = []
    threads = [threading.Thread(target=worker.run, kwargs={"listener": outcomes.append}) for worker in workers]
    for thread in threads:
        thread.start()
    try:
        yield outcomes
    finally:
        for worker, thread in zip(workers, threads, strict=True):
            worker.stop()
            thread.join()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def entries(location: Location) -> tuple[Compaction, ...]:
    return fetch_compactions(open_stores(str(location.folder), storage={})).value.jobs


def statuses(location: Location) -> list[CompactionStatus]:
    return [job.status for job in entries(location)]


@pytest.mark.slow
def test_clients_write_on_while_we_merge_for_them(tmp_path: Path) -> None:
    """Two databases and two workers; the clients' writers would stall at eight L0 views."""
    locations = [Location.local(tmp_path / name) for name in ("a", "b")]
    workers = [worker_of(*locations), worker_of(*locations, parallelism=1)]
    traffic = Traffic(keys=150, deletes=0.1, merges=0.1, ttls=0.1, past_ttls=0.1, flush_every=15, snapshot_every=50)
    with ExitStack() as stack:
        clients = [
            stack.enter_context(LiveClient(location, handed_over(codec)))
            for location, codec in zip(locations, ("Zstd", None), strict=True)
        ]
        outcomes = stack.enter_context(serving(*workers))
        for live in clients:
            live.start_writing(traffic)
        wait_until(lambda: len(outcomes) > 24)
        for live in clients:
            live.stop_writing()
            check_observers(live, Model(), NOW_MS)
        epochs = [(found.writer_epoch, found.compactor_epoch) for found in map(read_manifest, locations)]
        assert epochs == [(1, 1), (1, 1)], "nobody was fenced"
    reports = [outcome.report for outcome in outcomes if outcome.report is not None]
    assert len(reports) == len(outcomes), [outcome.error for outcome in outcomes]
    assert len({report.job for report in reports}) == len(reports), "no job was done twice"
    assert {report.url for report in reports} == {open_stores(str(each.folder), storage={}).url for each in locations}
    assert sum(status.handed_over for worker in workers for status in worker.status()) == len(reports)
    for location in locations:
        assert not SlateStore.open(str(location.folder)).verify().has_damage


# --- what is kept -----------------------------------------------------------------------------------------------------


def scheduled_database(location: Location, options: ClientOptions) -> None:
    """A database at rest with a scheduled job, and rows of every kind."""
    with Client.open(location, options) as client:
        for number in range(4):
            keys = [b"%03d" % key for key in range(number, 60)]
            client.write([Put(key, b"%d" % number) for key in keys])
            client.put(b"soon %d" % number, b"x", Ttl(after_ms=1))
            client.put(b"late", b"%d" % number, Ttl(at_ms=FAR_FUTURE_MS))
            client.merge(b"sum", b"%d" % number, Ttl())
            client.delete(b"%03d" % (number + 1))
            time.sleep(0.002)
            client.flush_memtable()
        wait_until(lambda: CompactionStatus.SCHEDULED in statuses(location))


def lasting(client: Client) -> list[ScanRow]:
    """What the client shows, but for rows that had expired: it shows them until they are merged."""
    return [row for row in client.scan() if not row.key.startswith(b"soon")]


@pytest.mark.parametrize("codec", [None, "Snappy", "Zlib", "Lz4", "Zstd"])
def test_the_same_versions_as_from_the_clients_own_worker(codec: str | None, tmp_path: Path) -> None:
    theirs, ours = Location.local(tmp_path / "theirs"), Location.local(tmp_path / "ours")
    scheduled_database(theirs, handed_over(codec))
    shutil.copytree(theirs.folder, ours.folder)
    with Client.open(theirs, ClientOptions(codec=codec, compactor=True, compact_by_itself=True)):
        wait_until(lambda: statuses(theirs) == [CompactionStatus.COMPLETED])
    with Client.open(ours, handed_over(codec)), serving(worker_of(ours)) as outcomes:
        wait_until(lambda: statuses(ours) == [CompactionStatus.COMPLETED])
    assert stored(ours) == stored(theirs)
    [outcome] = outcomes
    assert outcome.report is not None
    assert (outcome.report.sources, outcome.report.destination) == (("L0",) * 4, 0)
    made = fetch_latest_manifest(open_stores(str(ours.folder), storage={})).value.ssts.values()
    assert {handle.info.compression.name.lower() for handle in made} == {(codec or "none").lower()}


def stored(location: Location) -> list[dict[str, Any]]:
    store = SlateStore.open(str(location.folder))
    rows = store.scan(readVersions="all", metadataColumns="true").read_all().to_pylist()
    times = ("_create_ts", "_expire_ts")
    return [{name: row[name] is None if name in times else row[name] for name in row} for row in rows]


def test_a_clone_is_merged_from_the_files_of_its_parent(tmp_path: Path) -> None:
    parent, clone = Location.local(tmp_path / "db"), Location.local(tmp_path / "clone")
    with Client.open(parent) as client:
        for number in range(5):
            client.write([Put(b"%03d" % key, b"%d" % number) for key in range(number, 40)])
            client.flush_memtable()
    clone_database(parent, clone.path)
    files = set((parent.folder / "compacted").iterdir())
    with Client.open(clone, handed_over()) as client:
        expected = client.scan()
        with serving(worker_of(clone)) as outcomes:
            wait_until(lambda: statuses(clone) == [CompactionStatus.COMPLETED])
        assert client.scan() == expected
    assert [outcome.error for outcome in outcomes] == [None]
    assert set((parent.folder / "compacted").iterdir()) == files


# --- one after the other ----------------------------------------------------------------------------------------------


def test_once_merges_what_waits(tmp_path: Path) -> None:
    location = Location.local(tmp_path / "db")
    scheduled_database(location, handed_over())
    with Client.open(location, handed_over()):
        wait_until(lambda: statuses(location) == [CompactionStatus.SCHEDULED])
        worker = worker_of(location)
        [outcome] = worker.runOnce()
        assert outcome.report is not None
        assert outcome.report.rows_out < outcome.report.rows_in
        wait_until(lambda: statuses(location) == [CompactionStatus.COMPLETED])
        assert worker.runOnce() == ()
        [status] = worker.status()
        assert (status.handed_over, status.failed, status.last_error) == (1, 0, None)
        assert status.backlog is not None
        assert status.backlog.l0_views == 4, "as at the first look"


def test_operands_need_an_operator(tmp_path: Path) -> None:
    location = Location.local(tmp_path / "db")
    scheduled_database(location, handed_over())
    with Client.open(location, handed_over()):
        wait_until(lambda: statuses(location) == [CompactionStatus.SCHEDULED])
        worker = worker_of(location, mergeOperator=None)
        [outcome] = worker.runOnce()
        assert isinstance(outcome.error, OptionError)
        assert statuses(location) == [CompactionStatus.SCHEDULED], "another worker may have an operator"
        assert worker.runOnce() == (), "it is left alone for a while"
        assert [status.failed for status in worker.status()] == [1]


def publish(stores: TableStores, job: Compaction) -> None:
    edit_compactions(stores, SystemClock(), lambda listed: with_job(listed, job))


def test_a_job_without_its_sources_is_released_and_then_failed(tmp_path: Path) -> None:
    """Else it would be scheduled for ever, and no L0 view would be merged beside it."""
    location = Location.local(tmp_path / "db")
    with Client.open(location, handed_over()) as client:
        for number in range(3):
            client.put(b"%d" % number, b"x")
            client.flush_memtable()
        stores = open_stores(str(location.folder), storage={})
        manifest = fetch_latest_manifest(stores).value
        spec = TieredSpec(tuple(view.id for view in manifest.l0), (), 0)
        listed = fetch_compactions(stores).value
        job = Compaction(next_job_id(manifest, listed, SystemClock()), spec, CompactionStatus.SUBMITTED)
        publish(stores, job)
        wait_until(lambda: statuses(location) == [CompactionStatus.SCHEDULED])
        without = replace(spec, l0_view_ids=(*spec.l0_view_ids, Ulid(7)))
        publish(stores, replace(job, spec=without, status=CompactionStatus.SCHEDULED))
        worker = worker_of(location)
        assert worker.runOnce() == ()
        assert statuses(location) == [CompactionStatus.SCHEDULED]
        assert worker.runOnce() == ()
        wait_until(lambda: statuses(location) == [CompactionStatus.FAILED])
        assert len(client.scan()) == 3


def test_a_database_that_is_not_there_does_not_stop_the_others(tmp_path: Path) -> None:
    there, missing = Location.local(tmp_path / "there"), Location.local(tmp_path / "missing")
    scheduled_database(there, handed_over())
    with Client.open(there, handed_over()):
        wait_until(lambda: statuses(there) == [CompactionStatus.SCHEDULED])
        outcomes = worker_of(missing, there).runOnce()
    assert sorted(outcome.error is None for outcome in outcomes) == [False, True]


# --- stopping ---------------------------------------------------------------------------------------------------------


class Held:
    """A runner that waits before it returns."""

    parallelism = 1

    def __init__(self, location: Location) -> None:
        self.stores = open_stores(str(location.folder), storage={})
        self.has_merged, self.may_go = threading.Event(), threading.Event()

    def __call__(self, tasks: Sequence[RangeTask]) -> Iterator[MergedRange]:
        merged = list(run_here(self.stores, SystemClock(), tasks))
        self.has_merged.set()
        assert self.may_go.wait(60)
        yield from merged


def test_a_worker_that_is_stopped_releases_its_jobs(tmp_path: Path) -> None:
    location = Location.local(tmp_path / "db")
    scheduled_database(location, handed_over())
    with Client.open(location, handed_over()):
        files = set((location.folder / "compacted").iterdir())
        held = Held(location)
        worker = worker_of(location, runner=held)
        with serving(worker) as outcomes:
            assert held.has_merged.wait(60)
            assert statuses(location) == [CompactionStatus.RUNNING]
            worker.stop()
            held.may_go.set()
        assert outcomes == []
        [job] = entries(location)
        assert (job.status, job.worker) == (CompactionStatus.SCHEDULED, None)
        assert set((location.folder / "compacted").iterdir()) == files, "what nobody shows is deleted"
        with serving(worker_of(location)):
            wait_until(lambda: statuses(location) == [CompactionStatus.COMPLETED])


def test_a_job_that_was_taken_back_is_not_handed_over(tmp_path: Path) -> None:
    """The worker was silent for longer than the client's time-out; another one does the job meanwhile."""
    location = Location.local(tmp_path / "db")
    impatient = handed_over(**{"compactor_options.worker_heartbeat_timeout": "200ms"})
    scheduled_database(location, impatient)
    with Client.open(location, impatient) as client:
        expected = lasting(client)
        held = Held(location)
        with serving(worker_of(location, runner=held, heartbeatInterval="1h")) as outcomes:
            assert held.has_merged.wait(60)
            with serving(worker_of(location, heartbeatInterval="50ms")):
                wait_until(lambda: statuses(location) == [CompactionStatus.COMPLETED])
            held.may_go.set()
        assert outcomes == [], "lost, which is no error"
        assert lasting(client) == expected
    assert not SlateStore.open(str(location.folder)).verify().has_damage


def test_merge_operands_fold_as_in_the_client(tmp_path: Path) -> None:
    location = Location.local(tmp_path / "db")
    with Client.open(location, handed_over()) as client, serving(worker_of(location)) as outcomes:
        for number in range(12):
            client.write([Merge(b"%d" % (key % 3), b"%d," % number) for key in range(3)])
            client.flush_memtable()
        wait_until(lambda: len(outcomes) > 1)
        assert client.get(b"1") == b"0,1,2,3,4,5,6,7,8,9,10,11,"
