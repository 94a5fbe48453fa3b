"""Writes under `txnAppId` and `txnVersion`: at most one effect, whatever fails and however often they run.

Rows are merge operands, of which a second effect would show: each write adds its letters to a value.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from slatespark import CorruptDataError, OptionError, SlateError, SlateStore, SstWriter, TableNotFoundError
from slatespark.options import WriteOptions
from slatespark.storage.local_store import LocalStore
from slatespark.storage.object_store import ObjectStore
from slatespark.table.clock import SystemClock
from slatespark.table.commit.idempotence import TXN_NAMES
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.records.idempotent_writes import TXN_DIR, fetch_txn_record, txn_path
from slatespark.table.write.load import Load
from slatespark.table.write.load_commit import commit_load
from slatespark.table.write.load_plan import begin_load
from slatespark.table.write.load_run import load_batches
from slatespark.table.write.load_task import run_task
from tests.faults.jobs import Job, store_on, stores_of, table_of
from tests.support.effort import points
from tests.support.failing_store import FailingStore, Moment

PAIR: dict[str, Any] = {"txnAppId": "Nightly load/ä", "txnVersion": 7}
OTHER: dict[str, Any] = {"txnAppId": "Nightly load/ä", "txnVersion": 6}


class KilledError(BaseException):
    """The process ends here; nothing handles it, and nothing is cleaned up."""


def add(store: ObjectStore, letters: bytes = b"x", **options: Any) -> int | None:
    """Add to the value of one key, in a table that is created where there is none; return the version of the commit."""
    rows = table_of([(b"k", letters)])
    parsed = WriteOptions.parse({"path": store.url, "operation": "merge", **options})
    record = load_batches(stores_of(store), SystemClock(), rows.schema, rows.to_batches(), parsed)
    return None if record is None else record.manifest_id


def value(folder: Path) -> bytes | None:
    try:
        row = SlateStore.open(str(folder)).get(b"k", mergeOperator="concat")
    except TableNotFoundError:
        return None
    return None if row is None else row["value"]


def entries(folder: Path) -> list[tuple[str, int]]:
    """Names of our checkpoints for pairs, without the id of the job, and their versions."""
    points = fetch_latest_manifest(stores_of(LocalStore(folder)))[1].checkpoints
    named = [(point.name.removeprefix(TXN_NAMES), point.manifest_id) for point in points if point.name]
    return [(name.split("/", 1)[1], version) for name, version in named if len(name.split("/", 1)[0]) == 16]


def marks(folder: Path) -> tuple[object, ...]:
    """What tells that the pair was committed."""
    latest, _ = fetch_latest_manifest(stores_of(LocalStore(folder)))
    return entries(folder), latest, sorted((folder / TXN_DIR).rglob("*.json")) != []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    SlateStore.create(str(tmp_path / "db"), versionRetention="none")
    return tmp_path / "db"


def test_a_pair_takes_effect_once(folder: Path) -> None:
    store = LocalStore(folder)
    version = add(store, **PAIR)
    assert entries(folder) == [("7/Nightly load/ä", version)]
    objects = sorted(folder.rglob("*"))
    assert add(store, **PAIR) is None
    assert sorted(folder.rglob("*")) == objects, "not even a lease"
    assert value(folder) == b"x"


def test_only_the_very_pair_counts(folder: Path) -> None:
    store = LocalStore(folder)
    add(store, b"a", **PAIR)
    add(store, b"b", **OTHER)
    add(store, b"c", **{**PAIR, "txnAppId": "nightly load/ä"})
    add(store, b"d", **{**PAIR, "txnAppId": "Nightly load=2f=c3=a4"})
    for pair in (PAIR, OTHER):
        add(store, b"-", **pair)
    assert value(folder) == b"abcd"


def test_the_next_commit_leaves_the_record_alone(folder: Path) -> None:
    store = LocalStore(folder)
    version = add(store, b"a", **PAIR)
    add(store, b"b")
    assert entries(folder) == []
    record = fetch_txn_record(store, "Nightly load/ä", 7)
    assert record is not None
    assert record.manifest_id == version
    add(store, b"-", **PAIR)
    assert value(folder) == b"ab"


def test_a_checkpoint_stays_as_long_as_there_is_no_record(folder: Path) -> None:
    store = FailingStore(LocalStore(folder)).fail("create", f"{TXN_DIR}*", times=10**9)
    version = add(store, b"a", **PAIR)
    add(store, b"b", **OTHER)
    add(store, b"c")
    assert [name for name, _ in entries(folder)] == ["7/Nightly load/ä", "6/Nightly load/ä"]
    assert add(store, b"-", **PAIR) is add(store, b"-", **OTHER) is None
    store.clear()
    add(store, b"d")
    assert entries(folder) == []
    add(store, b"-", **PAIR)
    add(store, b"-", **OTHER)
    assert value(folder) == b"abcd"
    record = fetch_txn_record(store, "Nightly load/ä", 7)
    assert record is not None
    assert record.manifest_id == version


@pytest.mark.parametrize("release", ["deleteCheckpoint", "refreshCheckpoint"])
def test_a_checkpoint_that_a_user_releases(release: str, folder: Path) -> None:
    store = FailingStore(LocalStore(folder)).fail("create", f"{TXN_DIR}*", times=2)
    add(store, b"a", **PAIR)
    table = store_on(store)
    [point] = table.checkpoints()
    lifetime = ["1s"] if release == "refreshCheckpoint" else []
    with pytest.raises(SlateError, match="fails on cue"):
        getattr(table, release)(point.id, *lifetime)
    assert table.checkpoints() == (point,)
    getattr(table, release)(point.id, *lifetime)
    assert fetch_txn_record(store, "Nightly load/ä", 7) is not None
    add(store, b"-", **PAIR)
    assert value(folder) == b"a"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fresh", "fault", "moment"),
    [
        (False, "fails once", "after"),
        (False, "killed", "after"),
        (True, "killed", "after"),
    ],
)
def test_a_fault_at_any_call_and_a_second_run(*, fresh: bool, fault: str, moment: Moment, tmp_path: Path) -> None:
    """The second run finds out by itself whether the first one took effect."""
    scene = Scene(tmp_path, fresh=fresh)
    expected = scene.before + b"x"
    landed, tried_on = 0, list[object]()
    for nth in points(scene.calls(), 2):
        folder = scene.folder(f"{nth}")
        times, error = (1, None) if fault == "fails once" else (10**9, KilledError())
        store = FailingStore(LocalStore(folder)).fail("*", nth=nth, times=times, moment=moment, error=error)
        try:
            add(store, **PAIR)
        except (SlateError, KilledError):
            landed += value(folder) == expected
        add(LocalStore(folder), **PAIR)
        assert value(folder) == expected, f"call {nth}"
        if (state := marks(folder)) not in tried_on:  # many calls leave the same behind
            tried_on.append(state)
            add(LocalStore(folder), b"y")
            add(LocalStore(folder), **PAIR)
            assert value(folder) == expected + b"y", f"call {nth}"
            assert entries(folder) == []
        shutil.rmtree(folder)
    assert landed > 0 or fault == "fails once", "some commit landed whose job failed"


@pytest.mark.slow
@pytest.mark.parametrize("fresh", [False, True])
def test_another_run_at_any_call(*, fresh: bool, tmp_path: Path) -> None:
    """The same job runs twice at a time, as after a scheduler gave the first run up too early."""
    scene = Scene(tmp_path, fresh=fresh)
    for nth in points(scene.calls(), 2):
        folder = scene.folder(f"{nth}")

        def run_too(folder: Path = folder) -> None:
            add(LocalStore(folder), **PAIR)
            add(LocalStore(folder), b"y")  # from now on the record alone tells

        add(FailingStore(LocalStore(folder)).run(run_too, "*", nth=nth), **PAIR)
        assert value(folder) == scene.before + b"xy", f"call {nth}"
        shutil.rmtree(folder)


class Scene:
    """Folders to write in: with one row, or without a table."""

    def __init__(self, root: Path, *, fresh: bool) -> None:
        self.root, self.fresh = root, fresh
        self.before = b"" if fresh else b"first"
        if not fresh:
            add(LocalStore(root / "template"), b"first")

    def folder(self, name: str) -> Path:
        return self.root / name if self.fresh else Path(shutil.copytree(self.root / "template", self.root / name))

    def calls(self) -> int:
        """How many calls the write makes when nothing fails."""
        store = FailingStore(LocalStore(self.folder("clean")))
        add(store, **PAIR)
        assert store.count() > 10
        return store.count()


class Run:
    """A write in its phases: planned when it is made, with its rows uploaded."""

    def __init__(self, folder: Path, letters: bytes = b"x") -> None:
        self.stores, rows = stores_of(LocalStore(folder)), table_of([(b"k", letters)])
        options = WriteOptions.parse({"path": str(folder), "operation": "merge", **PAIR})
        load = begin_load(self.stores, SystemClock(), rows.schema, options)
        assert load is not None
        self.load: Load = load
        self.files = run_task(self.stores, SystemClock(), load, 0, rows.to_batches())

    def commit(self) -> int:
        record = commit_load(self.stores, SystemClock(), self.load, [self.files])
        assert record is not None
        return record.manifest_id


def test_runs_that_were_planned_before_one_committed(folder: Path) -> None:
    first, second, third = Run(folder), Run(folder), Run(folder)
    version = second.commit()
    assert first.commit() == version
    assert fetch_latest_manifest(first.stores)[0] == version, "it did not even claim the table"
    add(LocalStore(folder), b"y")
    assert third.commit() == version, "known by its record now"
    assert value(folder) == b"xy"
    assert LocalStore(folder).list("slatespark/leases/") == []


def transaction_twice(folder: Path) -> Callable[[], object]:
    first, second = (SlateStore.open(str(folder)).begin(**PAIR) for _ in range(2))
    for txn in (first, second):
        txn.getForUpdate([b"a"]).read_all()
        txn.write(ROWS)
    first.commit()
    return second.commit


def dependent_write_twice(folder: Path) -> Callable[[], object]:
    seq = SlateStore.open(str(folder)).resolve().seq
    first, second = (Job(folder, ifLastSeq=seq, **PAIR).upload(ROWS) for _ in range(2))
    first.commit()
    return second.commit


@pytest.mark.parametrize("twice", [transaction_twice, dependent_write_twice])
def test_a_run_again_while_a_sibling_is_about_to_commit(
    twice: Callable[[Path], Callable[[], object]], folder: Path
) -> None:
    """It waits for the claim of the sibling, and checks what others have committed: not against its own first run."""
    again, sibling, done = twice(folder), FailingStore(LocalStore(folder)), list[object]()
    sibling.run(lambda: done.append(again()), "create", "manifest/*", nth=2)  # the first one is the claim
    store_on(sibling).write(table_of([(b"z", b"1")]))
    assert len(done) == 1
    assert [row["key"] for row in store_on(sibling).scan().read_all().to_pylist()] == [b"a", b"b", b"z"]


@pytest.mark.slow
def test_threads_that_run_the_same(folder: Path) -> None:
    runs = [Run(folder) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(lambda run: run.commit(), runs))) == 1
    assert value(folder) == b"x"


# --- kinds of writes ------------------------------------------------------------------------------------------------


ROWS = table_of([(b"a", b"1"), (b"b", b"2")])
MORE = table_of([(b"a", b"later"), (b"b", b"later"), (b"c", b"later")])

WRITES: dict[str, Callable[[SlateStore], int]] = {
    "overwrite": lambda store: store.write(ROWS, mode="overwrite", **PAIR),
    "replace": lambda store: store.write(ROWS, mode="overwrite", startKey=b"a", endKey=b"c", **PAIR),
    "delete": lambda store: store.delete("key = X'61'", **PAIR),
    "deleteRange": lambda store: store.deleteRange(keyPrefix=b"a", **PAIR),
    "ifLastSeq": lambda store: store.write(ROWS, ifLastSeq=store.resolve().seq, **PAIR),
}


@pytest.mark.parametrize("name", list(WRITES))
def test_every_kind_of_write_is_skipped_later(name: str, folder: Path) -> None:
    store = store_on(LocalStore(folder))
    store.write(ROWS)
    WRITES[name](store)
    last = store.write(MORE)
    assert WRITES[name](store) == last
    assert store.scan().read_all().num_rows == 3


def test_a_write_on_a_history_table(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "db"), history="true")
    store.write(ROWS)
    store.deleteRange(keyPrefix=b"a", **PAIR)
    last = store.write(MORE)
    assert store.deleteRange(keyPrefix=b"a", **PAIR) == last


def test_files_that_went_after_they_were_ingested(folder: Path, tmp_path: Path) -> None:
    store = store_on(LocalStore(folder))
    external = tmp_path / "rows.sst"
    SstWriter(str(external)).write(ROWS)
    store.ingest(str(external), **PAIR)
    external.unlink()
    last = store.write(MORE)
    assert store.ingest(str(external), **PAIR) == last


def test_a_write_that_found_nothing_to_do_is_not_done_later(folder: Path) -> None:
    store = store_on(LocalStore(folder))
    version = store.write(ROWS)
    assert store.delete("key = X'63'", **PAIR) == version
    last = store.write(MORE)
    assert store.delete("key = X'63'", **PAIR) == last
    assert store.get(b"c") is not None


def test_a_write_of_no_rows_whose_note_fails(folder: Path) -> None:
    store = FailingStore(LocalStore(folder)).fail("create", f"{TXN_DIR}*")
    with pytest.raises(SlateError, match="fails on cue"):
        store_on(store).write(ROWS.slice(0, 0), **PAIR)
    assert store_on(store).write(ROWS, **PAIR) == 3, "it is free"


def test_a_restore_does_not_forget_it(folder: Path) -> None:
    store = store_on(LocalStore(folder))
    before = store.write(ROWS)
    add(LocalStore(folder), **PAIR)
    store.restoreToVersion(before)
    add(LocalStore(folder), **PAIR)
    assert value(folder) is None


def test_a_table_that_is_there_already_as_it_was_created_by_this_write(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "db")
    assert add(store, ifExists="error", **PAIR) == 1
    assert add(store, ifExists="error", **PAIR) is None


# --- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"txnAppId": "a"}, "txnAppId"),
        ({"txnVersion": 1}, "txnVersion"),
        ({"txnAppId": "a", "txnVersion": -1}, "txnVersion"),
        ({"txnAppId": "a", "txnVersion": "1.5"}, "txnVersion"),
        ({"txnAppId": "a", "txnVersion": True}, "txnVersion"),
        ({"txnAppId": "a", "txnVersion": 2**63}, "txnVersion"),
        ({"txnAppId": " ", "txnVersion": 1}, "txnAppId"),
        ({"txnAppId": "\ud800", "txnVersion": 1}, "Unicode"),
        ({"txnAppId": "ä" * 257, "txnVersion": 1}, "514"),
    ],
)
def test_what_is_no_pair(given: dict[str, Any], message: str, folder: Path) -> None:
    with pytest.raises(OptionError, match=message):
        store_on(LocalStore(folder)).write(ROWS, **given)


def test_what_is_no_write(folder: Path) -> None:
    store = store_on(LocalStore(folder))
    for change in (store.reap, lambda **options: store.restoreToVersion(1, **options)):
        with pytest.raises(OptionError, match="txnAppId"):
            change(**PAIR)
    with pytest.raises(OptionError, match="txnAppId"):
        store.trimHistory(0, **PAIR)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"app":"other","version":7}'])
def test_a_damaged_record_is_not_taken_for_an_answer(content: bytes, folder: Path) -> None:
    store = LocalStore(folder)
    store.create(txn_path("Nightly load/ä", 7), content)
    with pytest.raises(CorruptDataError, match="record"):
        add(store, **PAIR)
    assert value(folder) is None


@pytest.mark.parametrize("app", ["..", "/", "a\0b", "x" * 512, "X" * 100, "\N{SNOWMAN}" * 170, "=="])
def test_names_that_no_path_could_hold(app: str, folder: Path) -> None:
    store = LocalStore(folder)
    for _ in range(3):
        add(store, txnAppId=app, txnVersion=2**63 - 1)
    add(store, b"y")
    add(store, txnAppId=app, txnVersion=2**63 - 1)
    assert value(folder) == b"xy"
    assert len([path for path in (folder / TXN_DIR).rglob("*") if path.is_file()]) == 1


def test_no_two_names_share_a_path() -> None:
    names = ["a", "A", "a=41", "=41", "==", "a/b", "a=2fb", "x" * 200, "x" * 201, "", "ä", "a "]
    assert len({txn_path(name, 1).lower() for name in names}) == len(names)
