"""A real client beside our commit: idle, at work, opened in the middle, or gone again; what it made durable stays."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from slatedb import uniffi

from slatespark import CommitConflictError
from slatespark.storage.local_store import LocalStore
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.records.leases import LEASES_DIR
from tests.faults.busy_database import (
    CLIENT,
    check_serves_on,
    client_pairs,
    make_busy,
    our_pairs,
    start_compactions,
    upserted,
)
from tests.faults.jobs import Job, Pair, stores_of, table_of
from tests.support.client import Client, ClientOptions, Location
from tests.support.client_admin import collect_garbage, compact_full
from tests.support.effort import THOROUGH
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock

OURS: list[Pair] = [(b"k002", b"ours"), (b"k050", b"ours")]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Pair]]:
    folder = tmp_path_factory.mktemp("busy") / "db"
    return folder, make_busy(folder)


@pytest.fixture
def busy(template: tuple[Path, list[Pair]], tmp_path: Path) -> tuple[Path, list[Pair]]:
    shutil.copytree(template[0], tmp_path / "db")
    return tmp_path / "db", list(template[1])


def put(client: Client, key: bytes, value: bytes = b"client") -> list[Pair]:
    """Write one row and make it durable."""
    client.put(key, value)
    client.flush_wal()
    return [(key, value)]


def assert_fenced(client: Client) -> None:
    with pytest.raises(uniffi.Error) as caught:
        put(client, b"never durable")
    assert "FENCED" in repr(caught.value)


def try_put(client: Client, key: bytes) -> list[Pair]:
    """Write one row, durable if the client is not fenced."""
    try:
        return put(client, key)
    except uniffi.Error as error:
        if "FENCED" not in repr(error):
            raise
        return []


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["fail", "fence"])
def test_a_client_opens_at_any_call(policy: str, template: tuple[Path, list[Pair]], tmp_path: Path) -> None:
    outcomes = set()
    nth = 0
    while True:
        nth += 1 if THOROUGH else 3
        folder = tmp_path / f"{nth}"
        shutil.copytree(template[0], folder)
        rows = list(template[1])
        opened: list[Client] = []
        is_planned: list[bool] = []

        def open_client(
            folder: Path = folder, opened: list[Client] = opened, is_planned: list[bool] = is_planned
        ) -> None:
            is_planned.append(any((folder / LEASES_DIR).glob("*.json")))
            opened.append(Client.open(Location.local(folder), CLIENT))
            put(opened[0], b"c1")

        store = FailingStore(LocalStore(folder)).run(open_client, "*", nth=nth)
        try:
            Job(store, ifClientActive=policy).upload(table_of(OURS)).commit()
            outcomes.add("done")
            rows = upserted(rows, OURS)
            refused = False
        except CommitConflictError:
            outcomes.add("refused")
            assert policy == "fail"
            refused = True
        if not opened:
            break
        with opened[0] as client:
            rows = upserted(rows, [(b"c1", b"client")])
            # A refusal leaves the client as it was; but one that was idle when the write was planned is not noticed,
            # until its compactor, which starts later, takes the epoch back.
            rows = upserted(rows, put(client, b"c2") if refused and is_planned[0] else try_put(client, b"c2"))
        assert our_pairs(folder) == client_pairs(folder) == rows
        check_serves_on(folder, rows)
        shutil.rmtree(folder)
    assert nth > 20
    assert outcomes == ({"done", "refused"} if policy == "fail" else {"done"})


def test_an_idle_client_is_shut_out_and_loses_nothing(busy: tuple[Path, list[Pair]]) -> None:
    folder, rows = busy
    with Client.open(Location.local(folder), ClientOptions()) as client:
        rows = upserted(rows, put(client, b"c1"))
        client.put(b"not durable", b"lost as in a crash")
        Job(folder).upload(table_of(OURS)).commit()
        rows = upserted(rows, OURS)
        assert_fenced(client)
    check_serves_on(folder, rows)


def test_a_client_at_work_is_not_shut_out_unasked(busy: tuple[Path, list[Pair]]) -> None:
    folder, rows = busy
    with Client.open(Location.local(folder), ClientOptions()) as client:
        job = Job(folder).upload(table_of(OURS))
        rows = upserted(rows, put(client, b"c1"))
        with pytest.raises(CommitConflictError) as refused:
            job.commit()
        for way_out in ("ifClientActive=cooperate", "ifClientActive=fence", "when it is closed"):
            assert way_out in str(refused.value)
        client.flush_memtable()
        rows = upserted(rows, put(client, b"c2"))
    check_serves_on(folder, rows)


def test_fencing_a_client_at_work_takes_up_its_rows_below_ours(busy: tuple[Path, list[Pair]]) -> None:
    folder, rows = busy
    with Client.open(Location.local(folder), ClientOptions()) as client:
        job = Job(folder, ifClientActive="fence").upload(table_of(OURS))
        rows = upserted(rows, put(client, b"k002"))
        rows = upserted(rows, put(client, b"c1"))
        job.commit()
        assert_fenced(client)
    check_serves_on(folder, upserted(rows, OURS))


@pytest.mark.parametrize("flush", [True, False])
@pytest.mark.parametrize("policy", ["fail", "fence"])
def test_a_client_that_came_and_went_during_the_job(policy: str, flush: bool, tmp_path: Path) -> None:
    folder = tmp_path / "db"
    rows = make_busy(folder, compacting=False)
    job = Job(folder, ifClientActive=policy).upload(table_of(OURS))
    client = Client.open(Location.local(folder), CLIENT)
    rows = upserted(rows, put(client, b"k002"))
    compact_full(client)
    rows = upserted(rows, put(client, b"c1"))
    client.close(flush=flush)
    if policy == "fail":
        with pytest.raises(CommitConflictError, match="claim"):
            job.commit()
    else:
        job.commit()
        rows = upserted(rows, OURS)
    check_serves_on(folder, rows)


def test_a_client_whose_manifests_were_collected_is_noticed(busy: tuple[Path, list[Pair]]) -> None:
    folder, rows = busy
    job = Job(folder).upload(table_of(OURS))
    for number in range(2):
        with Client.open(Location.local(folder), CLIENT) as client:
            rows = upserted(rows, put(client, b"c%d" % number))
            client.flush_memtable()
            client.close()
    collect_garbage(Location.local(folder))
    with pytest.raises(CommitConflictError, match="claim"):
        job.commit()
    check_serves_on(folder, rows)


def test_a_client_without_wal_is_noticed(busy: tuple[Path, list[Pair]]) -> None:
    folder, rows = busy
    with Client.open(Location.local(folder), ClientOptions(wal=False)) as client:
        job = Job(folder).upload(table_of(OURS))
        client.put(b"c1", b"client")
        client.flush_memtable()
        rows = upserted(rows, [(b"c1", b"client")])
        with pytest.raises(CommitConflictError, match="ifClientActive"):
            job.commit()
        client.put(b"c2", b"client")
        client.flush_memtable()
    check_serves_on(folder, upserted(rows, [(b"c2", b"client")]))


def test_a_compaction_with_a_fresh_heartbeat_is_left_alone(busy: tuple[Path, list[Pair]]) -> None:
    folder, rows = busy
    clock = FakeClock()
    job = Job(folder, clock).upload(table_of(OURS))
    with Client.open(Location.local(folder), CLIENT) as client:  # L0 files for the job to name
        client.put(b"c1", b"client")
        client.flush_memtable()
    rows = upserted(rows, [(b"c1", b"client")])
    job = Job(folder, clock).upload(table_of(OURS))
    _, manifest = fetch_latest_manifest(stores_of(LocalStore(folder)))
    start_compactions(stores_of(LocalStore(folder)), heartbeat_ms=clock.now_ms() - 29_000)
    with pytest.raises(CommitConflictError, match=f"epoch {manifest.compactor_epoch}"):
        job.commit()
    clock.advance(2_000)
    Job(folder, clock).upload(table_of(OURS)).commit()
    check_serves_on(folder, upserted(rows, OURS))


def test_a_collection_during_the_job_leaves_its_files(busy: tuple[Path, list[Pair]]) -> None:
    """With min age 0 nothing but the age of the newest L0 and of the oldest job protects a file without a manifest."""
    folder, rows = busy
    job = Job(folder).upload(table_of(OURS))
    collect_garbage(Location.local(folder))
    job.commit()
    collect_garbage(Location.local(folder))
    check_serves_on(folder, upserted(rows, OURS))
