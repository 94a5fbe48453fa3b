"""Typed tables: whatever another writer does at any storage call of ours, the result is that of one after the other.

And whenever a process dies, at any storage call, it leaves a table as before or as after, on which others go on.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fdb.tuple
import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.errors import (
    CommitConflictError,
    ConflictError,
    SchemaError,
    TableExistsError,
    TableNotFoundError,
    TransactionConflictError,
)
from slatespark.options import WriteOptions
from slatespark.storage.local_store import LocalStore
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import ObjectStore
from slatespark.table.records.leases import LEASE_LIFETIME_MS
from slatespark.table.write.load_run import load_batches
from tests.faults.jobs import store_on
from tests.support.client import Client, Location
from tests.support.effort import points
from tests.support.failing_store import FailingStore, Moment
from tests.support.fake_clock import FakeClock

NOW_MS = 1_700_000_000_000

Act = Callable[[SlateStore], object]
State = tuple[list[str], list[dict[str, Any]]] | None


def people(**columns: list[Any]) -> pa.Table:
    return pa.table(columns)


def on(store: ObjectStore, seed: int = 0, *, later_ms: int = 0) -> SlateStore:
    return store_on(store, FakeClock(NOW_MS + later_ms, seed=seed))


def create(rows: pa.Table, **options: Any) -> Act:
    """As a Spark job does, whose first write creates the table."""

    def act(table: SlateStore) -> None:
        parsed = WriteOptions.parse({"path": table.url, **options})
        load_batches(table._stores, table._clock, rows.schema, rows.to_batches(), parsed)

    return act


def write(rows: pa.Table, **options: Any) -> Act:
    return lambda table: table.write(rows, **options)


_numbers = itertools.count()


def new_store() -> FailingStore:
    return FailingStore(MemoryStore(f"typed-races-{next(_numbers)}"))


def state_of(store: ObjectStore) -> State:
    """Columns and rows; None where there is no table."""
    try:
        found = on(store).scan().read_all()
    except TableNotFoundError:
        return None
    return sorted(f"{field.name} {field.type}" for field in found.schema), found.to_pylist()


def started() -> FailingStore:
    store = new_store()
    create(people(k=[1, 2, 3], v=pa.array([10, 20, 30], pa.int32())), keyColumns="k")(on(store, 1))
    store.clear()
    return store


def serially(make: Callable[[], FailingStore], *acts: Act) -> State:
    """The state after the acts, one after the other; those refused change nothing."""
    store = make()
    for seed, act in enumerate(acts, 5):
        before = state_of(store)
        try:
            act(on(store, seed))
        except (SchemaError, ConflictError, TableExistsError):
            assert state_of(store) == before
    return state_of(store)


@dataclass(frozen=True)
class Race:
    """Two acts on one table.

    `late` is what ours is when it was checked before the other act: an upsert of the columns there were then.
    """

    make: Callable[[], FailingStore]
    ours: Act
    other: Act
    late: Act | None = None


RACES = {
    "creations with other columns": Race(
        new_store,
        create(people(k=[1], v=[1]), keyColumns="k"),
        create(people(k=[2], w=["x"]), keyColumns="k"),
    ),
    "creations that may join": Race(
        new_store,
        create(people(k=[1], v=[1]), keyColumns="k", mergeSchema=True),
        create(people(k=[2], w=["x"]), keyColumns="k", mergeSchema=True),
    ),
    "creations with other keys": Race(
        new_store,
        create(people(k=[1], v=[1]), keyColumns="k"),
        create(people(k=[2], v=[2]), keyColumns="v"),
    ),
    "creation and raw creation": Race(
        new_store,
        create(people(k=[1], v=[1]), keyColumns="k"),
        create(people(key=[b"k"], value=[b"v"])),
    ),
    "raw creation and creation": Race(
        new_store,
        create(people(key=[b"k"], value=[b"v"])),
        create(people(k=[1], v=[1]), keyColumns="k"),
    ),
    "the same creation": Race(
        new_store,
        create(people(k=[1, 3], v=[1, 1]), keyColumns="k"),
        create(people(k=[2, 3], v=[2, 2]), keyColumns="k"),
    ),
    "evolutions": Race(
        started,
        write(people(k=[1], v=[2**40], w=["x"]), mergeSchema=True),
        write(people(k=[1], u=[0.5]), mergeSchema=True),
    ),
    "evolutions that contradict": Race(
        started,
        write(people(k=[1], w=["x"]), mergeSchema=True),
        write(people(k=[2], w=[1]), mergeSchema=True),
    ),
    "evolutions that spell a column differently": Race(
        started,
        write(people(k=[1], W=["x"]), mergeSchema=True),
        write(people(k=[2], w=["y"]), mergeSchema=True),
    ),
    "evolutions that spell a field differently": Race(
        started,
        write(people(k=[1], s=[[{"A": 1}]]), mergeSchema=True),
        write(people(k=[2], s=[[{"a": 2}]]), mergeSchema=True),
    ),
    "creations that spell columns differently": Race(
        new_store,
        create(people(K=[1], V=["x"]), keyColumns="K", mergeSchema=True),
        create(people(k=[2], v=["y"]), keyColumns="k", mergeSchema=True),
    ),
    "an upsert and an evolution": Race(
        started,
        write(people(k=[1], v=pa.array([7], pa.int32()))),
        write(people(k=[1, 4], v=[2**40, 4], w=["x", "y"]), mergeSchema=True),
        late=write(people(k=[1], v=[7]), mergeSchema=True),
    ),
    "an upsert and a dropped column": Race(
        started,
        write(people(k=[4], v=pa.array([7], pa.int32()))),
        lambda table: table.dropColumns("v"),
    ),
    "an evolution and a dropped column": Race(
        started,
        write(people(k=[4], v=[2**40], w=["x"]), mergeSchema=True),
        lambda table: table.dropColumns("v"),
    ),
    "a dropped column and an evolution": Race(
        started,
        lambda table: table.dropColumns("v"),
        write(people(k=[4], v=[2**40], w=["x"]), mergeSchema=True),
    ),
    "a delete and an upsert": Race(
        started,
        lambda table: table.delete("v >= 20"),
        write(people(k=[1, 2], v=pa.array([25, 5], pa.int32()))),
    ),
    "a delete and a delete": Race(
        started,
        lambda table: table.delete("v >= 20"),
        lambda table: table.delete("v <= 20"),
    ),
    "a delete and an evolution": Race(
        started,
        lambda table: table.delete("v >= 20"),
        write(people(k=[1], v=[2**40], w=["x"]), mergeSchema=True),
    ),
    "a delete and an overwrite": Race(
        started,
        lambda table: table.delete("v >= 20"),
        write(people(k=[1, 5], v=pa.array([99, 5], pa.int32())), mode="overwrite"),
    ),
    "an overwrite and a delete": Race(
        started,
        write(people(k=[1, 5], v=pa.array([99, 5], pa.int32())), mode="overwrite"),
        lambda table: table.delete("v >= 20"),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RACES)
def test_another_act_at_each_storage_call(name: str) -> None:
    race = RACES[name]
    acts = [(race.ours, race.other), (race.other, race.ours), (race.other, race.late or race.ours)]
    orders = [serially(race.make, *pair) for pair in acts]
    alone = serially(race.make, race.other)
    quiet = race.make()
    race.ours(on(quiet, 5))
    for nth in points(quiet.count(), 2, first=len(name)):
        store = race.make()
        failures: list[Exception] = []

        def intrude(store: FailingStore = store, failures: list[Exception] = failures) -> None:
            try:
                race.other(on(store.inner, 6))
            except (SchemaError, ConflictError, TableExistsError) as exc:
                failures.append(exc)

        store.run(intrude, "*", nth=nth)
        call = quiet.calls[nth - 1]
        try:
            race.ours(on(store, 5))
        except (SchemaError, ConflictError, TableExistsError):
            assert state_of(store) == alone, f"refused at call {nth}, {call}, but not without effect"
        else:
            alone_too = [serially(race.make, race.ours)] if failures else []
            assert state_of(store) in orders + alone_too, f"call {nth}, {call}: {failures}"
    assert not on(store).verify().findings


# --- crashes --------------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """What ends a process: nothing it would do afterwards reaches the store."""


def kill_at(store: FailingStore, nth: int, moment: Moment) -> None:
    if moment == "after":
        store.fail("*", nth=nth, moment="after", error=Killed())
        nth += 1
    store.fail("*", nth=nth, times=1 << 40, error=Killed())


CRASHES: dict[str, tuple[Callable[[], FailingStore], Act]] = {
    "creation": (new_store, create(people(k=[1, 2], v=[1, 2]), keyColumns="k")),
    "evolution": (started, write(people(k=[1, 4], v=[2**40, 4], w=["x", "y"]), mergeSchema=True)),
    "drop": (started, lambda table: table.dropColumns("v")),
    "delete": (started, lambda table: table.delete("v >= 20")),
    "overwrite": (started, write(people(k=[5], v=pa.array([5], pa.int32())), mode="overwrite")),
}


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("name", CRASHES)
def test_a_crash_at_each_storage_call(name: str, moment: Moment) -> None:
    make, act = CRASHES[name]
    quiet = make()
    before = state_of(quiet)
    quiet.clear()
    act(on(quiet, 5))
    calls = list(quiet.calls)
    after = state_of(quiet)
    for nth, call in enumerate(calls, 1):
        store = make()
        kill_at(store, nth, moment)
        with contextlib.suppress(Killed):
            act(on(store, 5))
        store.clear()
        left = state_of(store)
        assert rows_of(left) in (rows_of(before), rows_of(after)), call
        check_goes_on(store, left, call)


def rows_of(state: State) -> Any:
    """The rows without columns that are null: a definition may be ahead of its rows."""
    return state and [{name: value for name, value in row.items() if value is not None} for row in state[1]]


def check_goes_on(store: FailingStore, left: State, call: object) -> None:
    """The same job again, later, and another one right now."""
    if left is None:
        again = on(store, 8, later_ms=LEASE_LIFETIME_MS)
        create(people(k=[9], other=["x"]), keyColumns="k")(again)
        assert state_of(store) == (["k int64", "other string"], [{"k": 9, "other": "x"}]), call
        return
    table = on(store, 8)
    table.write(people(k=[9]), mergeSchema=True)
    assert table.get(9) is not None, call
    assert not table.verify().findings, call


# --- threads --------------------------------------------------------------------------------------------------------


def test_threads_that_create_upsert_and_evolve_at_once(tmp_path: Path) -> None:
    """Every row of everybody is there, with the columns of everybody."""
    writers, turns = 4, 3
    barrier = threading.Barrier(writers)

    def work(number: int) -> None:
        table = store_on(LocalStore(tmp_path / "table"))
        barrier.wait()
        for turn in range(turns):
            rows = people(k=[f"{number}-{turn}", "shared"], **{f"c{number}": [turn, turn]}, v=[number, number])
            while True:
                try:
                    create(rows, keyColumns="k", mergeSchema=True)(table)
                except CommitConflictError:
                    continue
                break

    with ThreadPoolExecutor(writers) as threads:
        for done in [threads.submit(work, number) for number in range(writers)]:
            done.result()
    table = SlateStore.open(str(tmp_path / "table"))
    rows = {row["k"]: row for row in table.scan().read_all().to_pylist()}
    assert len(rows) == writers * turns + 1
    for number in range(writers):
        for turn in range(turns):
            row = rows[f"{number}-{turn}"]
            assert (row["v"], row[f"c{number}"]) == (number, turn)
            assert all(row[f"c{other}"] is None for other in range(writers) if other != number)
    assert rows["shared"][f"c{rows['shared']['v']}"] is not None
    assert not table.verify().findings


def test_threads_that_delete_and_upsert_at_once(tmp_path: Path) -> None:
    """A counter of which each thread takes one row off, again and again: no row is taken twice, none is lost."""
    folder = str(tmp_path / "table")
    table = SlateStore.create(folder, pa.schema([("k", pa.int64()), ("v", pa.int64())]), "k")
    table.write(people(k=list(range(6)), v=[0] * 6))
    barrier = threading.Barrier(2)

    def take(number: int) -> int:
        mine = SlateStore.open(folder)
        barrier.wait()
        conflicts = 0
        for key in range(6):
            while True:
                try:
                    if key % 2 == number:
                        mine.delete(f"k = {key}")
                    else:
                        mine.write(people(k=[100 + key], v=[1]))
                except CommitConflictError:
                    conflicts += 1
                    continue
                break
        return conflicts

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(take, number) for number in range(2)]:
            done.result()
    assert [row["k"] for row in table.scan().read_all().to_pylist()] == [100 + key for key in range(6)]


@pytest.mark.parametrize("if_client_active", ["fail", "fence"])
@pytest.mark.parametrize("in_wal", [True, False])
def test_a_delete_loses_against_a_client(tmp_path: Path, if_client_active: str, in_wal: bool) -> None:
    """What a SlateDB client wrote after the rows were looked for stays, whether it may be fenced or not."""
    folder = tmp_path / "table"
    store = FailingStore(LocalStore(folder))
    create(people(k=[1, 2], v=[1, 2]), keyColumns="k")(store_on(store))
    with Client.open(Location.local(folder)) as client:

        def intrude() -> None:
            client.delete(fdb.tuple.pack((2,)))
            client.put(fdb.tuple.pack((1,)), client.get(fdb.tuple.pack((1,))) or b"")
            (client.flush_wal if in_wal else client.flush_memtable)()

        store.run(intrude, "put", "compacted/*")
        with pytest.raises(TransactionConflictError, match="k=1; k=2"):
            store_on(store).delete("v = 1", ifClientActive=if_client_active)
        assert store_on(store).scan().read_all().to_pylist() == [{"k": 1, "v": 1}]
        client.put(fdb.tuple.pack((3,)), b"")  # it was refused before the claim, so the client works on
        client.flush_wal()
