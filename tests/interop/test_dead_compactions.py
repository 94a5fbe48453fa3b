"""Compactions of ours whose process dies, then a client with few places in L0: it takes all that it is given.

What a dead job leaves in `.compactions` must not keep the client from merging L0 views: its writer would come to a halt
at eight of them. Nor may its worker take up a job for ever whose sources are gone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from slatespark import SlateStore
from slatespark.format.compactions import CompactionStatus, encode_compactions
from slatespark.format.paths import compactions_path, sst_path
from slatespark.storage.local_store import LocalStore
from slatespark.table.clock import SystemClock, new_ulid
from slatespark.table.compaction.merge import MergedRange, RangeTask
from slatespark.table.compaction.ranges import run_here
from slatespark.table.compaction.request import CompactionRequest
from slatespark.table.compaction.run import compact_table
from slatespark.table.log.compactions import fetch_compactions
from tests.faults.jobs import stores_of, table_of
from tests.support.client import Client, ClientOptions, Location, read_rows
from tests.support.client_admin import collect_garbage
from tests.support.failing_store import FailingStore, Moment

FLUSHES: Final = 24
SMALL: Final = {
    "l0_max_ssts": 8,
    "l0_max_ssts_per_key": 8,
    "compactor_options.worker_heartbeat_timeout": "100ms",
}
ONE_JOB: Final = ClientOptions(compactor=True, compact_by_itself=True, settings=SMALL)
FOUR_JOBS: Final = ClientOptions(  # as by default: a hold takes one of them
    compactor=True, compact_by_itself=True, settings={**SMALL, "compactor_options.max_concurrent_compactions": 4}
)
KILLS: Final[dict[str, tuple[int, Moment]]] = {  # at which manifest of its commit
    "before it claims": (1, "before"),
    "after it claimed": (1, "after"),
    "before it publishes": (2, "before"),
    "after it published": (2, "after"),
}


class KilledError(BaseException):
    """The process ends here; nothing handles it, and nothing is cleaned up."""


def fill(folder: Path, layers: str) -> None:
    """Runs, L0 views of a client above them, or both; each shares keys with the next one."""
    store = SlateStore.open(str(folder))
    for number in range(3 if "runs" in layers else 0):
        store.write(table_of([(b"%d" % key, b"run") for key in range(number, 4)]))
    if "L0" in layers:
        with Client.open(Location.local(folder)) as client:
            for number in range(4):
                client.put(b"%d" % number, b"L0")
                client.flush_memtable()


def compact_and_die(folder: Path, kill: str, meanwhile: Callable[[], object] = lambda: None) -> None:
    store = FailingStore(LocalStore(folder))
    stores, clock = stores_of(store), SystemClock()

    def run(tasks: Sequence[RangeTask]) -> Iterable[MergedRange]:
        merged = list(run_here(stores, clock, tasks))
        meanwhile()
        if kill == "after it merged":
            die()
        return merged

    def die() -> None:
        store.fail("*", times=10**9, error=KilledError())
        raise KilledError

    if kill in KILLS:
        nth, moment = KILLS[kill]
        store.run(die, "create", "manifest/*", nth=nth, moment=moment)
    with pytest.raises(KilledError):
        compact_table(stores, clock, CompactionRequest(full=True), runner=run)


def check_goes_on(folder: Path, options: ClientOptions) -> None:
    """A client writes more than L0 takes, and then leaves the list of compactions alone."""
    before = {row.key: row.value for row in read_rows(Location.local(folder))}
    written = {b"later %d" % number: b"L0" for number in range(FLUSHES)}
    with Client.open(Location.local(folder), options) as client:
        for key, value in written.items():
            client.put(key, value)
            client.flush_memtable()
        wait_until_the_list_rests(folder)
        assert {row.key: row.value for row in client.scan()} == {**before, **written}
    assert {row.key: row.value for row in read_rows(Location.local(folder))} == {**before, **written}


def wait_until_the_list_rests(folder: Path) -> None:
    stores, seen, quiet = stores_of(LocalStore(folder)), -1, 0
    deadline = time.monotonic() + 60
    while quiet < 10:
        assert time.monotonic() < deadline, "the list of compactions grows without end"
        time.sleep(0.02)
        number = fetch_compactions(stores)[0]
        quiet, seen = (quiet + 1 if number == seen else 0), number


@pytest.mark.parametrize("kill", KILLS)
@pytest.mark.parametrize("layers", ["runs", "L0", "runs and L0"])
def test_the_client_goes_on(tmp_path: Path, layers: str, kill: str) -> None:
    SlateStore.create(str(tmp_path / "db"), autoCompact=False)
    fill(tmp_path / "db", layers)
    compact_and_die(tmp_path / "db", kill)
    check_goes_on(tmp_path / "db", ONE_JOB)


@pytest.mark.parametrize("layers", ["runs", "L0"])
def test_collectors_spare_what_a_completed_job_has_not_published_yet(tmp_path: Path, layers: str) -> None:
    SlateStore.create(str(tmp_path / "db"), autoCompact=False)
    location = Location.local(tmp_path / "db")
    fill(location.folder, layers)
    compact_and_die(location.folder, "before it publishes")
    with Client.open(location) as client:
        client.put(b"later", b"L0")  # files are spared, too, that are younger than all of L0
        client.flush_memtable()
    store, clock = LocalStore(location.folder), SystemClock()
    number, listed = fetch_compactions(stores_of(store))
    (job,) = listed.jobs
    assert job.status is CompactionStatus.COMPLETED
    collect_garbage(location)
    outputs = [location.folder / sst_path(handle.id) for handle in job.output_ssts]
    assert outputs
    assert all(path.exists() for path in outputs)
    later = replace(listed, jobs=(replace(job, id=new_ulid(clock, clock.now_ms()), output_ssts=()),))
    store.put(compactions_path(number + 1), [encode_compactions(later)])
    collect_garbage(location)
    assert not any(path.exists() for path in outputs), "nothing but the job kept them"


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("layers", ["runs", "L0", "runs and L0"])
def test_the_client_goes_on_after_a_commit_that_moved_the_sources(tmp_path: Path, layers: str, mode: str) -> None:
    store = SlateStore.create(str(tmp_path / "db"), autoCompact=False)
    fill(tmp_path / "db", layers)

    def write() -> None:
        store.write(table_of([(b"between", b"run")]), mode=mode)

    compact_and_die(tmp_path / "db", "after it merged", write)
    check_goes_on(tmp_path / "db", ONE_JOB)


@pytest.mark.parametrize("kill", ["before it claims", "after it claimed", "before it publishes"])
def test_a_table_that_holds_history(tmp_path: Path, kill: str) -> None:
    """Nobody takes the dead job over, and nobody has to."""
    store = SlateStore.create(str(tmp_path / "db"), history=True, holdHistory=True)
    fill(tmp_path / "db", "runs and L0")
    stored = store.scan(readVersions="all", endKey=b"9").read_all().num_rows
    compact_and_die(tmp_path / "db", kill)
    check_goes_on(tmp_path / "db", FOUR_JOBS)
    assert store.scan(readVersions="all", endKey=b"9").read_all().num_rows == stored
