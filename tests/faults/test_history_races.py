"""Writes to a history table beside others: times that the user gave never move, and the order by key always holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import CommitConflictError, SlateStore
from slatespark.options import WriteOptions
from slatespark.storage.local_store import LocalStore
from slatespark.table.clock import Clock
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.write.load_commit import commit_load
from slatespark.table.write.load_plan import begin_load
from slatespark.table.write.load_task import run_task
from tests.faults.busy_database import check_serves_on
from tests.faults.jobs import stores_of
from tests.support.client import Client, ClientOptions, Location, read_rows
from tests.support.fake_clock import FakeClock
from tests.support.our_reads import our_rows, to_ms

BATCH = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("at", pa.int64())])


class Load:
    """A write that is planned and uploaded when it is made."""

    def __init__(self, folder: Path, clock: Clock, *rows: tuple[bytes, bytes, int], **options: Any) -> None:
        self.stores, self.clock = stores_of(LocalStore(folder)), clock
        table = pa.Table.from_pylist([dict(zip(BATCH.names, row, strict=True)) for row in rows], BATCH)
        if "timestampColumn" not in options:
            table = table.drop(["at"])
        parsed = WriteOptions.parse({"path": str(folder), **options})
        load = begin_load(self.stores, clock, table.schema, parsed)
        assert load is not None
        self.load = load
        self.outputs = [run_task(self.stores, clock, load, 0, table.to_batches())]

    def commit(self) -> CommitRecord:
        record = commit_load(self.stores, self.clock, self.load, self.outputs)
        assert record is not None
        return record


def new_table(folder: Path) -> FakeClock:
    clock = FakeClock()
    clock.advance(-5_000)
    SlateStore.create(str(folder), clock=clock, history=True)
    return clock


def versions(folder: Path) -> list[tuple[bytes, bytes, int, int | None]]:
    rows = SlateStore.open(str(folder)).scan(readVersions="all").read_all().to_pylist()
    return [(row["key"], row["value"], row["_seq"], to_ms(row["_create_ts"])) for row in rows]


def test_above_a_sibling_only_numbers_move(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    clock = new_table(folder)
    load = Load(folder, clock, (b"a", b"2", 20), (b"a", b"1", 10), (b"c", b"1", 5), timestampColumn="at", ttl=10**13)
    Load(folder, clock, (b"a", b"0", 10), (b"b", b"0", 90), timestampColumn="at").commit()
    record = load.commit()
    assert (record.first_seq, record.last_seq, record.write_time_ms) == (2, 3, 20)
    assert versions(folder) == [
        (b"a", b"2", 3, 20),
        (b"a", b"1", 2, 10),
        (b"a", b"0", 1, 10),
        (b"b", b"0", 1, 90),
        (b"c", b"1", 2, 5),
    ]
    expiries = {row.key: row.expire_ts for row in our_rows(SlateStore.open(str(folder)), includeExpired=True)}
    assert expiries == {b"a": 10**13 + 20, b"b": None, b"c": 10**13 + 5}
    check_serves_on(folder, [(b"a", b"2"), (b"b", b"0"), (b"c", b"1")])


@pytest.mark.parametrize("column", [True, False], ids=["timestampColumn", "timestamp"])
def test_a_sibling_with_a_later_version_is_a_conflict(column: bool, tmp_path: Path) -> None:
    folder = tmp_path / "db"
    clock = new_table(folder)
    options: dict[str, Any] = {"timestampColumn": "at"} if column else {"timestamp": 10}
    load = Load(folder, clock, (b"a", b"1", 10), (b"c", b"1", 10), **options)
    Load(folder, clock, (b"a", b"2", 11), (b"b", b"2", 90), timestampColumn="at").commit()
    with pytest.raises(CommitConflictError, match=r"1970-01-01T00:00:00.010Z"):
        load.commit()
    assert versions(folder) == [(b"a", b"2", 1, 11), (b"b", b"2", 1, 90)]
    assert [row.key for row in read_rows(Location.local(folder))] == [b"a", b"b"]


def test_without_times_of_its_own_a_write_moves_above_all(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    clock = new_table(folder)
    load = Load(folder, clock, (b"a", b"now", 0), (b"c", b"now", 0), ttl=100_000)
    later_ms = clock.now_ms() + 9000
    Load(folder, clock, (b"a", b"later", later_ms), timestampColumn="at").commit()
    assert load.commit().write_time_ms == later_ms
    assert versions(folder) == [
        (b"a", b"now", 2, later_ms),
        (b"a", b"later", 1, later_ms),
        (b"c", b"now", 2, later_ms),
    ]
    assert {row.expire_ts for row in our_rows(SlateStore.open(str(folder)))} == {later_ms + 100_000}


@pytest.mark.parametrize("when", ["in the log", "at the claim", "at the fence", "in the trees"])
def test_rows_of_a_client_count(when: str, tmp_path: Path) -> None:
    """Those in its log when the write is committed, those it logs in between, and those it flushed."""
    folder = tmp_path / "db"
    clock = new_table(folder)
    options = {"timestampColumn": "at", "ifClientActive": "fence"}
    with Client.open(Location.local(folder), ClientOptions()) as client:
        if when in ("in the log", "in the trees"):
            client.put(b"b", b"client")
            client.flush_memtable() if when == "in the trees" else client.flush_wal()
        load = Load(folder, clock, (b"a", b"old", 5), (b"b", b"old", 5), **options)
        if when.startswith("at the"):
            folder_of = {"at the claim": "manifest/", "at the fence": "wal/"}
            load.stores = stores_of(_PutsAt(folder_of[when], load.stores.main, client))  # type: ignore[arg-type]
        with pytest.raises(CommitConflictError, match=r"1970-01-01T00:00:00.005Z"):
            load.commit()
    assert [(row.key, row.value) for row in read_rows(Location.local(folder))] == [(b"b", b"client")]
    Load(folder, clock, (b"a", b"old", 5), timestampColumn="at").commit()
    if when.startswith("at the"):
        check_serves_on(folder, [(b"a", b"old"), (b"b", b"client")])


class _PutsAt:
    """A client writes a row when the first object in a folder is about to be created.

    When that is the manifest of the claim, only the drain finds the row; when it is the fence, the row takes its place.
    """

    def __init__(self, folder: str, store: LocalStore, client: Client) -> None:
        self._folder, self._store, self._client, self._done = folder, store, client, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def create(self, path: str, data: bytes) -> None:
        if path.startswith(self._folder) and not self._done:
            self._done = True
            self._client.put(b"b", b"client")
            self._client.flush_wal()
        self._store.create(path, data)
