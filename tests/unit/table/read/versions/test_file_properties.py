"""What planning learns of files from commit records: as few requests as can be, and nothing that is not certain."""

from __future__ import annotations

import itertools
import json
import shutil
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

from slatespark import InvalidRequestError, SlateStore
from slatespark.format.properties import VERSION, SstProperties
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.clock import SystemClock
from slatespark.table.heads import Heads
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.planning.layers import distinct_files, fetch_layers
from slatespark.table.read.versions import file_properties as file_properties_module
from slatespark.table.read.versions.file_properties import (
    file_properties,
    find_recorded,
    recorded_files,
    recorded_properties,
)
from slatespark.table.records.commit_record import BATCHES_DIR, COMMITS_DIR
from slatespark.table.records.commits import publish_commit_record
from slatespark.table.retention.expiry_files import fetch_outline
from slatespark.table.stores import TableStores, open_stores
from tests.support.failing_store import FailingStore
from tests.support.fixture_databases import FIXTURES
from tests.unit.table.records.test_commits import record

_names = itertools.count(1)
ENTRY = {
    "version": VERSION,
    "created_ms": 1,
    "min_create_ts": None,
    "max_create_ts": None,
    "min_expire_ts": None,
    "max_expire_ts": None,
    "min_seq": 1,
    "max_seq": 1,
    "puts": 1,
    "deletes": 0,
    "merges": 0,
    "any_flags": 0,
    "all_flags": 0,
    "all_versions": False,
    "stored_bytes": 100,
}


@pytest.fixture
def stores() -> TableStores:
    """A table of three files with TTL, deletes and operands."""
    store = SlateStore.create(f"memory://file-properties-{next(_names)}")
    store.write(pa.table({"key": [b"a", b"b"], "value": [b"1", b"2"]}), ttl="1h")
    store.write(pa.table({"key": [b"a"]}), operation="delete")
    store.write(pa.table({"key": [b"a", b"c"], "value": [b"1", b"2"]}), operation="merge")
    main = FailingStore(open_stores(store.url, storage={}).main)
    return TableStores(main=main, wal=main)


def known(stores: TableStores) -> dict[str, SstProperties]:
    """What a process learns that has read nothing of the table."""
    stores = replace(stores, heads=Heads())
    return {str(sst_id): found for sst_id, found in file_properties(stores, fetch_latest_manifest(stores)[1]).items()}


def newest_record(stores: TableStores) -> tuple[str, dict[str, Any]]:
    path = max(meta.path for meta in stores.main.list(COMMITS_DIR))
    content: dict[str, Any] = json.loads(bytes(stores.main.get(path)))
    return path, content


def put_record(stores: TableStores, path: str, content: dict[str, Any]) -> None:
    """Store a record with a checksum that is right."""
    content = {name: value for name, value in content.items() if name != "checksum"}
    checksum = zlib.crc32(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())
    stores.main.put(path, [json.dumps({**content, "checksum": checksum}).encode()])


def test_records_say_what_files_say(stores: TableStores) -> None:
    _, manifest = fetch_latest_manifest(stores)
    found = file_properties(stores, manifest)
    files = distinct_files(fetch_layers(stores, manifest))
    assert found == {file.id: fetch_outline(stores, file).properties for file in files}
    assert len(found) == 3
    assert all(properties.is_consistent() for properties in found.values())


@pytest.mark.parametrize(
    "change",
    [
        {"version": VERSION + 1},
        {"version": None},
        {"stored_bytes": 5},
        {"puts": -1},
        {"puts": 0, "merges": 0},
        {"puts": 1 << 40},
        {"merges": 1, "puts": 1},
        {"deletes": 1},
        {"min_seq": 9, "max_seq": 8},
        {"min_seq": -1},
        {"min_create_ts": None},
        {"min_create_ts": 1 << 62},
        {"max_create_ts": None},
        {"min_expire_ts": 5},
        {"max_expire_ts": 5, "min_expire_ts": 5},
        {"any_flags": 0},
        {"all_flags": 0xFF},
        {"any_flags": 1 << 8},
        {"min_seq": "1"},
        {"max_expire_ts": 1.5},
    ],
)
def test_an_entry_that_cannot_be_of_the_file_says_nothing(stores: TableStores, change: dict[str, Any]) -> None:
    path, content = newest_record(stores)
    [name] = content["files"]
    content["files"][name].update(change)
    put_record(stores, path, content)
    assert name not in known(stores)
    assert len(known(stores)) == 2


