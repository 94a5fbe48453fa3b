"""Several writers of ours at once on one table, and what others may do between two steps of a commit."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slatespark import CommitConflictError, SlateStore, TableExistsError
from slatespark.format.manifest import Manifest
from slatespark.options import WriteOptions
from slatespark.storage.local_store import LocalStore
from slatespark.table.commit.backoff import MAX_COMMIT_ATTEMPTS
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.records.commits import newest_commit_records
from slatespark.table.records.operations import Operation
from slatespark.table.write.load_run import create_table
from tests.faults.busy_database import check_serves_on, client_pairs, make_busy, our_pairs, upserted
from tests.faults.jobs import Job, Pair, stores_of, table_of
from tests.support.client import Client, Location
from tests.support.client_admin import create_checkpoint, delete_checkpoint
from tests.support.cluster import REPOSITORY
from tests.support.failing_store import FailingStore, Moment
from tests.support.fake_clock import FakeClock

WRITES_EACH = 3
SHARED = [b"shared%02d" % number for number in range(20)]


def rows_of(writer: int, turn: int) -> list[Pair]:
    """Keys of its own for every write, and keys that all writers fight for."""
    own = [(b"own-%d-%d-%d" % (writer, turn, number), b"x") for number in range(5)]
    return sorted([*own, *((key, b"%d-%d" % (writer, turn)) for key in SHARED)])


def write_in_turns(store: SlateStore, writer: int) -> None:
    for turn in range(WRITES_EACH):
        store.write(table_of(rows_of(writer, turn)))


def check_all_there(folder: Path, writers: int) -> None:
    """Every row of every write is there, each shared key has its newest version, and both reads of the client agree."""
    rows = our_pairs(folder)
    found = dict(rows)
    for writer in range(writers):
        for turn in range(WRITES_EACH):
            assert {key for key, _ in rows_of(writer, turn)} <= found.keys()
    assert len({found[key] for key in SHARED}) == 1, "the last write set them all"
    records = [record for record in newest_commit_records(LocalStore(folder)) if record.operation == "write"]
    seqs = [record.first_seq for record in records]
    assert len(seqs) == writers * WRITES_EACH
    assert seqs == sorted(set(seqs), reverse=True)  # type: ignore[type-var]
    assert client_pairs(folder) == rows
    with Client.open(Location.local(folder)) as client:
        assert [(key, client.get(key)) for key, _ in rows] == rows
    check_serves_on(folder, rows)


@pytest.mark.slow
@pytest.mark.parametrize("writers", [2, 4])
def test_threads_that_write_at_once(writers: int, tmp_path: Path) -> None:
    """Two through one object, more through objects of their own."""
    folder = tmp_path / "db"
    shared = SlateStore.create(str(folder))
    stores = [shared if writer < 2 else SlateStore.open(str(folder)) for writer in range(writers)]
    with ThreadPoolExecutor(writers) as threads:
        for done in [threads.submit(write_in_turns, store, writer) for writer, store in enumerate(stores)]:
            done.result()
    check_all_there(folder, writers)


@pytest.mark.slow
def test_processes_that_write_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    SlateStore.create(str(folder))
    program = (
        "import sys; from slatespark import SlateStore; from tests.faults.test_races import write_in_turns; "
        "write_in_turns(SlateStore.open(sys.argv[1]), int(sys.argv[2]))"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", program, str(folder), str(writer)], cwd=REPOSITORY)
        for writer in range(2)
    ]
    assert [child.wait(120) for child in children] == [0, 0]
    check_all_there(folder, 2)


def test_two_jobs_that_create_one_table(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    first, second = Job(folder), Job(folder)
    first.upload(table_of([(b"a", b"1"), (b"b", b"1")])).commit()
    second.upload(table_of([(b"b", b"2"), (b"c", b"2")])).commit()
    check_serves_on(folder, [(b"a", b"1"), (b"b", b"2"), (b"c", b"2")])


def test_the_second_creator_of_an_empty_table_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    first, second = Job(folder, operation=Operation.CREATE), Job(folder, operation=Operation.CREATE)
    first.commit()
    with pytest.raises(TableExistsError):
        second.commit()
    with pytest.raises(TableExistsError):
        SlateStore.create(str(folder))
    check_serves_on(folder, [])


def test_a_creator_overtaken_between_look_and_creation(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    sibling = Job(folder).upload(table_of([(b"a", b"1"), (b"b", b"1")]))
    store = FailingStore(LocalStore(folder)).run(lambda: _commit(sibling), "create", "manifest/*")
    Job(store).upload(table_of([(b"b", b"2")])).commit()
    check_serves_on(folder, [(b"a", b"1"), (b"b", b"2")])


def _commit(job: Job) -> None:
    job.commit()


@pytest.fixture
def busy(tmp_path: Path) -> tuple[Path, list[Pair]]:
    folder = tmp_path / "db"
    return folder, make_busy(folder)


STEPS = [
    *(("create", "manifest/*", nth, moment) for nth in (1, 2) for moment in ("before", "after")),
    ("create", "wal/*", 1, "before"),
    ("create", "wal/*", 1, "after"),
    ("create", "compactions/*", 1, "before"),
    ("create", "compactions/*", 1, "after"),
    ("put", "slatespark/claims/*", 1, "before"),
    ("put", "slatespark/claims/*", 1, "after"),
]
at_each_step = pytest.mark.parametrize(("operation", "path", "nth", "moment"), STEPS)


@at_each_step
def test_a_sibling_commits_at_any_step(
    busy: tuple[Path, list[Pair]], operation: str, path: str, nth: int, moment: Moment
) -> None:
    folder, rows = busy
    sibling = Job(folder).upload(table_of([(b"k001", b"sibling"), (b"k002", b"sibling")]))
    store = FailingStore(LocalStore(folder))
    store.run(lambda: _commit(sibling), operation, path, nth=nth, moment=moment)  # type: ignore[arg-type]
    Job(store).upload(table_of([(b"k002", b"ours"), (b"k003", b"ours")])).commit()
    expected = dict(upserted(rows, [(b"k001", b"sibling"), (b"k003", b"ours")]))
    found = dict(our_pairs(folder))
    assert found.pop(b"k002") in (b"sibling", b"ours")
    del expected[b"k002"]
    assert found == expected
    check_serves_on(folder, our_pairs(folder))


@at_each_step
def test_a_sibling_plans_at_any_step(
    busy: tuple[Path, list[Pair]], operation: str, path: str, nth: int, moment: Moment
) -> None:
    """It sees epochs that we claimed and rows that we have not published yet; all of that is no foreign client's."""
    folder, rows = busy
    planned: list[Job] = []

    def plan() -> None:
        planned.append(Job(folder).upload(table_of([(b"k001", b"sibling"), (b"k002", b"sibling")])))

    store = FailingStore(LocalStore(folder)).run(plan, operation, path, nth=nth, moment=moment)  # type: ignore[arg-type]
    Job(store).upload(table_of([(b"k002", b"ours"), (b"k003", b"ours")])).commit()
    planned[0].commit()
    check_serves_on(folder, upserted(rows, [(b"k001", b"sibling"), (b"k002", b"sibling"), (b"k003", b"ours")]))


