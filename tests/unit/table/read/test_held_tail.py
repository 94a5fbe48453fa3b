"""What an open table keeps of the WAL: its reads read no file twice, and show what one does that was just opened."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slatespark import CorruptDataError, SlateStore
from slatespark.format.codecs import Compression
from slatespark.format.manifest_codec import encode_manifest
from slatespark.format.paths import manifest_path, wal_path
from slatespark.format.row import Row, RowKind
from slatespark.kernels.columns import RowColumns
from slatespark.options import ReadOptions
from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.storage.counted_store import RequestTally
from slatespark.table.clock import SystemClock
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read import held_tail
from slatespark.table.read.fetch import fetch_wal_rows
from slatespark.table.read.held_tail import HeldTail, fetch_shared_tail, fetch_sorted_tail
from slatespark.table.read.reader import look_up
from slatespark.table.snapshot import WalTail, fetch_wal_tail
from slatespark.table.stores import TableStores, open_stores
from tests.support.wal_files import encode_wal

KEYS = [b"a", b"b", b"c", b"d"]


class Place:
    """A table in a folder with files of the WAL, and a store of it that counts what it reads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        store = SlateStore.create(str(folder), mergeOperator="concat")
        store.write(pa.table({"key": [b"b", b"tree"], "value": [b"old", b"v"]}))
        self.open_client()
        self.tally = RequestTally()
        self.stores = open_stores(str(folder), storage={}).counted(self.tally)
        self.store = SlateStore(self.stores, SystemClock(), {"path": str(folder)})

    def open_client(self) -> None:
        """Claim the next epoch, as a client does before it writes to the WAL, and write above all that is there."""
        number, manifest = fetch_latest_manifest(open_stores(str(self.folder), storage={}))
        claim = replace(manifest, writer_epoch=manifest.writer_epoch + 1, nonce=0)
        (self.folder / manifest_path(number + 1)).write_bytes(encode_manifest(claim))
        self.seq, self.number = manifest.last_l0_seq, manifest.wal_id_last_seen

    def file(self, number: int) -> Path:
        return self.folder / wal_path(number)

    def add(self, *rows: Row) -> None:
        numbered = [replace(row, seq=self.seq + 1 + at) for at, row in enumerate(rows)]
        self.seq, self.number = self.seq + len(rows), self.number + 1
        self.file(self.number).write_bytes(encode_wal(numbered, compression=Compression.ZSTD) if rows else b"")

    def get(self, key: bytes) -> bytes | None:
        """Look a key up in the table that stays open."""
        found: dict[str, Any] | None = self.store.get(key)
        return None if found is None else found["value"]

    def new_get(self, key: bytes) -> bytes | None:
        """Look a key up in a table that was just opened."""
        found: dict[str, Any] | None = SlateStore.open(str(self.folder)).get(key)
        return None if found is None else found["value"]

    def reads(self, key: bytes) -> int:
        """Return how many objects are read for a look-up."""
        return self.reads_of(lambda: self.get(key))

    def reads_of(self, read: Callable[[], object]) -> int:
        """Return how many objects are read for a read."""
        before = self.tally.total.get
        read()
        return self.tally.total.get - before


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "table")


def test_a_second_look_up_reads_no_file_of_the_wal_again(place: Place) -> None:
    for number in range(20):
        place.add(Row(b"%02d" % number, 0, value=b"v%d" % number))
    assert place.reads(b"07") > 20
    again = place.reads(b"07")
    assert again < 5  # how far the WAL goes, and where it begins
    assert place.reads(b"99") == again
    assert [place.get(b"%02d" % number) for number in range(20)] == [b"v%d" % number for number in range(20)]
    place.add(Row(b"07", 0, value=b"new"))
    place.add(Row(b"x", 0, value=b"v"))
    assert place.reads(b"07") == again + 2
    assert place.get(b"07") == b"new"


def random_rows(rng: np.random.Generator) -> list[Row]:
    def row() -> Row:
        key, kind = KEYS[rng.integers(len(KEYS))], list(RowKind)[rng.integers(3)]
        if kind is RowKind.DELETE:
            return Row(key, 0, kind)
        expires = (None, None, 1000, 1 << 50)[rng.integers(4)]
        return Row(key, 0, kind, b"%d," % rng.integers(100), create_ts_ms=500, expire_ts_ms=expires)

    return [row() for _ in range(rng.integers(4))]


