"""History tables of ours in the real client: it shows the newest versions, goes on above, and compacts without loss."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore, SstWriter
from tests.support.client import Client, ClientOptions, Location, ScanRow, read_rows
from tests.support.client_admin import compact_full
from tests.support.fake_clock import FakeClock
from tests.support.our_reads import our_rows, to_ms


def versions(store: SlateStore) -> list[tuple[bytes, bytes | None, int, int | None, int | None]]:
    rows = store.scan(readVersions="all").read_all().to_pylist()
    return [(row["key"], row["value"], row["_seq"], to_ms(row["_create_ts"]), to_ms(row["_expire_ts"])) for row in rows]


def rows_of(keys: int, times: list[int]) -> pa.Table:
    found = [(b"%04d" % key, b"%d at %d" % (key, at), at) for key in range(keys) for at in times]
    return pa.table(
        {
            "key": pa.array([key for key, _, _ in found], pa.binary()),
            "value": pa.array([value for _, value, _ in found], pa.binary()),
            "at": pa.array([at for _, _, at in found], pa.int64()),
        }
    )


@pytest.mark.parametrize("way", ["write", "ingest"])
def test_the_client_reads_the_newest_and_its_compaction_keeps_all(way: str, tmp_path: Path) -> None:
    folder, location = tmp_path / "db", Location.local(tmp_path / "db")
    store = SlateStore.create(str(folder), clock=FakeClock(), history=True)
    shape: dict[str, Any] = {"blockSize": "1k", "sstSize": "20k"}  # some versions of a key in the next block
    if way == "write":
        store.write(rows_of(300, [30, -5, 20]), timestampColumn="at", ttl=10**13, **shape)
    else:
        made = SstWriter(str(tmp_path / "a.sst"))
        made.write(rows_of(300, [30, -5, 20]), timestampColumn="at", ttl=10**13, blockSize="1k")
        store.ingest(str(tmp_path / "a.sst"), **shape)
    gone = pa.table({"key": pa.array([b"0007"], pa.binary()), "at": [40]})
    store.write(gone, timestampColumn="at", operation="delete")
    stored = versions(store)
    assert len(stored) == 901
    newest = [ScanRow(b"%04d" % key, b"%d at 30" % key, 3, 30, 10**13 + 30) for key in range(300) if key != 7]
    assert our_rows(store, includeExpired=True) == read_rows(location) == newest
    with Client.open(location, ClientOptions(compactor=True)) as client:
        assert client.scan() == newest
        assert client.get(b"0007") is None
        assert client.get(b"0299") == b"299 at 30"
        compact_full(client)
        assert client.scan() == newest
    assert len(store.runs()) == 1
    assert versions(store) == stored
    assert not store.verify().has_damage


def test_the_client_goes_on_above_and_its_rows_count(tmp_path: Path) -> None:
    folder, location = tmp_path / "db", Location.local(tmp_path / "db")
    store = SlateStore.create(str(folder), clock=FakeClock(), history=True)
    store.write(rows_of(2, [10, 20]), timestampColumn="at")
    with Client.open(location, ClientOptions()) as client:
        written = client.put(b"0000", b"theirs")
        client.flush_wal()
    store = SlateStore.open(str(folder))
    while time.time_ns() // 1_000_000 <= (written.create_ts or 0):
        time.sleep(0.001)
    now_ms = time.time_ns() // 1_000_000
    later = pa.table({"key": pa.array([b"0000"], pa.binary()), "value": [b"ours"], "at": [now_ms]})
    store.write(later, timestampColumn="at")
    assert versions(store) == [
        (b"0000", b"ours", written.seq + 1, now_ms, None),
        (b"0000", b"theirs", written.seq, written.create_ts, None),
        (b"0000", b"0 at 20", 2, 20, None),
        (b"0000", b"0 at 10", 1, 10, None),
        (b"0001", b"1 at 20", 2, 20, None),
        (b"0001", b"1 at 10", 1, 10, None),
    ]
    assert [(row.key, row.value) for row in read_rows(location)] == [(b"0000", b"ours"), (b"0001", b"1 at 20")]


def test_a_key_of_many_files(tmp_path: Path) -> None:
    folder, location = tmp_path / "db", Location.local(tmp_path / "db")
    store = SlateStore.create(str(folder), clock=FakeClock(), history=True)
    rows = pa.concat_tables([rows_of(1, list(range(400))), rows_of(3, [1000])])
    store.write(rows, timestampColumn="at", sstSize="2k", blockSize="1k")
    [run] = store.runs()
    assert len([part for part in run.parts if part.start == b"0000"]) > 2
    stored, newest = versions(store), [(b"%04d" % key, b"%d at 1000" % key) for key in range(3)]
    assert len(stored) == 403
    with Client.open(location, ClientOptions(compactor=True)) as client:
        for _ in range(2):
            assert [(row.key, row.value) for row in client.scan()] == newest
            assert [client.get(key) for key, _ in newest] == [value for _, value in newest]
            compact_full(client)
    assert versions(store) == stored
