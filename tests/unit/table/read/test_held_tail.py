"""What look-ups keep of the WAL: they read no file twice, and show what a store does that keeps nothing."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slatespark import CorruptDataError, SlateStore
from slatespark.format.codecs import Compression
from slatespark.format.paths import wal_path
from slatespark.format.row import Row, RowKind
from slatespark.options import ReadOptions
from slatespark.ranges import ALL_KEYS
from slatespark.storage.counted_store import RequestTally
from slatespark.table.clock import SystemClock
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read import held_tail
from slatespark.table.read.fetch import fetch_wal_rows
from slatespark.table.read.reader import look_up
from slatespark.table.snapshot import fetch_wal_tail
from slatespark.table.stores import open_stores
from tests.support.wal_files import encode_wal

KEYS = [b"a", b"b", b"c", b"d"]


class Place:
    """A table in a folder with files of the WAL, and a store of it that counts what it reads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        store = SlateStore.create(str(folder), mergeOperator="concat")
        store.write(pa.table({"key": [b"b", b"tree"], "value": [b"old", b"v"]}))
        _, manifest = fetch_latest_manifest(open_stores(str(folder), storage={}))
        self.seq, self.number = manifest.last_l0_seq, manifest.wal_id_last_seen
        self.tally = RequestTally()
        self.stores = open_stores(str(folder), storage={}).counted(self.tally)

    def file(self, number: int) -> Path:
        return self.folder / wal_path(number)

    def add(self, *rows: Row) -> None:
        numbered = [replace(row, seq=self.seq + 1 + at) for at, row in enumerate(rows)]
        self.seq, self.number = self.seq + len(rows), self.number + 1
        self.file(self.number).write_bytes(encode_wal(numbered, compression=Compression.ZSTD) if rows else b"")

    def get(self, key: bytes) -> bytes | None:
        """Look a key up in the store that is kept."""
        found = look_up(self.stores, [key], ReadOptions.parse({"path": str(self.folder)}), SystemClock())
        return None if found is None else found.column("value")[0].as_py()

    def new_get(self, key: bytes) -> bytes | None:
        """Look a key up in a store that was just opened."""
        found: dict[str, Any] | None = SlateStore.open(str(self.folder)).get(key)
        return None if found is None else found["value"]

    def reads(self, key: bytes) -> int:
        """Return how many objects are read for a look-up."""
        before = self.tally.total.get
        self.get(key)
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
        found, expected = (
            fetch(place.stores, asked, seq, ALL_KEYS) for fetch in (held_tail.fetch_held_rows, fetch_wal_rows)
        )
        assert found is not None
        assert expected is not None
        assert found.seqs.tolist() == expected.seqs.tolist()


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


@pytest.mark.parametrize("limit", [100, 5000])
def test_no_more_is_kept_than_a_bound(place: Place, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    """Whether the files are above it, or their rows alone, as the files are compressed."""
    monkeypatch.setattr(held_tail, "HELD_WAL_BYTES", limit)
    for number in range(10):
        place.add(Row(b"%02d" % number, 0, value=b"v" * 3000))
    assert [place.reads(b"07"), place.reads(b"07")][1] > 10
    assert place.stores.heads.tail is None
