from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import CorruptDataError, SlateStore, TableNotFoundError, UnsupportedFormatError
from slatespark.format.manifest_codec import decode_manifest
from slatespark.format.manifest_outline import decode_outline
from slatespark.format.paths import MANIFEST_DIR, manifest_path
from slatespark.storage.local_store import LocalStore
from slatespark.table.inspection.versions import list_versions
from slatespark.table.log.manifests import manifest_log
from slatespark.table.records.commit_record import COMMITS_DIR
from slatespark.table.stores import TableStores, open_stores
from tests.conftest import ClientFactory
from tests.support.failing_store import FailingStore
from tests.support.fixture_databases import FIXTURES, FixtureDatabase, fixture_databases
from tests.unit.table.gc.place import HOUR_MS, Place


def stores_at(path: Path) -> TableStores:
    return open_stores(str(path), storage={})


@pytest.fixture
def table(tmp_path: Path) -> Path:
    store = SlateStore.create(str(tmp_path / "t"))
    store.write(pa.table({"key": [b"a", b"b"], "value": [b"1", b"2"]}))
    store.write(pa.table({"key": [b"a"]}), operation="delete")
    return tmp_path / "t"


def test_our_versions_have_operations(table: Path) -> None:
    found = list_versions(stores_at(table))
    assert [facts.version for facts in found] == [5, 4, 3, 2, 1]
    assert [facts.operation for facts in found] == ["write", "claim", "write", "claim", "create"]
    newest, _, older, _, first = found
    assert (newest.rows["delete"], older.rows["put"], older.files) == (1, 2, 1)
    assert (older.first_seq, newest.first_seq) == (1, 2)
    assert {facts.engine for facts in found} == {"slatespark"}
    assert first.committed_ms <= older.committed_ms <= newest.committed_ms
    assert newest.write_id is not None


def test_a_limit_selects_the_newest(table: Path) -> None:
    assert [facts.version for facts in list_versions(stores_at(table), 2)] == [5, 4]
    assert list_versions(stores_at(table), 0) == ()


def told(path: Path) -> list[tuple[int, str | None, str | None, int | None, int | None, int | None, int | None]]:
    """The facts of each version in `history`, oldest first."""
    return [
        (each.version, each.engine, each.operation, each.first_seq, each.last_seq, each.files, each.files_removed)
        for each in reversed(list_versions(stores_at(path)))
    ]


def test_operations_of_a_client_are_derived_from_manifests() -> None:
    """The fixture's own commands: five flushes, a compaction of all but the newest L0, a sixth flush."""
    assert told(FIXTURES / "compacted")[:12] == [
        (1, "slatedb", "create", None, None, 0, 0),
        (2, "slatedb", "open", None, None, 0, 0),
        (3, "slatedb", "open compactor", None, None, 0, 0),
        (4, "slatedb", "flush", 1, 60, 1, 0),
        (5, "slatedb", "flush", 61, 120, 1, 0),
        (6, "slatedb", "flush", 121, 183, 1, 0),
        (7, "slatedb", "flush", 184, 243, 1, 0),
        (8, "slatedb", "flush", 244, 303, 1, 0),
        (9, "slatedb", "create checkpoint", None, None, 0, 0),
        (10, "slatedb", "compact", None, None, 4, 5),
        (11, "slatedb", "flush", 304, 306, 1, 0),
        (12, "slatedb", "advance", None, None, 0, 0),
    ]


@pytest.mark.parametrize("database", fixture_databases(), ids=lambda item: item.name)
def test_an_outline_matches_the_manifest(database: FixtureDatabase) -> None:
    log = manifest_log(stores_at(database.path))
    for number in log.numbers():
        data = bytes(log.get(number))
        outline, manifest = decode_outline(data), decode_manifest(data)
        for name in ("nonce", "initialized", "writer_epoch", "compactor_epoch", "replay_after_wal_id", "last_l0_seq"):
            assert getattr(outline, name) == getattr(manifest, name), name
        assert outline.wal_id_last_seen == manifest.wal_id_last_seen
        assert outline.sst_ids == set(manifest.ssts)
        assert outline.l0 == {view.id for tree in manifest.trees() for view in tree.l0}
        assert outline.runs == {(run.id, len(run.views)) for tree in manifest.trees() for run in tree.compacted}
        points = {point.id.int: (point.manifest_id, point.expire_time_s) for point in manifest.checkpoints}
        assert outline.checkpoints == points
        assert outline.external_dbs == len(manifest.external_dbs)


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\2", b"\0\2abcd", b"\0\3abcd"])
def test_an_outline_of_something_else_is_refused(data: bytes) -> None:
    with pytest.raises((CorruptDataError, UnsupportedFormatError)):
        decode_outline(data)


