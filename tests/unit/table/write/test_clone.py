"""Clones: their manifests and files, their location, and refused calls."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import (
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
from slatespark.format.paths import manifest_path, wal_path
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.clock import SystemClock
from slatespark.table.definition.versions import definition_path
from slatespark.table.log.manifests import fetch_latest_manifest, fetch_manifest
from slatespark.table.stores import open_stores
from slatespark.table.write.clone import clone_table
from slatespark.units import HOUR_MS
from tests.faults.jobs import stores_of, table_of
from tests.support.failing_store import FailingStore, Moment, Operation
from tests.support.fake_clock import FakeClock
from tests.unit.table.write.original import Original, rows


@pytest.fixture
def family() -> Original:
    return Original(b"w")


def test_the_two_manifests(family: Original) -> None:
    clone = family.table.clone(family.at("c"))
    source = fetch_latest_manifest(family.stores)[1]
    (kept,) = (point for point in source.checkpoints if point.name == "slatespark/clone/c")
    pinned, unfinished = fetch_manifest(family.stores, kept.manifest_id), fetch_manifest(family.of("c"), 1)
    number, made = fetch_latest_manifest(family.of("c"))
    assert (number, unfinished.initialized, made.initialized) == (2, False, True)
    for manifest in (unfinished, made):
        assert (manifest.checkpoints, manifest.ssts, manifest.compacted) == ((), pinned.ssts, pinned.compacted)
        assert (manifest.writer_epoch, manifest.compactor_epoch) == (pinned.writer_epoch, pinned.compactor_epoch)
        (owner,) = manifest.external_dbs
        assert (owner.path, owner.final_checkpoint_id, set(owner.sst_ids)) == ("p", kept.id, set(pinned.ssts))
    assert clone.definition == family.table.definition
    assert clone.history()[0].operation == "clone"
    assert rows(clone) == {b"a": b"1", b"b": b"2", b"w": b"3"}
    assert [meta.path for meta in family.of("c").main.list("wal/")] == [wal_path(family.wal_id)]
    assert family.of("c").main.list("compacted/") == []


def test_a_clone_of_a_table_without_definition_does_not_get_that_of_later(family: Original) -> None:
    """As one that a client created: its parent may get properties, and a definition with them."""
    family.of("raw").main.create(manifest_path(1), encode_manifest(Manifest()))
    raw = SlateStore.open(family.at("raw"), clock=(clock := FakeClock()))
    raw.write(table_of([(b"a", b"1")]))
    clone = raw.clone(family.at("c"))
    raw.setProperties(retention="1h", defaultTtl="1h")
    clock.advance(2 * HOUR_MS)
    assert (rows(raw), rows(clone)) == ({}, {b"a": b"1"})
    again = SlateStore.open(family.at("c"), clock=clock)
    assert (again.definition.properties, rows(again)) == ({}, {b"a": b"1"})
    again.setProperties(retention="1d")
    assert raw.definition.properties["retention"] == "1h"


def test_versions_and_checkpoints(family: Original) -> None:
    made = family.table.createCheckpoint("x", version=family.first)
    for name, clone in (
        ("v", family.table.clone(family.at("v"), version=family.first)),
        ("n", family.table.clone(family.at("n"), checkpoint="x")),
        ("i", family.table.clone(family.at("i"), checkpoint=made.id)),
    ):
        assert rows(clone) == {b"a": b"1"}, name


def test_a_typed_table_with_its_own_clock(family: Original) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    table = SlateStore.create(family.at("typed"), schema, "id", clock="custom", defaultTtl="7")
    one = pa.table({"id": pa.array([1], pa.int64()), "name": ["x"]})
    table.write(one, timestamp=1 << 50)  # far in the future of any clock of a machine
    clone = table.clone(family.at("copy"))
    assert clone.get(1) == {"id": 1, "name": "x"}
    clone.write(one, timestamp=(1 << 50) + 5)
    assert clone.definition == table.definition


def test_a_wal_in_another_store(tmp_path: Path) -> None:
    parent = SlateStore.create(str(tmp_path / "p"), walPath=str(tmp_path / "logs"))
    parent.write(table_of([(b"a", b"1")]))
    parent.write(table_of([(b"a", b"2")]))
    clone = parent.clone(str(tmp_path / "c"))
    clone.write(table_of([(b"b", b"3")]))
    assert rows(clone) == {b"a": b"2", b"b": b"3"}


def test_occupied_targets_are_refused(family: Original) -> None:
    family.table.clone(family.at("c"))
    with pytest.raises(TableExistsError):
        family.table.clone(family.at("c"))
    with pytest.raises(TableExistsError):
        family.table.clone(family.at("p"))
    for number, path in enumerate(("wal/00000000000000000007.sst", "compacted/x", "slatespark/table/x", "notes.txt")):
        family.of(f"full{number}").main.put(path, [b"x"])
        with pytest.raises(InvalidRequestError, match=path):
            family.table.clone(family.at(f"full{number}"))
    family.of("going").main.put(".deleting", [b""])
    with pytest.raises(InvalidRequestError, match="dropped"):
        family.table.clone(family.at("going"))


def test_blanks_around_the_target_do_not_count(family: Original) -> None:
    clone = family.table.clone(f" {family.at('c')} ")
    assert clone.url == family.at("c")
    assert rows(clone) == rows(family.table)


def test_the_first_of_two_clones_wins(family: Original, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = MemoryStore(family.at("c").removeprefix("memory://"))

    def overtake() -> None:
        inner.create(manifest_path(1), encode_manifest(Manifest()))

    target = FailingStore(inner).run(overtake, "create", manifest_path(1))
    monkeypatch.setattr("slatespark.table.write.clone.open_stores", lambda path, storage: stores_of(target))
    with pytest.raises(TableExistsError, match="another"):
        clone_table(family.stores, SystemClock(), family.at("c"))


def test_targets_without_a_common_root_are_refused(family: Original, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="store"):
        family.table.clone(str(tmp_path / "c"))
    with pytest.raises(InvalidRequestError, match="store"):
        family.table.clone("memory://elsewhere")
    with pytest.raises(InvalidRequestError, match="below"):
        family.table.clone(family.at("p/inside"))
    rooted = SlateStore.open(family.at("p"), root=f"{family.folder}")
    with pytest.raises(InvalidRequestError, match="below"):
        rooted.clone("memory://clones/outside")
    assert rows(rooted.clone(family.at("deep/er"))) == rows(family.table)
    assert fetch_latest_manifest(family.of("deep/er"))[1].external_dbs[0].path == "p"


def test_a_clone_of_a_clone_has_the_same_root(family: Original) -> None:
    child = family.table.clone(family.at("x/child"))
    grandchild = child.clone(family.at("x/grandchild"))
    paths = [owner.path for owner in fetch_latest_manifest(family.of("x/grandchild"))[1].external_dbs]
    assert paths == ["x/child", "p"]
    assert rows(grandchild) == rows(family.table)
    with pytest.raises(InvalidRequestError, match="below"):
        child.clone("memory://clones/elsewhere")


def test_unknown_checkpoint_or_version(family: Original) -> None:
    with pytest.raises(InvalidRequestError, match="'x'"):
        family.table.clone(family.at("c"), checkpoint="x")
    with pytest.raises(InvalidRequestError, match="99"):
        family.table.clone(family.at("c"), version=99)
    with pytest.raises(OptionError, match="both"):
        family.table.clone(family.at("c"), version=1, checkpoint="x")
    assert family.of("c").main.list("manifest/") == []
    family.of("half").main.put(manifest_path(1), [encode_manifest(Manifest(initialized=False))])
    with pytest.raises(UnsupportedFormatError, match="clone"):
        SlateStore.open(family.at("half")).clone(family.at("c"))


@pytest.mark.parametrize("parent", ["caf\udce9", "cafe"], ids=["parent", "target"])
def test_names_that_no_manifest_can_hold_are_refused(parent: str, tmp_path: Path) -> None:
    """A folder that is named in Latin-1, as Python spells it."""
    SlateStore.create(tmp_path / parent)
    stores = open_stores(str(tmp_path / parent), storage={})
    target = tmp_path / ("clone" if parent != "cafe" else "cl\udce9ne")
    with pytest.raises(InvalidRequestError):
        clone_table(stores, SystemClock(), str(target))
    assert not target.exists()
    assert not fetch_latest_manifest(stores)[1].checkpoints


# --- failures -------------------------------------------------------------------------------------------------------


def failing_clone(parent: SlateStore, target: FailingStore, error: type[BaseException]) -> None:
    """Clone `parent` to a place that fails, and check that the error is the expected one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("slatespark.table.write.clone.open_stores", lambda *_, **__: stores_of(target))
        with pytest.raises(error):
            clone_table(parent._stores, SystemClock(), target.url)


