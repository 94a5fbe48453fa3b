"""Writes to history tables: the times of rows, the start of TTLs, and the order of the versions of a key."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from slatespark import (
    ClockRegressionError,
    CommitConflictError,
    InvalidRequestError,
    OptionError,
    SchemaError,
    SlateStore,
)
from slatespark.options import WriteOptions
from slatespark.storage.object_store import ObjectStore
from slatespark.table.log.manifests import MAX_AHEAD_MS
from slatespark.table.stores import TableStores, open_stores
from slatespark.table.write.load_run import load_batches
from tests.support.fake_clock import FakeClock
from tests.support.our_reads import to_ms
from tests.support.timed_rows import SCHEMA, TIMED, Timed, VersionModel, stored_versions, timed_table, write_tasks

NOW_MS = 1_700_000_000_000
FAR_MS = 100 * NOW_MS // 10

_numbers = count()


def new_store(*, clock: FakeClock | None = None, **properties: Any) -> SlateStore:
    url, clock = f"memory://history-writes-{next(_numbers)}", clock or FakeClock(NOW_MS)
    return SlateStore.create(url, SCHEMA, "id", **{"history": True, **properties, "clock": clock})


def stores_of(store: SlateStore) -> TableStores:
    return open_stores(store.url, storage={})


def write(store: SlateStore, *rows: Timed, **options: Any) -> int:
    return store.write(timed_table(rows), **{**TIMED, **options})


def times(store: SlateStore, **options: Any) -> dict[int, list[tuple[int | None, int | None]]]:
    """Create and expiry times by key, newest first."""
    found: dict[int, list[tuple[int | None, int | None]]] = {}
    for row in store.scan(readVersions="all", **options).read_all().to_pylist():
        found.setdefault(row["id"], []).append((to_ms(row["_create_ts"]), to_ms(row["_expire_ts"])))
    return found


# --- times ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.timestamp("us", "UTC"), [1_000_999, -1]),
        (pa.timestamp("us"), [1_000_999, -1]),
        (pa.timestamp("ms"), [1000, -1]),
        (pa.timestamp("ns"), [1_000_999_000, -1000]),
        (pa.int64(), [1000, -1]),
        (pa.int32(), [1000, -1]),
    ],
    ids=str,
)
def test_every_type_of_time(kind: pa.DataType, values: list[int]) -> None:
    """The column is stored with its type; create_ts drops parts of a millisecond."""
    schema = pa.schema([("id", pa.int64()), ("at", kind)])
    store = SlateStore.create(
        f"memory://history-writes-{next(_numbers)}", schema, "id", history="true", clock=FakeClock(NOW_MS)
    )
    column = pa.array(values, pa.int64()).cast(kind)
    store.write(pa.table({"id": [1, 1], "at": column}), timestampColumn="AT")
    assert times(store) == {1: [(1000, None), (-1, None)]}
    stored = store.scan(readVersions="all", columns=["at"]).read_all()["at"]
    assert stored.to_pylist() == column.cast(stored.type).to_pylist()


def test_a_raw_table_reads_times_from_a_separate_column() -> None:
    store = SlateStore.create(f"memory://history-writes-{next(_numbers)}", history=True, clock=FakeClock(NOW_MS))
    rows = pa.table({"key": [b"k", b"k"], "value": [b"new", b"old"], "at": [2, 1]})
    store.write(rows, timestampColumn="at")
    store.write(pa.table({"key": [b"k"], "at": [3]}), timestampColumn="at", operation="delete")
    shown = store.scan(readVersions="all").read_all().to_pylist()
    assert [(row["value"], to_ms(row["_create_ts"])) for row in shown] == [(None, 3), (b"new", 2), (b"old", 1)]
    assert store.scan().read_all().num_rows == 0


def test_a_delete_needs_only_key_and_time() -> None:
    store = new_store()
    write(store, Timed(1, 10, "a"), Timed(2, 10, "b"))
    store.write(pa.table({"id": [1], "when": [20]}), timestampColumn="when", operation="delete")
    assert stored_versions(store) == [(1, 20, None, None), (1, 10, "a", None), (2, 10, "b", None)]


def test_the_first_write_creates_a_history_table() -> None:
    url = f"memory://history-writes-{next(_numbers)}"
    stores, clock = open_stores(url, storage={}), FakeClock(NOW_MS)
    write_tasks(stores, clock, [[Timed(1, 5, "a"), Timed(1, 6, "b")]], keyColumns="id", history="true")
    store = SlateStore.open(url, clock=clock)
    assert store.definition.has_history
    assert stored_versions(store) == [(1, 6, "b", None), (1, 5, "a", None)]


def test_the_first_write_may_be_an_overwrite_and_values_may_be_bytes() -> None:
    store = SlateStore.create(
        f"memory://history-writes-{next(_numbers)}", pa.schema([("k", pa.string()), ("v", pa.binary())]), "k",
        valueFormat="raw", history=True, clock=FakeClock(NOW_MS),
    )  # fmt: skip
    url, clock = f"memory://history-writes-{next(_numbers)}", FakeClock(NOW_MS)
    rows = pa.table({"k": ["a", "a"], "v": [b"+1", b"+2"], "at": [5, 6], "op": ["put", "merge"]})
    options = {"timestampColumn": "at", "opColumn": "op"}
    created = {"keyColumns": "k", "valueFormat": "raw", "history": "true"}
    parsed = WriteOptions.parse({"path": url, **options, **created})
    load_batches(open_stores(url, storage={}), clock, rows.schema, rows.to_batches(), parsed, overwrite=True)
    store.write(rows, **options)
    for found in (store, SlateStore.open(url, clock=clock)):
        assert found.scan().schema.names == ["k", "v"]
        assert found.get("a", mergeOperator="concat") == {"k": "a", "v": b"+1+2"}
        with pytest.raises(OptionError, match="overwritten"):
            found.write(rows, mode="overwrite", **options)


def test_a_column_of_times_may_be_added() -> None:
    store = new_store()
    store.write(pa.table({"id": [1], "when": [5]}), timestampColumn="when", mergeSchema=True)
    assert store.get(1) == {"id": 1, "name": None, "at": None, "when": 5}
    assert times(store) == {1: [(5, None)]}


def test_without_times_a_write_uses_the_clock_and_stays_above_the_last_tick() -> None:
    clock = FakeClock(NOW_MS)
    store = new_store(clock=clock)
    write(store, Timed(1, NOW_MS + MAX_AHEAD_MS, "ahead"))
    store.write(pa.table({"id": [1, 2, 2], "name": ["now", "x", "y"], "at": [0, 0, 0]}))
    assert times(store) == {1: [(NOW_MS + MAX_AHEAD_MS, None)] * 2, 2: [(NOW_MS + MAX_AHEAD_MS, None)]}
    assert store.get(1) == {"id": 1, "name": "now", "at": 0}
    assert store.get(2) == {"id": 2, "name": "y", "at": 0}  # one version of a key, as in every table


def test_one_time_for_the_whole_write_may_be_in_the_past() -> None:
    store = new_store()
    write(store, Timed(1, 500, "a"))
    rows = pa.table({"id": [2, 3], "name": ["b", "c"], "at": [0, 0]})
    store.write(rows, timestamp=datetime(1970, 1, 1, 0, 0, 0, 400_000, tzinfo=UTC))
    assert times(store) == {1: [(500, None)], 2: [(400, None)], 3: [(400, None)]}
    with pytest.raises(CommitConflictError, match=r"1970-01-01T00:00:00.399Z"):
        store.write(rows.slice(1), timestamp=399)
    store.write(rows.slice(1), timestamp=400)


@pytest.mark.parametrize(("start", "base"), [("row", 1000), ("write", NOW_MS)])
def test_the_start_of_a_ttl(start: str, base: int) -> None:
    store = new_store(defaultTtl="7ms")
    write(store, Timed(1, 1000, "default"), Timed(2, 1000, "own", ttl=5), Timed(3, 1000, None), ttlFrom=start)
    write(store, Timed(4, 1000, "given"), ttlFrom=start, ttl=9)
    store.write(pa.table({"id": [5], "name": ["whole"], "at": [0]}), timestamp=1000, ttlFrom=start)
    expected = {1: base + 7, 2: base + 5, 3: None, 4: base + 9, 5: base + 7}
    assert times(store, includeExpired=True) == {key: [(1000, at_ms)] for key, at_ms in expected.items()}


def test_a_fixed_expiry_stays() -> None:
    store = new_store()
    rows = pa.table(
        {
            "id": [1, 2],
            "name": ["a", "b"],
            "at": [1000, -1000],
            "gone": pa.array([7, None], pa.timestamp("ms")),
        }
    )
    store.write(rows, timestampColumn="at", expireAtColumn="gone", ttl=50)
    assert times(store) == {1: [(1000, 7)], 2: [(-1000, -950)]}


# --- refused ---------------------------------------------------------------------------------------------------------


def test_row_times_need_a_history_table() -> None:
    store = new_store(history=False)
    with pytest.raises(OptionError, match="timestampColumn"):
        write(store, Timed(1, 5, "a"))
    assert store.scan().read_all().num_rows == 0


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([5, None], pa.int64()), "null"),
        (pa.array([5, 2**63], pa.uint64()), "range"),
        (pa.array([5, 2**62], pa.timestamp("s")), "range"),
        (pa.array([5, -(10**16)], pa.timestamp("s")), "range"),
        (pa.array([5, -(2**63) // 1000], pa.timestamp("s")), "range"),
        (pa.array([5.0, 6.0]), "DOUBLE"),
        (pa.array(["1970-01-01", "1970-01-02"]), "STRING"),
        (pa.nulls(2), "TIMESTAMP"),
    ],
    ids=["null", "unsigned", "seconds", "early seconds", "just too early", "double", "text", "nulls"],
)
def test_columns_without_valid_times_are_refused(column: pa.Array, message: str) -> None:
    store = new_store()
    version = store.detail().version
    rows = pa.table({"id": [1, 2], "at": column})
    with pytest.raises(SchemaError, match=f"timestampColumn.*{message}"):
        store.write(rows, timestampColumn="at", operation="delete")
    assert store.detail().version == version


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timestampColumn": "at", "timestamp": 5}, "timestampColumn"),
        ({"timestampColumn": "at", "mode": "overwrite"}, "overwritten"),
        ({"mode": "overwrite"}, "overwritten"),
        ({"timestampColumn": "at", "ttlFrom": "commit"}, "ttlFrom"),
        ({"timestampColumn": "at", "history": "false"}, "history"),
    ],
    ids=str,
)
def test_options_that_do_not_go_together(options: dict[str, Any], message: str) -> None:
    store = new_store()
    with pytest.raises(OptionError, match=message):
        store.write(pa.table({"id": [1], "name": ["a"], "at": [5]}), **options)


def test_a_missing_column_is_refused() -> None:
    store = new_store()
    with pytest.raises(SchemaError, match="timestampColumn"):
        store.write(pa.table({"id": [1], "name": ["a"], "at": [5]}), timestampColumn="when")
    with pytest.raises(SchemaError, match="mergeSchema"):
        store.write(pa.table({"id": [1], "name": ["a"], "at": [5], "when": [5]}), timestampColumn="when")


def test_a_table_with_its_own_clock_needs_a_time_for_each_row_or_one_for_all() -> None:
    store = SlateStore.create(f"memory://history-writes-{next(_numbers)}", SCHEMA, "id", clock="custom", history=True)
    row = pa.table({"id": [1], "name": ["a"], "at": [FAR_MS]})
    store.write(row, timestampColumn="at")
    store.write(row, timestamp=FAR_MS)
    assert times(store) == {1: [(FAR_MS, None)] * 2}
    with pytest.raises(OptionError, match="clock"):
        store.write(row)
    with pytest.raises(OptionError, match="ttlFrom"):
        store.write(row, timestamp=FAR_MS, ttlFrom="write")


@pytest.mark.parametrize("creates", [False, True])
def test_a_future_time_is_refused(creates: bool) -> None:
    clock, url = FakeClock(NOW_MS), f"memory://history-writes-{next(_numbers)}"
    if not creates:
        SlateStore.create(url, SCHEMA, "id", history=True, clock=clock)
    ahead_ms = NOW_MS + MAX_AHEAD_MS + 1
    stores = open_stores(url, storage={})
    with pytest.raises(ClockRegressionError) as caught:
        write_tasks(stores, clock, [[Timed(1, 0, "a"), Timed(2, ahead_ms, "b")]], keyColumns="id", history="true")
    assert f"({ahead_ms})" in str(caught.value)
    if not creates:
        assert SlateStore.open(url).scan(readVersions="all").read_all().num_rows == 0


# --- the order of versions ------------------------------------------------------------------------------------------


def test_an_older_version_is_a_conflict_that_names_keys() -> None:
    store = new_store()
    write(store, *(Timed(key, 1000 + key, "x") for key in range(20)))
    version = store.detail().version
    with pytest.raises(CommitConflictError) as caught:
        write(store, *(Timed(key, 1001 if key == 3 else 1500, "old") for key in range(20)))
    assert "id=3" in str(caught.value)
    with pytest.raises(CommitConflictError, match="id=4"):
        write(store, *(Timed(key, 999, "old") for key in range(20)))
    assert store.detail().version == version


@pytest.mark.parametrize("bits", [0, 10])
def test_equal_times_do_not_conflict_and_the_later_write_wins(bits: int) -> None:
    store = new_store()
    write(store, Timed(1, 1000, "first"), Timed(2, 2000, "far"), bloomBitsPerKey=bits)
    write(store, Timed(1, 1000, "second"), Timed(1, 1000, "third"))
    assert stored_versions(store)[:2] == [(1, 1000, "third", None), (1, 1000, "first", None)]
    with pytest.raises(CommitConflictError, match=r"1970-01-01T00:00:00.999Z"):
        write(store, Timed(1, 999, "before"), Timed(3, 5, "new"))
    with pytest.raises(CommitConflictError, match=r"1970-01-01T00:00:01.999Z"):
        write(store, Timed(2, 1999, "before"))
    store.write(pa.table({"id": [2]}), operation="delete")
    with pytest.raises(CommitConflictError, match="id=2"):
        write(store, Timed(2, 3000, "below the deletion"))


@pytest.mark.parametrize("compacts", [False, True])
def test_a_version_from_before_the_floor_is_refused(compacts: bool) -> None:
    """A deletion after it may have been dropped; it is refused in either case."""
    store = new_store()
    write(store, Timed(1, 1000, "a"))
    write(store, Timed(1, 2000, None))
    write(store, Timed(2, 9000, "x"))
    store.setHistoryFloor(5000)
    if compacts:
        store.compact(full=True)
    said = r"\(4999\).*\(5000\)"
    with pytest.raises(CommitConflictError, match=said):
        write(store, Timed(3, 6000, "later"), Timed(1, 4999, "late"))
    with pytest.raises(CommitConflictError, match=said):
        store.write(pa.table({"id": [1], "name": ["late"], "at": [6000]}), timestamp=4999)
    assert [row["id"] for row in store.scan(timestampAsOf=5000).read_all().to_pylist()] == []
    write(store, Timed(1, 5000, "at the floor"))
    assert [row["id"] for row in store.scan(timestampAsOf=5000).read_all().to_pylist()] == [1]


class CountingStore:
    """Counts the reads of SSTs of a store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store, self.reads = store, 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in ("get", "get_range", "get_ranges"):
            return found

        def read(path: str, *args: Any) -> Any:
            self.reads += path.startswith("compacted/")
            return found(path, *args)

        return read