@pytest.mark.parametrize("seed", range(3))
def test_kept_rows_show_what_a_new_store_shows(place: Place, seed: int) -> None:
    rng = np.random.default_rng(seed)
    place.add()  # else no client has come, and the WAL is not looked at
    place.add(Row(b"first", 0, value=b"v"))
    for _ in range(12):
        for _ in range(rng.integers(4)):
            place.add(*random_rows(rng))
        for key in (*KEYS, b"tree"):
            assert place.get(key) == place.new_get(key)


def test_rows_that_move_to_the_trees_are_not_shown_twice(place: Place) -> None:
    place.add(Row(b"a", 0, RowKind.MERGE, b"1"), Row(b"a", 0, RowKind.MERGE, b"2"))
    place.add(Row(b"b", 0, value=b"new"))
    assert (place.get(b"a"), place.get(b"b")) == (b"12", b"new")
    SlateStore.open(str(place.folder)).write(pa.table({"key": [b"c"], "value": [b"v"]}), ifClientActive="fence")
    assert [place.get(key) for key in KEYS] == [b"12", b"new", b"v", None]


def test_a_file_that_was_replaced_is_read_again(place: Place) -> None:
    place.add(Row(b"a", 0, value=b"1"))
    place.add(Row(b"b", 0, value=b"2"))
    assert place.get(b"a") == b"1"
    file = place.file(place.number - 1)
    file.write_bytes(encode_wal([Row(b"a", place.seq - 1, value=b"9")]))
    os.utime(file, (5, 5))
    assert place.get(b"a") == b"9"


def test_what_is_kept_belongs_to_a_start_and_a_number(place: Place) -> None:
    """Files of one size may have been changed in one ms; a tree may have taken a part of a file."""
    for key in (b"a", b"b", b"c"):
        place.add(Row(key, 0, value=b"v"))
        os.utime(place.file(place.number), (5, 5))
    above, first = place.seq - 3, place.number - 2
    _, manifest = fetch_latest_manifest(place.stores)
    tail = fetch_wal_tail(place.stores, manifest, place.number + 1).since(first)
    start = replace(tail, end=first + 1, sizes=tail.sizes[:1], changed_ms=tail.changed_ms[:1])
    for asked, seq in ((start, above), (tail.since(first + 2), above), (tail, above), (tail, above + 1), (tail, above)):
        expected = fetch_wal_rows(place.stores, asked, seq, ALL_KEYS)
        assert expected is not None
        found = fetch_sorted_tail(place.stores, asked, seq, ALL_KEYS, limit_bytes=1 << 20)
        assert sorted(each for rows in found for each in rows.seqs.tolist()) == sorted(expected.seqs.tolist())
        shared = fetch_shared_tail(place.stores, asked, seq, ALL_KEYS, limit_bytes=1 << 20)
        assert shared is not None
        assert shared.rows().seqs.tolist() == expected.seqs.tolist()


def test_a_later_file_out_of_order_is_named(place: Place) -> None:
    place.add(Row(b"a", 0, value=b"1"), Row(b"b", 0, value=b"2"))
    place.get(b"a")
    place.file(place.number + 1).write_bytes(encode_wal([Row(b"x", place.seq, value=b"v")]))
    place.number += 1
    place.add(Row(b"c", 0, value=b"3"))
    for _ in range(2):
        with pytest.raises(CorruptDataError) as caught:
            place.get(b"a")
        assert caught.value.path.endswith(wal_path(place.number - 1))


SCANS: dict[str, dict[str, Any]] = {
    "all": {},
    "range": {"startKey": b"a", "endKey": b"c"},
    "keys": {"filter": "key IN (X'61', X'63', X'78')"},
    "many parts": {"splitSize": 1},
}


@pytest.mark.parametrize("options", SCANS.values(), ids=SCANS)
def test_a_second_scan_reads_no_file_of_the_wal_again(place: Place, options: dict[str, Any]) -> None:
    for number in range(20):
        place.add(Row(b"%c" % (97 + number), 0, value=b"v%d" % number))

    def scan() -> pa.Table:
        return place.store.scan(**options).read_all()

    assert place.reads_of(scan) > 20
    again = place.reads_of(scan)
    assert again < 8
    place.add(Row(b"a", 0, value=b"new"))
    assert place.reads_of(scan) == again + 1
    assert scan() == SlateStore.open(str(place.folder)).scan(**options).read_all()