def lasting(store: SlateStore) -> list[str | None]:
    """Return the names of the checkpoints without expiry."""
    return [point.name for point in store.checkpoints() if point.expires_ms is None]


@pytest.mark.parametrize("generations", [1, 2])
@pytest.mark.parametrize("step", [("put", "wal/*"), ("create", "slatespark/table/*")])
def test_a_clone_that_fails_leaves_nothing(family: Original, step: tuple[Operation, str], generations: int) -> None:
    family.table.setProperties(defaultTtl="7d")
    parents = [family.table]
    if generations == 2:
        parents.append(family.table.clone(family.at("child")))
    before = [lasting(parent) for parent in parents]
    inner = MemoryStore(family.at("c").removeprefix("memory://"))
    failing_clone(parents[-1], FailingStore(inner).fail(*step), UnavailableError)
    assert list(inner.list_below("")) == []
    assert [lasting(parent) for parent in parents] == before
    assert rows(parents[-1].clone(family.at("c"))) == rows(family.table)


@pytest.mark.parametrize("error", [UnavailableError("lost"), KeyboardInterrupt()], ids=type)
@pytest.mark.parametrize(
    ("operation", "path", "moment"),
    [
        ("create", manifest_path(1), "after"),
        ("get", "gc/*", "before"),  # which confirms manifest 1
        ("create", "slatespark/table/*", "after"),
        ("put", "wal/*", "after"),
    ],
)
def test_a_clone_whose_answer_is_lost_leaves_nothing(
    family: Original, operation: Operation, path: str, moment: Moment, error: BaseException
) -> None:
    family.table.setProperties(defaultTtl="7d")
    inner = MemoryStore(family.at("c").removeprefix("memory://"))
    target = FailingStore(inner).fail(operation, path, moment=moment, error=error)
    failing_clone(family.table, target, type(error))
    assert list(inner.list_below("")) == []
    assert lasting(family.table) == []
    assert rows(family.table.clone(family.at("c"))) == rows(family.table)


