"""The option `throughputMBPerSec`: uploads wait for their share of the rate."""

from __future__ import annotations

from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from slatespark import OptionError, SlateStore, SstWriter
from slatespark.format.paths import COMPACTED_DIR
from slatespark.options import WriteOptions
from slatespark.options.values import AUTO_THROUGHPUT
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import ObjectStore
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.records.commits import fetch_commit_record, publish_commit_record
from slatespark.table.records.leases import LEASES_DIR, list_task_marks, task_mark_path
from slatespark.table.rows.throughput import UploadPace, marked_pace, resolve_throughput
from slatespark.table.stores import TableStores, open_stores
from slatespark.table.write.load_commit import commit_load
from slatespark.table.write.load_plan import begin_load
from slatespark.table.write.load_task import run_task
from tests.support.fake_clock import FakeClock

NOW_MS = 1_700_000_000_000
MB = 1_000_000

_numbers = count()


def new_store(clock: FakeClock) -> SlateStore:
    return SlateStore.create(f"memory://throughput-{next(_numbers)}", clock=clock)


def new_objects() -> MemoryStore:
    return MemoryStore(f"throughput-objects-{next(_numbers)}")


def rows(first: int, number: int) -> pa.Table:
    keys = [b"%06d" % key for key in range(first, first + number)]
    return pa.table({"key": keys, "value": [key * 16 for key in keys]})


def stored_bytes(store: SlateStore) -> int:
    return sum(meta.size for meta in open_stores(store.url, storage={}).main.list(COMPACTED_DIR))


# --- what a write does ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sst_size", [10_000, "64m"])
def test_a_write_takes_as_long_as_its_bytes(sst_size: Any) -> None:
    clock = FakeClock(NOW_MS)
    store = new_store(clock)
    store.write(rows(0, 2000), throughputMBPerSec=0.01, sstSize=sst_size)
    expected_ms = stored_bytes(store) * 1000 / 10_000
    files = len(store.files())
    assert (files > 10) == (sst_size == 10_000)
    assert expected_ms <= clock.now_ms() - NOW_MS <= expected_ms + files + 60, "each wait is rounded up to a ms"
    assert store.scan().read_all() == rows(0, 2000)
    assert list_leases(store) == []


def test_without_the_option_nothing_waits() -> None:
    clock = FakeClock(NOW_MS)
    store = new_store(clock)
    store.write(rows(0, 2000), sstSize=10_000)
    store.write(rows(0, 10), throughputMBPerSec=None)
    assert clock.now_ms() == NOW_MS


def list_leases(store: SlateStore) -> list[str]:
    return [meta.path for meta in open_stores(store.url, storage={}).main.list(LEASES_DIR)]


def test_the_time_that_rows_take_to_come_counts() -> None:
    clock = FakeClock(NOW_MS)
    store = new_store(clock)
    store.write(rows(0, 1000))
    size = stored_bytes(store)

    def slow_batches() -> Any:
        [batch] = rows(0, 1000).to_batches()
        yield batch.slice(0, 500)
        clock.advance(500)
        yield batch.slice(500)

    other = new_store(clock)
    start_ms = clock.now_ms()
    other.write(slow_batches(), throughputMBPerSec=size / MB)
    assert 1000 <= clock.now_ms() - start_ms <= 1002
    slower = new_store(clock)
    start_ms = clock.now_ms()
    slower.write(slow_batches(), throughputMBPerSec=10 * size / MB)
    assert clock.now_ms() - start_ms == 500


def test_files_that_are_taken_in_go_at_the_rate_too() -> None:
    clock = FakeClock(NOW_MS)
    store = new_store(clock)
    paths = [f"{store.url}-files/{number}.sst" for number in range(2)]
    for number, path in enumerate(paths):
        SstWriter(path, clock=clock).write(rows(number * 500, 500))
    store.ingest(paths, throughputMBPerSec=0.01)
    expected_ms = stored_bytes(store) / 10
    assert expected_ms <= clock.now_ms() - NOW_MS <= expected_ms + 2
    assert store.scan().read_all() == rows(0, 1000)


# --- one task and its siblings --------------------------------------------------------------------------------------


def test_tasks_that_run_divide_the_rate_and_marks_do_not_stay() -> None:
    clock, store = FakeClock(NOW_MS), new_objects()
    with marked_pace(store, clock, MB, write_id="0" * 16, task=0) as first:
        assert first is not None
        first.wait_for(MB)
        assert clock.slept_ms == [1000]
        with marked_pace(store, clock, MB, write_id="0" * 16, task=11) as second:
            assert second is not None
            first.wait_for(MB)
            second.wait_for(MB)
            assert clock.slept_ms == [1000, 2000], "the second had waited for the same two seconds"
            with marked_pace(store, clock, MB, write_id="1" * 16, task=1):
                first.wait_for(MB)
            assert clock.slept_ms == [1000, 2000, 2000], "the other one is another job's"
        first.wait_for(MB)
        assert clock.slept_ms[3:] == [1000]
    assert store.list(LEASES_DIR) == []


def test_the_mark_of_a_task_that_failed_goes() -> None:
    store = new_objects()
    with pytest.raises(ZeroDivisionError), marked_pace(store, FakeClock(NOW_MS), MB, write_id="0" * 16, task=0):
        raise ZeroDivisionError
    assert list_task_marks(store, "0" * 16) == []


