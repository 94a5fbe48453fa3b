"""Copies of tables: what they have of the original, which places are refused, and what a copy that dies leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import (
    ConflictError,
    CorruptDataError,
    HistoryTrimmedError,
    InvalidRequestError,
    OptionError,
    SlateStore,
    TableExistsError,
    UnavailableError,
    UnsupportedFormatError,
)
from slatespark.format.manifest import Manifest
from slatespark.format.manifest_codec import encode_manifest
from slatespark.format.paths import manifest_path, sst_path
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.clock import SystemClock
from slatespark.table.definition.versions import fetch_definition
from slatespark.table.gc.run import vacuum_table
from slatespark.table.log.manifests import fetch_latest_manifest, find_latest_manifest
from slatespark.table.records.commits import fetch_commit_record
from slatespark.table.stores import TableStores
from slatespark.table.write.deep_copy import HOLD_MS, RENEW_MS, copy_table
from tests.faults.jobs import store_on, stores_of, table_of
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock
from tests.unit.table.write.original import Original, rows


@pytest.fixture
def original() -> Original:
    return Original(b"a")


def everything(stores: TableStores) -> set[str]:
    folders = ("manifest/", "wal/", "compacted/", "compactions/", "gc/", "slatespark/leases/", "slatespark/table/")
    return {meta.path for folder in folders for meta in stores.main.list(folder)}


def test_the_copy_depends_on_nothing(original: Original) -> None:
    copy = original.table.copyTo(original.at("c"))
    number, made = fetch_latest_manifest(original.of("c"))
    source = fetch_latest_manifest(original.stores)[1]
    assert (number, made.external_dbs, made.checkpoints, made.l0) == (1, (), (), ())
    assert (made.replay_after_wal_id, made.wal_id_last_seen) == (0, 0)
    assert (made.last_l0_seq, made.last_l0_clock_tick) == (source.last_l0_seq + 1, source.last_l0_clock_tick)
    assert made.sequence_tracker == source.sequence_tracker
    for path in everything(original.stores):
        original.stores.main.delete(path)
    assert rows(copy) == {b"a": b"3", b"b": b"2"}
    assert copy.verify().findings == ()
    copy.write(table_of([(b"c", b"4")]))
    assert rows(copy) == {b"a": b"3", b"b": b"2", b"c": b"4"}


def test_a_copy_that_is_done_leaves_no_trace_of_its_work(original: Original) -> None:
    names = [point.name for point in original.table.checkpoints()]
    original.table.copyTo(original.at("c"))
    assert [point.name for point in original.table.checkpoints()] == names
    assert original.of("c").main.list("slatespark/leases/") == []
    facts = original.table.copyTo(original.at("d")).history()[0]
    assert (facts.version, facts.operation, facts.engine) == (1, "copy", "slatespark")


def test_its_record_has_the_properties_of_its_files(original: Original) -> None:
    original.table.copyTo(original.at("c"))
    manifest = fetch_latest_manifest(original.of("c"))[1]
    record = fetch_commit_record(original.of("c").main, 1)
    assert record is not None
    assert set(record.files) == {str(sst_id) for sst_id in manifest.ssts}


def test_versions_times_and_checkpoints(original: Original) -> None:
    made = original.table.createCheckpoint("x", version=original.first)
    before = original.table.history()[0].version
    time_ms = next(facts.committed_ms for facts in original.table.history() if facts.version == original.second)
    assert time_ms is not None
    for name, options, expected in (
        ("v", {"versionAsOf": original.first}, {b"a": b"1"}),
        ("t", {"timestampAsOf": time_ms}, {b"a": b"1", b"b": b"2"}),
        ("n", {"checkpoint": "x"}, {b"a": b"1"}),
        ("i", {"checkpoint": made.id}, {b"a": b"1"}),
    ):
        assert rows(original.table.copyTo(original.at(name), **options)) == expected, name
    kept = original.table.copyTo(original.at("k"), versionAsOf=original.first)
    assert rows(kept) == {b"a": b"1"}
    assert original.table.history()[0].version == before + 2, "a lasting checkpoint spares the copy its own"


def test_unknown_versions(original: Original) -> None:
    with pytest.raises(InvalidRequestError, match="'x'"):
        original.table.copyTo(original.at("c"), checkpoint="x")
    with pytest.raises(InvalidRequestError, match="99"):
        original.table.copyTo(original.at("c"), versionAsOf=99)
    with pytest.raises(OptionError, match="both"):
        original.table.copyTo(original.at("c"), versionAsOf=1, checkpoint="x")
    with pytest.raises(HistoryTrimmedError):
        original.table.copyTo(original.at("c"), timestampAsOf=1)
    with pytest.raises(OptionError, match="walPath"):
        original.table.copyTo(original.at("c"), storage={"walPath": "x"})
    assert everything(original.of("c")) == set()
    original.of("half").main.put(manifest_path(1), [encode_manifest(Manifest(initialized=False))])
    with pytest.raises(UnsupportedFormatError, match="clone"):
        SlateStore.open(original.at("half")).copyTo(original.at("c"))


def test_a_typed_history_table_keeps_its_definition_and_floor(original: Original) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    table = SlateStore.create(original.at("typed"), schema, "id", clock="custom", history="true", holdHistory="true")
    for time in (1 << 50, (1 << 50) + 10, (1 << 50) + 20):  # far in the future of any clock of a machine
        table.write(pa.table({"id": [1], "name": [f"at {time}"]}, schema), timestamp=time)
    early = table.history()[0].version
    table.setHistoryFloor((1 << 50) + 15)
    table.write(pa.table({"id": [2], "name": ["x"]}, schema), timestamp=(1 << 50) + 30)
    copy, old = table.copyTo(original.at("copy")), table.copyTo(original.at("old"), versionAsOf=early)
    assert copy.definition.properties == table.definition.properties
    assert (copy.definition.schema, copy.definition.key_columns) == (schema, ("id",))
    assert (copy.detail().history_floors, table.detail().history_floors) == (table.detail().history_floors,) * 2
    assert copy.get(1, timestampAsOf=(1 << 50) + 15) == {"id": 1, "name": f"at {(1 << 50) + 10}"}
    with pytest.raises(HistoryTrimmedError):
        copy.get(1, timestampAsOf=(1 << 50) + 5)
    assert old.get(1, timestampAsOf=(1 << 50) + 5) == {"id": 1, "name": f"at {1 << 50}"}
    copy.write(pa.table({"id": [1], "name": ["y"]}, schema), timestamp=(1 << 50) + 40)
    assert copy.get(1) == {"id": 1, "name": "y"}
    assert original.of("old").main.list("compactions/"), "clients' schedulers are kept off from the beginning"


def test_a_copy_of_a_clone_has_the_files_of_its_parent(original: Original) -> None:
    clone = original.table.clone(original.at("clone"))
    clone.write(table_of([(b"c", b"5")]))
    copy = clone.copyTo(original.at("c"))
    assert fetch_latest_manifest(original.of("c"))[1].external_dbs == ()
    for name in ("p", "clone"):
        for path in everything(original.of(name)):
            original.of(name).main.delete(path)
    assert rows(copy) == {b"a": b"3", b"b": b"2", b"c": b"5"}


def test_a_copy_of_the_first_version_of_a_clone_is_a_table(original: Original) -> None:
    copy = original.table.clone(original.at("clone")).copyTo(original.at("c"), versionAsOf=1)
    assert fetch_latest_manifest(original.of("c"))[1].initialized
    copy.write(table_of([(b"c", b"5")]))
    assert rows(copy)[b"c"] == b"5"


def test_a_wal_apart_comes_home(tmp_path: Path) -> None:
    table = SlateStore.create(str(tmp_path / "p"), walPath=str(tmp_path / "logs"))
    table.write(table_of([(b"a", b"1")]))
    copy = table.copyTo(tmp_path / "c")
    copy.write(table_of([(b"b", b"2")]))
    assert rows(SlateStore.open(str(tmp_path / "c"))) == {b"a": b"1", b"b": b"2"}
    assert {path.name for path in (tmp_path / "c").iterdir()} >= {"manifest", "wal", "compacted"}


def test_the_files_are_no_links(tmp_path: Path) -> None:
    table = SlateStore.create(str(tmp_path / "p"))
    table.write(table_of([(b"a", b"1")]))
    table.copyTo(tmp_path / "c")
    (made,) = (tmp_path / "c" / "compacted").iterdir()
    assert made.stat().st_nlink == 1


def test_an_empty_table(original: Original) -> None:
    assert rows(SlateStore.create(original.at("empty")).copyTo(original.at("c"))) == {}


def test_occupied_targets_are_refused(original: Original) -> None:
    original.table.copyTo(original.at("c"))
    for name in ("c", "p"):
        with pytest.raises(TableExistsError):
            original.table.copyTo(original.at(name))
    for number, path in enumerate(
        ("wal/00000000000000000007.sst", "compacted/x", "gc/manifest.boundary", "slatespark/claims/x.json", "notes.txt")
    ):
        original.of(f"full{number}").main.put(path, [b"x"])
        with pytest.raises(InvalidRequestError, match=path):
            original.table.copyTo(original.at(f"full{number}"))
    original.of("going").main.put(".deleting", [b""])
    with pytest.raises(InvalidRequestError, match="dropped"):
        original.table.copyTo(original.at("going"))
    for name in ("p/inside", "."):
        with pytest.raises(InvalidRequestError, match="within"):
            original.table.copyTo(original.at(name).removesuffix("/."))


@pytest.mark.parametrize("storage", [5, [], "key=a", {1: 2}, {None: "a"}], ids=str)
def test_storage_that_is_no_options(original: Original, storage: Any) -> None:
    with pytest.raises(OptionError, match="storage"):
        original.table.copyTo(original.at("c"), storage=storage)
    assert list(original.of("c").main.list_below("slatespark/")) == []


def test_the_first_of_two_copies_wins(original: Original) -> None:
    inner = MemoryStore(original.at("c").removeprefix("memory://"))

    def overtake() -> None:
        inner.create(manifest_path(1), encode_manifest(Manifest()))

    target = FailingStore(inner).run(overtake, "create", manifest_path(1))
    with pytest.raises(TableExistsError):
        copy_table(original.stores, SystemClock(), stores_of(target))


@pytest.mark.parametrize("is_typed", [True, False])
def test_a_table_that_is_created_meanwhile_keeps_its_definition(original: Original, is_typed: bool) -> None:
    """A copy takes long. The lease of a creator is gone by the end, and a client puts no definition at all."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    table = SlateStore.create(original.at("typed"), schema, "id", retention="1d")
    table.write(pa.table({"id": [1], "name": ["x"]}, schema))
    inner = MemoryStore(original.at("c").removeprefix("memory://"))

    def create() -> None:
        if is_typed:
            SlateStore.create(original.at("c"), schema, "id", defaultTtl="2d")
        else:
            inner.create(manifest_path(1), encode_manifest(Manifest()))

    target = FailingStore(inner).run(create, "put", "compacted/*")
    with pytest.raises(TableExistsError):
        copy_table(original.of("typed"), SystemClock(), stores_of(target))
    newest, definition = fetch_definition(original.of("c"))
    assert newest == (1 if is_typed else 0)
    assert "retention" not in definition.properties


