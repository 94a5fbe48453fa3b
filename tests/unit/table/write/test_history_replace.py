"""Replacements of an interval of a history table: reads as of any time before or after stay exact."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pyarrow as pa
import pytest

from slatespark import CommitConflictError, InvalidRequestError, OptionError, SlateStore, TransactionConflictError
from slatespark.options import ReadOptions, WriteOptions
from slatespark.table.read.reader import ReadPlan, fetch_read_plan
from slatespark.table.rows.sst_upload import upload_task
from slatespark.table.stores import TableStores, open_stores
from slatespark.table.write import history_replace
from slatespark.table.write.load_commit import commit_load
from slatespark.table.write.load_plan import begin_load
from slatespark.table.write.load_run import load_batches
from slatespark.table.write.load_task import run_task
from tests.support.fake_clock import FakeClock

SCHEMA = pa.schema([("tenant", pa.string()), ("id", pa.int64()), ("n", pa.int64())])
NAMES = map("memory://history-replace-{}".format, itertools.count())

State = dict[tuple[str, int], int]


def rows(state: State) -> pa.Table:
    found = [{"tenant": tenant, "id": number, "n": n} for (tenant, number), n in state.items()]
    return pa.Table.from_pylist(found, SCHEMA)


def state(store: SlateStore, **options: Any) -> State:
    return {(row["tenant"], row["id"]): row["n"] for row in store.scan(**options).read_all().to_pylist()}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1_700_000_000_000)


@pytest.fixture
def store(clock: FakeClock) -> SlateStore:
    made = SlateStore.create(next(NAMES), schema=SCHEMA, keyColumns=["tenant", "id"], history=True, clock=clock)
    made.write(rows({("a", 1): 1, ("a", 2): 1, ("a", 3): 1, ("b", 1): 1}))
    clock.advance(1000)
    return made


def replace(store: SlateStore, new: State, where: str = "tenant = 'a'", **options: Any) -> int:
    return store.write(rows(new), mode="overwrite", replaceWhere=where, **options)


def test_both_sides_of_a_replacement_are_exact(store: SlateStore, clock: FakeClock) -> None:
    before_ms = clock.now_ms() - 1
    replace(store, {("a", 2): 2, ("a", 4): 2})
    at_ms = clock.now_ms()
    clock.advance(1000)
    old, new = {("a", 1): 1, ("a", 2): 1, ("a", 3): 1, ("b", 1): 1}, {("a", 2): 2, ("a", 4): 2, ("b", 1): 1}
    assert state(store) == state(store, timestampAsOf=at_ms) == new
    assert state(store, timestampAsOf=before_ms) == old
    assert store.get("a", 1) is None
    assert store.get("a", 1, timestampAsOf=before_ms) == {"tenant": "a", "id": 1, "n": 1}
    replace(store, {}, where="tenant = 'a' AND id < 4")
    assert state(store) == {("a", 4): 2, ("b", 1): 1}
    assert state(store, timestampAsOf=at_ms) == new
    assert store.history(1)[0].operation == "replace"
    assert not store.verify().has_damage


@pytest.mark.parametrize("kind", ["system", "custom"])
def test_a_replacement_of_the_past_ends_what_was_there_then(kind: str) -> None:
    clock: Any = "custom" if kind == "custom" else FakeClock(100)
    made = SlateStore.create(next(NAMES), schema=SCHEMA, keyColumns=["tenant", "id"], history=True, clock=clock)
    made.write(rows({("a", 1): 1}), timestamp=10)
    made.write(rows({("a", 2): 1}), timestamp=30)
    replace(made, {("a", 3): 2}, timestamp=20)
    assert state(made, timestampAsOf=19) == {("a", 1): 1}
    assert state(made, timestampAsOf=20) == {("a", 3): 2}
    assert state(made, timestampAsOf=30) == {("a", 2): 1, ("a", 3): 2}


def test_intervals_of_validity_follow_each_other(store: SlateStore, clock: FakeClock) -> None:
    start_ms, at_ms = clock.now_ms() - 1000, clock.now_ms()
    replace(store, {("a", 2): 2})
    found = store.scan(readVersions="intervals", filter="tenant = 'a'").read_all()
    told = [
        (row["id"], row["n"], row["_valid_from"], row["_valid_to"])
        for row in found.set_column(3, "_valid_from", found["_valid_from"].cast(pa.int64()))
        .set_column(4, "_valid_to", found["_valid_to"].cast(pa.int64()))
        .to_pylist()
    ]
    assert sorted(told, key=str) == sorted(
        [
            (1, 1, start_ms * 1000, at_ms * 1000),
            (2, 1, start_ms * 1000, at_ms * 1000),
            (2, 2, at_ms * 1000, None),
            (3, 1, start_ms * 1000, at_ms * 1000),
        ],
        key=str,
    )


def test_a_replacement_as_of_a_time(store: SlateStore, clock: FakeClock) -> None:
    at_ms = clock.now_ms()
    clock.advance(5000)
    store.write(rows({("b", 1): 5}))
    replace(store, {("a", 1): 2}, timestamp=at_ms)
    assert state(store) == {("a", 1): 2, ("b", 1): 5}
    assert state(store, timestampAsOf=at_ms) == {("a", 1): 2, ("b", 1): 1}
    with pytest.raises(CommitConflictError):
        replace(store, {}, where="tenant = 'b'", timestamp=at_ms)


def test_an_interval_of_several_splits(store: SlateStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []

    def plan_small_splits(stores: TableStores, options: ReadOptions, *arguments: Any, **named: Any) -> ReadPlan:
        plan = fetch_read_plan(stores, dataclasses.replace(options, split_bytes=1), *arguments, **named)
        found.append(len(plan.splits))
        return plan

    monkeypatch.setattr(history_replace, "fetch_read_plan", plan_small_splits)
    many = {("c", number): 1 for number in range(5000)}
    store.write(rows(many), blockSize="1k")
    clock.advance(1000)
    replace(store, {("c", 7): 2}, where="tenant = 'c'")
    assert found[0] > 1
    assert state(store, filter="tenant = 'c'") == {("c", 7): 2}
    assert state(store, filter="tenant = 'c'", timestampAsOf=clock.now_ms() - 1) == many


def test_rows_committed_meanwhile_are_a_conflict(store: SlateStore, monkeypatch: pytest.MonkeyPatch) -> None:
    place = "slatespark.table.write.history_replace.upload_task"

    def overtaken(*arguments: Any, **named: Any) -> Any:
        monkeypatch.setattr(place, upload_task)
        SlateStore.open(store.url, clock=store._clock).write(rows({("a", 9): 9}))
        return upload_task(*arguments, **named)

    monkeypatch.setattr(place, overtaken)
    with pytest.raises(TransactionConflictError, match="tenant='a', id=9"):
        replace(store, {("a", 1): 2})
    assert state(store)["a", 9] == 9
    replace(store, {("a", 1): 2})
    assert state(store) == {("a", 1): 2, ("b", 1): 1}


def test_invalid_replacements_are_refused(store: SlateStore) -> None:
    with pytest.raises(OptionError, match="overwritten"):
        store.write(rows({}), mode="overwrite")
    with pytest.raises(OptionError, match="time"):
        store.write(
            rows({}).append_column("ts", pa.array([], pa.int64())),
            mode="overwrite",
            replaceWhere="tenant = 'a'",
            timestampColumn="ts",
            mergeSchema=True,
        )
    with pytest.raises(InvalidRequestError, match="outside"):
        replace(store, {("b", 1): 2})


def test_raw_history_tables_by_key_bytes(clock: FakeClock) -> None:
    store = SlateStore.create(next(NAMES), history=True, clock=clock)
    store.write(pa.table({"key": [b"a", b"b", b"c"], "value": [b"1", b"1", b"1"]}))
    at_ms = clock.now_ms()
    clock.advance(1000)
    store.write(pa.table({"key": [b"bb"], "value": [b"2"]}), mode="overwrite", keyPrefix=b"b")
    assert [row["key"] for row in store.scan().read_all().to_pylist()] == [b"a", b"bb", b"c"]
    assert [row["key"] for row in store.scan(timestampAsOf=at_ms).read_all().to_pylist()] == [b"a", b"b", b"c"]


def test_a_replacement_may_create_a_history_table(clock: FakeClock) -> None:
    url, table = next(NAMES), rows({("a", 1): 1})
    given = {"path": url, "keyColumns": ["tenant", "id"], "history": "true", "replaceWhere": "tenant = 'a'"}
    stores = open_stores(url, storage={})
    load_batches(stores, clock, SCHEMA, table.to_batches(), WriteOptions.parse(given), overwrite=True)
    assert state(SlateStore.open(url, clock=clock)) == {("a", 1): 1}


def test_a_faster_creator_is_a_conflict(clock: FakeClock) -> None:
    url, table = next(NAMES), rows({("a", 1): 1})
    given = {"path": url, "keyColumns": ["tenant", "id"], "history": "true"}
    stores = open_stores(url, storage={})
    late = begin_load(
        stores, clock, SCHEMA, WriteOptions.parse({**given, "replaceWhere": "tenant = 'a'"}), overwrite=True
    )
    assert late is not None
    outputs = [run_task(stores, clock, late, 0, table.to_batches())]
    load_batches(stores, clock, SCHEMA, rows({("a", 2): 2}).to_batches(), WriteOptions.parse(given))
    with pytest.raises(TransactionConflictError, match="tenant='a', id=2"):
        commit_load(stores, clock, late, outputs)
    assert state(SlateStore.open(url, clock=clock)) == {("a", 2): 2}


def test_before_the_first_row_there_is_nothing_to_delete(store: SlateStore, clock: FakeClock) -> None:
    early_ms = clock.now_ms() - 60_000
    rows_then = {("a", 1): 1, ("a", 2): 1, ("a", 3): 1, ("b", 1): 1}
    newest = store.history(1)[0].version
    for wrong in ("tenant <", "n = 1", "tenant = 'b' AND n = 1"):  # told, though nothing is there to delete
        with pytest.raises(OptionError):
            store.deleteRange(wrong, early_ms)
    assert store.deleteRange("tenant = 'b'", early_ms) == newest
    store.write(rows({("c", 1): 7}), mode="overwrite", replaceWhere="tenant = 'c'", timestamp=early_ms)
    assert state(store, timestampAsOf=early_ms) == {("c", 1): 7}
    assert state(store) == {**rows_then, ("c", 1): 7}


@pytest.mark.parametrize("way", ["replace", "deleteRange"])
def test_rows_that_a_read_hides_are_deleted_too(store: SlateStore, clock: FakeClock, way: str) -> None:
    store.setProperties(retention="1h")
    store.write(rows({("a", 7): 7}), ttl="30s")
    clock.advance(7_200_000)
    if way == "replace":
        store.write(rows({("a", 9): 9}), mode="overwrite", replaceWhere="tenant = 'a'")
    else:
        store.deleteRange("tenant = 'a'")
    store.setProperties(retention="30d")
    left = {("a", 9): 9} if way == "replace" else {}
    assert state(store, includeExpired=True) == {("b", 1): 1, **left}


def test_rows_that_expire_while_an_interval_is_replaced(store: SlateStore, clock: FakeClock) -> None:
    """The replacement has the time of its plan; reads as of earlier times show the rows, later ones do not."""
    store.write(rows({("a", 5): 5}), ttl="30s")
    clock.advance(20_000)
    given = WriteOptions(path=store.url, replace_where="tenant = 'a'")
    stores, new = open_stores(store.url, storage={}), rows({("a", 9): 9})
    load = begin_load(stores, clock, new.schema, given, overwrite=True)
    assert load is not None
    replaced_ms = clock.now_ms()
    clock.advance(20_000)
    commit_load(stores, clock, load, (run_task(stores, clock, load, 0, new.to_batches()),))
    assert state(store, timestampAsOf=replaced_ms) == {("a", 9): 9, ("b", 1): 1}
    assert ("a", 5) in state(store, timestampAsOf=replaced_ms - 1)


def test_several_intervals_at_once(store: SlateStore, clock: FakeClock) -> None:
    before_ms = clock.now_ms() - 1
    version = replace(store, {("a", 3): 2}, where="tenant = 'a' AND (id = 1 OR id >= 3) OR tenant = 'b'")
    at_ms = clock.now_ms()
    assert version == store.history(1)[0].version
    assert state(store) == {("a", 2): 1, ("a", 3): 2}
    clock.advance(1000)
    store.deleteRange("tenant = 'a' AND id > 2 OR tenant > 'b'")
    assert state(store) == {("a", 2): 1}
    assert state(store, timestampAsOf=at_ms) == {("a", 2): 1, ("a", 3): 2}
    assert state(store, timestampAsOf=before_ms) == {("a", 1): 1, ("a", 2): 1, ("a", 3): 1, ("b", 1): 1}


def test_outside_of_the_intervals_nothing_conflicts(store: SlateStore, clock: FakeClock) -> None:
    stores = open_stores(store.url, storage={})
    given = WriteOptions(path=store.url, replace_where="tenant = 'a' AND id = 1 OR tenant = 'b'")
    load = begin_load(stores, clock, SCHEMA, given, overwrite=True)
    assert load is not None
    store.write(rows({("a", 2): 5}))
    assert commit_load(stores, clock, load, ()) is not None
    assert state(store) == {("a", 2): 5, ("a", 3): 1}
