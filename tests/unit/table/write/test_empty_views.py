"""Views that show no row: named, and removed by the next commit, compaction or vacuum."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.format.manifest import Manifest
from slatespark.options import WriteOptions
from slatespark.ranges import KeyRange
from slatespark.table.commit import publication
from slatespark.table.commit.commit import commit_write
from slatespark.table.commit.job import begin_write
from slatespark.table.commit.tree_edit import CutViews
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.records.operations import Operation
from tests.support.client import Client, ClientOptions, Location
from tests.support.fake_clock import FakeClock

HOUR_MS = 3_600_000
SCHEMA = pa.schema([("day", pa.int32()), ("value", pa.string())])
NAMES = pa.schema([("name", pa.string()), ("value", pa.string())])
_names = itertools.count()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def newest(store: SlateStore) -> Manifest:
    return fetch_latest_manifest(store._stores)[1]


def made(url: str, schema: pa.Schema, clock: FakeClock) -> SlateStore:
    return SlateStore.create(url, schema, schema.names[0], clock=clock, versionRetention="none", autoCompact=False)


def sliced(clock: FakeClock, monkeypatch: pytest.MonkeyPatch, url: str = "") -> SlateStore:
    """A table of six days of which earlier versions of slatespark deleted each: five views show nothing."""
    store = SlateStore.create(
        url or f"memory://empty-views-{next(_names)}",
        SCHEMA,
        "day",
        clock=clock,
        versionRetention="none",
        autoCompact=False,
    )
    store.write(pa.table({"day": range(1, 7), "value": ["x"] * 6}, SCHEMA))
    codec = store.definition.codec()
    with monkeypatch.context() as patched:
        patched.setattr(publication, "_without_empty_views", lambda manifest, codec: manifest)
        for day in range(1, 7):
            prefix = codec.encode_prefix([day])
            cut(store, clock, KeyRange(prefix, prefix + b"\xff"))
    assert len(list(newest(store).views())) == 5
    return store


def cut(store: SlateStore, clock: FakeClock, *keys: KeyRange) -> None:
    """Cut views without looking at files."""
    stores = store._stores
    job = begin_write(
        stores,
        clock,
        operation=Operation.DELETE_RANGE,
        found=fetch_latest_manifest(stores),
        definition=store.definition,
    )
    commit_write(stores, clock, job, (), WriteOptions(path=stores.url), edit=CutViews(keys, clock.random_bits(64)))


def files(store: SlateStore) -> list[Any]:
    return store._stores.main.list("compacted/")


def test_verify_and_files_name_them(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    store = sliced(clock, monkeypatch)
    assert [file.shows_rows for file in store.files()] == [False] * 5
    report = store.verify()
    assert len(report.empty_views) == 5
    assert not report.has_damage
    assert report.is_complete
    assert not store.proveAbsent(where="day >= 1").gone


def test_the_next_commit_removes_them(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    store = sliced(clock, monkeypatch)
    store.write(pa.table({"day": [9], "value": ["y"]}, SCHEMA))
    assert [file.shows_rows for file in store.files()] == [True]
    assert store.verify().empty_views == ()
    clock.advance(2 * HOUR_MS)
    store.vacuum("1h")
    assert len(files(store)) == 1


def test_a_vacuum_removes_them(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    store = sliced(clock, monkeypatch)
    assert store.vacuum("1h", dryRun=True).views_removed == 5
    assert len(list(newest(store).views())) == 5
    assert store.vacuum("1h").views_removed == 5
    assert list(newest(store).views()) == []
    assert store.history(1)[0].operation == "vacuum"
    clock.advance(2 * HOUR_MS)
    version = store.resolve().version
    assert store.vacuum("1h").views_removed == 0
    assert store.resolve().version == version, "there was nothing to publish"
    assert files(store) == []
    assert store.proveAbsent(where="day >= 1").rows == 0


def test_a_vacuum_removes_them_from_a_table_that_was_vacuumed_before(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim of the newest version is gone by then."""
    store = sliced(clock, monkeypatch)
    clock.advance(2 * HOUR_MS)
    with monkeypatch.context() as patched:
        patched.setattr("slatespark.table.gc.run.remove_empty_views", lambda *_, dry_run: 0)
        assert store.vacuum("1h").counts["manifest"]
    assert len(store.verify().empty_views) == 5
    assert store.vacuum("1h").views_removed == 5


def test_a_compaction_removes_them(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    store = sliced(clock, monkeypatch)
    store.compact(full=True)
    assert list(newest(store).views()) == []


def test_views_between_the_stored_keys_are_removed_too(clock: FakeClock) -> None:
    """No type tells that nothing is between `b` and `d`; the file does."""
    store = made(f"memory://empty-views-{next(_names)}", NAMES, clock)
    store.write(pa.table({"name": list("abdfz"), "value": ["x"] * 5}, NAMES))
    codec = store.definition.codec()
    for name in "bdf":
        prefix = codec.encode_prefix([name])
        cut(store, clock, KeyRange(prefix, prefix + b"\xff"))
    assert [file.shows_rows for file in store.files()] == [True] * 4
    assert len(store.verify().empty_views) == 2
    assert store.vacuum("1h").views_removed == 2
    assert store.verify().empty_views == ()
    assert [row["name"] for row in store.scan().read_all().to_pylist()] == ["a", "z"]


def test_a_vacuum_does_not_fence_a_client(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    clock = FakeClock()
    store = sliced(clock, monkeypatch, str(tmp_path / "db"))
    with Client.open(Location.local(tmp_path / "db"), ClientOptions()) as client:
        assert store.vacuum("1h").views_removed == 0
        client.put(b"\x15\x07", b"by the client")
        client.flush_memtable()
        assert store.vacuum("1h").views_removed == 0
        client.put(b"\x15\x08", b"still open")
        client.flush_wal()
    assert len(store.verify().empty_views) == 5
    store.write(pa.table({"day": [9], "value": ["y"]}, SCHEMA))
    assert store.verify().empty_views == ()
    with Client.open(Location.local(tmp_path / "db")) as client:
        assert [row.key for row in client.scan()] == [b"\x15\x07", b"\x15\x08", b"\x15\x09"]


def test_a_damaged_file_does_not_stop_a_vacuum(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    store = SlateStore.create(
        str(tmp_path / "db"), NAMES, "name", clock=clock, versionRetention="none", autoCompact=False
    )
    store.write(pa.table({"name": list("abdfz"), "value": ["x"] * 5}, NAMES))
    for name in "bd":
        prefix = store.definition.codec().encode_prefix([name])
        cut(store, clock, KeyRange(prefix, prefix + b"\xff"))
    (file,) = (tmp_path / "db" / "compacted").iterdir()
    file.write_bytes(b"\0" * file.stat().st_size)
    report = SlateStore.open(str(tmp_path / "db"), clock=clock).vacuum("1h")
    assert report.views_removed == 0
