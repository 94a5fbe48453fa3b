"""What a feed reads, and which rows are equal: files that both versions show cost nothing."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest

from slatespark import HistoryTrimmedError, SchemaError, SlateStore
from slatespark.encoding.predicates.row_filter import Condition, ValueTest
from slatespark.options import ReadOptions
from slatespark.storage import open_store
from slatespark.table.changes.plan import ChangePlan, fetch_change_plan
from slatespark.table.read.planning.layers import distinct_files
from slatespark.table.records.commit_record import COMMITS_DIR
from slatespark.units import MIN_MS
from tests.support.fake_clock import FakeClock
from tests.support.feeds import check_feed, check_ignored, read_feed, reading_ranges

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int32())])
NAMES = itertools.count(1)


def new_store(clock: FakeClock | None = None, **properties: Any) -> SlateStore:
    return SlateStore.create(f"memory://feed/{next(NAMES)}", SCHEMA, "id", clock=clock, autoCompact=False, **properties)


def rows(ids: range, n: int = 0) -> pa.Table:
    return pa.table({"id": list(ids), "n": [n] * len(ids)}, SCHEMA)


def plan_of(store: SlateStore, before: int, clock: FakeClock) -> ChangePlan:
    given = {"readChangeFeed": True, "startingVersion": before, "startingBoundInclusive": False}
    return fetch_change_plan(store._stores, ReadOptions.parse({"path": store.url, **given}), clock)


def test_only_the_files_of_the_change_are_searched() -> None:
    clock = FakeClock()
    store = new_store(clock)
    before = store.write(rows(range(1000)), sstSize="4k")
    store.write(rows(range(500, 510), 1))
    plan = plan_of(store, before, clock)
    [split] = plan.splits
    assert len(distinct_files(split.new_only)) == 1
    assert (split.old_only, split.due) == ((), ())
    assert len(distinct_files(plan.differences.shared)) > 1
    assert plan_of(store, store.resolve().version, clock).splits == ()


def test_of_a_shared_file_only_blocks_with_rows_that_end_are_searched() -> None:
    clock = FakeClock()
    store = new_store(clock)
    start_ms = clock.now_ms()
    table = rows(range(5000)).append_column(
        "ends", pa.array([start_ms * 1000 + number * 1_000_000 for number in range(5000)], pa.timestamp("us", "UTC"))
    )
    clock.advance(1)
    before = store.write(table, expireAtColumn="ends", compression="none")
    store.write(rows(range(9000, 9001)))
    assert plan_of(store, before, clock).due == ()
    clock.advance(20_000)
    store.write(rows(range(9001, 9002)))
    [layer] = plan_of(store, before, clock).due
    [part] = layer.slices
    assert part.keys.end is not None, "the end of the file is not searched"
    version = store.resolve().version
    assert [word for word, row in read_feed(store, before, version) if row["id"] < 5000] == ["delete"] * 20
    check_feed(store, ["id"], before, version)
    check_ignored(store, ["id"], before, version)


@pytest.mark.parametrize("way", ["ttl", "retention"])
def test_a_row_that_ends_as_the_later_version_is_committed(way: str) -> None:
    clock = FakeClock()
    store = new_store(clock, retention="10s" if way == "retention" else None)
    before = store.write(rows(range(1)), ttl="10s" if way == "ttl" else None)
    clock.advance(10_000)
    between = store.write(rows(range(1, 2)))
    assert [(word, row["id"]) for word, row in read_feed(store, before, between)] == [("delete", 0), ("insert", 1)]
    after = store.write(rows(range(2, 3)))
    assert [(word, row["id"]) for word, row in read_feed(store, between, after)] == [("insert", 2)]


@pytest.mark.parametrize("way", ["ttl", "retention", "reap"])
def test_rows_that_were_purged_by_the_clock(way: str) -> None:
    """No write has told the version that they have ended: its tick is that of the write before."""
    clock = FakeClock()
    store = new_store(clock, retention=None if way == "ttl" else "1h")
    before = store.write(rows(range(2)), ttl="1h" if way == "ttl" else None)
    store.write(rows(range(2, 3)), ttl="none")
    clock.advance(7_200_000)
    if way == "reap":
        store.reap()
    else:
        store.compact(full=True)
    store.createCheckpoint("noted")  # a version without a record of ours
    after = store.resolve().version
    assert {word for word, row in read_feed(store, before, after) if row["id"] < 2} == {"delete"}
    assert [row for _, row in read_feed(store, before, after, expired="ignore") if row["id"] < 2] == []
    check_ignored(store, ["id"], before, after)


def test_files_of_which_nothing_is_known_are_searched_for_rows_that_end() -> None:
    clock = FakeClock()
    store = new_store(clock)
    before = store.write(rows(range(1)), ttl="10s")
    for meta in store._stores.main.list_below(COMMITS_DIR):  # they tell as much of files of ours
        store._stores.main.delete(meta.path)
    clock.advance(20_000)
    after = store.write(rows(range(1, 2)))
    assert [(word, row["id"]) for word, row in read_feed(store, before, after)] == [("delete", 0), ("insert", 1)]


def test_a_new_row_that_has_ended_is_a_delete() -> None:
    clock = FakeClock()
    store = new_store(clock)
    before = store.write(rows(range(2)))
    store.write(rows(range(1), 1), ttl="10s")
    clock.advance(10_000)
    after = store.write(rows(range(2, 3)))
    found = read_feed(store, before, after, preImages=False)
    assert [(word, row["id"]) for word, row in found] == [("delete", 0), ("upsert", 2)]
    check_feed(store, ["id"], before, after)


def test_without_old_rows_a_row_that_was_looked_up_has_none() -> None:
    store = SlateStore.create(f"memory://feed/{next(NAMES)}", mergeOperator="concat", autoCompact=False)
    before = store.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    after = store.write(pa.table({"key": [b"a"], "value": [b"2"]}), operation="merge")
    found = read_feed(store, before, after, preImages=False)
    assert [(word, row["value"]) for word, row in found] == [("upsert", b"12")]


def test_a_new_row_that_has_retired_is_a_delete() -> None:
    clock = FakeClock()
    store = new_store(clock, retention="1h")
    before = store.write(rows(range(2)))
    store.write(rows(range(1), 1))
    clock.advance(3_600_000)
    after = store.write(rows(range(2, 3)))
    found = read_feed(store, before, after, preImages=False)
    assert [(word, row["id"]) for word, row in found] == [("delete", 0), ("delete", 1), ("upsert", 2)]
    check_feed(store, ["id"], before, after)


def test_rows_that_retire_where_none_could_before() -> None:
    store = SlateStore.create(
        f"memory://feed/{next(NAMES)}", SCHEMA, "id", autoCompact=False, clock="custom", retention="100ms"
    )
    before = store.write(rows(range(1)), timestamp=MIN_MS + 10)
    after = store.write(rows(range(1, 2)), timestamp=MIN_MS + 200)
    assert [(word, row["id"]) for word, row in read_feed(store, before, after)] == [("delete", 0), ("insert", 1)]
    check_feed(store, ["id"], before, after)


@pytest.mark.parametrize("versions", [1, 3, 500])
def test_a_row_that_ends_in_a_key_of_many_blocks(versions: int) -> None:
    clock = FakeClock()
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    store = SlateStore.create(f"memory://feed/{next(NAMES)}", schema, "id", clock=clock, history=True)
    now_ms = clock.now_ms()
    times = [1000 * (now_ms - versions + number) for number in range(versions)]
    table = pa.table({"id": [7] * versions, "at": times}, schema)
    ends = pa.array([None] * (versions - 1) + [1000 * (now_ms + 60_000)], pa.timestamp("us", "UTC"))
    before = store.write(table.append_column("ends", ends), timestampColumn="at", expireAtColumn="ends", blockSize="1k")
    clock.advance(120_000)
    after = store.write(pa.table({"id": [9], "at": times[:1]}, schema))
    assert [word for word, row in read_feed(store, before, after) if row["id"] == 7] == ["delete"]
    check_feed(store, ["id"], before, after)


def test_a_row_of_an_earlier_schema_is_equal_to_itself() -> None:
    store = new_store()
    before = store.write(rows(range(3)))
    wider = rows(range(3)).append_column("more", pa.array([None, None, "x"]))
    after = store.write(wider, mergeSchema=True)
    found = read_feed(store, before, after)
    assert [(word, row["id"], row["more"]) for word, row in found] == [
        ("update_preimage", 2, None),
        ("update_postimage", 2, "x"),
    ]


def test_a_compaction_changes_nothing() -> None:
    store = new_store()
    for number in range(4):
        before = store.write(rows(range(number, number + 3), number))
    store.delete("id = 2")
    between = store.resolve().version
    store.compact(full=True)
    after = store.resolve().version
    assert after > between
    assert read_feed(store, between, after) == []
    assert read_feed(store, between, after, preImages=False) == []
    check_feed(store, ["id"], before, after)


def test_more_rows_than_are_looked_up_at_once() -> None:
    store = new_store()
    before = store.write(rows(range(18_000)))
    after = store.write(rows(range(1000, 18_500), 1))
    found = read_feed(store, before, after)
    words = ["update_preimage", "update_postimage"] * 17_000 + ["insert"] * 500
    assert [word for word, _ in found] == words
    assert [row["id"] for _, row in found] == [*sorted([*range(1000, 18_000)] * 2), *range(18_000, 18_500)]
    assert len(read_feed(store, before, after, preImages=False, splitSize="16k")) == 17_500
    upserts = [("upsert", {"id": key, "n": 1}) for key in range(1000, 18_500)]
    assert read_feed(store, before, after, preImages=False) == upserts


def test_operands_between_the_changed_keys_need_no_operator() -> None:
    store = SlateStore.create(f"memory://feed/{next(NAMES)}", autoCompact=False)
    store.write(pa.table({"key": [b"b", b"d"], "value": [b"+", b"+"]}), operation="merge")
    before = store.write(pa.table({"key": [b"a", b"c", b"e"], "value": [b"1"] * 3}))
    after = store.write(pa.table({"key": [b"a", b"c", b"e"], "value": [b"1", b"2", b"3"]}))
    wanted = [(word, row["key"]) for word, row in read_feed(store, before, after)]
    assert wanted == [(f"update_{image}", key) for key in (b"c", b"e") for image in ("preimage", "postimage")]
    with reading_ranges():
        assert [(word, row["key"]) for word, row in read_feed(store, before, after)] == wanted


def test_a_version_whose_files_are_gone() -> None:
    store = new_store(versionRetention="none")
    before = store.write(rows(range(3)))
    after = store.write(rows(range(3), 1), mode="overwrite")
    [replaced] = distinct_files(plan_of(store, before, FakeClock()).differences.old_only)
    open_store(store.url, {}).delete(replaced.path)
    with pytest.raises(HistoryTrimmedError):
        read_feed(store, before, after)


def test_a_column_that_the_feed_adds() -> None:
    schema = pa.schema([("id", pa.int64()), ("_Commit_Version", pa.int64())])
    store = SlateStore.create(f"memory://feed/{next(NAMES)}", schema, "id")
    with pytest.raises(SchemaError):
        store.changes(startingVersion=1)
    assert store.scan().read_all().num_rows == 0


def test_rows_that_differed_in_a_column_that_is_gone() -> None:
    store = new_store()
    before = store.write(rows(range(3)))
    store.write(rows(range(2), 1))
    store.dropColumns("n")
    after = store.write(pa.table({"id": [2, 3]}))
    assert read_feed(store, before, after) == [("insert", {"id": 3})]


def test_without_old_rows_new_ones_lie_between_looked_up_ones() -> None:
    store = new_store()
    before = store.write(rows(range(6)))
    store.deleteRange("id = 0")
    store.deleteRange("id = 4")
    store.write(rows(range(1, 3), 1))
    after = store.write(rows(range(5, 6), 2))
    wanted = [("delete", 0, None), ("upsert", 1, 1), ("upsert", 2, 1), ("delete", 4, None), ("upsert", 5, 2)]
    found = read_feed(store, before, after, preImages=False)
    assert [(word, row["id"], row["n"]) for word, row in found] == wanted
    found = read_feed(store, before, after, preImages=False, filter="n < 2")
    assert [(word, row["id"], row["n"]) for word, row in found] == [*wanted[:-1], ("delete", 5, None)]


def test_a_condition_is_prepared_once_for_a_split(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[Condition] = []
    true_test = Condition.test

    def test(condition: Condition) -> ValueTest:
        prepared.append(condition)
        return true_test(condition)

    store = new_store()
    before = store.write(rows(range(6)))
    after = store.write(rows(range(2, 8), 1))
    monkeypatch.setattr(Condition, "test", test)
    found = read_feed(store, before, after, filter="n IN (1, 3, 5)")
    assert [(word, row["id"]) for word, row in found] == [("insert", number) for number in range(2, 8)]
    assert len(prepared) == 1
