"""What a vacuum deletes of the WAL, of claims, and of commit records."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import InvalidRequestError, SlateStore
from slatespark.format.paths import MANIFEST_DIR, manifest_path, wal_path
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import ObjectMeta
from slatespark.table.commit.claim import claim_epochs
from slatespark.table.gc.survey import batched_numbers
from slatespark.table.log.manifests import fetch_latest_manifest, list_manifests
from slatespark.table.log.versioned_object import Version
from slatespark.table.records import commit_batches
from slatespark.table.records.commit_batches import SMALL_SUFFIX, batch_commit_records, list_batches
from slatespark.table.records.commit_record import BATCHES_DIR, COMMITS_DIR, CommitRecord
from slatespark.table.records.commits import publish_commit_record
from slatespark.table.records.json_objects import list_numbered
from slatespark.table.stores import TableStores
from tests.faults.jobs import Job, stores_of, table_of
from tests.support.client import Client, Location, Put
from tests.support.failing_store import FailingStore
from tests.unit.table.gc.place import HOUR_MS, MINUTE_MS, Place, _names, actions


def test_fences_are_deleted_on_demand_but_never_the_last() -> None:
    place = Place()
    for key in (b"a", b"b", b"c"):
        place.write(key)
    place.clock.advance(2 * HOUR_MS)
    assert place.vacuum().counts["wal"] == 0
    assert place.vacuum(fences=True).counts["wal"] == 2
    assert [meta.path[-6:] for meta in place.store.list("wal/")] == ["03.sst"]
    place.write(b"d")
    assert place.table.scan().read_all().num_rows == 4


def test_a_separate_wal() -> None:
    place = Place()
    wal = MemoryStore(f"gc-run-{next(_names)}", place.clock.now_ms)
    place.stores = TableStores(place.store, wal, wal_is_apart=True)
    table = SlateStore(place.stores, place.clock, {"path": place.store.url})
    for key in (b"a", b"b"):
        place.clock.advance(MINUTE_MS)
        table.write(table_of([(key, b"x")]))
    place.clock.advance(2 * HOUR_MS)
    assert place.store.list("wal/") == []
    assert table.vacuum("1h", fences=True).counts["wal"] == 1
    assert [meta.path[-6:] for meta in wal.list("wal/")] == ["02.sst"]
    assert table.scan().read_all().num_rows == 2


@pytest.fixture
def elsewhere(tmp_path: Path) -> SlateStore:
    """A table in files whose WAL has a high number."""
    table = SlateStore.create(str(tmp_path / "t"), autoCompact=False, walPath=str(tmp_path / "wal of t"))
    for number in range(8):
        table.write(table_of([(b"k%d" % number, b"x")]))
    return table


@pytest.mark.parametrize("has_manifests", [True, False])
def test_the_wal_of_another_database_is_not_touched(has_manifests: bool, elsewhere: SlateStore, tmp_path: Path) -> None:
    """A wrong `walPath` leads to a WAL with other numbers, whose rows are in no SST."""
    with Client.open(Location.local(tmp_path / "other")) as client:
        for number in range(3):
            client.write([Put(b"precious%d" % number, b"x")])
            client.flush_wal()
    other = tmp_path / "other"
    if not has_manifests:
        (other / "manifest").rename(tmp_path / "manifest")
    before = sorted((other / "wal").iterdir())
    wrong = SlateStore.open(str(tmp_path / "t"), walPath=str(other))
    match = "database" if has_manifests else "WAL"
    for dry_run in (True, False):
        with pytest.raises(InvalidRequestError, match=match):
            wrong.vacuum("0s", force=True, dryRun=dry_run, fences=True)
    assert sorted((other / "wal").iterdir()) == before
    assert elsewhere.vacuum("0s", force=True, fences=True).counts["wal"] == 7
    with pytest.raises(InvalidRequestError, match="walPath"):
        SlateStore.open(str(tmp_path / "t")).vacuum("0s", force=True)


def test_an_empty_wal(tmp_path: Path) -> None:
    with Client.open(Location.local(tmp_path / "db")):
        pass
    (tmp_path / "db" / "wal").rename(tmp_path / "wal")
    table = SlateStore.open(str(tmp_path / "db"), walPath=str(tmp_path))
    table.vacuum("0s", force=True)
    table.write(table_of([(b"a", b"x")]), ifClientActive="fence")
    clone = table.clone(str(tmp_path / "clone"))
    clone.vacuum("0s", force=True)
    SlateStore.open(str(tmp_path / "clone"), walPath=str(tmp_path / "nothing yet")).vacuum("0s", force=True)
    (tmp_path / wal_path(fetch_latest_manifest(table._stores)[1].replay_after_wal_id)).unlink()
    with pytest.raises(InvalidRequestError, match="WAL"):
        table.vacuum("0s", force=True)


def test_a_claim_stays_whose_manifest_came_while_manifests_were_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place()
    place.write(b"a")
    listing, written, listings = MemoryStore.list, list[int](), itertools.count(1)

    def listed_before(store: MemoryStore, prefix: str, start_after: str = "") -> Sequence[ObjectMeta]:
        found = listing(store, prefix, start_after)
        if prefix == MANIFEST_DIR and not start_after and next(listings) == 2:  # the last one that decides
            monkeypatch.undo()
            written.append(place.write(b"b"))
        return found

    monkeypatch.setattr(MemoryStore, "list", listed_before)
    place.vacuum("0s")
    [latest] = written
    claim = latest - 1
    assert place.store.get(manifest_path(claim))
    assert [meta for meta in place.store.list("slatespark/claims/") if f"{claim:020}" in meta.path]


def test_claims_and_batched_records_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_batches, "BATCH_RECORDS", 10)
    place = Place()
    versions = [place.write(b"k%d" % (number % 3)) for number in range(13)]
    place.table.createCheckpoint("of a version in the batch", version=versions[4])
    place.clock.advance(2 * HOUR_MS)
    before = place.table.history()
    report = place.vacuum()
    kept = [number for number in list_manifests(place.stores) if number in versions]
    assert report.counts["claim"] == 13 - len(place.store.list("slatespark/claims/"))
    assert report.counts["commit record"] == 9
    assert versions[4] in list_numbered(place.store, COMMITS_DIR), "a version that is kept has a record of its own"
    place.write(b"later")
    place.vacuum()
    known = {version.version: version for version in before}
    assert [version for version in place.table.history() if version.version in kept] == [
        known[n] for n in sorted(kept, reverse=True)
    ]
    assert place.table.verify().findings == ()


def test_small_batches_are_deleted_once_a_large_one_has_their_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_batches, "BATCH_RECORDS", 10)
    monkeypatch.setattr(commit_batches, "SMALL_BATCH_RECORDS", 2)
    place = Place()
    for number in range(16):
        place.write(b"k%d" % (number % 3))
    before = {version.version: version for version in place.table.history()}
    [large] = [path for path in place.batches() if not path.endswith(SMALL_SUFFIX)]
    small = {path for path in place.batches() if path.endswith(SMALL_SUFFIX)}
    unused = {path for path in small if path < large}
    assert 0 < len(unused) < len(small)
    place.vacuum()
    assert small < place.batches(), "they are young"
    place.clock.advance(2 * HOUR_MS)
    place.vacuum()
    assert small - place.batches() == unused
    assert all(version == before[version.version] for version in place.table.history() if version.version in before)


def test_a_record_must_be_in_the_batch_that_readers_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of two writers may overlap; a copy in a batch that readers do not use does not count."""
    store, rival = (FailingStore(MemoryStore(f"gc-run-{next(_names)}")) for _ in range(2))
    for place, numbers, together in ((store, (10, 20, 30, 40, 55, 60), 3), (rival, (50, 60, 65, 70), 4)):
        monkeypatch.setattr(commit_batches, "BATCH_RECORDS", together)
        for number in numbers:
            place.put(f"{COMMITS_DIR}{number:020d}.json", [_record_of(number)])
        batch_commit_records(place)
    store.put(f"{BATCHES_DIR}{70:020d}.json", [rival.get(f"{BATCHES_DIR}{70:020d}.json")])
    stores = stores_of(store)
    for wanted, path, found in (
        (15, 30, {10, 20, 30}),
        (30, 30, {10, 20, 30}),
        (50, 60, {40, 55, 60}),
        (65, 70, {65, 70}),
    ):
        store.calls.clear()
        assert batched_numbers(stores, list_batches(store), {wanted}) == found
        assert [call.path[-7:] for call in store.calls if call.operation == "get"] == [f"{path}.json"]
    assert batched_numbers(stores, list_batches(store), {71}) == set()


