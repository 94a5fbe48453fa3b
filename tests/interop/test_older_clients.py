"""Databases of clients up to 0.13.0: their WAL, fences and runs are read, written on, and given to the 0.17 client."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.format.manifest_codec import decode_as_stored
from tests.support.client import Client, ClientOptions, Location, Put, read_rows
from tests.support.client_admin import compact_full
from tests.support.older_databases import OLDER, OLDER_NAMES, older_pairs, older_rows

Pairs = dict[bytes, bytes]


@pytest.fixture(params=OLDER_NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def path(name: str, tmp_path: Path) -> str:
    return str(shutil.copytree(OLDER / name, tmp_path / name))


def write(path: str, rows: Pairs) -> None:
    SlateStore.open(path).write(pa.table({"key": list(rows), "value": list(rows.values())}))


def pairs_of(path: str) -> Pairs:
    """What both sides see."""
    rows = SlateStore.open(path).scan().read_all().to_pylist()
    ours = {row["key"]: row["value"] for row in rows}
    assert {row.key: row.value for row in read_rows(Location.local(path))} == ours
    return ours


def test_the_rows_are_those_of_the_client(name: str) -> None:
    store = SlateStore.open(str(OLDER / name))
    rows = store.scan(metadataColumns=True).read_all().to_pylist()
    found = [(row["key"], row["value"], row["_seq"], round(row["_create_ts"].timestamp() * 1000)) for row in rows]
    assert found == [row[:4] for row in older_rows(name)]
    assert store.detail().version > 0


def test_lookups_find_the_same(name: str) -> None:
    store = SlateStore.open(str(OLDER / name))
    pairs = older_pairs(name)
    for key in [*list(pairs)[::7], b"12345678", b"12345679", b"a", b"b", b"nothing"]:
        row = store.get(key)
        assert (None if row is None else row["value"]) == pairs.get(key)


def test_nothing_is_found_wrong(path: str) -> None:
    found = SlateStore.open(path).verify()
    assert found.findings == ()
    write(path, {b"ours": b"1"})
    assert SlateStore.open(path).verify().findings == ()


def test_the_client_goes_on_after_our_work(name: str, path: str) -> None:
    rows = older_pairs(name) | {b"ours": b"1", b"b": b"new"}
    write(path, {b"ours": b"1", b"b": b"new"})
    assert pairs_of(path) == rows
    store = SlateStore.open(path)
    store.createCheckpoint("kept")
    store.deleteRange("key >= X'6B303335' AND key < X'6B303430'")
    rows = {key: value for key, value in rows.items() if not b"k035" <= key < b"k040"}
    assert pairs_of(path) == rows
    assert store.compact(full=True).rows_in > 0
    store.vacuum("0s", force=True)
    assert pairs_of(path) == rows
    assert store.verify().findings == ()
    with Client.open(Location.local(path), ClientOptions(compactor=True)) as client:
        client.write([Put(b"theirs", b"2")])
        compact_full(client)
    assert pairs_of(path) == rows | {b"theirs": b"2"}


def test_a_copy_has_all_rows(name: str, path: str, tmp_path: Path) -> None:
    SlateStore.open(path).clone(str(tmp_path / "clone"))
    assert pairs_of(str(tmp_path / "clone")) == older_pairs(name)


# --- the WAL --------------------------------------------------------------------------------------------------------


def log_of(path: str, version: int) -> list[tuple[str, bytes]]:
    log = SlateStore.open(path).changes(startingVersion=version, startingBoundInclusive=False, changes="log")
    return [(row["_change_type"], row["key"]) for row in log.read_all().to_pylist()]


@pytest.mark.parametrize("name", ["0.13-fences"], indirect=True)
def test_the_log_sees_a_fence_in_a_file_without_rows(path: str) -> None:
    assert log_of(path, 5) == [("upsert", b"d"), ("delete", b"b"), ("upsert", b"c")]


@pytest.mark.parametrize("name", ["0.13-fences", "0.10-wal"], indirect=True)
def test_a_dump_shows_what_the_files_are(name: str, path: str) -> None:
    store = SlateStore.open(path)
    fence = store.dump("wal/1")
    assert (fence.kind, fence.content["fence"], fence.content["blocks"]) == ("wal", True, [])
    rows = store.dump("wal/2", rows=3)
    assert (rows.kind, "fence" in rows.content) == ("wal", False)
    assert [row["key"] for row in rows.content["rows"]] == ([b"c"] if name == "0.13-fences" else [b"a", b"a", b"b"])


# --- runs without last keys -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["0.10-runs"], indirect=True)
def test_a_newer_client_leaves_the_open_ends(name: str, path: str) -> None:
    with Client.open(Location.local(path), ClientOptions()) as client:
        client.write([Put(b"theirs", b"2")])
        client.flush_memtable()
    newest = max((Path(path) / "manifest").iterdir()).read_bytes()
    run = next(run for run in decode_as_stored(newest).compacted if len(run.views) > 1)
    assert {view.visible_range for view in run.views} == {None}
    write(path, {b"ours": b"1"})
    assert pairs_of(path) == older_pairs(name) | {b"theirs": b"2", b"ours": b"1"}
    assert SlateStore.open(path).verify().findings == ()
