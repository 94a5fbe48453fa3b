"""Databases of SlateDB 0.18: what it adds to the format is read, and either kept or refused where we write."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore, UnsupportedFormatError
from slatespark.format.manifest_codec import decode_manifest, encode_manifest
from slatespark.table.log.compactions import edit_compactions, fetch_compactions
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.stores import TableStores, open_stores
from tests.support.client import Client, ClientOptions, Location, Put, read_rows
from tests.support.client_admin import compact_full
from tests.support.fake_clock import FakeClock
from tests.support.fixture_databases import FixtureDatabase, fixture_databases

DATABASES = {database.name: database for database in fixture_databases() if database.root.name == "slatedb-0.18"}
UNKNOWN_SLOT = 60
VIEW: dict[str, Any] = {"includeExpired": True, "mergeOperator": "concat"}


def copied(name: str, folder: Path) -> tuple[FixtureDatabase, str]:
    database = DATABASES[name]
    return database, str(shutil.copytree(database.path, folder / name))


def stores_of(path: str) -> TableStores:
    return open_stores(path, storage={})


def pairs_of(path: str) -> dict[bytes, bytes]:
    table = SlateStore.open(path).scan(**VIEW).read_all()
    return dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))


def write(path: str, rows: dict[bytes, bytes]) -> None:
    SlateStore.open(path).write(pa.table({"key": list(rows), "value": list(rows.values())}))


@pytest.mark.parametrize("name", ["plain", "aligned", "running"])
def test_the_older_client_goes_on_after_our_commit_and_compaction(name: str, tmp_path: Path) -> None:
    database, path = copied(name, tmp_path)
    rows = {row[0]: row[1] for row in database.visible_rows()} | {b"ours": b"1"}
    write(path, {b"ours": b"1"})
    store = SlateStore.open(path)
    store.compact(full=True, mergeOperator="concat", now=0)  # nothing expires
    store.vacuum("0s", force=True)
    assert pairs_of(path) == rows
    assert SlateStore.open(path).verify().findings == ()
    location = Location.local(Path(path))
    assert {row.key: row.value for row in read_rows(location)} == rows
    with Client.open(location, ClientOptions(compactor=True)) as client:
        client.write([Put(b"theirs", b"2")])
        compact_full(client)
        assert client.get(b"theirs") == b"2"
        assert client.get(b"ours") == b"1"
    assert pairs_of(path)[b"theirs"] == b"2"


def test_blocks_with_padding_are_sound(tmp_path: Path) -> None:
    database, path = copied("aligned", tmp_path)
    store = SlateStore.open(path)
    assert store.verify().findings == ()
    for key, value, *_ in database.visible_rows():
        found = store.get(key, **VIEW)
        assert found is not None
        assert found["value"] == value


def test_a_wide_sequence_tracker_is_kept(tmp_path: Path) -> None:
    database, path = copied("tracker", tmp_path)
    write(path, {b"ours": b"1"})
    _, manifest = fetch_latest_manifest(stores_of(path))
    kept = [list(point) for point in manifest.sequence_tracker.points]
    assert kept[:3] == database.expected["sequence_tracker"]
    assert len(kept) == 4  # and ours


def test_a_running_job_of_another_worker_keeps_its_progress(tmp_path: Path) -> None:
    _, path = copied("running", tmp_path)
    stores = stores_of(path)
    before = fetch_compactions(stores).value
    edit_compactions(stores, FakeClock(seed=1), lambda listed: replace(listed, compactor_epoch=7))
    after = fetch_compactions(stores).value
    assert (after.compactor_epoch, after.jobs) == (7, before.jobs)
    [progress] = [job.context for job in after.active_jobs() if job.context is not None]
    assert [part.status for part in progress.subcompactions] == [1, 0]


def test_a_commit_at_rest_removes_the_running_job(tmp_path: Path) -> None:
    database, path = copied("running", tmp_path)
    write(path, {b"ours": b"1"})
    assert fetch_compactions(stores_of(path)).value.active_jobs() == ()
    assert pairs_of(path) == {row[0]: row[1] for row in database.visible_rows()} | {b"ours": b"1"}


# --- fields of later releases ---------------------------------------------------------------------------------------


def with_unknown_slot(data: bytes) -> bytes:
    """The object with one more field in its root table, as a later release may write it."""
    body = bytearray(data[2:])
    root = int.from_bytes(body[:4], "little")
    vtable = root - int.from_bytes(body[root : root + 4], "little", signed=True)
    size = int.from_bytes(body[vtable : vtable + 2], "little")
    known = body[vtable + 2 : vtable + size].ljust(UNKNOWN_SLOT - 2, b"\0")
    longer = (UNKNOWN_SLOT + 2).to_bytes(2, "little") + known + (4).to_bytes(2, "little")
    moved = bytes(body) + longer + bytes(len(body) % 2)
    at = len(body)
    distance = (root - at).to_bytes(4, "little", signed=True)
    return data[:2] + moved[:root] + distance + moved[root + 4 :]


def replace_newest(folder: Path) -> Path:
    newest = max(folder.iterdir())
    newest.write_bytes(with_unknown_slot(newest.read_bytes()))
    return newest


def contents(path: str) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in Path(path).rglob("*") if file.is_file()}


def unwritten(path: str, *calls: Callable[[SlateStore], object]) -> None:
    """Assert that each call is refused before it has written any object."""
    before = contents(path)
    for call in calls:
        with pytest.raises(UnsupportedFormatError):
            call(SlateStore.open(path))
        assert contents(path) == before


@pytest.mark.parametrize("folder", ["manifest", "compactions"])
@pytest.mark.parametrize("mode", ["fail", "fence", "cooperate"])
def test_unknown_fields_are_read_but_never_erased(folder: str, mode: str, tmp_path: Path) -> None:
    database, path = copied("plain", tmp_path)
    replace_newest(Path(path) / folder)
    assert pairs_of(path) == {row[0]: row[1] for row in database.visible_rows()}
    rows = pa.table({"key": [b"k"], "value": [b"v"]})
    options: dict[str, Any] = {"ifClientActive": mode, "clientTimeout": "500ms"}
    unwritten(
        path,
        lambda store: store.write(rows, **options),
        lambda store: store.delete("key = X'61'", **options),
        lambda store: store.compact(full=True, mergeOperator="concat", **options),
    )
    if folder == "manifest":
        unwritten(path, lambda store: store.createCheckpoint("p"))


def test_a_definition_that_cannot_be_announced_is_not_changed(tmp_path: Path) -> None:
    """Each of these changes what reads show, and none can be taken back."""
    schema = pa.schema([("id", pa.int64()), ("a", pa.string()), ("b", pa.string())])
    path = str(tmp_path / "typed")
    store = SlateStore.create(path, schema, "id", history=True)
    store.write(pa.table({"id": [1], "a": ["x"], "b": ["y"]}, schema=schema), timestamp=1000)
    replace_newest(tmp_path / "typed" / "manifest")
    unwritten(
        path,
        lambda store: store.setProperties(retention="1s"),
        lambda store: store.dropColumns("b"),
        lambda store: store.setHistoryFloor(2000),
        lambda store: store.write(pa.table({"id": [2], "c": [1]}), mergeSchema=True, timestamp=3000),
    )
    assert SlateStore.open(path).scan().schema.names == schema.names


def test_an_unknown_field_is_named() -> None:
    data = with_unknown_slot(max((DATABASES["plain"].path / "manifest").iterdir()).read_bytes())
    manifest = decode_manifest(data)
    assert manifest.unknown_fields == {f"ManifestV2 slot {UNKNOWN_SLOT}"}
    with pytest.raises(UnsupportedFormatError, match=str(UNKNOWN_SLOT)):
        encode_manifest(manifest)
