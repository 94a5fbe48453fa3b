"""What goes wrong between a worker and a live client: wrong clocks, rivals, coordinators that come and go."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from slatedb import uniffi

from slatespark import CommitConflictError, SlateStore
from slatespark.format.compactions import Compactions, CompactionStatus
from slatespark.table.clock import Clock, SystemClock
from slatespark.table.compaction.merge import MergedRange, RangeTask
from slatespark.table.compaction.ranges import run_here
from slatespark.table.cooperation.claimed_job import ClaimedJob
from slatespark.table.cooperation.job_rules import spec_of_slice
from slatespark.table.cooperation.outcome import await_commit
from slatespark.table.cooperation.submission import Submitter
from slatespark.table.log.compactions import edit_compactions
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.log.versioned_object import Version
from slatespark.table.stores import TableStores, open_stores
from tests.interop.test_compaction_worker import (
    LIMITS,
    entries,
    handed_over,
    lasting,
    scheduled_database,
    serving,
    statuses,
    wait_until,
    worker_of,
)
from tests.interop.test_cooperation import merged
from tests.support.client import Client, ClientOptions, Location, Put
from tests.support.client_admin import read_manifest
from tests.support.segments import UpTo

HOUR_MS = 3_600_000
L0_AND_NEWEST = partial(spec_of_slice, segment=b"", l0=2, runs=(0, 1))
IDLE = ClientOptions(
    compactor=True,
    # SlateDB 0.18 schedules no more jobs than it may run at once: both of two rivals must have room
    settings={"compactor_options.worker": None, "compactor_options.max_concurrent_compactions": 2},
)


class WrongClock(Clock):
    """The clock of a machine that is hours off. A `SystemClock` would do so for every later read of this process."""

    def __init__(self, wrong_ms: int) -> None:
        self.wrong_ms = wrong_ms

    def now_ms(self) -> int:
        return SystemClock().now_ms() + self.wrong_ms


class Meanwhile:
    """A runner during whose work something happens."""

    parallelism = 1

    def __init__(self, location: Location, hook: Callable[[], object]) -> None:
        self.stores, self.hook = open_stores(str(location.folder), storage={}), hook

    def __call__(self, tasks: Sequence[RangeTask]) -> Iterator[MergedRange]:
        yield from run_here(self.stores, SystemClock(), tasks)
        self.hook()


# --- clocks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong_ms", [-HOUR_MS, HOUR_MS])
def test_a_worker_with_a_wrong_clock(wrong_ms: int, tmp_path: Path) -> None:
    """Its jobs are not taken back while it works, and are taken back once it is dead."""
    location = Location.local(tmp_path / "db")
    options = handed_over(**{"compactor_options.worker_heartbeat_timeout": "2s"})
    scheduled_database(location, options)
    with Client.open(location, options) as client:
        expected = lasting(client)
        taken: list[Any] = []

        def look() -> None:
            taken.extend(entries(location))

        clock = WrongClock(wrong_ms)
        with serving(worker_of(location, clock=clock, runner=Meanwhile(location, look))) as outcomes:
            wait_until(lambda: statuses(location) == [CompactionStatus.COMPLETED])
        assert [outcome.error for outcome in outcomes] == [None]
        [job] = taken
        assert abs(job.worker.last_heartbeat_ms - SystemClock().now_ms()) < HOUR_MS // 2
        assert lasting(client) == expected
        client.put(b"goes on", b"1")
        client.flush_memtable()
        assert client.get(b"goes on") == b"1"


def test_a_heartbeat_that_is_late(tmp_path: Path) -> None:
    """The job was taken back before: the worker drops what it merged, and does the job again."""
    location = Location.local(tmp_path / "db")
    impatient = handed_over(
        **{"compactor_options.worker_heartbeat_timeout": "200ms", "compactor_options.poll_interval": "100ms"}
    )
    scheduled_database(location, impatient)
    with Client.open(location, impatient) as client:
        expected = lasting(client)
        late = threading.Event()

        def sleep_past_the_heartbeat() -> None:
            if not late.is_set():
                late.set()
                wait_until(lambda: statuses(location) == [CompactionStatus.SCHEDULED])
                threading.Event().wait(1)  # a heartbeat is sent

        worker = worker_of(location, runner=Meanwhile(location, sleep_past_the_heartbeat), heartbeatInterval="500ms")
        with serving(worker) as outcomes:
            wait_until(lambda: statuses(location) == [CompactionStatus.COMPLETED])
        assert late.is_set()
        assert [outcome.error for outcome in outcomes] == [None], "what was lost is no error"
        assert lasting(client) == expected
    assert not SlateStore.open(str(location.folder)).verify().has_damage


# --- coordinators that come and go ------------------------------------------------------------------------------------


@pytest.mark.parametrize("reopens", ["while we merge", "before the commit"])
def test_the_client_comes_back_in_the_middle_of_a_job(reopens: str, tmp_path: Path) -> None:
    """A job that was handed over while nothing ran is committed by the next client."""
    location = Location.local(tmp_path / "db")
    scheduled_database(location, handed_over())
    first = Client.open(location, handed_over())
    expected = lasting(first)
    clients = [first]

    def close() -> None:
        first.close()
        if reopens == "while we merge":
            clients.append(Client.open(location, handed_over()))

    wait_until(lambda: statuses(location) == [CompactionStatus.SCHEDULED])
    [outcome] = worker_of(location, runner=Meanwhile(location, close)).runOnce()
    assert outcome.error is None
    if reopens == "before the commit":
        assert statuses(location) == [CompactionStatus.COMPACTED]
        clients.append(Client.open(location, handed_over()))
    with clients[-1] as later:
        wait_until(lambda: statuses(location) == [CompactionStatus.COMPLETED])
        assert lasting(later) == expected
        assert not read_manifest(location).l0


def test_a_commit_of_ours_that_fences_the_client_ends_the_job(tmp_path: Path) -> None:
    """The list has lost it, so the worker drops it: its result would bring back what was deleted."""
    location = Location.local(tmp_path / "db")
    scheduled_database(location, handed_over())
    with Client.open(location, handed_over()):
        wait_until(lambda: statuses(location) == [CompactionStatus.SCHEDULED])
        store = SlateStore.open(str(location.folder))

        def fence() -> None:
            store.deleteRange(startKey=b"0", endKey=b"1", ifClientActive="fence")

        assert worker_of(location, runner=Meanwhile(location, fence)).runOnce() == ()
    with Client.open(location, handed_over()) as later:
        assert not [row for row in later.scan() if row.key.startswith(b"0")]


# --- rivals -----------------------------------------------------------------------------------------------------------


def two_runs(client: Client) -> TableStores:
    """Runs 1 and 0 with the same keys, and L0 views above them."""
    stores = open_stores(str(client.location.folder), storage={})
    for number in range(3):
        for part in range(2):
            client.write([Put(b"%02d" % key, b"%d%d" % (number, part)) for key in range(20)])
            client.flush_memtable()
        if number < 2:
            commit_job(stores, l0=2)
    return stores


def commit_job(stores: TableStores, **slice_: Any) -> None:
    with Submitter(stores, SystemClock()).job(partial(spec_of_slice, segment=b"", **slice_)) as job:
        assert job is not None
        finish(stores, job)


def finish(stores: TableStores, job: ClaimedJob) -> int | None:
    outputs = merged(stores, replaced_by_sources(job))
    job.hand_over(outputs)
    return await_commit(job, outputs, timeout_ms=30_000)


def replaced_by_sources(job: ClaimedJob) -> ClaimedJob:
    """The job, with nothing but its sources in the version that it merges."""
    manifest, spec = job.found.value, job.entry.spec
    only = replace(
        manifest,
        l0=tuple(view for view in manifest.l0 if view.id in spec.l0_view_ids),
        compacted=tuple(run for run in manifest.compacted if run.id in spec.sorted_runs),
    )
    return replace(job, found=Version(job.found.number, only))


def submit_by_client(location: Location, *runs: int) -> None:
    """The client's own call, which looks at no other job."""
    from tests.support.client_admin import _submit

    sources = [uniffi.SourceId.SORTED_RUN(run) for run in runs]
    _submit(location, uniffi.CompactionSpec.TIERED(b"", sources, min(runs)))


