"""How far a scan of a remote store fetches ahead: enough to fill a link, and no more than its buffer allows."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice

import pyarrow as pa
import pytest

from slatespark import SlateStore, SnapshotExpiredError
from slatespark.format.index import SstIndex
from slatespark.format.row import Row
from slatespark.options import ReadOptions
from slatespark.ranges import ByteRange
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import Buffer
from slatespark.storage.readahead import MAX_THREADS
from slatespark.table.read.copies.stored import footers
from slatespark.table.read.fetch import fetch_index, indexes
from slatespark.table.read.merge.cursor import (
    MAX_BYTES_AHEAD,
    MAX_WINDOW_BYTES,
    MIN_WINDOW_BYTES,
    bytes_ahead,
    layer_windows,
    window_size,
)
from slatespark.table.read.merge.layer_reads import MAX_INDEXES_AHEAD, MAX_READS_AHEAD
from slatespark.table.read.planning.plan import Layer
from slatespark.table.read.reader import fetch_read_plan
from slatespark.table.stores import TableStores
from tests.support.fake_clock import FakeClock
from tests.support.round_trips import DistantTable
from tests.unit.table.layers import put_file

MB = 1 << 20
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("value", pa.binary())])


class FarStore(MemoryStore):
    """Holds answers of a megabyte or more back until `open` is set, and knows how many are asked for."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.open = threading.Event()
        self.lock = threading.Lock()
        self.in_flight: list[int] = []
        self.most_together = 0

    @property
    def is_remote(self) -> bool:
        return True

    def get_ranges(self, path: str, spans: Sequence[ByteRange]) -> list[Buffer]:
        size = sum(map(len, spans))
        if size >= MB:
            with self.lock:
                self.in_flight.append(size)
                self.most_together = max(self.most_together, len(self.in_flight))
            assert self.open.wait(60)
            time.sleep(0.001)
            with self.lock:
                self.in_flight.remove(size)
        return super().get_ranges(path, spans)


def far_table(name: str, megabytes: int) -> tuple[FarStore, SlateStore]:
    near = SlateStore.create(f"memory://{name}", SCHEMA, "id")
    value = bytes(MB - 200)  # so that three rows fit a window
    table = pa.table({"id": range(megabytes), "value": [value] * megabytes}, SCHEMA)
    near.write(table, mode="overwrite", compression="none", sstSize="1g")
    store = FarStore(name)
    return store, SlateStore(TableStores(store, store), FakeClock(), {"path": store.url})


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def drained(store: SlateStore, **options: object) -> list[int]:
    return [key for batch in store.scan(**options) for key in batch["id"].to_pylist()]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("buffer", "expected_bytes"),
    [("64m", MAX_BYTES_AHEAD + 2 * MAX_WINDOW_BYTES), ("16m", 16 * MB), ("9m", 9 * MB)],
)
def test_one_split_fills_its_share_of_the_buffer_and_no_more(buffer: str, expected_bytes: int) -> None:
    store, table = far_table(f"scan-ahead-{buffer}", 60)
    reader = threading.Thread(target=drained, args=(table,), kwargs={"parallelism": 1, "readBuffer": buffer})
    reader.start()
    # The window that is taken next is in flight, too; the one before it has been used.
    reads = (expected_bytes - MAX_WINDOW_BYTES) // MAX_WINDOW_BYTES
    wait_until(lambda: len(store.in_flight) == reads)
    time.sleep(0.02)
    assert len(store.in_flight) == reads
    assert sum(store.in_flight) + MAX_WINDOW_BYTES <= expected_bytes
    store.open.set()
    reader.join()
    assert store.most_together == reads


def test_many_splits_that_fetch_ahead_at_once_wait_for_threads_and_not_for_each_other() -> None:
    store, table = far_table("scan-ahead-many", 120)
    store.open.set()
    found: list[list[int]] = []

    def read() -> None:
        found.append(drained(table, parallelism=8, readBuffer="512m", splitSize="12m"))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(60)
    assert found == [list(range(120))] * 3
    assert store.most_together <= MAX_THREADS


def test_the_shares_of_layers() -> None:
    for buffer_bytes in (1, 5 * MB, 64 * MB, 1 << 40):
        for layers in (0, 1, 2, 7, 300):
            ahead, window = bytes_ahead(buffer_bytes, layers), window_size(buffer_bytes, layers)
            assert 0 <= ahead <= MAX_BYTES_AHEAD
            assert ahead == 0 or max(1, layers) * (ahead + 2 * window) <= buffer_bytes


# --- many layers, many files --------------------------------------------------------------------------------------


def round_trips(name: str, layers: int, call: Callable[[SlateStore], object]) -> int:
    """What a call takes on a table whose rows all lie in each of some layers."""
    clock = FakeClock()
    store = SlateStore.create(f"memory://{name}-{layers}", SCHEMA, "id", clock=clock)
    for number in range(layers):
        store.write(pa.table({"id": range(100), "value": [b"%d" % number] * 100}, SCHEMA))
        clock.advance(1000)
    indexes.clear()
    table = DistantTable(f"{name}-{layers}", clock)
    return table.spent(call).round_trips


@pytest.mark.parametrize("kind", ["scan", "changes"])
def test_the_layers_of_a_merge_are_read_together(kind: str) -> None:
    def call(store: SlateStore) -> None:
        rows = store.scan(parallelism=1) if kind == "scan" else store.changes(startingVersion=2)
        assert len(rows.read_all())

    assert round_trips(kind, 8, call) <= round_trips(kind, 3, call)


