"""Others create, drop and compact segments at any step of a write or compaction: the outcome is that of some order."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slatespark import CommitConflictError, InvalidRequestError, SlateStore
from slatespark.storage.local_store import LocalStore
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.write.load_commit import commit_load
from slatespark.table.write.load_plan import begin_load
from slatespark.table.write.load_task import run_task
from tests.faults.jobs import store_on, table_of
from tests.faults.test_races import STEPS, at_each_step
from tests.support.client import Client, ClientOptions, Location, read_rows
from tests.support.failing_store import FailingStore, Moment
from tests.support.segments import UpTo

SLASH = UpTo(b"/")
CLIENT = ClientOptions(segments=SLASH)
Rows = dict[bytes, bytes]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Rows]:
    """Segments with runs, with L0 views, and with rows that only the WAL has."""
    folder = tmp_path_factory.mktemp("segments") / "db"
    SlateStore.create(str(folder), **SLASH.options).write(table_of([(b"a/1", b"1"), (b"b/1", b"1")]))
    with Client.open(Location.local(folder), CLIENT) as client:
        client.put(b"b/2", b"flushed")
        client.flush_memtable()
        client.put(b"a/2", b"wal")
        client.put(b"c/1", b"wal")
        client.flush_wal()
    return folder, {row.key: row.value for row in read_rows(Location.local(folder), options=CLIENT)}


@pytest.fixture
def busy(template: tuple[Path, Rows], tmp_path: Path) -> tuple[Path, Rows]:
    shutil.copytree(template[0], tmp_path / "db")
    return tmp_path / "db", dict(template[1])


def shown(folder: Path) -> Rows:
    return {row["key"]: row["value"] for row in SlateStore.open(str(folder)).scan().read_all().to_pylist()}


def check_serves(folder: Path, rows: Rows) -> None:
    assert SlateStore.open(str(folder)).verify().findings == ()
    with Client.open(Location.local(folder), CLIENT) as client:
        assert {row.key: row.value for row in client.scan()} == rows
        assert {key: client.get(key) for key in rows} == rows


OURS = {b"b/2": b"ours", b"n/2": b"ours", b"z/1": b"ours"}
THEIRS = {b"b/2": b"theirs", b"n/1": b"theirs"}


def write(rows: Rows) -> Callable[[SlateStore], object]:
    return lambda store: store.write(table_of(list(rows.items())))


def drop(store: SlateStore) -> object:
    return store.deleteRange(keyPrefix=b"b/")


def compact(store: SlateStore) -> object:
    return store.compact(full=True)


def written(rows: Rows) -> Callable[[Rows], Rows]:
    return lambda before: {**before, **rows}


def dropped(before: Rows) -> Rows:
    return {key: value for key, value in before.items() if not key.startswith(b"b/")}


OTHERS: dict[str, tuple[Callable[[SlateStore], object], Callable[[Rows], Rows]]] = {
    "write": (write(THEIRS), written(THEIRS)),
    "drop": (drop, dropped),
    "compact": (compact, dict),
}


@pytest.mark.parametrize(
    ("operation", "path", "nth", "moment"), [step for step in STEPS if not step[1].startswith("compactions")]
)
@pytest.mark.parametrize("other", OTHERS)
def test_at_any_step_of_a_write(
    busy: tuple[Path, Rows], other: str, operation: Any, path: str, nth: int, moment: Moment
) -> None:
    folder, rows = busy
    act, model = OTHERS[other]
    store = FailingStore(LocalStore(folder))
    store.run(lambda: act(store_on(LocalStore(folder))), operation, path, nth=nth, moment=moment)
    write(OURS)(store_on(store))
    found = shown(folder)
    assert found in (model(written(OURS)(rows)), written(OURS)(model(rows)))
    check_serves(folder, found)


@at_each_step
@pytest.mark.parametrize("other", ["write", "drop"])
def test_at_any_step_of_a_compaction(
    busy: tuple[Path, Rows], other: str, operation: Any, path: str, nth: int, moment: Moment
) -> None:
    folder, rows = busy
    act, model = OTHERS[other]
    store = FailingStore(LocalStore(folder))
    store.run(lambda: act(store_on(LocalStore(folder))), operation, path, nth=nth, moment=moment)
    try:
        compact(store_on(store))
    except CommitConflictError:
        assert other == "drop"
    assert shown(folder) == model(rows)
    check_serves(folder, model(rows))


def undeclared(busy: tuple[Path, Rows]) -> tuple[Path, Rows]:
    """The same without rows in the WAL, as if another client had created it."""
    folder, rows = busy
    compact(SlateStore.open(str(folder)))
    shutil.rmtree(folder / "slatespark" / "table")
    shutil.rmtree(folder / "slatespark" / "commits")
    return folder, rows


def test_a_segment_that_was_dropped_since_the_plan_is_made_again(busy: tuple[Path, Rows]) -> None:
    """Without a declared extractor: its prefix was there when the write was planned."""
    folder, rows = undeclared(busy)
    store, table = SlateStore.open(str(folder)), table_of([(b"b/9", b"ours")])
    stores, clock = store._stores, store._clock
    load = begin_load(stores, clock, table.schema, store._write_options({}))
    assert load is not None
    files = run_task(stores, clock, load, 0, table.to_batches())
    drop(SlateStore.open(str(folder)))
    assert b"b/" not in [tree.prefix for tree in fetch_latest_manifest(stores)[1].segments]
    commit_load(stores, clock, load, (files,))
    expected = {**dropped(rows), b"b/9": b"ours"}
    assert shown(folder) == expected
    check_serves(folder, expected)


def test_a_client_that_needs_a_new_segment_while_the_database_is_claimed(busy: tuple[Path, Rows]) -> None:
    """Its rows belong to no segment that a write without extractor knows: refused, and nothing is lost."""
    folder, rows = undeclared(busy)
    with Client.open(Location.local(folder), CLIENT) as client:

        def put() -> None:
            client.put(b"new/1", b"theirs")
            client.flush_wal()

        store = FailingStore(LocalStore(folder)).run(put, "create", "manifest/*")
        with pytest.raises(InvalidRequestError, match="needs a new segment"):
            store_on(store).write(table_of([(b"a/1", b"ours")]), ifClientActive="fence")
    rows[b"new/1"] = b"theirs"
    assert shown(folder) == rows
    SlateStore.open(str(folder)).write(table_of([(b"a/1", b"ours")]), ifClientActive="fence", **SLASH.options)
    rows[b"a/1"] = b"ours"
    assert shown(folder) == rows
    check_serves(folder, rows)