def test_a_clone_whose_last_step_is_refused_leaves_nothing(family: Original) -> None:
    inner = MemoryStore(family.at("c").removeprefix("memory://"))
    target = FailingStore(inner).fail("create", manifest_path(2), error=InvalidRequestError("refused"))
    failing_clone(family.table, target, InvalidRequestError)
    assert list(inner.list_below("")) == []
    assert lasting(family.table) == []


def test_a_drop_removes_an_unfinished_clone(family: Original) -> None:
    """As a process leaves it that is killed: with a checkpoint at the parent."""
    inner = MemoryStore(family.at("c").removeprefix("memory://"))
    failing_clone(family.table, FailingStore(inner).fail("create", manifest_path(2)), UnavailableError)
    assert lasting(family.table) == ["slatespark/clone/c"]
    with pytest.raises(TableExistsError):
        family.table.clone(inner.url)
    SlateStore.drop(inner.url, force=True)
    assert lasting(family.table) == []
    assert rows(family.table.clone(inner.url)) == rows(family.table)


def test_the_table_of_another_creator_stays(family: Original) -> None:
    inner = MemoryStore(family.at("c").removeprefix("memory://"))

    def overtake() -> None:
        SlateStore.create(inner.url, "id BIGINT", "id")

    failing_clone(family.table, FailingStore(inner).run(overtake, "create", manifest_path(1)), TableExistsError)
    assert SlateStore.open(inner.url).definition.key_columns == ("id",)


def test_a_wal_file_that_is_collected_meanwhile(family: Original) -> None:
    inner = MemoryStore(family.at("c").removeprefix("memory://"))

    def collect() -> None:
        family.stores.main.delete(wal_path(family.wal_id))

    failing_clone(family.table, FailingStore(inner).run(collect, "create", manifest_path(1)), HistoryTrimmedError)
    assert list(inner.list_below("")) == []
    assert lasting(family.table) == []


def test_a_damaged_definition_is_found_before_anything_is_at_the_target(tmp_path: Path) -> None:
    parent = SlateStore.create(tmp_path / "p", defaultTtl="7d")
    (tmp_path / "p" / definition_path(1)).write_text("{broken")
    with pytest.raises(CorruptDataError):
        SlateStore.open(tmp_path / "p").clone(tmp_path / "c")
    assert not (tmp_path / "c").exists()
    assert lasting(parent) == []


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_error_of_the_last_step_undoes_nothing(family: Original, moment: Moment) -> None:
    """The clone may be finished."""
    inner = MemoryStore(family.at("c").removeprefix("memory://"))
    target = FailingStore(inner).fail("create", manifest_path(2), moment=moment)
    failing_clone(family.table, target, UnavailableError)
    assert lasting(family.table) == ["slatespark/clone/c"]
    if moment == "after":
        assert rows(SlateStore.open(family.at("c"))) == rows(family.table)


def test_the_definition_of_another_creator_stays(family: Original) -> None:
    family.table.setProperties(defaultTtl="7d")
    inner = MemoryStore(family.at("c").removeprefix("memory://"))

    def overtake() -> None:
        inner.create(definition_path(1), b"theirs")

    failing_clone(family.table, FailingStore(inner).run(overtake, "create", definition_path(1)), TableExistsError)
    assert [meta.path for meta in inner.list_below("")] == [definition_path(1)]
