"""All readers that Spark makes of one DataFrame see one snapshot, in whichever process it plans them."""

from __future__ import annotations

import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore, TableNotFoundError
from slatespark.spark.source import load_point
from slatespark.spark.source.datasource import SlateDataSource
from slatespark.table.read.reader import resolve_held
from tests.support import named_clocks
from tests.support.client import Client, Location

pytest.importorskip("pyspark")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(load_point, "private_folder", lambda: tmp_path)
    return tmp_path / "loads"


@pytest.fixture
def store(tmp_path: Path) -> SlateStore:
    store = SlateStore.create(tmp_path / "t", "id BIGINT, n INT", "id", autoCompact=False)
    write(store, 1)
    return store


def write(store: SlateStore, number: int, **options: Any) -> None:
    store.write(pa.Table.from_pylist([{"id": number, "n": number}], schema=store.definition.schema), **options)


def load(store: SlateStore, **options: str) -> bytes:
    """Return the source as Spark sends it to the processes that plan."""
    return pickle.dumps(SlateDataSource({"path": store.url, **options}))


def ids(source: bytes, store: SlateStore) -> list[int]:
    """Return what a process reads that gets the source."""
    made: SlateDataSource = pickle.loads(source)
    reader = made.reader(made.schema())
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return sorted(number for batch in batches for number in pa.RecordBatch.to_pydict(batch)["id"])


def test_readers_of_one_load_share_a_snapshot(store: SlateStore) -> None:
    one, other = load(store), load(store)
    assert ids(one, store) == [1]
    write(store, 2)
    store.delete("id = 1")
    assert ids(one, store) == [1]
    assert ids(other, store) == [2]


def test_they_share_the_end_of_the_wal_and_the_instant(tmp_path: Path) -> None:
    store = SlateStore.create(tmp_path / "t", "id BIGINT, n INT", "id", keyFormat="tuple")
    write(store, 1)
    rows = {number: encoded(tmp_path / f"other-{number}", number) for number in (5, 6)}
    with Client.open(Location.local(tmp_path / "t")) as client:
        client.put(*rows[5])
        client.flush_wal()
        source = load(store)
        assert ids(source, store) == [1, 5]
        client.put(*rows[6])
        client.flush_wal()
        assert ids(source, store) == [1, 5]
        assert ids(load(store), store) == [1, 5, 6]
        client.flush_memtable()
        assert ids(source, store) == [1, 5]


def test_they_share_what_was_known_of_a_time(tmp_path: Path) -> None:
    store = SlateStore.create(tmp_path / "t", "id BIGINT, n INT", "id", history=True)
    write(store, 1, timestamp="2026-01-01")
    source = load(store, timestampAsOf="2026-01-15")
    assert ids(source, store) == [1]
    write(store, 2, timestamp="2026-01-10")
    assert ids(source, store) == [1]
    assert ids(load(store, timestampAsOf="2026-01-15"), store) == [1, 2]


def test_they_share_the_instant_of_a_sequence_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = f"{named_clocks.__name__}:noon"
    store = SlateStore.create(tmp_path / "t", "id BIGINT, n INT", "id", clock=clock)
    write(store, 1, ttl="1h")
    last_seq = store.resolve().seq
    write(store, 2)
    source = load(store, seqAsOf=str(last_seq), clock=clock)
    assert ids(source, store) == [1]
    monkeypatch.setattr(named_clocks, "noon", named_clocks.hour_later)
    assert ids(source, store) == [1]
    assert ids(load(store, seqAsOf=str(last_seq), clock=clock), store) == []


def encoded(path: Path, number: int) -> tuple[bytes, bytes]:
    """Return a row as its key and value."""
    store = SlateStore.create(path, "id BIGINT, n INT", "id", keyFormat="tuple")
    write(store, number)
    with Client.open(Location.local(path)) as client:
        [row] = client.scan()
    return row.key, row.value


@pytest.fixture
def slow_reader(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """The first reader has found its snapshot at the first event, and goes on at the second one."""
    began, may_end = threading.Event(), threading.Event()

    def slowly(*args: Any) -> Any:
        found = resolve_held(*args)
        if not began.is_set():
            began.set()
            assert may_end.wait(30)
        return found

    monkeypatch.setattr(load_point, "resolve_held", slowly)
    return began, may_end


def test_a_reader_waits_for_another_that_has_begun(
    store: SlateStore, slow_reader: tuple[threading.Event, threading.Event]
) -> None:
    began, may_end = slow_reader
    source = load(store)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(ids, source, store)
        assert began.wait(30)
        write(store, 2)
        second = threads.submit(ids, source, store)
        may_end.set()
        assert first.result() == second.result() == [1]


def test_a_note_that_is_waited_for_is_never_too_old(
    store: SlateStore, folder: Path, slow_reader: tuple[threading.Event, threading.Event]
) -> None:
    began, may_end = slow_reader
    source = load(store)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(ids, source, store)
        assert began.wait(30)
        [note] = folder.iterdir()
        os.utime(note, (0, 0))
        write(store, 2)
        assert ids(load(store), store) == [1, 2]
        second = threads.submit(ids, source, store)
        may_end.set()
        assert first.result() == second.result() == [1]


def test_after_an_error_the_next_reader_finds_a_snapshot(store: SlateStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> object:
        raise TableNotFoundError("gone")

    source = load(store)
    with monkeypatch.context() as patch:
        patch.setattr(load_point, "resolve_held", fail)
        with pytest.raises(RuntimeError, match="TableNotFoundError"):
            ids(source, store)
    assert ids(source, store) == [1]


@pytest.mark.parametrize("left", [b"", b"7 ", b"7 1 1 1 al", b"7 1 1 1 1", b"x 1 1 1 all\n"])
def test_a_note_that_was_cut_is_written_anew(store: SlateStore, folder: Path, left: bytes) -> None:
    source = load(store)
    ids(source, store)
    [note] = folder.iterdir()
    note.write_bytes(left)
    write(store, 2)
    assert ids(source, store) == [1, 2]
    write(store, 3)
    assert ids(source, store) == [1, 2]


def test_notes_are_removed_after_a_while(store: SlateStore, folder: Path) -> None:
    ids(load(store), store)
    [old] = folder.iterdir()
    os.utime(old, (0, old.stat().st_mtime - load_point.KEPT_MS / 1000 - 1))
    ids(load(store), store)
    [new] = folder.iterdir()
    assert new != old


def test_without_a_place_for_notes_each_reader_sees_the_newest_state(
    store: SlateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in (None, Path("/proc/nowhere")):
        monkeypatch.setattr(load_point, "private_folder", lambda place=place: place)
        source = load(store)
        before = ids(source, store)
        write(store, len(before) + 1)
        assert ids(source, store) == [*before, len(before) + 1]


def test_a_read_of_a_version_needs_no_note(store: SlateStore, folder: Path) -> None:
    version = store.resolve().version
    write(store, 2)
    assert ids(load(store, versionAsOf=str(version)), store) == [1]
    assert not folder.exists()