def test_a_foreign_job_on_our_run_is_not_begun_by_us(tmp_path: Path) -> None:
    """While ours is under way; afterwards it is done with what is there by then."""
    with Client.open(Location.local(tmp_path / "db"), IDLE) as client:
        stores = two_runs(client)
        expected = client.scan()
        worker = worker_of(client.location)
        with Submitter(stores, SystemClock()).job(L0_AND_NEWEST) as job:
            assert job is not None
            submit_by_client(client.location, 1, 0)
            wait_until(lambda: CompactionStatus.SCHEDULED in statuses(client.location))
            assert worker.runOnce() == (), "it waits for ours"
            assert finish(stores, job) is not None
        assert client.scan() == expected
        [outcome] = worker.runOnce()
        assert outcome.error is None
        wait_until(lambda: len(read_manifest(client.location).compacted) == 1)
        assert client.scan() == expected


def test_of_two_jobs_on_a_run_that_have_begun_one_yields(tmp_path: Path) -> None:
    """A worker of the client began a foreign one: ours is not handed over, since one of both would lose rows."""
    with Client.open(Location.local(tmp_path / "db"), IDLE) as client:
        stores = two_runs(client)
        expected = client.scan()
        with pytest.raises(CommitConflictError):
            finish_late(stores, client.location)
        assert client.scan() == expected


