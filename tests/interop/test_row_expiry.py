"""Rows that we wrote with an expiry each: the real client sees, and purges, exactly these times."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.units import MAX_MS
from tests.support.client import Client, ClientOptions, Delete, Location, Merge, Put, ScanRow, Ttl, Write, read_rows
from tests.support.client_admin import compact_full
from tests.support.fake_clock import FakeClock
from tests.support.our_reads import our_rows, table_rows
from tests.support.row_expiry import expiring_table

CLIENT = ClientOptions(compactor=True)


@pytest.mark.parametrize("instants", [False, True], ids=["ttlColumn", "expireAtColumn"])
def test_the_client_sees_the_times_that_we_wrote(instants: bool, tmp_path: Path) -> None:
    clock, folder = FakeClock(), tmp_path / "db"
    now_ms, day_ms = clock.now_ms(), 86_400_000
    store = SlateStore.create(str(folder), clock=clock, defaultTtl="9d")
    ttls = [Ttl(at_ms=now_ms + ms) if instants else Ttl(after_ms=ms) for ms in (0, 1, day_ms, 400 * day_ms)]
    writes: list[Write] = [Put(b"k%d" % number, b"v", ttl) for number, ttl in enumerate(ttls)]
    writes += [Put(b"table", b"v"), Delete(b"gone"), Merge(b"op", b"v", ttls[2])]
    store.write(expiring_table(writes, instants=instants), opColumn="op", **options(instants))
    expected = [
        ScanRow(b"k0", b"v", 1, now_ms, now_ms),
        ScanRow(b"k1", b"v", 1, now_ms, now_ms + 1),
        ScanRow(b"k2", b"v", 1, now_ms, now_ms + day_ms),
        ScanRow(b"k3", b"v", 1, now_ms, now_ms + 400 * day_ms),
        ScanRow(b"op", b"v", 1, now_ms, now_ms + day_ms),
        ScanRow(b"table", b"v", 1, now_ms, now_ms + 9 * day_ms),
    ]
    assert read_rows(Location.local(folder)) == our_rows(store, includeExpired=True) == expected
    versions = store.scan(readVersions="all").read_all()
    assert table_rows(versions.filter(pa.compute.not_equal(versions["_op"], "delete"))) == expected
    with Client.open(Location.local(folder), CLIENT) as client:
        assert client.scan() == expected


def options(instants: bool) -> dict[str, str]:
    return {"expireAtColumn" if instants else "ttlColumn": "when"}


def test_a_ttl_beyond_64_bits_is_none_for_both(tmp_path: Path) -> None:
    with Client.open(Location.local(tmp_path / "theirs")) as client:
        created = client.put(b"a", b"v", Ttl(after_ms=MAX_MS)).create_ts
        client.put(b"b", b"v", Ttl(after_ms=MAX_MS - created - 600_000))
        theirs = client.scan()
    writes: list[Write] = [
        Put(b"a", b"v", Ttl(after_ms=MAX_MS)),
        Put(b"b", b"v", Ttl(after_ms=MAX_MS - created - 600_000)),
    ]
    store = SlateStore.create(str(tmp_path / "ours"), clock="custom")  # with ours such a TTL is refused
    store.write(expiring_table(writes, instants=False), opColumn="op", ttlColumn="when", timestamp=created)
    ours = read_rows(Location.local(tmp_path / "ours"))
    assert [row.expire_ts is None for row in ours] == [row.expire_ts is None for row in theirs] == [True, False]
    assert (ours[1].create_ts, ours[1].expire_ts) == (created, MAX_MS - 600_000)


def test_the_clients_compaction_purges_what_we_hide(tmp_path: Path) -> None:
    folder, clock = tmp_path / "db", FakeClock()
    now_ms = clock.now_ms()
    store = SlateStore.create(str(folder), clock=clock)
    old = pa.array([b"k%d" % number for number in range(6)], pa.binary())
    store.write(pa.table({"key": old, "value": old}))
    at = [now_ms - 10**12, -1, now_ms, now_ms + 1, now_ms + 10**9, None]
    writes: list[Write] = [
        Put(b"k%d" % number, b"new", None if ms is None else Ttl(at_ms=ms)) for number, ms in enumerate(at)
    ]
    store.write(expiring_table(writes, instants=True), opColumn="op", expireAtColumn="when")
    while time.time_ns() // 1_000_000 <= now_ms + 1:
        time.sleep(0.002)
    with Client.open(Location.local(folder), CLIENT) as client:
        tick = client.put(b"tick", b"").create_ts
        compact_full(client)
    left = read_rows(Location.local(folder))
    assert [row.key for row in left] == [b"k4", b"k5", b"tick"]
    ours = our_rows(SlateStore.open(str(folder)), now=tick)
    assert ours == left
    assert [replace(row, seq=0) for row in left[:2]] == [
        ScanRow(b"k4", b"new", 0, now_ms, now_ms + 10**9),
        ScanRow(b"k5", b"new", 0, now_ms, None),
    ]
