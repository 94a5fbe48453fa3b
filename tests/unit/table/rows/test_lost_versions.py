"""Two versions of a key within one millisecond are refused wherever they meet, and nothing else is."""

from __future__ import annotations

from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slatespark import InvalidRequestError, SlateStore
from slatespark.options import WriteOptions
from slatespark.table.clock import Clock
from slatespark.table.stores import open_stores
from slatespark.table.write.load_commit import commit_load
from slatespark.table.write.load_plan import begin_load
from slatespark.table.write.load_task import run_task
from tests.support.fake_clock import FakeClock

NOW_MS = 1_700_000_000_000
MICROS, NANOS = pa.timestamp("us", "UTC"), pa.timestamp("ns", "UTC")
TYPED = pa.schema([("id", pa.int64()), ("at", MICROS)])
SMALL = 300  # bytes of a buffer that some rows fill

_numbers = count()

rows = st.tuples(st.integers(0, 3), st.integers(0, 2500))  # id, and time in us
tasks = st.lists(st.lists(rows, max_size=12), min_size=1, max_size=3)


def new_store(*, typed: bool, keys: str = "id") -> SlateStore:
    url, clock = f"memory://lost-versions-{next(_numbers)}", FakeClock(NOW_MS)
    if typed:
        return SlateStore.create(url, TYPED, keys, history=True, clock=clock)
    return SlateStore.create(url, history=True, clock=clock)


def columns(part: list[tuple[int, int]], *, typed: bool, unit: pa.DataType = MICROS) -> pa.Table:
    at = pa.array([at for _, at in part], pa.int64()).cast(MICROS).cast(unit)
    if typed:
        return pa.table({"id": pa.array([key for key, _ in part], pa.int64()), "at": at})
    keys = pa.array([b"%d" % key for key, _ in part], pa.binary())
    return pa.table({"key": keys, "value": keys, "at": at})


def write_tasks(store: SlateStore, parts: list[pa.Table], *, batch_rows: int = 2, **options: Any) -> None:
    stores, clock = open_stores(store.url, storage={}), clock_of()
    parsed = WriteOptions.parse({"path": "p", "timestampColumn": "at", **options})
    load = begin_load(stores, clock, parts[0].schema, parsed)
    assert load is not None
    outputs = [
        run_task(stores, clock, load, number, part.to_batches(max_chunksize=batch_rows))
        for number, part in enumerate(parts)
    ]
    commit_load(stores, clock, load, outputs)


def clock_of() -> Clock:
    return FakeClock(NOW_MS, seed=next(_numbers))


def versions(store: SlateStore) -> int:
    found: int = store.scan(readVersions="all").read_all().num_rows
    return found


@given(parts=tasks, buffer=st.sampled_from([SMALL, 1 << 20]), cut=st.booleans())
@example(parts=[[(0, 1), (1, 5), (0, 2)]], buffer=SMALL, cut=False)  # spilled
@example(parts=[[(0, 1), (0, 1), (0, 2)]], buffer=SMALL, cut=False)  # a key that goes on in the next buffer
@example(parts=[[(0, 1), (2, 1), (3, 5), (0, 2)]], buffer=SMALL, cut=False)  # uploaded, then spilled
@example(parts=[[(0, 1)], [(0, 2)]], buffer=1 << 20, cut=False)
@example(parts=[[(0, 1)], [(0, 1), (1, 5)]], buffer=1 << 20, cut=False)  # the same row twice
@example(parts=[[(0, 0)], [(0, 1)]], buffer=1 << 20, cut=False)  # only one task has a time that was cut
def test_versions_that_ms_do_not_tell_apart(parts: list[list[tuple[int, int]]], buffer: int, cut: bool) -> None:
    if cut:  # truncated to ms by the user
        parts = [[(key, at // 1000 * 1000) for key, at in part] for part in parts]
    store = new_store(typed=True)
    distinct = {row for part in parts for row in part}
    kept = {(key, at // 1000) for key, at in distinct}
    write = [columns(part, typed=True) for part in parts]
    if len(kept) == len(distinct):
        write_tasks(store, write, writeBuffer=buffer)
        assert versions(store) == len(kept)
        return
    with pytest.raises(InvalidRequestError, match="timestampColumn: at "):
        write_tasks(store, write, writeBuffer=buffer)
    assert versions(store) == 0


REPEATED = {  # a row, where it meets itself once more
    "spilled": [[(0, 1), (1, 5), (0, 1)]],
    "next buffer": [[(0, 1), (0, 1), (0, 1)]],
    "uploaded, then spilled": [[(0, 1), (2, 1), (3, 5), (0, 1)]],
    "tasks": [[(0, 1)], [(0, 1), (1, 5)]],
}


@pytest.mark.parametrize("keys", ["id", "id,at"])
@pytest.mark.parametrize("unit", [NANOS, MICROS], ids=str)
@pytest.mark.parametrize("where", REPEATED)
def test_equal_times_lose_nothing(where: str, unit: pa.DataType, keys: str) -> None:
    """Rows may count finer than the table. And if the time is part of the key, all rows of one key have one time."""
    store, parts = new_store(typed=True, keys=keys), REPEATED[where]
    write_tasks(store, [columns(part, typed=True, unit=unit) for part in parts], writeBuffer=SMALL)
    assert versions(store) == len({row for part in parts for row in part})


@pytest.mark.parametrize("unit", [NANOS, MICROS], ids=str)
def test_the_message_names_column_key_and_choice(unit: pa.DataType) -> None:
    store = new_store(typed=True)
    with pytest.raises(InvalidRequestError, match=r"at .*00\.004Z for id=7\..*sequenceColumn.*truncate"):
        store.write(columns([(7, 4001), (7, 4002)], typed=True, unit=unit), timestampColumn="at")


def test_a_sequence_column_decides() -> None:
    store = new_store(typed=True)
    for tasks_of in ([[(7, 4001), (7, 4003), (7, 4002)]], [[(8, 1)], [(8, 3)], [(8, 2)]]):
        write_tasks(store, [columns(part, typed=True) for part in tasks_of], sequenceColumn="at")
    assert [row["at"].microsecond for row in store.scan().read_all().to_pylist()] == [4003, 3]


def test_truncated_times_keep_the_last_row() -> None:
    store = new_store(typed=False)
    write_tasks(store, [columns([(7, 4000), (7, 4000)], typed=False), columns([(7, 4000)], typed=False)])
    assert versions(store) == 1


def test_times_that_are_not_stored_are_known_within_a_task() -> None:
    """Across tasks they are not, and versions within a millisecond may be different ones."""
    store = new_store(typed=False)
    with pytest.raises(InvalidRequestError, match="timestampColumn: at "):
        write_tasks(store, [columns([(7, 4001), (7, 4002)], typed=False)])
    write_tasks(store, [columns([(7, 4001), (7, 4001)], typed=False)])
    assert versions(store) == 1
    with pytest.raises(InvalidRequestError, match="timestampColumn: at "):
        write_tasks(store, [columns([(8, 4001)], typed=False), columns([(8, 4001)], typed=False)])


def test_deletions_count_too() -> None:
    store = new_store(typed=True)
    part = columns([(7, 4001), (7, 4002)], typed=True).append_column("op", pa.array(["put", "delete"]))
    with pytest.raises(InvalidRequestError, match="timestampColumn: at "):
        store.write(part, timestampColumn="at", opColumn="op")