def test_unused_rate_is_no_credit_for_more_than_one_file() -> None:
    clock = FakeClock(NOW_MS)
    pace = UploadPace(MB, clock, lambda: 1)
    clock.advance(3_600_000)
    pace.wait_for(5 * MB)
    pace.wait_for(5 * MB)
    assert clock.slept_ms == [5000]


@pytest.mark.parametrize("back_ms", [1, 86_400_000])
def test_a_clock_that_goes_back_makes_no_long_wait(back_ms: int) -> None:
    clock = FakeClock(NOW_MS)
    pace = UploadPace(MB, clock, lambda: 1)
    pace.wait_for(MB)
    clock.advance(-back_ms)
    pace.wait_for(MB)
    assert clock.slept_ms == [1000, 1000]


def test_tasks_as_spark_runs_them() -> None:
    """Several tasks of one job; one of them was killed and left its mark, which goes with the commit."""
    clock = FakeClock(NOW_MS)
    store = new_store(clock)
    stores = open_stores(store.url, storage={})
    load = begin_load(stores, clock, rows(0, 1).schema, options(store, throughputMBPerSec=1))
    assert load is not None
    killed = task_mark_path(load.job.write_id, 7)
    stores.main.put(killed, [b""])
    outputs = [run_task(stores, clock, load, task, rows(task * 100, 100).to_batches()) for task in range(3)]
    sizes = [file.size for files in outputs for file in files]
    assert clock.slept_ms == [-(-size * 2 * 1000 // MB) for size in sizes], "the killed one counts as long"
    assert list_task_marks(stores.main, load.job.write_id) == [killed]
    commit_load(stores, clock, load, outputs)
    assert list_leases(store) == []
    assert store.scan().read_all().num_rows == 300


def options(store: SlateStore, **given: Any) -> WriteOptions:
    return WriteOptions.parse({"path": store.url, **given})


# --- auto -----------------------------------------------------------------------------------------------------------


def record(manifest_id: int, delete_rate: Any = None) -> CommitRecord:
    return CommitRecord(manifest_id, "reap", "0" * 16, "test", 0, 0, None, None, delete_rate=delete_rate)


def store_with(*records: CommitRecord) -> ObjectStore:
    store = new_objects()
    for each in records:
        publish_commit_record(store, each)
    return store


def test_auto_is_the_rate_of_the_last_reap() -> None:
    store = store_with(record(1, 5), record(2, 7), *(record(number) for number in range(3, 40)))
    assert (
        resolve_throughput(
            store, WriteOptions.parse({"path": "p", "throughputMBPerSec": "auto"}).throughput_bytes_per_s
        )
        == 7
    )
    assert resolve_throughput(store, 9) == 9
    assert resolve_throughput(store, None) is None


@pytest.mark.parametrize("rate", [None, 0, -3, "much", 2.5])
def test_without_a_reap_auto_is_no_limit(rate: Any) -> None:
    assert resolve_throughput(store_with(record(1, rate)), -1) is None
    assert resolve_throughput(store_with(), -1) is None


def test_a_write_with_auto_is_held_to_the_delete_rate() -> None:
    clock = FakeClock(NOW_MS)
    store = new_store(clock)
    stores: TableStores = open_stores(store.url, storage={})
    store.write(rows(0, 1000), throughputMBPerSec="auto")
    assert clock.now_ms() == NOW_MS
    version = store.history(1)[0].version
    found = fetch_commit_record(stores.main, version)
    assert found is not None
    publish_commit_record(stores.main, record(version + 1, 10_000))
    store.write(rows(1000, 1000), throughputMBPerSec="auto")
    assert abs(clock.now_ms() - NOW_MS - stored_bytes(store) / 2 / 10) < 50


# --- the option -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"), [(5, 5 * MB), ("2.5", 2_500_000), (0.001, 1000), (" AUTO ", -1), ("1000000", 10**12)]
)
def test_values(given: Any, expected: int) -> None:
    parsed = WriteOptions.parse({"path": "p", "throughputMBPerSec": given})
    assert parsed.throughput_bytes_per_s == expected


@pytest.mark.parametrize(
    "given",
    [0, "0", -1, "-1", "none", "5MB", "1e3", "nan", float("nan"), float("inf"), True, [], "9" * 5000, 1e-9, b"5"],
)
def test_what_is_no_rate(given: Any) -> None:
    with pytest.raises(OptionError, match="throughputMBPerSec"):
        WriteOptions.parse({"path": "p", "throughputMBPerSec": given})


def test_a_reap_leaves_the_rate_that_auto_goes_by() -> None:
    clock = FakeClock(NOW_MS)
    store = new_store(clock)
    store.write(rows(0, 1000))
    store.setProperties(retention="1h")
    clock.advance(2 * 3_600_000)
    objects = open_stores(store.url, storage={}).main
    assert resolve_throughput(objects, AUTO_THROUGHPUT) is None
    report = store.reap()
    assert (report.files_dropped, report.passes) == (1, 1)
    rate = resolve_throughput(objects, AUTO_THROUGHPUT)
    found = fetch_commit_record(objects, report.version)
    assert found is not None
    assert rate == found.delete_rate == report.bytes * 1000, "no time passed, which counts as a millisecond"
    store.write(rows(1000, 1000))
    assert resolve_throughput(objects, AUTO_THROUGHPUT) == rate, "of the last reap, not of the last commit"