# --- failures -------------------------------------------------------------------------------------------------------

STEPS = [("put", "compacted/*", 1), ("put", "compacted/*", 2), ("put", "compacted/*", 3), ("create", "manifest/*", 1)]


@pytest.mark.parametrize("step", STEPS)
def test_a_copy_that_fails_leaves_no_table_and_can_be_repeated(original: Original, step: tuple[str, str, int]) -> None:
    operation, path, nth = step
    names = [point.name for point in original.table.checkpoints()]
    inner = MemoryStore(original.at("c").removeprefix("memory://"))
    target = FailingStore(inner).fail(operation, path, nth=nth)  # type: ignore[arg-type]
    with pytest.raises(UnavailableError):
        copy_table(original.stores, SystemClock(), stores_of(target))
    assert find_latest_manifest(stores_of(inner)) is None
    assert [point.name for point in original.table.checkpoints()] == names
    found = {meta.path for meta in inner.list("compacted/")}
    target.clear()
    copy_table(original.stores, SystemClock(), stores_of(target))
    assert rows(store_on(inner)) == {b"a": b"3", b"b": b"2"}
    sources = {sst_path(sst_id) for sst_id in fetch_latest_manifest(original.stores)[1].ssts}
    assert not {call.path for call in target.matching("put")} & found & sources, "what is there is not copied again"


