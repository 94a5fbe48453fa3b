"""A write that leaves many small runs merges them in a separate commit, and never fails because of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.errors import UnavailableError
from slatespark.format.compactions import TieredSpec
from slatespark.format.references import SstView
from slatespark.format.row import Row
from slatespark.format.ulid import Ulid
from slatespark.table.compaction import auto as auto_compaction
from slatespark.table.compaction.auto import (
    is_worth_a_retry,
    plan_after_write,
)
from slatespark.table.compaction.job import listed_job
from slatespark.table.compaction.plan import CompactionPlan, SourceLayer, Tree
from slatespark.table.compaction.run import compact_table
from slatespark.table.compaction.small_runs import MAX_RUNS, MIN_RUNS, SMALL_BYTES
from slatespark.table.definition.versions import DEFINITION_DIR
from slatespark.table.read.planning.plan import FileSlice, Layer
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.stores import TableStores
from tests.support.fake_clock import FakeClock
from tests.unit.table.layers import new_stores, put_file

MIB = 1 << 20


def tree(*sizes_mib: float) -> Tree:
    """Runs of the given sizes, newest first."""
    stores, layers = new_stores(), []
    part = put_file(stores, [Row(b"a", 1)])
    for number, mib in enumerate(sizes_mib):
        info = replace(part.file.info, filter_offset=int(mib * MIB), filter_len=0)
        file = replace(part.file, info=info)
        layer = Layer(f"run {number}", (FileSlice(file, part.keys),))
        layers.append(SourceLayer(layer, (SstView(file.id, file.id),), len(sizes_mib) - number))
    return Tree(7, tuple(layers), 100)


def chosen(plan: CompactionPlan | None) -> list[int | None] | None:
    return None if plan is None else [source.run_id for source in plan.sources]


def test_few_small_runs_stay() -> None:
    assert plan_after_write(tree(*[1] * (MIN_RUNS - 1), 900)) is None
    assert plan_after_write(tree(*[SMALL_BYTES / MIB] * 40)) is None


def test_many_small_runs_are_merged_and_large_ones_left() -> None:
    assert chosen(plan_after_write(tree(*[1] * MIN_RUNS, 900))) == list(range(MIN_RUNS + 1, 1, -1))


def test_the_longest_series_of_neighbours_is_merged() -> None:
    assert chosen(plan_after_write(tree(*[1] * 5, 900, *[1] * 11))) == list(range(11, 0, -1))
    assert plan_after_write(tree(*[1, 1, 1, 900] * 6)) is None


def test_a_merge_is_bounded() -> None:
    assert chosen(plan_after_write(tree(*[1] * 100))) == list(range(MAX_RUNS, 0, -1))


@pytest.mark.parametrize(
    ("small", "own", "expected"), [(31, 1, False), (32, 1, True), (33, 1, False), (33, 2, True), (40, 20, True)]
)
def test_a_retry_waits_for_more_small_runs(small: int, own: int, expected: bool) -> None:
    views = [SstView(Ulid(number), Ulid(number)) for number in range(small + 1)]
    found = tree(*[1] * small, 900)
    layers = tuple(replace(layer, views=(view,)) for layer, view in zip(found.layers, views, strict=True))
    files: dict[str, Any] = {str(view.sst_id): {} for view in views[:own]}
    record = CommitRecord(7, "write", "0123456789abcdef", "slatespark", 0, 0, None, None, files=files)
    assert is_worth_a_retry(replace(found, layers=layers), record) == expected


# --- tables ---------------------------------------------------------------------------------------------------------


def table(**properties: Any) -> SlateStore:
    schema = pa.schema([("id", pa.int64()), ("n", pa.int64())])
    return SlateStore.create(new_stores().url, schema, keyColumns="id", clock=FakeClock(1_000_000), **properties)


def write(store: SlateStore, number: int) -> int:
    return store.write(pa.table({"id": [number % 5, 100 + number], "n": [number, number]}))


def rows(store: SlateStore) -> dict[int, int]:
    found = store.scan().read_all()
    return dict(zip(found["id"].to_pylist(), found["n"].to_pylist(), strict=True))


def test_writes_compact_small_runs_in_commits_of_their_own() -> None:
    store = table()
    expected: dict[int, int] = {}
    for number in range(33):
        version = write(store, number)
        expected |= {number % 5: number, 100 + number: number}
        assert rows(store) == expected
        assert [facts.operation for facts in store.history() if facts.version == version] == ["write"]
        assert len(store.runs()) < MIN_RUNS
    operations = [facts.operation for facts in store.history()]
    assert operations.count("compact") == 2
    assert operations.count("write") == 33


def in_transaction(store: SlateStore, number: int) -> None:
    with store.begin() as txn:
        txn.delete(f"id = {number}")


@pytest.mark.parametrize(
    ("change", "properties"),
    [
        (lambda store, number: store.delete(f"id = {number}"), {}),
        (lambda store, number: store.update(f"id = {number}", {"n": 7}), {}),
        (lambda store, number: store.deleteRange(f"id = {number}"), {"history": True}),
        (in_transaction, {}),
    ],
    ids=["delete", "update", "deleteRange of history", "transaction"],
)
def test_every_change_that_adds_a_run_compacts_small_runs(
    change: Callable[[SlateStore, int], object], properties: dict[str, Any]
) -> None:
    store = table(**properties)
    store.write(pa.table({"id": range(100), "n": range(100)}))
    for number in range(MIN_RUNS + 2):
        change(store, number)
    assert len(store.runs()) < MIN_RUNS
    assert {number for number, n in rows(store).items() if n == number} - {7} == set(range(MIN_RUNS + 2, 100))
    assert [facts.operation for facts in store.history()].count("compact") == 1


def test_the_definition_is_that_of_the_write(monkeypatch: pytest.MonkeyPatch) -> None:
    store = table()

    def read_again(*_: Any) -> Any:
        raise AssertionError("the definition was read after a write")

    monkeypatch.setattr("slatespark.table.compaction.after_write.resolve_definition", read_again)
    for number in range(MIN_RUNS):
        write(store, number)
    assert len(store.runs()) < MIN_RUNS


@pytest.mark.parametrize(
    ("properties", "options"),
    [
        ({"autoCompact": False}, {}),
        ({"keyFormat": "raw", "valueFormat": "raw"}, {"operation": "merge"}),
    ],
    ids=["property", "operands"],
)
def test_no_compaction_if_disabled_or_without_an_operator(properties: dict[str, Any], options: dict[str, Any]) -> None:
    raw = pa.schema([("key", pa.binary()), ("value", pa.binary())])
    clock = FakeClock(1_000_000)
    store = SlateStore.create(new_stores().url, raw, keyColumns="key", clock=clock, **properties)
    for number in range(MIN_RUNS + 4):
        store.write(pa.table({"key": [b"k"], "value": [b"%d" % number]}), **options)
    assert len(store.runs()) == MIN_RUNS + 4


def test_a_raw_table_without_a_definition_is_left_alone() -> None:
    stores = new_stores()
    store = SlateStore.create(stores.url, clock=FakeClock(1_000_000))
    for path in [meta.path for meta in stores.main.list(DEFINITION_DIR)]:  # the client writes none
        stores.main.delete(path)
    for number in range(MIN_RUNS + 2):
        store.write(pa.table({"key": [b"k"], "value": [b"%d" % number]}))
    assert len(store.runs()) == MIN_RUNS + 2


def test_operands_fold_with_the_operator_of_the_table() -> None:
    raw = pa.schema([("key", pa.binary()), ("value", pa.binary())])
    made = {"keyFormat": "raw", "valueFormat": "raw", "mergeOperator": "concat"}
    store = SlateStore.create(new_stores().url, raw, keyColumns="key", clock=FakeClock(1_000_000), **made)
    for number in range(MIN_RUNS):
        store.write(pa.table({"key": [b"k"], "value": [b"%x" % number]}), operation="merge")
    assert len(store.runs()) == 1
    assert store.get(b"k") == {"key": b"k", "value": b"0123456789abcdef"}


HOUR_MS = 3_600_000


def expiring_table(clock: FakeClock, **properties: Any) -> SlateStore:
    """A table whose first file holds expired rows, and is older than periodicCompactionInterval by a day."""
    schema = pa.schema([("id", pa.int64()), ("n", pa.int64())])
    properties = {"periodicCompactionInterval": "2d", **properties}
    store = SlateStore.create(new_stores().url, schema, keyColumns="id", clock=clock, **properties)
    store.write(pa.table({"id": [1, 2], "n": [1, 2]}), ttl="1h")
    clock.advance(72 * HOUR_MS)
    return store


def stored(store: SlateStore) -> list[int]:
    return sorted(store.scan(includeExpired=True, readVersions="all").read_all()["id"].to_pylist())


def test_a_write_rewrites_the_due_files() -> None:
    clock = FakeClock(1_000_000)
    store = expiring_table(clock)
    store.write(pa.table({"id": [3], "n": [3]}))
    assert store.history(1)[0].operation == "compact"
    assert stored(store) == [3]
    clock.advance(HOUR_MS)
    store.write(pa.table({"id": [4], "n": [4]}))
    assert store.history(1)[0].operation == "write"


@pytest.mark.parametrize(
    "properties", [{"autoCompact": False}, {"periodicCompactionInterval": "none"}, {"periodicCompactionInterval": "5d"}]
)
def test_due_files_stay_unless_the_properties_ask_for_a_compaction(properties: dict[str, Any]) -> None:
    store = expiring_table(FakeClock(1_000_000), **properties)
    store.write(pa.table({"id": [3], "n": [3]}))
    assert store.history(1)[0].operation == "write"
    assert stored(store) == [1, 2, 3]


def test_rows_above_the_history_floor_are_not_due() -> None:
    clock = FakeClock(1_000_000)
    store = expiring_table(clock, history=True)
    store.write(pa.table({"id": [3], "n": [3]}))
    assert stored(store) == [1, 2, 3]
    store.setHistoryFloor(clock.now_ms() - HOUR_MS)
    store.write(pa.table({"id": [4], "n": [4]}))
    assert stored(store) == [3, 4]


def test_small_runs_come_before_due_files() -> None:
    clock = FakeClock(1_000_000)
    store = expiring_table(clock, autoCompact=False)
    for number in range(MIN_RUNS):
        write(store, number)
    store.setProperties(autoCompact=True)
    write(store, 99)
    assert store.history(1)[0].operation == "compact"
    assert len(store.runs()) == 1


def test_a_failed_rewrite_of_due_files_is_retried_after_an_hour(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock(1_000_000)
    store = expiring_table(clock)
    (name,) = store._stores.main.list("compacted/")
    whole = bytes(store._stores.main.get(name.path))
    store._stores.main.put(name.path, [b"damaged" + whole[7:]])
    for number in range(4):
        store.write(pa.table({"id": [3], "n": [number]}))
    assert len(caplog.records) == 1
    store._stores.main.put(name.path, [whole])
    clock.advance(HOUR_MS)
    store.write(pa.table({"id": [3], "n": [4]}))
    assert 1 not in stored(store)


def test_no_second_compaction_while_one_is_running() -> None:
    store = table()
    write(store, 0)
    clock, spec = FakeClock(1_000_000, seed=9), TieredSpec(l0_view_ids=(), sorted_runs=(0,), destination=0)
    with listed_job(store._stores, clock, spec, "0123456789abcdef", is_held=False) as job:
        for number in range(1, MIN_RUNS + 1):
            write(store, number)
        assert len(store.runs()) == MIN_RUNS + 1
        job.complete()
    write(store, 99)
    assert len(store.runs()) == 1


def test_a_failed_merge_is_retried_after_more_small_runs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    attempts: list[int] = []
    store = SlateStore.create(new_stores().url, mergeOperator="sum", clock=FakeClock(1_000_000))
    store.write(pa.table({"key": [b"k"], "value": [b"no number"]}))
    store.write(pa.table({"key": [b"k"], "value": [bytes(8)]}), operation="merge")

    def counted(*arguments: Any, **named: Any) -> Any:
        attempts.append(len(store.runs()))
        return compact_table(*arguments, **named)

    monkeypatch.setattr(auto_compaction, "compact_table", counted)
    for _ in range(2 * MIN_RUNS):
        store.write(pa.table({"key": [b"x"], "value": [b"x"]}))
    assert attempts == [MIN_RUNS, 2 * MIN_RUNS]
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert "autoCompact" in told[0]
    assert store.url in told[0]
    assert "9 bytes" in told[0]


def test_a_compaction_that_fails_does_not_fail_the_write(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(stores: TableStores, *_: Any, **__: Any) -> None:
        raise UnavailableError(f"{stores.url} is gone.")

    store = table()
    monkeypatch.setattr(auto_compaction, "compact_table", broken)
    versions = [write(store, number) for number in range(MIN_RUNS + 3)]
    assert versions == sorted(set(versions))
    assert len(rows(store)) == MIN_RUNS + 3 + 5
    assert "is gone" in caplog.text
    monkeypatch.undo()
    write(store, 99)
    assert len(store.runs()) == 1