@pytest.mark.parametrize("entry", [None, 5, "x", [], {}])
def test_an_entry_that_is_none_says_nothing(stores: TableStores, entry: object) -> None:
    path, content = newest_record(stores)
    [name] = content["files"]
    content["files"][name] = entry
    put_record(stores, path, content)
    assert len(known(stores)) == 2


def test_an_entry_without_the_size_of_its_file_says_nothing(stores: TableStores) -> None:
    path, content = newest_record(stores)
    for entry in content["files"].values():
        del entry["stored_bytes"]
    put_record(stores, path, content)
    assert len(known(stores)) == 2


def test_a_record_without_a_checksum_says_nothing(stores: TableStores) -> None:
    path, content = newest_record(stores)
    put_record(stores, path, content)
    assert len(known(stores)) == 3
    del content["checksum"]
    stores.main.put(path, [json.dumps(content).encode()])
    assert len(known(stores)) == 2


def test_one_changed_digit_says_nothing(stores: TableStores) -> None:
    """By what it would say, a scan would hide live rows, and a reap would drop live files."""
    path, content = newest_record(stores)
    [entry] = content["files"].values()
    entry["max_create_ts"] = entry["min_create_ts"] = entry["max_create_ts"] - 10**12
    stores.main.put(path, [json.dumps(content).encode()])
    assert len(known(stores)) == 2


@pytest.mark.parametrize("content", [b"", b"[]", b"{}"])
def test_a_damaged_record_says_nothing(stores: TableStores, content: bytes) -> None:
    stores.main.put(newest_record(stores)[0], [content])
    assert len(known(stores)) == 2


def test_files_of_other_clients_have_none() -> None:
    stores = open_stores(str(FIXTURES / "l0_basic"), storage={})
    assert known(stores) == {}


def test_thousands_of_commits_take_few_requests_and_only_once() -> None:
    main = FailingStore(MemoryStore(f"file-properties-{next(_names)}"))
    stores = TableStores(main=main, wal=main)
    for number in range(1, 2101, 2):
        publish_commit_record(main, replace(record(number), files={f"file {number}": ENTRY}))
    wanted = {f"file {number}" for number in range(1, 2101, 2)}
    main.calls.clear()
    assert set(find_recorded(stores, wanted, limit=1000)) == wanted
    gets = [call.path for call in main.calls if call.operation == "get"]
    assert sum(path.startswith(BATCHES_DIR) for path in gets) == 10 + 4, "of a hundred, and of ten"
    assert len(gets) <= 10 + 4 + 10 + 5, "a batch is made by about every fifth commit"
    main.calls.clear()
    assert set(find_recorded(stores, wanted, limit=1000)) == wanted
    assert [call.operation for call in main.calls] == ["list", "list"]
    main.calls.clear()
    assert set(find_recorded(stores, {"file 2099"}, limit=1000)) == {"file 2099"}


def test_files_whose_properties_are_known_are_not_looked_for_again(stores: TableStores) -> None:
    assert isinstance(stores.main, FailingStore)
    manifest = fetch_latest_manifest(stores).value
    found = file_properties(stores, manifest)
    assert len(found) == 3
    stores.main.calls.clear()
    some = [handle for sst_id, handle in manifest.ssts.items() if sst_id != min(found)]
    assert file_properties(stores, manifest) == found
    assert recorded_properties(stores, some) == {handle.id: found[handle.id] for handle in some}
    assert not stores.main.calls
    SlateStore.open(stores.url).write(pa.table({"key": [b"d"], "value": [b"1"]}))
    later = file_properties(stores, fetch_latest_manifest(stores).value)
    assert found.items() < later.items()
    assert len(later) == 4


def calls_of_new_files(stores: TableStores) -> list[str]:
    """Return the requests for the properties of the newest version, which are those that a new process finds."""
    assert isinstance(stores.main, FailingStore)
    manifest = fetch_latest_manifest(stores).value
    stores.main.calls.clear()
    found = file_properties(stores, manifest)
    calls = [f"{call.operation} {call.path}" for call in stores.main.calls]
    assert {str(sst_id): properties for sst_id, properties in found.items()} == known(stores)
    return calls