def test_what_a_killed_copy_leaves_is_taken_up_or_removed(original: Original, tmp_path: Path) -> None:
    """A killed process deletes neither lease nor checkpoint: here another process sees it right before manifest 1."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    table = SlateStore.create(original.at("typed"), schema, "id")
    table.write(pa.table({"id": [1]}, schema))
    stores = original.of("typed")
    left: dict[str, bytes] = {}

    def remember() -> None:
        left.update({path: bytes(original.of("c").main.get(path)) for path in everything(original.of("c"))})

    inner = MemoryStore(original.at("c").removeprefix("memory://"))
    copy_table(stores, SystemClock(), stores_of(FailingStore(inner).run(remember, "create", manifest_path(1))))
    assert {path.partition("/")[0] for path in left} == {"compacted", "slatespark"}
    for name in ("again", "other"):
        for path, data in left.items():
            original.of(name).main.put(path, [data])
    again = table.copyTo(original.at("again"))
    assert again.scan().read_all().to_pylist() == [{"id": 1}]
    table.setProperties(defaultTtl="1d")  # another definition, while the lease of the dead copy lasts
    with pytest.raises(TableExistsError, match="another job"):
        table.copyTo(original.at("other"))
    clock = FakeClock(SystemClock().now_ms() + 2 * HOLD_MS)
    copy_table(stores, clock, original.of("other"))
    assert fetch_definition(original.of("other")).value.properties["defaultTtl"] == "1d"


def leave_files(original: Original, clock: FakeClock, name: str = "p") -> MemoryStore:
    """A copy that fails before its manifest, two days ago."""
    inner = MemoryStore(original.at("c").removeprefix("memory://"), clock.now_ms)
    with pytest.raises(UnavailableError):
        copy_table(original.of(name), clock, stores_of(FailingStore(inner).fail("create", "manifest/*")))
    clock.advance(2 * HOLD_MS)
    return inner


def test_a_vacuum_keeps_the_files_that_a_running_copy_takes_up(original: Original) -> None:
    """They are older than its lease."""
    clock = FakeClock(SystemClock().now_ms())
    inner = leave_files(original, clock)
    target = FailingStore(inner).run(lambda: vacuum_table(stores_of(inner), clock), "put", "compacted/*")
    target.run(lambda: vacuum_table(stores_of(inner), clock, min_age_ms=0), "create", "manifest/*")
    copy_table(original.stores, clock, stores_of(target))
    assert store_on(inner).verify().findings == ()
    assert rows(store_on(inner)) == {b"a": b"3", b"b": b"2"}


def test_a_vacuum_that_began_before_a_copy_cannot_damage_it(original: Original) -> None:
    clock = FakeClock(SystemClock().now_ms())
    inner = leave_files(original, clock)

    def remove() -> None:
        for meta in inner.list("compacted/"):
            inner.delete(meta.path)

    target = FailingStore(inner).run(remove, "put", "compacted/*")
    with pytest.raises(ConflictError, match="vacuum"):
        copy_table(original.stores, clock, stores_of(target))
    assert find_latest_manifest(stores_of(inner)) is None
    copy_table(original.stores, clock, stores_of(inner))
    assert rows(store_on(inner)) == {b"a": b"3", b"b": b"2"}


def test_a_vacuum_that_began_before_a_copy_leaves_it_its_definition(original: Original) -> None:
    """It may remove that of a copy which died, as late as right before the manifest."""
    clock = FakeClock(SystemClock().now_ms())
    SlateStore.create(original.at("typed"), "id BIGINT, name STRING", "id")
    inner = leave_files(original, clock, "typed")
    (left,) = [meta.path for meta in inner.list("slatespark/table/")]
    target = FailingStore(inner).run(lambda: inner.delete(left), "create", "manifest/*")
    copy_table(original.of("typed"), clock, stores_of(target))
    assert store_on(inner).definition.key_columns == ("id",)


def test_the_definition_of_another_table_is_in_the_way(original: Original) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    SlateStore.create(original.at("typed"), schema, "id")
    path = "slatespark/table/00000000000000000001.json"
    original.of("c").main.put(path, [original.of("typed").main.get(path)])
    with pytest.raises(TableExistsError, match="unfinished"):
        original.table.copyTo(original.at("c"))


def test_damage_is_found_on_the_way(original: Original) -> None:
    (path, *_) = [meta.path for meta in original.stores.main.list("compacted/")]
    data = bytearray(original.stores.main.get(path))
    data[3] ^= 1
    original.stores.main.put(path, [data])
    with pytest.raises(CorruptDataError, match=path):
        original.table.copyTo(original.at("c"))
    original.stores.main.delete(path)
    with pytest.raises(HistoryTrimmedError, match=path):
        original.table.copyTo(original.at("c"))
    assert find_latest_manifest(original.of("c")) is None


def test_a_long_copy_renews_what_protects_it(original: Original) -> None:
    clock = FakeClock(SystemClock().now_ms())
    inner = MemoryStore(original.at("c").removeprefix("memory://"))

    def sleep() -> None:
        clock.advance(RENEW_MS + 1)

    target = FailingStore(inner).run(sleep, "put", "compacted/*").run(sleep, "put", "compacted/*", nth=2)
    expiries: list[int | None] = []

    def look() -> None:
        expiries.extend(point.expires_ms for point in original.table.checkpoints() if point.name == "slatespark/copy")

    target.run(look, "create", manifest_path(1))
    began_ms = clock.now_ms()
    copy_table(original.stores, clock, stores_of(target))
    assert target.count("put", "slatespark/leases/*") >= 1
    assert [expires_ms is not None and expires_ms > began_ms + HOLD_MS + RENEW_MS for expires_ms in expiries] == [True]


def test_a_copy_does_not_rely_on_the_checkpoint_of_another_one(original: Original) -> None:
    """The other one deletes it at its end; both began in the same second."""
    clock = FakeClock(SystemClock().now_ms())
    found: list[int] = []

    def look() -> None:
        found.append(sum(point.name == "slatespark/copy" for point in original.table.checkpoints()))

    second = FailingStore(MemoryStore(original.at("d").removeprefix("memory://"))).run(look, "create", "manifest/*")

    def copy_too() -> None:
        copy_table(original.stores, clock, stores_of(second), version=original.first)

    first = FailingStore(MemoryStore(original.at("c").removeprefix("memory://"))).run(copy_too, "create", "manifest/*")
    copy_table(original.stores, clock, stores_of(first), version=original.first)
    assert found == [2]


def test_a_copy_stops_when_its_checkpoint_is_gone(original: Original) -> None:
    clock = FakeClock(SystemClock().now_ms())

    def release() -> None:
        (point,) = (each for each in original.table.checkpoints() if each.name == "slatespark/copy")
        original.table.deleteCheckpoint(point.id)
        clock.advance(RENEW_MS + 1)  # last: else another thread may renew it between the two

    inner = MemoryStore(original.at("c").removeprefix("memory://"))
    with pytest.raises(InvalidRequestError, match="checkpoint"):
        copy_table(original.stores, clock, stores_of(FailingStore(inner).run(release, "put", "compacted/*")))
    assert find_latest_manifest(stores_of(inner)) is None