def round_trips_above_copies(layers: int) -> int:
    clock, name = FakeClock(), f"above-copies-{layers}"
    rows = pa.table({"id": range(3000), "value": [b"v"] * 3000}, SCHEMA)
    store = SlateStore.create(f"memory://{name}", SCHEMA, "id", clock=clock, columnar=True, autoCompact=False)
    store.write(rows)
    store.compact(full=True)
    for _ in range(layers):
        clock.advance(1000)
        store.write(rows)
    indexes.clear()
    table = DistantTable(name, clock)
    return table.spent(lambda store: store.scan(columns="id", useCopies=True, parallelism=1).read_all()).round_trips


def test_layers_above_copies_are_read_together() -> None:
    assert round_trips_above_copies(5) <= round_trips_above_copies(1)


def round_trips_of_a_run(files: int) -> int:
    clock, name = FakeClock(), f"run-of-{files}"
    store = SlateStore.create(f"memory://{name}", SCHEMA, "id", clock=clock)
    for number in range(files):
        store.write(pa.table({"id": [number], "value": [bytes(MB)]}, SCHEMA), compression="none")
        clock.advance(1000)
    store.compact(full=True, sstSize="1m")
    assert [file.layer for file in store.files()] == ["run 0"] * files
    indexes.clear()
    return DistantTable(name, clock).spent(lambda store: store.scan(parallelism=1).read_all()).round_trips


def test_reads_go_on_from_one_file_of_a_run_into_the_next() -> None:
    assert round_trips_of_a_run(16) - round_trips_of_a_run(8) <= 4


@pytest.mark.parametrize("lost", ["index", "rows"])
def test_an_error_in_a_later_file_is_raised_when_it_is_reached(lost: str) -> None:
    store = FarStore(f"run-without-{lost}")
    store.open.set()
    stores = TableStores(store, store)
    layer = Layer("run", tuple(put_file(stores, [Row(b"%d" % number, 1, value=b"v")]) for number in range(4)))
    if lost == "rows":
        for part in layer.slices:
            fetch_index(stores, part.file)
    store.delete(layer.slices[2].file.path)
    windows = layer_windows(stores, layer, MAX_WINDOW_BYTES)
    assert [next(windows).rows.key(0) for _ in range(2)] == [b"0", b"1"]
    with pytest.raises(SnapshotExpiredError):
        next(windows)


class Answer(bytearray):
    """Bytes of which a test knows whether somebody still holds them."""


class AnsweringStore(MemoryStore):
    """A remote store that remembers its answers, weakly."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.answers: list[weakref.ref[Answer]] = []

    @property
    def is_remote(self) -> bool:
        return True

    def get_range(self, path: str, span: ByteRange) -> Buffer:
        answer = Answer(super().get_range(path, span))
        self.answers.append(weakref.ref(answer))
        return answer

    def held(self) -> int:
        return sum(answer() is not None for answer in self.answers)


@pytest.fixture
def no_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collections")
@pytest.mark.parametrize("taken", [0, 1, 3, 20])
def test_nothing_is_held_once_a_reader_has_gone(taken: int) -> None:
    store = AnsweringStore(f"reader-gone-{taken}")
    stores = TableStores(store, store)
    rows = [[Row(b"%02d%03d" % (file, row), 1, value=bytes(1000)) for row in range(200)] for file in range(4)]
    layer = Layer("run", tuple(put_file(stores, each) for each in rows))
    windows = layer_windows(stores, layer, MIN_WINDOW_BYTES)
    assert sum(1 for _ in islice(windows, taken)) <= taken
    del windows  # as a limit drops a scan
    indexes.clear()
    wait_until(lambda: store.held() == 0)


@pytest.mark.usefixtures("no_collections")
@pytest.mark.parametrize("make", [MemoryStore, AnsweringStore])
def test_indexes_of_files_that_were_read_are_let_go(
    make: Callable[[str], MemoryStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes.budget, "limit_bytes", lambda: 0)
    store = make(f"indexes-{make.__name__}")
    stores = TableStores(store, store)
    layer = Layer("run", tuple(put_file(stores, [Row(b"%03d" % file, 1, value=b"v")]) for file in range(60)))
    before = sum(isinstance(each, SstIndex) for each in gc.get_objects())
    windows = layer_windows(stores, layer, MIN_WINDOW_BYTES)
    assert len(list(islice(windows, 50))) == 50
    assert (
        sum(isinstance(each, SstIndex) for each in gc.get_objects()) - before < MAX_READS_AHEAD + MAX_INDEXES_AHEAD + 3
    )


@pytest.mark.parametrize("columnar", ["false", "true"])
def test_planning_reads_the_indexes_of_large_files_together(columnar: str) -> None:
    """Or the ends of their columnar copies: many files take no more round trips than a few."""
    spent, files = [], []
    for count in (1000, 8000):
        name, clock = f"scan-plan-{columnar}-{count}", FakeClock()
        store = SlateStore.create(f"memory://{name}", SCHEMA, "id", clock=clock, columnar=columnar)
        table = pa.table({"id": range(count), "value": [b"%d" % each for each in range(count)]}, SCHEMA)
        store.write(table, sstSize="16k", blockSize=1024)
        store.compact(full=True, columnar=columnar == "true", sstSize="16k", blockSize=1024)
        files.append(len(store.files()))
        indexes.clear()
        footers.clear()
        options = ReadOptions.parse({"path": store.url, "splitSize": "8k"})
        spent.append(DistantTable(name, clock).spent(partial(planned, options)))
    assert 2 <= files[0] < files[1]
    assert spent[0].requests < spent[1].requests
    assert spent[0].round_trips == spent[1].round_trips


def planned(options: ReadOptions, store: SlateStore) -> None:
    plan = fetch_read_plan(store._stores, options, FakeClock())
    assert len(plan.splits) > 2