def write(store: SlateStore) -> None:
    store.write(pa.table({"key": [b"d"], "value": [b"1"]}))


def test_files_that_this_process_has_written_are_not_looked_for(stores: TableStores) -> None:
    store = SlateStore(stores, SystemClock(), {"path": stores.url})
    write(store)
    assert not stores.heads.properties, "the others are not known"
    assert "list" in calls_of_new_files(stores)[0]
    for _ in range(3):
        write(store)
        assert calls_of_new_files(stores) == []
    store.compact(full=True, mergeOperator="concat")
    assert calls_of_new_files(stores) == []


def test_files_of_a_few_new_commits_are_asked_for_by_name(stores: TableStores) -> None:
    file_properties(stores, fetch_latest_manifest(stores).value)
    other = SlateStore.open(stores.url)
    for commits in (1, 8):
        for _ in range(commits):
            write(other)
        calls = calls_of_new_files(stores)
        assert len(calls) == 2 * commits, "a claim has no record"
        assert all(call.startswith(f"get {COMMITS_DIR}") for call in calls)
    for _ in range(9):
        write(other)
    assert calls_of_new_files(stores)[0].startswith("list")
    assert calls_of_new_files(stores) == []


def test_a_new_record_that_is_damaged_is_looked_for_in_a_listing(stores: TableStores) -> None:
    file_properties(stores, fetch_latest_manifest(stores).value)
    write(SlateStore.open(stores.url))
    stores.main.put(newest_record(stores)[0], [b"{}"])
    for _ in range(2):
        assert any(call.startswith("list") for call in calls_of_new_files(stores))
    assert len(known(stores)) == 3
    write(SlateStore(stores, SystemClock(), {"path": stores.url}))
    assert len(known(stores)) == 4


@pytest.mark.parametrize(("held", "listings"), [(3, 0), (2, 2), (1, 0), (0, 2)])
def test_reads_may_turn_from_some_files_to_others(
    stores: TableStores, monkeypatch: pytest.MonkeyPatch, held: int, listings: int
) -> None:
    """As long as there is room for both; some that have none leave what is held."""
    monkeypatch.setattr(file_properties_module, "MAX_HELD", held)
    assert isinstance(stores.main, FailingStore)
    one, *others = fetch_latest_manifest(stores).value.ssts.values()
    found = [recorded_properties(stores, each) for each in ([one], others)]
    stores.main.calls.clear()
    assert recorded_properties(stores, [one]) == found[0]
    assert sum(call.operation == "list" for call in stores.main.calls) == listings
    assert [len(each) for each in found] == [1, 2]


def test_a_file_of_another_size_is_looked_for(stores: TableStores) -> None:
    manifest = fetch_latest_manifest(stores).value
    [handle, *_] = manifest.ssts.values()
    assert len(recorded_properties(stores, [handle])) == 1
    other = replace(handle, info=replace(handle.info, stats_len=1, stats_offset=handle.info.sections_end))
    assert recorded_properties(stores, [other]) == {}


def test_no_more_records_are_read_than_asking_the_files_would_cost(stores: TableStores) -> None:
    recorded_files.clear()
    for number in range(1001, 1101, 2):
        publish_commit_record(stores.main, record(number))
    assert isinstance(stores.main, FailingStore)
    stores.main.calls.clear()
    assert known(stores) == {}  # the records of the three files lie behind fifty others
    assert sum(call.operation == "get" and call.path.startswith(COMMITS_DIR) for call in stores.main.calls) == 8


@pytest.mark.parametrize("operation", ["list", "get"])
def test_records_that_cannot_be_read_say_nothing(stores: TableStores, operation: Literal["list", "get"]) -> None:
    recorded_files.clear()
    assert isinstance(stores.main, FailingStore)
    stores.main.fail(operation, f"{COMMITS_DIR}*", times=1000, error=InvalidRequestError("no permission"))
    assert known(stores) == {}


def test_a_table_that_was_made_anew_has_its_own(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for rows in (3, 5):
        store = SlateStore.create(str(path))
        store.write(pa.table({"key": [b"%d" % number for number in range(rows)], "value": [b"v"] * rows}))
        assert [found.num_rows for found in known(open_stores(str(path), storage={})).values()] == [rows]
        shutil.rmtree(path)