def finish_late(stores: TableStores, location: Location) -> None:
    with Submitter(stores, SystemClock()).job(L0_AND_NEWEST) as job:
        assert job is not None
        submit_by_client(location, 1, 0)
        wait_until(lambda: CompactionStatus.SCHEDULED in statuses(location))
        begin_as_client(stores)
        finish(stores, job)


def begin_as_client(stores: TableStores) -> None:
    """Claim the scheduled job as a worker does that knows no better."""

    def claimed(listed: Compactions) -> Compactions:
        jobs = [
            replace(job, status=CompactionStatus.RUNNING, worker=running_worker(listed))
            if job.status is CompactionStatus.SCHEDULED
            else job
            for job in listed.jobs
        ]
        return replace(listed, jobs=tuple(jobs))

    edit_compactions(stores, SystemClock(), claimed)


def running_worker(listed: Compactions) -> Any:
    [job] = [job for job in listed.jobs if job.status is CompactionStatus.RUNNING]
    assert job.worker is not None
    return replace(job.worker, worker_id="01JCLIENT")


def test_two_compactions_of_ours_at_once(tmp_path: Path) -> None:
    """The second one waits for the first, and then finds what that left."""
    with Client.open(Location.local(tmp_path / "db"), IDLE) as client:
        two_runs(client)
        expected = client.scan()
        store = SlateStore.open(str(client.location.folder))
        failures: list[Exception] = []

        def compact() -> None:
            try:
                store.compact(full=True, force=True, ifClientActive="cooperate")
            except Exception as exc:
                failures.append(exc)

        threads = [threading.Thread(target=compact) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert failures == []
        assert client.scan() == expected
        assert len(read_manifest(client.location).compacted) == 1


# --- segments ---------------------------------------------------------------------------------------------------------


def test_segments_are_merged_each_for_itself(tmp_path: Path) -> None:
    location = Location.local(tmp_path / "db")
    options = replace(handed_over(), segments=UpTo(b"/"), settings={"compactor_options.worker": None, **LIMITS})
    with Client.open(location, options) as client, serving(worker_of(location)) as outcomes:
        for number in range(10):
            client.write([Put(b"%s/%02d" % (name, number % 7), b"%d" % number) for name in (b"a", b"bb")])
            client.flush_memtable()
        wait_until(lambda: len(outcomes) >= 2)
        wait_until(lambda: CompactionStatus.SCHEDULED not in statuses(location))
        expected = [(b"%s/%02d" % (name, at), b"%d" % (at + 7 * (at < 3))) for name in (b"a", b"bb") for at in range(7)]
        assert [(row.key, row.value) for row in client.scan()] == expected
        SlateStore.open(str(location.folder)).compact(full=True, ifClientActive="cooperate", force=True)
        assert [(row.key, row.value) for row in client.scan()] == expected
        trees = fetch_latest_manifest(open_stores(str(location.folder), storage={})).value.segments
        assert [(tree.prefix, len(tree.l0), len(tree.compacted)) for tree in trees] == [(b"a/", 0, 1), (b"bb/", 0, 1)]
    reports = [outcome.report for outcome in outcomes if outcome.report is not None]
    assert {report.segment for report in reports} == {b"a/".hex(), b"bb/".hex()}
    assert not SlateStore.open(str(location.folder)).verify().has_damage
