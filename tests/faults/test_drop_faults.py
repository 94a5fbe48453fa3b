"""A drop that dies at any call, or meets others: the table is whole or gone, never less, and a second drop finishes."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from slatedb import uniffi

from slatespark import CommitConflictError, InvalidRequestError, SlateError, SlateStore, TableNotFoundError
from slatespark.errors import UnavailableError
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.clock import SystemClock
from slatespark.table.commit.commit import commit_write
from slatespark.table.commit.same_table import LOOK_AGAIN_AFTER_MS
from slatespark.table.gc.drop import drop_table
from slatespark.table.log.manifests import fetch_manifest, list_manifests
from tests.faults.jobs import Job, Pair, store_on, stores_of, table_of
from tests.support.client import Client, Location, read_rows, run_once
from tests.support.client_admin import delete_database
from tests.support.failing_store import FailingStore, Moment
from tests.support.fake_clock import FakeClock

_names = itertools.count()

ROWS: list[Pair] = [(b"a", b"2"), (b"b", b"1")]


class KilledError(BaseException):
    """The process ends here; nothing handles it, and nothing is cleaned up."""


def made(*, has_boundary: bool) -> MemoryStore:
    """A table with several versions, and perhaps a boundary that a vacuum left."""
    store = MemoryStore(f"dropped/{next(_names)}")
    table = SlateStore.create(store.url)
    table.write(table_of([(b"a", b"1")]))
    table.write(table_of([(b"b", b"1")]))
    table.write(table_of([(b"a", b"2")]))
    if has_boundary:
        table.vacuum("0s", force=True)
        table.write(table_of([(b"a", b"2")]))
    return store


def again(store: MemoryStore) -> MemoryStore:
    """The same table at another place."""
    other = MemoryStore(f"dropped/{next(_names)}")
    for meta in store.list_below(""):
        other.put(meta.path, [store.get(meta.path)])
    return other


def rows(store: MemoryStore) -> list[Pair] | None:
    """What a reader finds; None where there is no table."""
    try:
        found = store_on(store).scan().read_all().to_pylist()
    except TableNotFoundError:
        return None
    return [(row["key"], row["value"]) for row in found]


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("can_replace", [True, False])
@pytest.mark.parametrize("has_boundary", [True, False])
def test_a_drop_that_dies_leaves_a_table_or_none(has_boundary: bool, can_replace: bool, moment: Moment) -> None:
    """Where the boundary cannot be moved, manifests go oldest first."""
    seen: set[bool] = set()
    table = made(has_boundary=has_boundary)
    for nth in itertools.count(1):
        inner = again(table)
        store = FailingStore(inner)
        if not can_replace:
            refusal = InvalidRequestError("This store replaces nothing on a condition.")
            store.fail("replace", error=refusal, times=1000).fail("create", "gc/*", error=refusal, times=1000)
        store.fail("*", nth=nth, moment=moment, error=KilledError())
        try:
            drop_table(stores_of(store), SystemClock())
        except KilledError:
            found = rows(inner)
            assert found in (None, ROWS), nth
            seen.add(found is None)
            if list(inner.list_below("")):
                drop_table(stores_of(inner), SystemClock())
        assert list(inner.list_below("")) == []
        if store.count() < nth:
            break
    assert seen == {True, False}
    assert nth > 5


def test_a_refused_delete_is_repeated() -> None:
    inner = made(has_boundary=False)
    with pytest.raises(UnavailableError):
        drop_table(stores_of(FailingStore(inner).fail("delete", "compacted/*")), SystemClock())
    assert rows(inner) is None
    assert drop_table(stores_of(inner), SystemClock()).version is None
    assert list(inner.list_below("")) == []


@pytest.mark.parametrize(
    "step", [("put", ".deleting"), ("create", "gc/*"), ("delete", "manifest/*"), ("delete", "wal/*")]
)
def test_a_commit_during_a_drop_brings_nothing_back(step: tuple[str, str]) -> None:
    inner = made(has_boundary=False)
    job = Job(inner).upload(table_of([(b"c", b"late")]))
    outcomes: list[SlateError | None] = []

    def commit() -> None:
        try:
            job.commit()
        except SlateError as exc:
            outcomes.append(exc)
        else:
            outcomes.append(None)

    store = FailingStore(inner).run(commit, step[0], step[1])  # type: ignore[arg-type]
    drop_table(stores_of(store), SystemClock(), force=True)
    assert len(outcomes) == 1
    assert isinstance(outcomes[0], TableNotFoundError | CommitConflictError | UnavailableError | None)
    assert rows(inner) is None
    assert not inner.list("manifest/")


# --- the real client ------------------------------------------------------------------------------------------------


def opened(location: Location) -> dict[bytes, bytes] | None:
    """What the client's reader shows; None if it opens nothing, or waits for a table in vain."""
    try:
        return {row.key: row.value for row in read_rows(location, timeout_s=2)}
    except (TimeoutError, uniffi.Error.Data):
        return None