@pytest.mark.parametrize(
    ("row", "reads"),
    [(Timed(1, 5000, "above all"), False), (Timed(50, 2, "between files"), False), (Timed(1, 2000, "as they"), False)],
    ids=lambda value: value.name if isinstance(value, Timed) else "",
)
def test_files_in_order_are_not_read(row: Timed, reads: bool) -> None:
    store = new_store()
    write(store, Timed(1, 2000, "a"), Timed(40, 2000, "a"))
    write(store, Timed(60, 3000, "b"), Timed(90, 3000, "b"))
    main = CountingStore(stores_of(store).main)
    stores = TableStores(main=main, wal=main)
    write_tasks(stores, FakeClock(NOW_MS, seed=1), [[row]])
    assert (main.reads > 0) == reads


def test_a_look_up_reads_only_files_that_may_be_newer() -> None:
    store = new_store()
    write(store, *(Timed(key, 1000, "a") for key in range(0, 3000, 2)))
    write(store, *(Timed(key, 3000, "b") for key in range(1, 3000, 2)))
    write(store, Timed(4, 2000, "c"))  # the other file has odd keys only
    with pytest.raises(CommitConflictError, match="id=5"):
        write(store, Timed(5, 2000, "c"))


# --- tasks ----------------------------------------------------------------------------------------------------------


