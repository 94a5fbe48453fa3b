"""Erasing keys: they are gone from every object, and the report names whatever still holds a copy, and until when."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from slatespark import CommitConflictError, HistoryTrimmedError, InvalidRequestError, OptionError, SlateStore
from slatespark.format.compactions import Compaction, CompactionStatus, TieredSpec, WorkerSpec
from slatespark.format.paths import COMPACTED_DIR
from slatespark.format.ulid import Ulid
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.log.compactions import create_compactions, fetch_compactions
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.log.versioned_object import Version
from tests.faults.jobs import Job, store_on, table_of
from tests.support.client import Client, Location, Put
from tests.support.fake_clock import FakeClock

MINUTE_MS: Final = 60_000
SCHEMA: Final = pa.schema([("person", pa.string()), ("day", pa.int32()), ("value", pa.string())])
ALICE, BOB = "alice-in-the-clear", "bob-in-the-clear"
_names = itertools.count()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def table(clock: FakeClock) -> SlateStore:
    """Two persons over ten days, in three layers: values of all days, of some, and a deletion."""
    url = f"memory://erase-{next(_names)}/db"
    store = SlateStore.create(url, SCHEMA, "person,day", clock=clock, versionRetention="none", autoCompact=False)
    store.write(rows(range(10)))
    store.write(rows(range(3, 6), "new"))
    store.delete(f"person = '{ALICE}' AND day = 7")
    return store


def rows(days: range, value: str = "old", persons: tuple[str, ...] = (ALICE, BOB)) -> pa.Table:
    given = [{"person": person, "day": day, "value": f"{value} of {person}"} for person in persons for day in days]
    return pa.Table.from_pylist(given, SCHEMA)


def shown(store: SlateStore, **options: Any) -> list[tuple[str, int, str]]:
    return [(row["person"], row["day"], row["value"]) for row in store.scan(**options).read_all().to_pylist()]


def objects_with(store: SlateStore, text: str) -> list[str]:
    """The objects of a table that hold a text, as it is or in hexadecimal, found without slatespark."""
    main = store._stores.main
    if isinstance(main, MemoryStore):
        objects = {path: data for path, (data, _) in main._bucket.objects.items()}
    else:
        paths = Path(store.url.removeprefix("file://")).rglob("*")
        objects = {str(path): path.read_bytes() for path in paths if path.is_file()}
    wanted = text.encode(), text.encode().hex().encode()
    return sorted(path for path, data in objects.items() if any(each in data for each in wanted))


# --- gone -----------------------------------------------------------------------------------------------------------


def test_a_key_is_gone_and_no_other(table: SlateStore) -> None:
    before = shown(table)
    report = table.erase(ALICE, 4)
    assert report.gone
    assert report.found == ()
    assert report.erasure is not None
    assert report.erasure.removed.rows == 2
    assert shown(table) == [row for row in before if row[:2] != (ALICE, 4)]
    assert not table.verify().has_damage


def test_nothing_names_a_person_any_more(table: SlateStore) -> None:
    table.deleteRange(f"person = '{ALICE}' AND day = 2")
    table.deleteRange(f"person > '{ALICE}' AND person < '{BOB}' OR person > '{BOB}'")
    table.compact(full=True)
    table.deleteRange(f"person = '{ALICE}' AND day < 2")
    assert objects_with(table, ALICE)
    others = [row for row in shown(table) if row[0] != ALICE]
    report = table.erase(where=f"person = '{ALICE}'", releaseVersions=True)
    assert report.gone
    assert objects_with(table, ALICE) == []
    assert shown(table) == others
    assert objects_with(table, BOB)


def test_deleted_and_hidden_rows_go_with_their_tombstones(table: SlateStore) -> None:
    table.delete(f"person = '{ALICE}'")
    table.write(rows(range(20, 21)), mode="overwrite", replaceWhere=f"person = '{ALICE}' OR person = '{BOB}'")
    assert not table.proveAbsent(ALICE, 7).gone
    assert table.erase(ALICE, 7).gone
    assert shown(table) == [(ALICE, 20, f"old of {ALICE}"), (BOB, 20, f"old of {BOB}")]


def test_a_tombstone_alone_goes(table: SlateStore) -> None:
    """What it hid must not come back: it is erased in all layers at once."""
    report = table.erase(ALICE, 7)
    assert report.gone
    assert report.erasure is not None
    assert report.erasure.removed.rows == 2
    assert (ALICE, 7) not in [row[:2] for row in shown(table)]


def test_keys_are_no_mapping(table: SlateStore) -> None:
    before = shown(table)
    with pytest.raises(InvalidRequestError):
        table.erase(keys={"person": ALICE, "day": 1})
    assert shown(table) == before


@pytest.mark.parametrize("how", ["overwrite", "deleteRange"])
def test_the_log_still_refuses_a_replaced_range_whose_bounds_are_forgotten(clock: FakeClock, how: str) -> None:
    store = SlateStore.create(f"memory://erase-{next(_names)}/db", clock=clock)
    store.write(table_of([(b"a", b"1"), (b"b", b"1"), (b"b2", b"1")]))
    first = store.createCheckpoint("before").version
    if how == "overwrite":
        store.write(table_of([]), mode="overwrite", startKey=b"b", endKey=b"c")
    else:
        store.deleteRange(startKey=b"b", endKey=b"c")
    last = store.createCheckpoint("after").version

    def refused() -> None:
        with pytest.raises(HistoryTrimmedError):
            store.changes(
                changes="log", startingVersion=first, startingBoundInclusive=False, endingVersion=last
            ).read_all()

    refused()
    store.erase(b"b")
    refused()


def test_several_keys(table: SlateStore) -> None:
    before = shown(table)
    keys = pa.table({"day": [1, 2], "person": [ALICE, BOB], "more": ["x", "y"]})
    assert table.erase(keys=keys).gone
    assert table.erase(keys=[(ALICE, 3), [ALICE, 4], (ALICE, 99)]).gone
    gone = {(ALICE, 1), (BOB, 2), (ALICE, 3), (ALICE, 4)}
    assert shown(table) == [row for row in before if row[:2] not in gone]
    assert table.proveAbsent(keys=sorted(gone)).gone
    assert not table.proveAbsent(keys=[*gone, (BOB, 1)]).gone


def test_a_key_that_never_was(table: SlateStore) -> None:
    version = table.resolve().version
    report = table.erase("nobody", 1)
    assert report.gone
    assert report.erasure is not None
    assert report.erasure.removed.version is None
    assert table.resolve().version == version
    assert table.erase(keys=[]).gone


def test_only_files_with_the_keys_are_rewritten(clock: FakeClock) -> None:
    url = f"memory://erase-{next(_names)}"
    store = SlateStore.create(url, SCHEMA, "person,day", clock=clock, versionRetention="none", autoCompact=False)
    for number in range(8):  # neighbours overlap, so the keys of most files enclose those of some others
        store.write(rows(range(number, number + 20, 7), persons=(ALICE, BOB)))
    before = {file.id for file in store.files()}
    report = store.erase(keys=[(ALICE, 3), (ALICE, 10)])
    assert report.gone
    assert report.erasure is not None
    assert report.erasure.removed.files_in == 1 == len(before - {file.id for file in store.files()})


def test_sequence_numbers_and_times_of_others_stay(table: SlateStore) -> None:
    def all_versions() -> list[dict[str, Any]]:
        read = table.scan(readVersions="all", metadataColumns="true").read_all().to_pylist()
        return [row for row in read if (row["person"], row["day"]) != (BOB, 4)]

    before = all_versions()
    table.erase(BOB, 4)
    assert all_versions() == before


def test_rows_of_the_wal(tmp_path: Path) -> None:
    location = Location.local(tmp_path / "db")
    with Client.open(location) as client:
        client.write([Put(b"a", b"1"), Put(b"secret", b"1"), Put(b"z", b"1")])
        client.flush_wal()
    store = SlateStore.open(str(tmp_path / "db"))
    report = store.erase(b"secret")
    assert report.gone
    assert report.erasure is not None
    assert report.erasure.removed.rows == 1
    assert objects_with(store, "secret") == []
    with Client.open(location) as client:
        assert [row.key for row in client.scan()] == [b"a", b"z"]


def test_a_wal_file_that_is_flushed_already(tmp_path: Path) -> None:
    """Replay starts behind it, so a vacuum keeps it until a commit moves the start."""
    with Client.open(Location.local(tmp_path / "db")) as client:
        client.write([Put(b"secret", b"1")])
        client.flush_memtable()
    store = SlateStore.open(str(tmp_path / "db"))
    assert {place.kind for place in store.proveAbsent(b"secret").found if place.rows} == {"sst", "wal"}
    assert store.erase(b"secret").gone


def test_operands_of_a_raw_table(clock: FakeClock) -> None:
    store = SlateStore.create(f"memory://erase-{next(_names)}", clock=clock, autoCompact=False)
    store.write(table_of([(b"a", b"1"), (b"b", b"1")]))
    store.write(table_of([(b"a", b"2"), (b"b", b"2")]), operation="merge")
    assert store.erase(b"a", releaseVersions=True).gone
    assert [row["value"] for row in store.scan(mergeOperator="concat").read_all().to_pylist()] == [b"12"]


def test_a_table_with_its_own_clock() -> None:
    store = SlateStore.create(f"memory://erase-{next(_names)}", clock="custom", versionRetention="none")
    store.write(table_of([(b"a", b"1"), (b"b", b"1")]), timestamp=7)
    assert store.erase(b"a").gone
    assert store.resolve().now_ms == 7


def test_compactions_at_work_are_not_forgotten(table: SlateStore, clock: FakeClock) -> None:
    handle, *_ = fetch_latest_manifest(table._stores)[1].ssts.values()
    table.erase(where=f"person = '{ALICE}'")
    spec, worker = TieredSpec((), (0,), 0), WorkerSpec("a client's", clock.now_ms())
    running = Compaction(handle.id, spec, CompactionStatus.RUNNING, worker=worker)
    scheduled = Compaction(Ulid(handle.id.value + 1), spec, CompactionStatus.SCHEDULED)
    ended = Compaction(Ulid(handle.id.value + 2), spec, CompactionStatus.FAILED, output_ssts=(handle,))
    number, listed = fetch_compactions(table._stores)
    jobs = (running, scheduled, ended)
    create_compactions(table._stores, Version(number + 1, replace(listed, jobs=jobs)))
    assert "compactions" in {place.kind for place in table.proveAbsent(where=f"person = '{ALICE}'").found}
    table.erase(where=f"person = '{ALICE}'")
    assert fetch_compactions(table._stores).value.jobs == (running, scheduled)


def test_finished_compactions_are_forgotten(table: SlateStore, clock: FakeClock) -> None:
    table.compact(full=True)
    (job,) = fetch_compactions(table._stores).value.jobs
    assert job.output_ssts
    assert "compactions" in {place.kind for place in table.proveAbsent(ALICE, 0).found}, "it is the first key"
    clock.advance(20 * MINUTE_MS)  # past the version that the compaction keeps
    assert table.erase(ALICE, 0).gone
    assert fetch_compactions(table._stores).value.jobs == ()


def test_what_a_commit_replaced_is_no_longer_in_its_record(table: SlateStore) -> None:
    table.deleteRange(f"person = '{ALICE}' AND day = 2 OR person = '{BOB}' AND day = 2")
    version = table.resolve().version
    assert table.erase(ALICE, 2).gone
    assert [fact.operation for fact in table.history() if fact.version == version] == []
    assert "commit record" in {place.kind for place in table.proveAbsent(BOB, 2).found}, "only hers was forgotten"


# --- kept -----------------------------------------------------------------------------------------------------------


def test_a_checkpoint_is_named_with_its_end(table: SlateStore, clock: FakeClock) -> None:
    table.createCheckpoint("mine", lifetime="1h")
    report = table.erase(ALICE, 4)
    assert not report.gone
    assert {place.checkpoints for place in report.found} == {("mine",)}
    assert not any(place.is_current for place in report.found)
    assert {place.until_ms for place in report.found} == {report.until_ms}
    assert report.until_ms is not None
    clock.advance(report.until_ms - clock.now_ms() - 1)
    assert not table.erase(ALICE, 4).gone
    clock.advance(1)
    assert table.erase(ALICE, 4).gone


def test_a_checkpoint_for_ever_is_not_released(table: SlateStore) -> None:
    table.createCheckpoint("for ever")
    report = table.erase(ALICE, 4, releaseVersions=True)
    assert {place.until_ms for place in report.found} == {None} == {report.until_ms}
    assert all(place.is_kept and "for ever keeps it" in place.reason for place in report.found)


def test_replaced_versions_are_named_or_released(clock: FakeClock) -> None:
    url = f"memory://erase-{next(_names)}"
    store = SlateStore.create(url, SCHEMA, "person,day", clock=clock, versionRetention="7d", autoCompact=False)
    store.write(rows(range(5)))
    first = store.resolve().version
    store.write(rows(range(5, 9)))
    report = store.erase(ALICE, 6)
    assert {version for place in report.found for version in place.versions} == {first + 2}
    assert report.until_ms is not None
    assert abs(report.until_ms - clock.now_ms() - 7 * 24 * 60 * MINUTE_MS) < MINUTE_MS
    assert shown(store, versionAsOf=first + 2), "it stays readable until then"
    report = store.erase(ALICE, 6, releaseVersions=True)
    assert report.gone
    assert report.erasure is not None
    assert [point.version for point in report.erasure.released] == [first + 2]
    assert len(shown(store, versionAsOf=first)) == 10, "it never held a copy"


def test_a_running_job_is_named_until_its_lease_ends(table: SlateStore, clock: FakeClock) -> None:
    job = Job(table._stores.main, clock)
    job.upload(table_of([(table.definition.codec().encode_key((ALICE, 4)), b"")]))
    clock.advance(MINUTE_MS)
    report = table.erase(ALICE, 4)
    unpublished = [place for place in report.found if not place.versions]
    assert len(unpublished) == 1
    assert "is running and may publish it" in unpublished[0].reason
    assert report.until_ms is not None
    assert report.until_ms > clock.now_ms()


def test_the_other_database_of_a_clone(table: SlateStore, clock: FakeClock) -> None:
    clone = table.clone(f"{table.url.removesuffix('/db')}/clone")
    parents = shown(table)
    assert clone.erase(ALICE, 4).gone
    assert shown(table) == parents
    report = table.erase(ALICE, 4)
    assert not report.gone, "the clone may read it"
    pin, name = sorted({name for place in report.found for name in place.checkpoints}, reverse=True)
    assert (pin, name) == ("slatespark/pin", "slatespark/clone/clone")
    clock.advance(6 * MINUTE_MS)
    table.deleteCheckpoint(name)
    assert table.erase(ALICE, 4).gone
    assert shown(clone) == shown(table)


def test_what_a_clone_borrows_is_found(table: SlateStore) -> None:
    clone = table.clone(f"{table.url.removesuffix('/db')}/clone")
    clone.createCheckpoint("mine")
    report = clone.erase(ALICE, 4)
    rows_at = [place for place in report.found if place.rows]
    assert rows_at
    assert all(place.url.startswith(f"{table.url}/{COMPACTED_DIR}") and place.is_kept for place in rows_at)


# --- refused --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"where": "person = 'a'", "keys": [("a", 1)]},
        {"keys": "alice"},
        {"keys": [("alice",)]},
        {"keys": pa.table({"person": ["a"]})},
        {"keys": [("alice", "today")]},
        {"where": "value = 'a'"},
        {"keyPrefix": b"a"},
        {"keys": [("a", 1)], "txnAppId": "app", "txnVersion": 1},
        {"keys": [("a", 1)], "ifClientActive": "cooperate"},
    ],
)
def test_refused(given: dict[str, Any], table: SlateStore) -> None:
    version = table.resolve().version
    with pytest.raises(InvalidRequestError):
        table.erase(**given)
    assert table.resolve().version == version


def test_a_key_and_a_range(table: SlateStore) -> None:
    with pytest.raises(OptionError):
        table.erase(ALICE, 1, where=f"person = '{ALICE}'")


def test_an_open_client_is_not_fenced(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "db"), versionRetention="none")
    store.write(table_of([(b"a", b"1"), (b"b", b"1")]))
    original = store._stores.main.put

    with Client.open(Location.local(tmp_path / "db")) as client:
        client.write([Put(b"c", b"1")])

        def write_while_files_are_uploaded(path: str, parts: Any) -> None:
            original(path, parts)
            if path.startswith(COMPACTED_DIR):
                client.write([Put(b"d", b"1")])
                client.flush_wal()

        object.__setattr__(store._stores.main, "put", write_while_files_are_uploaded)
        with pytest.raises(CommitConflictError):
            store.erase(b"a")
        client.write([Put(b"e", b"1")])
    assert store_on(store._stores.main, FakeClock()).get(b"a") is not None
