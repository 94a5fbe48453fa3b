"""Two jobs that create, or change, one table at once; crashes between definition and manifest; damaged definitions."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.errors import (
    CommitConflictError,
    ConflictError,
    CorruptDataError,
    InvalidRequestError,
    SchemaError,
    TableExistsError,
    TableNotFoundError,
    UnavailableError,
)
from slatespark.options import WriteOptions
from slatespark.storage.local_store import LocalStore
from slatespark.storage.object_store import ObjectStore
from slatespark.table.clock import Clock
from slatespark.table.definition.versions import DEFINITION_DIR, definition_path, fetch_definition
from slatespark.table.records.leases import LEASE_LIFETIME_MS, LEASES_DIR
from slatespark.table.write.load import Load
from slatespark.table.write.load_commit import commit_load
from slatespark.table.write.load_plan import begin_load
from slatespark.table.write.load_task import run_task
from tests.faults.jobs import stores_of
from tests.support.client import Client, Location, Put
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock


class TypedJob:
    """A typed write in its phases: planned when made, then `commit`."""

    def __init__(self, store: ObjectStore, rows: pa.Table, clock: Clock, **options: Any) -> None:
        self.stores, self.clock = stores_of(store), clock
        parsed = WriteOptions.parse({"path": store.url, **options})
        load = begin_load(self.stores, clock, rows.schema, parsed, overwrite=parsed.replace_where is not None)
        assert load is not None
        self.load: Load = load
        self.files = run_task(self.stores, clock, load, 0, rows.to_batches())

    def commit(self) -> None:
        commit_load(self.stores, self.clock, self.load, (self.files,))


def people(**columns: Any) -> pa.Table:
    return pa.table(columns)


def rows_in(store: ObjectStore) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        SlateStore(stores_of(store), FakeClock(), {"path": store.url}).scan().read_all().to_pylist()
    )
    return found


@pytest.fixture
def store(tmp_path: Path) -> FailingStore:
    return FailingStore(LocalStore(tmp_path / "table"))


def definitions(store: ObjectStore) -> int:
    return len(store.list(DEFINITION_DIR))


# --- creation -------------------------------------------------------------------------------------------------------


def test_nothing_is_created_by_a_check_that_fails(store: FailingStore) -> None:
    for rows, options in [
        (people(a=[1]), {"keyColumns": "b"}),
        (people(a=[1]), {}),
        (people(a=[1], u=pa.array([1], pa.uint64())), {"keyColumns": "a"}),
        (people(a=[[1]], b=[2]), {"keyColumns": "a"}),
        (people(a=["x"], b=["y"], c=["z"]), {"keyColumns": "a", "valueFormat": "utf8"}),
        (people(a=["x"], b=["y"]), {"keyColumns": "a,b", "keyFormat": "utf8"}),
        (people(a=[1]), {"keyColumns": "a", "defaultTtl": "7d", "operation": "merge"}),
    ]:
        with pytest.raises(InvalidRequestError):
            TypedJob(store, rows, FakeClock(), **options)
    assert store.matching("create") == []
    assert store.matching("put") == []


def test_a_job_that_fails_leaves_no_table_and_no_definition(store: FailingStore) -> None:
    TypedJob(store, people(a=[1], b=[1]), FakeClock(), keyColumns="a")
    assert definitions(store) == 0
    TypedJob(store, people(x=["k"], y=[1]), FakeClock(seed=2), keyColumns="x").commit()
    assert rows_in(store) == [{"x": "k", "y": 1}]


def test_the_same_creation_twice(store: FailingStore) -> None:
    first = TypedJob(store, people(a=[1], b=["x"]), FakeClock(), keyColumns="a")
    second = TypedJob(store, people(a=[2], b=["y"]), FakeClock(seed=2), keyColumns="A")
    second.commit()
    first.commit()
    assert rows_in(store) == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    assert definitions(store) == 1


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        (people(a=[2], b=["y"]), {"keyColumns": "b"}),
        (people(a=[2], b=["y"]), {"keyColumns": "a", "valueFormat": "json"}),
        (people(a=[2], c=["y"]), {"keyColumns": "a"}),
        (people(a=[2], b=["y"]), {"keyColumns": "a", "defaultTtl": "1h"}),
        (people(a=[2], b=["y"], c=[1]), {"keyColumns": "a", "retention": "1d", "mergeSchema": True}),
        (people(key=[b"k"], value=[b"v"]), {}),
    ],
)
@pytest.mark.parametrize("moment", ["after manifest 1", "before manifest 1"])
def test_another_creation_of_the_same_table_is_refused(
    store: FailingStore, rows: pa.Table, options: dict[str, Any], moment: str
) -> None:
    """Whoever puts definition 1 first wins, whatever happens between that and its manifest."""
    clock = FakeClock()
    loser = TypedJob(store, rows, FakeClock(seed=2), **options)
    winner = TypedJob(store, people(a=[1], b=["x"]), clock, keyColumns="a")
    failures: list[type[Exception]] = []

    def lose() -> None:
        with pytest.raises(TableExistsError) as caught:
            loser.commit()
        failures.append(caught.type)

    if moment == "before manifest 1":
        store.run(lose, "create", "manifest/*1.manifest")
    winner.commit()
    if moment == "after manifest 1":
        lose()
    assert failures == [TableExistsError]
    assert rows_in(store) == [{"a": 1, "b": "x"}]


@pytest.mark.parametrize("if_exists", ["error", "ignore"])
@pytest.mark.parametrize("moment", ["after manifest 1", "before manifest 1"])
def test_a_table_that_another_job_creates_first_exists(store: FailingStore, if_exists: str, moment: str) -> None:
    late = TypedJob(store, people(a=[2], b=["y"]), FakeClock(seed=2), keyColumns="a", ifExists=if_exists)
    first = TypedJob(store, people(a=[1], b=["x"]), FakeClock(), keyColumns="a")

    if moment == "before manifest 1":
        store.run(first.commit, "create", "manifest/*1.manifest")
    else:
        first.commit()
    with pytest.raises(TableExistsError) if if_exists == "error" else contextlib.nullcontext():
        late.commit()
    assert rows_in(store) == [{"a": 1, "b": "x"}]
    assert len(store.list(LEASES_DIR)) == (if_exists == "error"), "its caller removes it after an error"


def test_a_table_that_may_not_exist_is_created(store: FailingStore) -> None:
    TypedJob(store, people(a=[1], b=["x"]), FakeClock(), keyColumns="a", ifExists="error").commit()
    assert rows_in(store) == [{"a": 1, "b": "x"}]


@pytest.mark.parametrize(
    ("properties", "joins"),
    [({}, True), ({"autoCompact": True}, True), ({"retention": "7d"}, False), ({"columnar": True}, False)],
)
def test_a_client_that_creates_the_table_first_gives_it_no_properties(
    store: FailingStore, properties: dict[str, Any], joins: bool, tmp_path: Path
) -> None:
    rows = people(key=[b"k"], value=[b"v"])
    job = TypedJob(store, rows, FakeClock(), ifClientActive="fence", **properties)
    with Client.open(Location.local(tmp_path / "table")) as client:
        client.write([Put(b"c", b"1")])
        client.flush_memtable()
    with contextlib.nullcontext() if joins else pytest.raises(TableExistsError, match="properties"):
        job.commit()
    assert len(rows_in(store)) == 1 + joins


def test_creations_that_differ_in_columns_join_if_told_so(store: FailingStore) -> None:
    joiner = TypedJob(store, people(a=[2], c=[0.5]), FakeClock(seed=2), keyColumns="a", mergeSchema=True)
    first = TypedJob(store, people(a=[1], b=["x"]), FakeClock(), keyColumns="a")
    store.run(joiner.commit, "create", "manifest/*1.manifest")
    first.commit()
    assert rows_in(store) == [{"a": 1, "b": "x", "c": None}, {"a": 2, "b": None, "c": 0.5}]
    assert definitions(store) == 2


def crash_after_definition(store: FailingStore, clock: Clock) -> None:
    """What a process leaves that dies right before manifest 1: its definition and its lease."""
    job = TypedJob(store, people(a=[1], b=["x"]), clock, keyColumns="a")
    store.fail("create", "manifest/*", times=100)
    with pytest.raises(UnavailableError):
        job.commit()
    store.cues.clear()
    assert definitions(store) == 1


def test_a_definition_without_a_manifest_is_no_table(store: FailingStore) -> None:
    crash_after_definition(store, FakeClock())
    with pytest.raises(TableNotFoundError):
        SlateStore.open(store.url)


def test_a_creator_that_crashed_binds_key_columns_and_no_others(store: FailingStore) -> None:
    clock = FakeClock()
    crash_after_definition(store, clock)
    with pytest.raises(TableExistsError, match="creating"):
        TypedJob(store, people(b=["k"], c=[1]), clock, keyColumns="b")
    with pytest.raises(TableExistsError, match="columns"):
        TypedJob(store, people(a=[1], c=[1]), clock, keyColumns="a")
    clock.advance(LEASE_LIFETIME_MS)
    with pytest.raises(TableExistsError, match="vacuum"):
        TypedJob(store, people(b=["k"], c=[1]), clock, keyColumns="b")
    TypedJob(store, people(a=[1], c=[1]), clock, keyColumns="a").commit()
    assert rows_in(store) == [{"a": 1, "c": 1}]


def test_a_creator_whose_lease_ended_gives_up(store: FailingStore) -> None:
    clock = FakeClock()
    slow = TypedJob(store, people(a=[1], b=["x"]), clock, keyColumns="a")
    clock.advance(LEASE_LIFETIME_MS)
    with pytest.raises(ConflictError, match="lease"):
        slow.commit()
    with pytest.raises(TableNotFoundError):
        SlateStore.open(store.url)


def test_a_creator_whose_lease_was_removed_gives_up_right_before_manifest_1(store: FailingStore) -> None:
    job = TypedJob(store, people(a=[1]), FakeClock(), keyColumns="a")
    [lease] = store.list(LEASES_DIR)
    store.run(lambda: store.inner.delete(lease.path), "create", definition_path(1))
    with pytest.raises(ConflictError, match="lease"):
        job.commit()


def test_threads_that_create_at_once(tmp_path: Path) -> None:
    """All with one key: every row is there. With different keys: one wins, the others are told."""
    barrier = threading.Barrier(4)

    def create(place: Path, rows: pa.Table, keys: str) -> Exception | None:
        job = TypedJob(
            LocalStore(place), rows, FakeClock(seed=hash((str(place), keys, str(rows))) % 2**32), keyColumns=keys
        )
        barrier.wait()
        try:
            job.commit()
        except TableExistsError as exc:
            return exc
        return None

    same, different = tmp_path / "same", tmp_path / "different"
    with ThreadPoolExecutor(4) as threads:
        done = [threads.submit(create, same, people(a=[n], b=[n]), "a") for n in range(4)]
        assert [item.result() for item in done] == [None] * 4
    assert rows_in(LocalStore(same)) == [{"a": n, "b": n} for n in range(4)]
    with ThreadPoolExecutor(4) as threads:
        done = [threads.submit(create, different, people(a=[n], b=[n]), "ab"[n % 2]) for n in range(4)]
        failures = [item.result() for item in done]
    found = fetch_definition(stores_of(LocalStore(different)))
    assert found is not None
    [key] = found[1].key_columns
    assert [failure is None for failure in failures] == [("ab"[n % 2] == key) for n in range(4)]
    assert rows_in(LocalStore(different)) == [{"a": n, "b": n} for n in range(4) if "ab"[n % 2] == key]


# --- evolution ------------------------------------------------------------------------------------------------------


@pytest.fixture
def table(store: FailingStore) -> FailingStore:
    TypedJob(store, people(k=[1], v=pa.array([1], pa.int32())), FakeClock(), keyColumns="k").commit()
    return store


def evolver(store: ObjectStore, seed: int, rows: pa.Table) -> TypedJob:
    return TypedJob(store, rows, FakeClock(seed=seed), mergeSchema=True)


def test_two_that_evolve_at_once_merge(table: FailingStore) -> None:
    wider = evolver(table, 2, people(k=[2], v=[2**40], x=["wider"]))
    other = evolver(table, 3, people(k=[3], y=[b"other"]))
    table.run(other.commit, "create", definition_path(2))
    wider.commit()
    assert rows_in(table) == [
        {"k": 1, "v": 1, "y": None, "x": None},
        {"k": 2, "v": 2**40, "y": None, "x": "wider"},
        {"k": 3, "v": None, "y": b"other", "x": None},
    ]
    assert definitions(table) == 3


def test_two_that_evolve_differently_one_is_told(table: FailingStore) -> None:
    numbers, texts = evolver(table, 2, people(k=[2], x=[1])), evolver(table, 3, people(k=[3], x=["text"]))
    table.run(texts.commit, "create", definition_path(2))
    with pytest.raises(SchemaError, match="BIGINT"):
        numbers.commit()
    assert rows_in(table) == [{"k": 1, "v": 1, "x": None}, {"k": 3, "v": None, "x": "text"}]


@pytest.mark.parametrize(
    ("kind", "value"),
    [(pa.decimal128(12, 2), Decimal("1.25")), (pa.float32(), 0.5)],
    ids=["decimal", "float"],
)
def test_rows_that_would_have_to_be_cast_are_refused(table: FailingStore, kind: pa.DataType, value: Any) -> None:
    """They are encoded already, and would be read as other values."""
    job = evolver(table, 2, people(k=[2], x=[2**53 + 1]))
    other = evolver(table, 3, people(k=[3], x=pa.array([value], kind)))
    table.run(other.commit, "create", definition_path(2))
    with pytest.raises(ConflictError):
        job.commit()
    assert rows_in(table) == [{"k": 1, "v": 1, "x": None}, {"k": 3, "v": None, "x": value}]


def test_a_narrower_part_of_a_struct_becomes_the_wider_one(table: FailingStore) -> None:
    narrow = pa.array([{"x": 1}], pa.struct([pa.field("x", pa.int32())]))
    job = evolver(table, 2, people(k=[2], x=[{"x": 2**53 + 1}]))
    table.run(evolver(table, 3, people(k=[3], x=narrow)).commit, "create", definition_path(2))
    job.commit()
    assert [row["x"] for row in rows_in(table)] == [None, {"x": 2**53 + 1}, {"x": 1}]


def test_rows_of_two_creators_that_would_be_read_as_others(store: FailingStore) -> None:
    loose = TypedJob(
        store, people(k=[1], x=pa.array([None], pa.int64())), FakeClock(), keyColumns="k", mergeSchema=True
    )
    strict = pa.schema([pa.field("k", pa.int64()), pa.field("x", pa.int64(), nullable=False)])
    SlateStore.create(store.url, strict, "k")
    with pytest.raises(ConflictError):
        loose.commit()
    assert rows_in(store) == []


def small(*numbers: int) -> pa.Table:
    """Rows of a table whose key is a SMALLINT."""
    return people(n=pa.array(numbers, pa.int16()), v=pa.array(numbers, pa.int32()))


def widen_key(store: ObjectStore, *numbers: int) -> SlateStore:
    """Make the key an INT, with rows that need it."""
    other = SlateStore(stores_of(store), FakeClock(seed=3), {"path": store.url})
    rows = people(n=pa.array(numbers, pa.int32()), v=pa.array(numbers, pa.int32()))
    other.write(rows, mergeSchema=True)
    return other


def test_rows_that_the_keys_of_a_job_cannot_reach_stay(store: FailingStore) -> None:
    """They lie within a cut file, where no SMALLINT can be: so a job that was planned before may not drop the view."""
    TypedJob(store, small(1), FakeClock(), keyColumns="n").commit()
    late = TypedJob(store, small(2), FakeClock(seed=2))
    other = widen_key(store, 50_000, 100_000, 150_000)
    other.deleteRange("n > 40000 AND n < 90000")
    other.deleteRange("n > 110000 AND n < 200000")
    late.commit()
    assert [row["n"] for row in rows_in(store)] == [1, 2, 100_000]


def test_key_ranges_of_narrower_keys_are_planned_again(store: FailingStore) -> None:
    """With a SMALLINT, `n <= 32767` had no end."""
    TypedJob(store, small(1), FakeClock(), keyColumns="n").commit()
    late = TypedJob(store, small(2), FakeClock(seed=2), replaceWhere="n >= 2 AND n <= 32767")
    widen_key(store, 40_000)
    with pytest.raises(ConflictError):
        late.commit()
    TypedJob(store, small(2), FakeClock(seed=4), replaceWhere="n >= 2 AND n <= 32767").commit()
    assert [row["n"] for row in rows_in(store)] == [1, 2, 40_000]


@pytest.mark.parametrize(
    "act",
    [lambda table: table.delete("n >= 2"), lambda table: table.update("n >= 2", {"v": 0})],
    ids=["delete", "update"],
)
def test_a_condition_that_wider_keys_fulfil_too_is_a_conflict(
    store: FailingStore, act: Callable[[SlateStore], object]
) -> None:
    """It was planned for keys up to 32767."""
    TypedJob(store, small(1, 2), FakeClock(), keyColumns="n").commit()
    table = SlateStore(stores_of(store), FakeClock(seed=2), {"path": store.url})
    store.run(lambda: widen_key(store, 40_000), "put", "**.sst")
    with pytest.raises(ConflictError):
        act(table)
    act(table)
    left = {row["n"]: row["v"] for row in rows_in(store)}
    assert left in ({1: 1}, {1: 1, 2: 0, 40_000: 0})


def test_a_column_dropped_meanwhile_stays_dropped(table: FailingStore) -> None:
    job = TypedJob(table, people(k=[2], v=pa.array([2], pa.int32())), FakeClock(seed=2))
    SlateStore(stores_of(table), FakeClock(seed=3), {"path": table.url}).dropColumns("v")
    job.commit()
    assert rows_in(table) == [{"k": 1}, {"k": 2}]


def test_properties_set_meanwhile_stay(table: FailingStore) -> None:
    job = evolver(table, 2, people(k=[2], x=[1]))
    other = SlateStore(stores_of(table), FakeClock(seed=3), {"path": table.url})
    table.run(lambda: other.setProperties(retention="7d"), "create", definition_path(2))
    job.commit()
    assert other.definition.properties == {"retention": "7d"}
    assert other.definition.codec().schema.names == ["k", "v", "x"]


def test_a_crash_between_definition_and_manifest_harms_nobody(table: FailingStore) -> None:
    before = rows_in(table)
    job = evolver(table, 2, people(k=[2], v=[2**40], x=["lost"]))
    table.fail("create", "manifest/*", times=100)
    with pytest.raises(UnavailableError):
        job.commit()
    table.cues.clear()
    assert rows_in(table) == [{**row, "x": None} for row in before]
    TypedJob(table, people(k=[2], v=[3], x=["again"]), FakeClock(seed=5)).commit()
    assert rows_in(table)[1:] == [{"k": 2, "v": 3, "x": "again"}]


def test_a_table_made_anew_under_a_write_is_noticed(table: FailingStore) -> None:
    job = TypedJob(table, people(k=[2], v=pa.array([2], pa.int32())), FakeClock(seed=2))
    table.delete(definition_path(1))
    with pytest.raises(ConflictError, match="created"):
        job.commit()


# --- damage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "act",
    [
        lambda store: SlateStore.open(store.url).scan().read_all(),
        lambda store: SlateStore.open(store.url).get(1),
        lambda store: SlateStore.open(store.url).write(people(k=[1], v=[1])),
        lambda store: SlateStore.open(store.url).setProperties(retention="1d"),
        lambda store: SlateStore.open(store.url).delete("k = 1"),
    ],
    ids=["scan", "get", "write", "setProperties", "delete"],
)
def test_a_damaged_definition_stops_everything(table: FailingStore, act: Callable[[ObjectStore], object]) -> None:
    table.put(definition_path(1), [b'{"formatVersion": 1'])
    listed = [meta.path for meta in table.list("manifest/")]
    with pytest.raises(CorruptDataError, match=r"slatespark/table/0+1\.json"):
        act(table)
    assert [meta.path for meta in table.list("manifest/")] == listed


# --- ifLastSeq ------------------------------------------------------------------------------------------------------


def test_rows_committed_above_what_was_read_stop_the_commit(table: FailingStore) -> None:
    def job(seed: int, last_seq: int, value: int) -> TypedJob:
        rows = people(k=[1], v=pa.array([value], pa.int32()))
        return TypedJob(table, rows, FakeClock(seed=seed), ifLastSeq=last_seq)

    stale = job(2, 1, 7)
    job(3, 1, 8).commit()
    manifests = len(table.list("manifest/"))
    with pytest.raises(CommitConflictError, match="sequence"):
        stale.commit()
    assert len(table.list("manifest/")) == manifests, "it is noticed before the claim"
    job(4, 2, 9).commit()
    assert rows_in(table) == [{"k": 1, "v": 9}]


def test_rows_committed_during_the_claim_stop_the_commit(table: FailingStore) -> None:
    other = TypedJob(table, people(k=[5], v=pa.array([5], pa.int32())), FakeClock(seed=3))
    stale = TypedJob(table, people(k=[1], v=pa.array([7], pa.int32())), FakeClock(seed=2), ifLastSeq=1)
    table.run(other.commit, "create", "manifest/*")
    with pytest.raises(CommitConflictError, match="above"):
        stale.commit()
    assert rows_in(table) == [{"k": 1, "v": 1}, {"k": 5, "v": 5}]
