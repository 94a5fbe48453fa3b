"""Compactions with filters: results, refusals, and failing filters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from slatespark import (
    ExpireFilter,
    FilterDecisions,
    HistoryFloorFilter,
    HistoryTrimmedError,
    InvalidRequestError,
    OptionError,
    RetentionFilter,
    SlateStore,
)
from slatespark.display.compaction_text import compaction_text
from slatespark.options import WriteOptions
from slatespark.table.compaction.request import CompactionRequest
from slatespark.table.compaction.run import compact_table
from tests.support.fake_clock import FakeClock

DAY = 86_400_000
START = 20_000 * DAY
PEOPLE = pa.schema([("id", pa.int64()), ("name", pa.string())])


class Rule:
    """A filter that calls a function from a batch to actions or decisions."""

    def __init__(self, decide: Callable[[pa.RecordBatch], Any]) -> None:
        self.decide = decide


def delete(name: str) -> Rule:
    return Rule(lambda versions: pc.if_else(pc.fill_null(pc.equal(versions["name"], name), False), "tombstone", "keep"))


def drop(name: str) -> Rule:
    return Rule(lambda versions: pc.if_else(pc.fill_null(pc.equal(versions["name"], name), False), "drop", "keep"))


def table(place: Path, clock: FakeClock | None = None, **properties: Any) -> SlateStore:
    made = FakeClock(START) if clock is None else clock
    return SlateStore.create(str(place), PEOPLE, keyColumns="id", clock=made, **properties)


def write(store: SlateStore, *rows: tuple[int, str], **options: Any) -> int:
    return store.write(pa.table({"id": [row[0] for row in rows], "name": [row[1] for row in rows]}), **options)


def rows(store: SlateStore, **options: Any) -> dict[int, str]:
    found = store.scan(**options).read_all()
    return dict(zip(found["id"].to_pylist(), found["name"].to_pylist(), strict=True))


def stored(store: SlateStore) -> int:
    return int(store.scan(readVersions="all").read_all().num_rows)


def test_filtered_rows_leave_no_trace(tmp_path: Path) -> None:
    store = table(tmp_path / "t")
    write(store, (1, "ann"), (2, "bob"), (3, "cyd"))
    write(store, (2, "bea"), (3, "cyd"))
    report = store.compact(full=True, filters=[delete("cyd"), delete("bea")])
    assert rows(store) == {1: "ann"}
    assert stored(store) == 1
    assert (report.rows_in, report.rows_out, report.filtered, report.filters_waited) == (5, 1, 2, False)


@pytest.mark.parametrize(("chosen", "expected"), [(delete("new"), None), (drop("new"), "old")])
def test_above_older_runs_a_tombstone_hides_and_a_drop_reveals(
    tmp_path: Path, chosen: Rule, expected: str | None
) -> None:
    store = table(tmp_path / "t")
    write(store, (1, "old"), *((number, "filler" * 9) for number in range(100, 1000)))
    for number in range(4):  # as a size-tiered compaction merges them, and not the large one below
        write(store, (1, "new"), (10 + number, "more"))
    (job,) = store.compact(filters=[chosen]).jobs
    assert not job.is_lowest
    assert rows(store).get(1) == expected


def test_values_and_expiries_are_replaced(tmp_path: Path) -> None:
    clock = FakeClock(START)
    store = table(tmp_path / "t", clock)
    write(store, (1, "ann"), (2, "bob"))

    def shorten(versions: pa.RecordBatch) -> FilterDecisions:
        hidden = pa.table({"name": pc.utf8_slice_codeunits(versions["name"], 0, 1)})
        ends = pa.array([START + DAY if number == 1 else None for number in versions["id"].to_pylist()])
        actions = pa.array(["replace"] * versions.num_rows)
        return FilterDecisions(actions, values=hidden, expiries=ends.cast(pa.timestamp("ms", tz="UTC")))

    store.compact(full=True, filters=[Rule(shorten)])
    assert rows(store) == {1: "a", 2: "b"}
    clock.advance(2 * DAY)
    assert rows(store) == {2: "b"}


def test_only_the_interval_is_filtered(tmp_path: Path) -> None:
    store = table(tmp_path / "t")
    write(store, *((number, "x") for number in range(10)))
    store.compact(where="id >= 3 AND id < 6", filters=[delete("x")])
    assert sorted(rows(store)) == [0, 1, 2, 6, 7, 8, 9]


def test_older_versions_are_unchanged_and_seq_reads_stay_exact(
    tmp_path: Path,
) -> None:
    clock = FakeClock(START)
    store = table(tmp_path / "t", clock, versionRetention="1d")
    version = write(store, (1, "ann"), (2, "bob"))
    seq = store.resolve().seq
    compacted = store.compact(full=True, filters=[delete("bob")]).version
    write(store, (3, "cyd"))
    assert rows(store) == {1: "ann", 3: "cyd"}
    assert rows(store, versionAsOf=version) == rows(store, seqAsOf=seq) == {1: "ann", 2: "bob"}
    for path in (tmp_path / "t" / "manifest").glob("*.manifest"):
        if int(path.stem) < compacted:
            path.unlink()  # as a garbage collector does eventually
    with pytest.raises(HistoryTrimmedError):
        rows(store, seqAsOf=seq)


@pytest.mark.parametrize("range_bytes", [1, 3_000, None])
def test_filter_results_do_not_depend_on_key_ranges(tmp_path: Path, range_bytes: int | None) -> None:
    store = table(tmp_path / "t")
    for start in (0, 100, 200):
        write(store, *((number, f"n{start}") for number in range(start, 300)), sstSize="4k", blockSize="1k")
    options = WriteOptions.parse({"path": str(tmp_path / "t"), "sstSize": "4k", "blockSize": "1k"})
    clock = FakeClock(START, seed=1)
    request = CompactionRequest(full=True, filters=[delete("n100"), drop("n0")])
    report = compact_table(store._stores, clock, request, options, range_bytes=range_bytes)
    assert rows(store) == dict.fromkeys(range(200, 300), "n200")
    assert (report.rows_out, report.filtered) == (100, 200)


# --- built in -------------------------------------------------------------------------------------------------------


def test_the_retention_filter_deletes_old_rows_once(tmp_path: Path) -> None:
    clock = FakeClock(START)
    store = table(tmp_path / "t", clock)
    write(store, (1, "old"))
    clock.advance(10 * DAY)
    write(store, (2, "new"))
    clock.advance(DAY)
    store.compact(full=True, filters=[RetentionFilter("20d")])
    assert rows(store) == {1: "old", 2: "new"}
    report = store.compact(full=True, filters=[RetentionFilter("5d")])
    assert rows(store) == {2: "new"}
    assert report.expired == 1


def test_the_expire_filter_sets_the_instant(tmp_path: Path) -> None:
    clock = FakeClock(START)
    store = table(tmp_path / "t", clock)
    write(store, (1, "gone"), ttl="1d")
    write(store, (2, "stays"))
    clock.advance(3 * DAY)
    store.compact(full=True, filters=[ExpireFilter(now=START + DAY - 1)])
    assert stored(store) == 2
    store.compact(full=True, filters=[ExpireFilter(now=START + DAY)])
    assert stored(store) == 1


def test_contradicting_and_future_instants_are_refused(tmp_path: Path) -> None:
    store = table(tmp_path / "t")
    write(store, (1, "ann"))
    with pytest.raises(OptionError, match="both"):
        store.compact(full=True, now=START, filters=[ExpireFilter(now=START - 1)])
    with pytest.raises(OptionError, match="future"):
        store.compact(full=True, filters=[RetentionFilter("1d", now=START + 9 * DAY)])


def stored_floor(store: SlateStore) -> int | None:
    return store.definition.full_history_ts_low_ms


def test_the_floor_filter_raises_the_floor_and_compacts_below_it(tmp_path: Path) -> None:
    clock = FakeClock(START)
    store = table(tmp_path / "t", clock, history=True)
    for day, name in enumerate(("a", "b", "c", "d")):
        write(store, (1, name), timestamp=START - (10 - day) * DAY)
    floor = START - 8 * DAY
    plan = store.compact(full=True, filters=[HistoryFloorFilter(floor)], dryRun=True)
    assert plan.dry_run
    assert rows(store, timestampAsOf=floor - DAY) == {1: "b"}
    store.compact(full=True, filters=[HistoryFloorFilter(floor)])
    assert stored(store) == 2
    assert rows(store, timestampAsOf=floor) == {1: "c"}
    with pytest.raises(HistoryTrimmedError):
        rows(store, timestampAsOf=floor - 1)
    store.compact(full=True, filters=[HistoryFloorFilter(floor)])  # once more does nothing
    with pytest.raises(InvalidRequestError, match="below"):
        store.compact(full=True, filters=[HistoryFloorFilter(floor - 1)])


def test_a_call_that_is_refused_leaves_the_floor(tmp_path: Path) -> None:
    clock = FakeClock(START)
    store = SlateStore.create(str(tmp_path / "t"), history=True, clock=clock, autoCompact=False)
    for day, operation in ((9, "upsert"), (5, "merge")):
        store.write(pa.table({"key": [b"a"], "value": [b"1"]}), operation=operation, timestamp=START - day * DAY)
    lowered = HistoryFloorFilter(START - DAY)
    with pytest.raises(OptionError, match="mergeOperator"):
        store.compact(full=True, filters=[lowered])
    with pytest.raises(OptionError, match="future"):
        store.compact(full=True, filters=[lowered, ExpireFilter(now=START + DAY)], mergeOperator="sum")
    assert stored_floor(store) is None
    assert not store.compact(full=True, filters=[lowered], mergeOperator="concat").is_compacted
    assert stored_floor(store) == START - DAY
    for later in (1, 2):
        store.compact(full=True, filters=[HistoryFloorFilter(START - DAY + later)], mergeOperator="concat")
        assert stored_floor(store) == START - DAY + later


# --- refused --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chosen", [delete("x"), RetentionFilter("1d")], ids=["own", "retention"])
def test_history_tables_take_no_filters_that_would_change_the_past(tmp_path: Path, chosen: Any) -> None:
    store = table(tmp_path / "t", history=True)
    write(store, (1, "x"))
    with pytest.raises(InvalidRequestError, match="history"):
        store.compact(full=True, filters=[chosen])


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        (delete("x"), "list"),
        ([delete], "function"),
        ([Rule], "Rule"),
        (["ExpireFilter"], "str"),
        ("x", "str"),
        ([HistoryFloorFilter(5)], "history"),
    ],
)
def test_invalid_filters_are_refused(tmp_path: Path, filters: Any, said: str) -> None:
    store = table(tmp_path / "t")
    write(store, (1, "x"))
    with pytest.raises(InvalidRequestError, match=said):
        store.compact(full=True, filters=filters)
    assert rows(store) == {1: "x"}


@pytest.mark.parametrize(
    "make", [lambda: RetentionFilter("soon"), lambda: ExpireFilter("soon"), lambda: HistoryFloorFilter("soon")]
)
def test_built_in_filters_check_their_arguments(make: Callable[[], object]) -> None:
    with pytest.raises(OptionError, match="soon"):
        make()


def broken(versions: pa.RecordBatch) -> pa.Array:
    if 700 in versions["id"].to_pylist():
        raise ValueError("no 700, please")
    return pa.array(["keep"] * versions.num_rows)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (Rule(broken), "id=700"),
        (Rule(lambda _: pa.array(["keep"])), "actions"),
        (Rule(lambda versions: pa.array(["burn"] * versions.num_rows)), "burn"),
    ],
)
def test_a_failing_filter_leaves_the_table_unchanged(tmp_path: Path, rule: Rule, said: str) -> None:
    store = table(tmp_path / "t")
    write(store, *((number, "x" * 90) for number in range(1000)), sstSize="4k", blockSize="1k")
    before = store.resolve().version
    with pytest.raises(InvalidRequestError, match=said):
        store.compact(full=True, filters=[rule], sstSize="4k", blockSize="1k")
    assert store.resolve().version == before
    assert len(rows(store)) == 1000


def test_the_retention_filter_waits_below_operands(tmp_path: Path) -> None:
    clock = FakeClock(START)
    store = SlateStore.create(str(tmp_path / "t"), clock=clock, mergeOperator="concat")
    for key in (b"a", b"b", b"c", b"d"):
        store.write(pa.table({"key": [key], "value": [b"old"]}))
    clock.advance(10 * DAY)
    store.write(pa.table({"key": [b"a"], "value": [b"+"]}), operation="merge")
    clock.advance(DAY)
    chosen = [RetentionFilter("5d")]
    assert store.compact(filters=chosen, maxCompactionSources=4).filters_waited  # the operand is above these four
    assert len(store.scan().read_all()) == 4
    assert not store.compact(full=True, filters=chosen).filters_waited
    assert store.scan().read_all().to_pylist() == [{"key": b"a", "value": b"old+"}]


def test_a_compaction_without_a_merge_calls_no_filter(tmp_path: Path) -> None:
    store = table(tmp_path / "t")
    write(store, (1, "ann"))
    report = store.compact(filters=[Rule(broken)])
    assert (report.jobs, report.filters) == ((), ("Rule",))
    assert "none: nothing was merged" in compaction_text(report)
    assert "none: there is nothing to merge" in compaction_text(store.compact())
