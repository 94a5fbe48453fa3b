"""Columnar copies beside the real client: of its files, by its compactions' worker, and without harm to it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import duckdb
import polars as pl
import pyarrow.parquet as pq

from slatespark import SlateStore
from tests.interop.test_compaction_worker import handed_over, serving, wait_until, worker_of
from tests.support.client import Client, ClientOptions, Location, Put, Ttl
from tests.support.client_admin import clone_database, compact_full

COLUMNS: Final = "slatespark/columns"


def copied_rows(store: SlateStore, folder: Path) -> list[tuple[bytes, bytes]]:
    """Keys and values in the copies of the files that the newest version shows."""
    paths = [folder / COLUMNS / f"{file.id}.parquet" for file in store.files()]
    tables = [pq.read_table(path, columns=["key", "value"]) for path in paths]
    return [(row["key"], row["value"]) for table in tables for row in table.to_pylist()]


def test_files_of_the_client_get_copies_and_its_compactions_leave_none(database: Location) -> None:
    expected = {b"%03d" % number: b"x%d" % number for number in range(200)}
    with Client.open(database, ClientOptions(compactor=True)) as client:
        client.write([Put(key, b"old") for key in expected])
        client.flush_memtable()
        client.write([Put(key, value) for key, value in expected.items()])
        client.put(b"soon", b"y", Ttl(after_ms=3_600_000))
        compact_full(client)
    store = SlateStore.open(str(database.folder))
    (outcome,) = store.compact(columnar=True).copies
    assert (outcome.rows, outcome.refused) == (201, None)
    assert copied_rows(store, database.folder) == [*expected.items(), (b"soon", b"y")]
    [path] = (database.folder / COLUMNS).iterdir()
    times = {row["key"]: row["_expire_ts"] for row in pq.read_table(path).to_pylist()}
    assert [key for key, instant in times.items() if instant is not None] == [b"soon"]
    assert store.verify().findings == ()

    with Client.open(database, ClientOptions(compactor=True)) as client:
        client.put(b"000", b"new")
        compact_full(client)
        assert client.get(b"000") == b"new"
        assert [row.key for row in client.scan()] == [*expected, b"soon"]
    assert [file.copy_bytes for file in store.files()] == [None]
    store.compact(columnar=True)
    assert dict(copied_rows(store, database.folder)) == {**expected, b"000": b"new", b"soon": b"y"}
    assert store.verify().findings == ()


def test_rows_of_a_live_client_lie_above_the_copies_of_its_files(database: Location) -> None:
    with Client.open(database, ClientOptions(compactor=True)) as client:
        client.write([Put(b"%05d" % number, b"old %d" % number) for number in range(3000)])
        compact_full(client)
    store = SlateStore.open(str(database.folder))
    store.compact(columnar=True)
    with Client.open(database) as client:
        client.put(b"00007", b"of the L0")
        client.delete(b"00008")
        client.flush_memtable()
        client.put(b"00009", b"of the WAL")
        client.delete(b"01000")
        client.put(b"99999", b"behind")
        client.flush_wal()
        for start in (b"00000", b"02000"):  # rows of the WAL lie above, and none do
            found = store.explain(useCopies=True, startKey=start, endKey=start[:2] + b"~", analyze=True)
            assert found.copies == {"from copies": 1}
            assert found.measured is not None
            assert found.measured in found.estimated
        shown = [(row.key, row.value) for row in client.scan()]
        found = store.scan(useCopies=True).read_all().to_pylist()
        assert [(row["key"], row["value"]) for row in found] == shown
        part = store.scan(useCopies=True, startKey=b"00005", endKey=b"01002").read_all().to_pylist()
        assert part == [row for row in found if b"00005" <= row["key"] < b"01002"]


def test_other_engines_read_the_copies_of_one_run(database: Location) -> None:
    """Each by itself, without slatespark: all rows, and those that a filter chooses by the statistics."""
    expected = [(b"%05d" % number, b"value %d" % (number % 7)) for number in range(3000)]
    with Client.open(database, ClientOptions(compactor=True)) as client:
        client.write([Put(key, value) for key, value in expected])
        compact_full(client)
    store = SlateStore.open(str(database.folder))
    store.compact(full=True, columnar=True, force=True, sstSize="16k")
    paths = [str(database.folder / COLUMNS / f"{file.id}.parquet") for file in store.files()]
    assert len(paths) > 1
    chosen = [row for row in expected if b"01000" <= row[0] < b"01500" and row[1] == b"value 3"]
    with duckdb.connect() as connection:
        asked = "SELECT key, value FROM read_parquet($paths)"
        assert connection.execute(asked, {"paths": paths}).fetchall() == expected
        asked += " WHERE key >= '01000'::BLOB AND key < '01500'::BLOB AND value = 'value 3'::BLOB"
        assert connection.execute(asked, {"paths": paths}).fetchall() == chosen
    frame = pl.scan_parquet(paths).select("key", "value")
    assert frame.collect().rows() == expected
    key, value = pl.col("key"), pl.col("value")
    wanted = (key >= b"01000") & (key < b"01500") & (value == b"value 3")
    assert frame.filter(wanted).collect().rows() == chosen


def test_operands_of_the_client_have_no_copy(database: Location) -> None:
    with Client.open(database, ClientOptions(compactor=True)) as client:
        client.put(b"a", b"1")
        client.delete(b"b")
        client.flush_memtable()
        compact_full(client)
        client.merge(b"c", b"2")
        compact_full(client)
    store = SlateStore.open(str(database.folder))
    assert [copy.refused is None for copy in store.compact(columnar=True).copies] == [False]
    assert not (database.folder / COLUMNS).exists() or not list((database.folder / COLUMNS).iterdir())


def test_a_clone_of_the_client_does_without(tmp_path: Path) -> None:
    parent, clone = Location.local(tmp_path / "parent"), Location.local(tmp_path / "clone")
    with Client.open(parent, ClientOptions(compactor=True)) as client:
        client.write([Put(b"%d" % number, b"x") for number in range(9)])
        compact_full(client)
    SlateStore.open(str(parent.folder)).compact(columnar=True)
    clone_database(parent, clone.path)
    store = SlateStore.open(str(clone.folder))
    assert store.scan().read_all().num_rows == 9
    assert [file.copy_bytes for file in store.files()] == [None]
    [outcome] = store.compact(columnar=True).copies
    assert outcome.refused is not None
    assert store.verify().findings == ()


def test_a_worker_writes_copies_of_what_it_merges(tmp_path: Path) -> None:
    location = Location.local(tmp_path / "table")
    store = SlateStore.create(str(location.folder), columnar=True)
    with Client.open(location, handed_over()) as client, serving(worker_of(location)) as outcomes:
        for number in range(4):
            client.write([Put(b"%03d" % key, b"%d" % number) for key in range(number, 60)])
            time.sleep(0.002)
            client.flush_memtable()
        wait_until(lambda: any(outcome.report is not None for outcome in outcomes))
        wait_until(lambda: [layer.name for layer in store.runs()] != [] and store.runs()[-1].name != "L0")
    lowest = [file for file in store.files() if file.layer == store.runs()[-1].name]
    assert all(file.copy_bytes for file in lowest)
    assert store.verify().findings == ()