def test_a_client_between_our_commits_is_recognised(tmp_path: Path, client_factory: ClientFactory) -> None:
    store = SlateStore.create(str(tmp_path / "database"))
    store.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    with client_factory() as client:
        client.put(b"b", b"2")
        client.flush_memtable()
    store.write(pa.table({"key": [b"c"], "value": [b"3"]}))
    found = list(reversed(store.history()))
    assert [each.engine for each in found if each.operation in ("create", "claim", "write")] == ["slatespark"] * 5
    by_client = [each for each in found if each.engine == "slatedb"]
    assert {each.operation for each in by_client} >= {"open", "flush"}
    [flush] = [each for each in by_client if each.operation == "flush"]
    assert (flush.files, flush.files_removed, flush.rows) == (1, 0, {})
    assert [each.committed_ms for each in found] == sorted(each.committed_ms for each in found)


def test_a_commit_without_a_record_is_still_ours(table: Path) -> None:
    (table / COMMITS_DIR / f"{5:020d}.json").unlink()
    newest = list_versions(stores_at(table))[0]
    assert (newest.engine, newest.operation, newest.write_id) == ("slatespark", None, None)
    assert (newest.first_seq, newest.last_seq, newest.files, newest.files_removed) == (2, 2, 1, 0)


def test_a_collected_version_leaves_the_next_one_without_a_comparison(table: Path) -> None:
    (table / COMMITS_DIR / f"{5:020d}.json").unlink()
    for number in (3, 4):
        (table / manifest_path(number)).unlink()
    found = list_versions(stores_at(table))
    assert [(each.version, each.engine, each.operation, each.files) for each in found] == [
        (5, "slatespark", None, None),
        (2, "slatespark", "claim", 0),
        (1, "slatespark", "create", 0),
    ]


def test_a_damaged_manifest_is_listed_with_its_time(table: Path) -> None:
    SlateStore.open(table).createCheckpoint("x")
    (table / manifest_path(6)).write_bytes(b"\0\2abcd")
    found = list_versions(stores_at(table))[0]
    assert (found.version, found.engine, found.operation) == (6, None, None)


def test_a_claim_between_two_recorded_commits_is_not_read(table: Path) -> None:
    before = told(table)
    main = FailingStore(LocalStore(table))
    assert list_versions(TableStores(main=main, wal=main)) == list_versions(stores_at(table))
    assert main.count("get", "manifest/*") == 0
    for path in (table / COMMITS_DIR).iterdir():  # without records all are read
        path.unlink()
    assert [facts for facts in told(table) if facts[2] == "claim"] == [facts for facts in before if facts[2] == "claim"]


@pytest.mark.parametrize("limit", [None, 3, 20])
def test_no_manifest_is_read_twice(limit: int | None) -> None:
    main = FailingStore(LocalStore(FIXTURES / "compacted"))
    found = list_versions(TableStores(main=main, wal=main), limit)
    read = [call.path for call in main.calls if call.operation == "get" and call.path.startswith(MANIFEST_DIR)]
    assert len(read) == len(set(read))
    assert len([path for path in read if path.endswith(".manifest")]) <= len(found) + 1


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"manifest_id": 5}'])
def test_a_damaged_record_is_ignored(table: Path, content: bytes) -> None:
    path = max((table / COMMITS_DIR).iterdir())
    path.write_bytes(content)
    assert list_versions(stores_at(table))[0].operation is None


def test_no_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        list_versions(stores_at(tmp_path))


def test_an_old_version_that_a_checkpoint_keeps_is_told_by_its_record() -> None:
    """Also if the newest records, as many as are asked for, are of later versions, which are gone."""
    place = Place()
    version = place.write(b"a", b"b")
    place.table.createCheckpoint("old", version=version)
    for _ in range(8):
        place.write(b"a")
    place.clock.advance(2 * HOUR_MS)
    place.vacuum("1h")
    everything = place.table.history()
    assert [(facts.version, facts.rows.get("put")) for facts in everything][-1] == (version, 2)
    assert place.table.history(limit=len(everything)) == everything