@at_each_step
def test_a_sibling_that_only_claims_and_dies(
    busy: tuple[Path, list[Pair]], operation: str, path: str, nth: int, moment: Moment
) -> None:
    """It took the epochs and fenced the WAL; the claim it recorded says that it was no foreign client."""
    folder, rows = busy

    def claim_and_die() -> None:
        dying = FailingStore(LocalStore(folder)).fail("create", "wal/*", moment="after", error=RuntimeError("dies"))
        with pytest.raises(RuntimeError, match="dies"):
            Job(dying, ifClientActive="fence").upload(table_of([(b"k001", b"lost")])).commit()

    store = FailingStore(LocalStore(folder))
    store.run(claim_and_die, operation, path, nth=nth, moment=moment)  # type: ignore[arg-type]
    Job(store).upload(table_of([(b"k002", b"ours")])).commit()
    check_serves_on(folder, upserted(rows, [(b"k002", b"ours")]))


@at_each_step
def test_a_reader_makes_a_checkpoint_at_any_step(
    busy: tuple[Path, list[Pair]], operation: str, path: str, nth: int, moment: Moment
) -> None:
    folder, rows = busy
    made: list[str] = []

    def make() -> None:
        made.append(create_checkpoint(Location.local(folder), "reader").id)

    store = FailingStore(LocalStore(folder)).run(make, operation, path, nth=nth, moment=moment)  # type: ignore[arg-type]
    Job(store).upload(table_of([(b"k002", b"ours")])).commit()
    assert "reader" in [point.name for point in newest(folder).checkpoints]
    pinned = SlateStore.open(str(folder)).scan(checkpoint="reader", mergeOperator="concat").read_all().to_pylist()
    is_after = (operation, nth, moment) == ("create", 2, "after")
    shown = upserted(rows, [(b"k002", b"ours")]) if is_after else rows
    assert [(row["key"], row["value"]) for row in pinned] == shown
    delete_checkpoint(Location.local(folder), made[0])
    check_serves_on(folder, upserted(rows, [(b"k002", b"ours")]))


def newest(folder: Path) -> Manifest:
    return fetch_latest_manifest(stores_of(LocalStore(folder)))[1]


def test_a_race_that_is_always_lost_ends(busy: tuple[Path, list[Pair]]) -> None:
    folder, rows = busy
    store = FailingStore(LocalStore(folder))
    store.fail("create", "manifest/*", times=10**9, error=FileExistsError())
    job = Job(store, FakeClock()).upload(table_of([(b"k002", b"ours")]))
    with pytest.raises(CommitConflictError, match=rf"\b{MAX_COMMIT_ATTEMPTS}\b"):
        job.commit()
    check_serves_on(folder, rows)


def test_a_table_that_comes_with_rows_while_another_is_planned(tmp_path: Path) -> None:
    """Its WAL is no leftover of a database that went."""
    folder = tmp_path / "db"

    def create() -> None:
        SlateStore.create(str(folder)).write(table_of([(b"a", b"theirs")]))

    stores = stores_of(FailingStore(LocalStore(folder)).run(create, "list", "wal/"))
    with pytest.raises(TableExistsError):
        create_table(stores, FakeClock(), TableDefinition(), WriteOptions(path=str(folder)))
    assert our_pairs(folder) == [(b"a", b"theirs")]