@pytest.mark.parametrize("seed", range(6))
def test_reads_of_any_kind_share_what_is_kept(place: Place, seed: int) -> None:
    """Each prepares the rows as it needs them: sorted by themselves, merged, or where they were decoded."""
    rng = np.random.default_rng(seed)
    place.add()
    for _ in range(40):
        for _ in range(rng.integers(4)):
            place.add(*random_rows(rng))
        if rng.integers(8) == 0:
            SlateStore.open(str(place.folder)).write(pa.table({"key": [b"d"], "value": [b"w"]}), ifClientActive="fence")
            place.open_client()
            place.add()
        options = list(SCANS.values())[rng.integers(len(SCANS))]
        assert place.store.scan(**options).read_all() == SlateStore.open(str(place.folder)).scan(**options).read_all()
        key = KEYS[rng.integers(len(KEYS))]
        assert place.get(key) == place.new_get(key)
        wanted = pa.table({"key": [key, b"tree", b"none"]})
        assert place.store.lookup(wanted).read_all() == SlateStore.open(str(place.folder)).lookup(wanted).read_all()


def test_an_older_snapshot_does_not_displace_what_is_kept(place: Place) -> None:
    place.add(Row(b"a", 0, value=b"1"))
    place.add(Row(b"b", 0, value=b"2"))
    older = place.store.snapshot()
    place.add(Row(b"a", 0, value=b"9"))
    again = [place.reads(b"a"), place.reads(b"a")][1]
    for _ in range(2):
        found = older.get(b"a")
        assert found is not None
        assert found["value"] == b"1"
        assert place.reads(b"a") == again
        assert place.get(b"a") == b"9"


def test_newer_rows_are_merged_as_their_number_grows(place: Place) -> None:
    for number in range(64):
        place.add(Row(b"%02d" % (number * 37 % 64), 0, value=b"v%d" % number))
        assert place.get(b"%02d" % (number * 37 % 64)) == b"v%d" % number
        tail = place.stores.heads.tail
        assert isinstance(tail, HeldTail)
        assert tail.levels is not None
        sizes = [*map(len, tail.levels)]
        assert sum(sizes) == number + 1
        assert all(2 * newer < older for newer, older in pairwise(sizes))


def test_a_table_that_does_not_stay_open_keeps_nothing(place: Place) -> None:
    """As in a task: to keep rows, all of them would be decoded and sorted there."""
    place.add(Row(b"a", 0, value=b"v"))
    stores = open_stores(str(place.folder), storage={})
    assert look_up(stores, [b"a"], ReadOptions.parse({"path": str(place.folder)}), SystemClock()) is not None
    assert stores.heads.tail is None
    assert pickle.loads(pickle.dumps(place.stores)).heads.keeps_tail is False


@pytest.mark.parametrize("limit", [100, 5000])
@pytest.mark.parametrize("options", SCANS.values(), ids=SCANS)
def test_no_more_is_kept_than_a_bound(place: Place, limit: int, options: dict[str, Any]) -> None:
    """Whether the files are above it, or their rows alone, as the files are compressed."""
    for number in range(10):
        place.add(Row(b"%02d" % number, 0, value=b"v" * 3000))

    def scan() -> pa.Table:
        return place.store.scan(walBuffer=limit, **options).read_all()

    assert [place.reads_of(scan), place.reads_of(scan)][1] > 10
    assert scan() == SlateStore.open(str(place.folder)).scan(**options).read_all()
    tail = place.stores.heads.tail
    assert not isinstance(tail, HeldTail) or tail.levels is None
    place.store.scan(walBuffer="1m").read_all()  # a greater bound counts
    assert place.reads_of(lambda: place.store.scan(**options).read_all()) < 8


def test_a_part_that_decodes_its_own_rows_decodes_no_others(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the WAL takes more than `walBuffer`, each part of a scan decodes it by itself."""
    for number in range(10):
        place.add(Row(b"%02d" % number, 0, value=b"v" * 3000))
    asked: list[KeyRange] = []

    def fetch(stores: TableStores, tail: WalTail, above_seq: int, keys: KeyRange) -> RowColumns | None:
        asked.append(keys)
        return fetch_wal_rows(stores, tail, above_seq, keys)

    monkeypatch.setattr(held_tail, "fetch_wal_rows", fetch)
    for _ in range(2):
        place.store.scan(walBuffer=5000, startKey=b"02", endKey=b"05").read_all()
    assert [(keys.start, keys.end) for keys in asked] == [(b"02", b"05")] * 2