def _record_of(number: int) -> bytes:
    store = MemoryStore(f"gc-run-{next(_names)}")
    publish_commit_record(store, CommitRecord(number, "write", "a" * 16, "slatespark", number, 0, None, None))
    return bytes(store.get(store.list(COMMITS_DIR)[0].path))


def test_a_history_table_keeps_its_proof_versions() -> None:
    place = Place(history=True)
    times = pa.array([1000], pa.timestamp("us"))
    rows = table_of([(b"a", b"x")]).append_column("at", times)
    place.table.write(rows, timestampColumn="at")
    job = Job(place.store, place.clock)  # it ends right after its claim
    latest_id, latest = fetch_latest_manifest(place.stores)
    claim_epochs(place.stores, place.clock, Version(latest_id, latest), write_id=job.plan.write_id, attempt=0)
    place.table.createCheckpoint("newer")
    place.clock.advance(50 * HOUR_MS)
    report = place.vacuum()
    assert "proves" in place.reason(report, manifest_path(latest_id))
    assert place.table.scan(timestampAsOf=2000).read_all().num_rows == 1


def test_foreign_objects_are_kept() -> None:
    place = Place()
    place.write(b"a")
    names = ["compacted/README", "compacted/x.sst", "wal/notes.txt", "compactions/x", "slatespark/leases/readme"]
    for name in names:
        place.store.put(name, [b"x"])
    place.clock.advance(50 * HOUR_MS)
    assert actions(place.vacuum("0s", fences=True), names) == ["kept"] * len(names)
    assert all(place.store.get(name) == b"x" for name in names)