def another_table(place: MemoryStore) -> None:
    """Remove a table although a job is running, and create another one there."""
    drop_table(stores_of(place), SystemClock(), force=True)
    SlateStore.create(place.url).write(table_of([(b"n", b"new")]))


def test_a_job_does_not_commit_to_a_table_that_replaced_its_own() -> None:
    """Its files went with its table; since its rows have a given time, it does not read them again either."""
    place = made(has_boundary=False)
    job = Job(place, timestamp=SystemClock().now_ms() + 5_000).upload(table_of([(b"c", b"late")]))
    another_table(place)
    with pytest.raises(CommitConflictError, match="removed and created again"):
        job.commit()
    assert rows(place) == [(b"n", b"new")]


@pytest.mark.parametrize("is_created_again", [True, False])
def test_a_table_that_is_replaced_during_a_long_check_is_not_overwritten(is_created_again: bool) -> None:
    """The claim would have taken a number above all versions of the new table, or brought back one without files."""
    place, clock = made(has_boundary=False), FakeClock()

    def replace_it() -> None:
        clock.advance(LOOK_AGAIN_AFTER_MS)
        if is_created_again:
            another_table(place)
        else:
            drop_table(stores_of(place), SystemClock(), force=True)

    store = FailingStore(place)
    job = Job(store, clock, timestamp=clock.now_ms()).upload(table_of([(b"c", b"late")]))
    store.run(replace_it, "list", "slatespark/table/*")
    with pytest.raises(CommitConflictError if is_created_again else TableNotFoundError, match="removed"):
        job.commit()
    assert rows(place) == ([(b"n", b"new")] if is_created_again else None)
    assert is_created_again or not place.list_below("manifest/")


class SlowClock(FakeClock):
    """A clock by which each wait takes long."""

    def sleep_ms(self, duration_ms: int) -> None:
        """Wait."""
        super().sleep_ms(max(duration_ms, LOOK_AGAIN_AFTER_MS))


def test_a_table_that_is_replaced_during_the_wait_for_a_sibling_is_not_overwritten() -> None:
    """The sibling has claimed the table and gone."""
    place = made(has_boundary=False)
    sibling = Job(FailingStore(place).fail("create", "wal/*", error=KilledError())).upload(table_of([(b"s", b"")]))
    with pytest.raises(KilledError):
        commit_write(sibling.stores, sibling.clock, sibling.plan, sibling.outputs, sibling.options)
    clock = SlowClock()
    job = Job(place, clock, timestamp=clock.now_ms()).upload(table_of([(b"c", b"late")]))
    job.stores = stores_of(FailingStore(place).run(lambda: another_table(place), "head", "manifest/*"))
    with pytest.raises(CommitConflictError, match="removed and created again"):
        job.commit()
    assert rows(place) == [(b"n", b"new")]


def test_the_client_reads_the_whole_table_or_none(tmp_path: Path) -> None:
    """The drop of a database that the client made dies among its manifests, and behind them."""
    for nth in (2, 9):
        place = tmp_path / f"db{nth}"
        location = Location(place.name, directory=tmp_path)
        for value in (b"1", b"2"):
            with Client.open(location) as client:
                client.put(b"a", value)
                client.flush_memtable()
        assert read_rows(location)[0].value == b"2"
        stores = SlateStore.open(str(place))._stores
        assert [blocker.kind for blocker in drop_table(stores, SystemClock(), dry_run=True).blockers] == ["client"]
        assert len(list_manifests(stores)) > 3
        assert fetch_manifest(stores, 1) is not None
        dying = stores_of(FailingStore(stores.main).fail("delete", nth=nth, error=KilledError()))
        with pytest.raises(KilledError):
            drop_table(dying, SystemClock(), force=True)
        assert opened(location) is None
        with pytest.raises((TimeoutError, uniffi.Error.Data)):
            run_once(uniffi.DbBuilder(location.path, location.object_store()).build(), 2)
        with pytest.raises(TableNotFoundError):
            SlateStore.open(str(place))
        SlateStore.drop(place)
        assert not place.exists()


def test_what_the_clients_administration_began_is_finished(tmp_path: Path) -> None:
    location = Location("db", directory=tmp_path)
    with Client.open(location) as client:
        client.put(b"a", b"1")
        client.flush_memtable()
    (tmp_path / "db" / ".deleting").write_bytes(b"")
    for path in (tmp_path / "db" / "manifest").iterdir():
        path.unlink()
    assert SlateStore.drop(str(tmp_path / "db")).objects["sst"] == 1
    assert not (tmp_path / "db").exists()


def test_the_clients_administration_finishes_ours(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "db"))
    store.write(table_of([(b"a", b"1")]))
    dying = stores_of(FailingStore(store._stores.main).fail("delete", "compacted/*", error=KilledError()))
    with pytest.raises(KilledError):
        drop_table(dying, SystemClock())
    delete_database(Location("db", directory=tmp_path))
    assert [path for path in (tmp_path / "db").rglob("*") if path.is_file()] == []