def test_tasks_that_share_keys_are_merged_by_time() -> None:
    store, model = new_store(), VersionModel()
    tasks = [[Timed(key, at, f"{task} {at}") for key in range(3) for at in (task, 10 - task, 5)] for task in range(4)]
    assert model.write(row for task in tasks for row in task)
    write_tasks(stores_of(store), FakeClock(NOW_MS, seed=1), tasks)
    assert stored_versions(store) == model.stored()
    assert len(store.runs()) == 1


@pytest.mark.parametrize("between", [4, 5, 6])
def test_tasks_that_share_a_key_of_many_files(between: int) -> None:
    """The second task may overlap only the first or last file of a key; the key is renumbered as a whole."""
    store, model = new_store(), VersionModel()
    tasks = [
        [Timed(3, 1, "c"), *(Timed(5, at, "x" * 50) for at in range(100, 500)), Timed(8, 1, "c")],
        [Timed(between, 7, "a")],
    ]
    model.write(row for task in tasks for row in task)
    write_tasks(stores_of(store), FakeClock(NOW_MS, seed=1), tasks, sstSize=2000)
    assert stored_versions(store) == model.stored()
    assert not store.verify().has_damage


def test_tasks_that_share_too_much_are_refused_with_advice() -> None:
    store = new_store()
    tasks = [[Timed(key, task, "x") for key in range(100)] for task in range(2)]
    with pytest.raises(InvalidRequestError, match="commitRewriteLimit"):
        write_tasks(stores_of(store), FakeClock(NOW_MS, seed=1), tasks, commitRewriteLimit=1000)
    assert store.scan(readVersions="all").read_all().num_rows == 0


def test_the_highest_sequence_decides_between_tasks_of_one_time() -> None:
    schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("at", pa.int64()), ("ttl", pa.int64())])
    url = f"memory://history-writes-{next(_numbers)}"
    store = SlateStore.create(url, schema, "id", history=True, clock=FakeClock(NOW_MS))
    tasks = [[Timed(1, 5, "high", ttl=9), Timed(1, 6, "x")], [Timed(1, 5, "low", ttl=1), Timed(1, 5, "null")]]
    options: dict[str, Any] = {"ttlColumn": None, "sequenceColumn": "ttl"}
    write_tasks(open_stores(url, storage={}), FakeClock(NOW_MS, seed=1), tasks, **options)
    assert stored_versions(store) == [(1, 6, "x", None), (1, 5, "high", None)]
    deleted = [[Timed(2, 5, "high", ttl=9)], [Timed(2, 5, None, ttl=1)]]
    with pytest.raises(InvalidRequestError, match="delet"):
        write_tasks(open_stores(url, storage={}), FakeClock(NOW_MS, seed=2), deleted, **options)
