"""Clones of ours under the eyes of the real client: it opens, serves, compacts and collects parent and clone."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import InvalidRequestError, SlateStore
from slatespark.format.manifest import Manifest
from slatespark.table.clock import SystemClock
from slatespark.table.commit import claim
from slatespark.table.log.manifests import fetch_latest_manifest, publish_manifest
from slatespark.table.stores import TableStores, open_stores
from slatespark.table.write.clone import clone_table
from tests.support.client import Client, ClientOptions, Location, read_rows
from tests.support.client_admin import clone_database, collect_garbage, compact_full, create_checkpoint, union_databases
from tests.support.fixture_databases import FIXTURES
from tests.support.moto_server import MotoServer
from tests.support.moto_server import moto_server as moto_server

COMPACTING = ClientOptions(compactor=True)

Rows = dict[bytes, bytes]


class Family:
    """Databases side by side in one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def location(self, name: str) -> Location:
        return Location(name, directory=self.root)

    def stores(self, name: str) -> TableStores:
        return open_stores(str(self.root / name), storage={})

    def manifest(self, name: str) -> Manifest:
        return fetch_latest_manifest(self.stores(name))[1]

    def clone(self, source: str, target: str, **what: Any) -> None:
        clone_table(self.stores(source), SystemClock(), str(self.root / target), **what)

    def rows(self, name: str, **options: Any) -> Rows:
        """What both sides see."""
        store = SlateStore.open(str(self.root / name))
        rows = store.scan(mergeOperator="concat", includeExpired=True, **options).read_all().to_pylist()
        ours = {row["key"]: row["value"] for row in rows}
        if not options:
            assert {row.key: row.value for row in read_rows(self.location(name))} == ours
        return ours

    def client(self, name: str) -> Client:
        return Client.open(self.location(name), COMPACTING)


@pytest.fixture
def family(tmp_path: Path) -> Family:
    family = Family(tmp_path)
    with family.client("parent") as client:
        for number in range(5):
            client.put(b"k%d" % number, b"flushed")
        client.flush_memtable()
        client.put(b"k3", b"in the WAL")
        client.delete(b"k4")
        client.flush_wal()
    return family


FIRST: Rows = {b"k0": b"flushed", b"k1": b"flushed", b"k2": b"flushed", b"k3": b"in the WAL"}


JOINED: Rows = {b"k%d" % number: b"second" for number in range(5)}


@pytest.fixture
def shards(tmp_path: Path) -> Family:
    """A union, `joined`, of two parts of one database; in it the client gives the two views of an L0 file one id."""
    family = Family(tmp_path)
    with Client.open(family.location("parent"), ClientOptions(wal=False)) as client:
        for value in (b"first", b"second"):
            for number in range(5):
                client.put(b"k%d" % number, value)
            client.flush_memtable()
    parts: tuple[tuple[bytes | None, bytes | None], ...] = ((None, b"k2"), (b"k2", None))
    for name, keys in zip(("low", "high"), parts, strict=True):
        clone_database(family.location("parent"), name, keys=keys)
    union_databases([(family.location("low"), None), (family.location("high"), None)], "joined")
    ids = [view.id for view in family.manifest("joined").l0]
    assert len(set(ids)) < len(ids)
    assert family.rows("joined") == JOINED
    return family


def test_parts_of_a_file_joined_again_are_written_and_compacted(shards: Family) -> None:
    store = SlateStore.open(str(shards.root / "joined"))
    assert any("l0_view_ids_are_unique" in finding.what for finding in store.verify().findings)
    store.write(pa.table({"key": [b"k1", b"new"], "value": [b"ours", b"ours"]}))
    rows = JOINED | {b"k1": b"ours", b"new": b"ours"}
    assert shards.rows("joined") == rows
    store.createCheckpoint("kept")
    shards.clone("joined", "copy")
    assert shards.rows("copy") == rows
    with shards.client("joined") as client:
        compact_full(client)
    assert shards.rows("joined") == rows
    store.deleteRange("key < X'6B32'")
    store.compact(full=True)
    assert shards.rows("joined") == {key: value for key, value in rows.items() if key >= b"k2"}


def test_a_checkpoint_of_parts_joined_again(shards: Family) -> None:
    SlateStore.open(str(shards.root / "joined")).createCheckpoint("kept")
    assert shards.rows("joined") == JOINED
    assert shards.rows("joined", checkpoint="kept") == JOINED


def test_no_job_beside_a_client_on_parts_joined_again(shards: Family) -> None:
    options = ClientOptions(
        wal=False,
        compactor=True,
        settings={"compactor_options.poll_interval": "50ms", "compactor_options.worker": None},
    )
    store = SlateStore.open(str(shards.root / "joined"))
    with Client.open(shards.location("joined"), options):
        with pytest.raises(InvalidRequestError, match="one id"):
            store.write(pa.table({"key": [b"k1"], "value": [b"ours"]}), ifClientActive="cooperate")
        with pytest.raises(InvalidRequestError, match="one id"):
            store.compact(full=True, ifClientActive="cooperate")
    assert shards.rows("joined") == JOINED


def test_parent_and_clone_go_their_own_ways(family: Family) -> None:
    family.clone("parent", "clone")
    assert family.rows("clone") == family.rows("parent") == FIRST
    with family.client("clone") as clone, family.client("parent") as parent:
        clone.put(b"k0", b"of the clone")
        parent.put(b"k1", b"of the parent")
        for client in (clone, parent):
            client.flush_memtable()
            compact_full(client)
            client.put(b"more", b"1")
            client.flush_memtable()
    collect_garbage(family.location("parent"))
    collect_garbage(family.location("clone"))
    assert family.rows("clone") == {**FIRST, b"k0": b"of the clone", b"more": b"1"}
    assert family.rows("parent") == {**FIRST, b"k1": b"of the parent", b"more": b"1"}


def test_the_parent_keeps_what_the_clone_reads(family: Family) -> None:
    family.clone("parent", "clone")
    (owner,) = family.manifest("clone").external_dbs
    source, final = family.manifest("parent").checkpoints
    assert (source.id, final.id) == (owner.source_checkpoint_id, owner.final_checkpoint_id)
    assert source.manifest_id == final.manifest_id
    assert (source.expire_time_s > 0, final.expire_time_s, final.name) == (True, 0, "slatespark/clone/clone")
    assert (owner.path, owner.sst_ids) == ("parent", tuple(family.manifest("clone").ssts))
    SlateStore.open(str(family.root / "parent")).write(pa.table({"key": [b"k0"], "value": [b"2"]}), mode="overwrite")
    with family.client("parent") as parent:
        compact_full(parent)
        parent.put(b"k0", b"3")
        parent.flush_memtable()
    collect_garbage(family.location("parent"))
    assert family.rows("parent") == {b"k0": b"3"}
    assert family.rows("clone") == FIRST


def test_a_clone_of_a_clone_of_both_makers(family: Family) -> None:
    clone_database(family.location("parent"), "theirs")
    with family.client("theirs") as client:
        client.put(b"theirs", b"1")
        client.flush_memtable()
    family.clone("theirs", "ours")
    SlateStore.open(str(family.root / "ours")).write(pa.table({"key": [b"ours"], "value": [b"2"]}))
    clone_database(family.location("ours"), "last")
    shutil.copytree(family.root / "last", family.root / "untouched")
    for name in ("parent", "theirs", "ours"):
        SlateStore.open(str(family.root / name)).write(pa.table({"key": [b"x"], "value": [b"y"]}), mode="overwrite")
        with family.client(name) as client:
            client.put(b"x", b"z")
            client.flush_memtable()
            compact_full(client)
        collect_garbage(family.location(name))
        assert family.rows(name) == {b"x": b"z"}
    assert family.rows("last") == {**FIRST, b"theirs": b"1", b"ours": b"2"}
    with family.client("last") as client:
        compact_full(client)
    assert family.rows("last") == {**FIRST, b"theirs": b"1", b"ours": b"2"}


def test_the_clients_database_becomes_a_history_table(family: Family) -> None:
    family.clone("parent", "clone", history=True)
    store = SlateStore.open(str(family.root / "clone"))
    floor = store.definition.full_history_ts_low_ms
    assert floor is not None
    written = pa.table({"key": [b"k0", b"k0"], "value": [b"1", b"2"], "ts": [floor + 1, floor + 2]})
    store.write(written, timestampColumn="ts")
    now = {**FIRST, b"k0": b"2"}
    assert family.rows("clone") == now
    states = [family.rows("clone", timestampAsOf=floor + later) for later in range(3)]
    assert states == [FIRST, {**FIRST, b"k0": b"1"}, now]
    with family.client("clone") as client:
        client.put(b"k1", b"of the client")
        client.flush_memtable()
    assert family.rows("clone") == {**now, b"k1": b"of the client"}
    assert store.verify().findings == ()


def test_of_a_version_and_of_a_checkpoint(family: Family) -> None:
    made = create_checkpoint(family.location("parent"), "monday")
    monday = family.rows("parent", checkpoint="monday")
    with family.client("parent") as client:
        client.put(b"k0", b"tuesday")
        client.flush_memtable()
    family.clone("parent", "by-name", checkpoint="monday")
    family.clone("parent", "by-version", version=made.manifest_id)
    family.clone("parent", "newest")
    assert family.rows("by-name") == family.rows("by-version") == monday
    assert family.rows("newest") == {**FIRST, b"k0": b"tuesday"}


@pytest.mark.parametrize("name", ["segments", "cut_views", "history", "wal_only", "no_wal", "empty_run"])
def test_of_what_the_client_made(name: str, tmp_path: Path) -> None:
    family = Family(tmp_path)
    shutil.copytree(FIXTURES / name, tmp_path / name)
    family.clone(name, "clone")
    if name == "segments":
        assert family.rows("clone", now=0) == family.rows(name, now=0) != {}
        return
    before = family.rows(name)
    assert family.rows("clone") == before
    with family.client("clone") as client:
        client.put(b"new", b"1")
    assert family.rows("clone") == before


@pytest.mark.s3
def test_in_a_bucket(moto_server: MotoServer) -> None:
    """External paths start at the bucket, where the client's store does; a restore and a pin work there too."""
    bucket = moto_server.create_bucket("clones")
    store = SlateStore.create(f"{bucket}/shop/parent", versionRetention="1h", **moto_server.options)
    first = store.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    store.write(pa.table({"key": [b"a"], "value": [b"2"]}), mode="overwrite")
    clone = store.clone(f"{bucket}/elsewhere/clone", version=first)
    clone.restoreToVersion(clone.write(pa.table({"key": [b"b"], "value": [b"3"]})) - 1)
    location = moto_server.location(clone.url)
    assert [(row.key, row.value) for row in read_rows(location)] == [(b"a", b"1")]
    with Client.open(location, COMPACTING) as client:
        client.put(b"c", b"4")
        client.flush_memtable()
        compact_full(client)
    assert clone.scan(pin="1h").read_all().to_pylist() == [
        {"key": b"a", "value": b"1"},
        {"key": b"c", "value": b"4"},
    ]
    (owner,) = fetch_latest_manifest(clone._stores)[1].external_dbs
    assert owner.path == "shop/parent"


def test_a_claim_hides_no_row_of_the_wal_of_a_clone(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    family.clone("parent", "clone")
    store = SlateStore.open(str(family.root / "clone"))
    reader = SlateStore.open(str(family.root / "clone"))
    assert reader.scan(mergeOperator="concat").read_all().num_rows == len(FIRST)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(claim, "_fence_wal", die)
    with pytest.raises(KeyboardInterrupt):
        store.write(pa.table({"key": [b"x"], "value": [b"1"]}))
    assert next(row.operation for row in reader.history()) == "claim"
    for _ in range(2):
        again = SlateStore.open(str(family.root / "clone"))
        assert (reader.get(b"k3"), again.get(b"k3")) == ({"key": b"k3", "value": b"in the WAL"},) * 2
    assert family.rows("clone") == FIRST


def test_a_clone_of_the_client_has_the_definition_of_its_own_parent(tmp_path: Path) -> None:
    """Not that of a database further up, whose files it borrows too, even if that has been changed more often."""
    first = SlateStore.create(str(tmp_path / "first"), "id BIGINT, v STRING", "id")
    first.write(pa.table({"id": [1], "v": ["a"]}))
    second = first.clone(str(tmp_path / "second"))
    second.write(pa.table({"id": [2], "v": ["b"], "price": [7]}), mergeSchema=True)
    first.setProperties(versionRetention="1d")
    first.setProperties(versionRetention="2d")
    first.dropColumns("v")
    clone_database(Location.local(tmp_path / "second"), "third")
    third = SlateStore.open(str(tmp_path / "third"))
    assert third.scan().read_all().equals(second.scan().read_all())
    third.write(pa.table({"id": [3], "v": ["c"], "price": [9]}))
    assert third.get(3) == {"id": 3, "v": "c", "price": 9}


def test_a_clone_named_like_its_parent(tmp_path: Path) -> None:
    parent = SlateStore.create(str(tmp_path / "prices"))
    parent.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    clone = parent.clone(str(tmp_path / "trial" / "prices"))
    assert clone.get(b"a") == {"key": b"a", "value": b"1"}
    assert [row.key for row in read_rows(Location("trial/prices", directory=tmp_path))] == [b"a"]
    SlateStore.drop(str(tmp_path / "trial" / "prices"), force=True)
    assert "slatespark/clone/trial/prices" not in [point.name for point in parent.checkpoints()]


def test_of_an_older_version_that_reads_its_parent_while_the_newest_does_not(tmp_path: Path) -> None:
    """All external paths of a clone start at one root, that of the client."""
    parent = SlateStore.create(str(tmp_path / "a" / "parent"))
    parent.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    clone = parent.clone(str(tmp_path / "b" / "clone"))
    older = clone.write(pa.table({"key": [b"b"], "value": [b"2"]}))
    clone.createCheckpoint("older", version=older)
    clone.compact(full=True, force=True)
    assert [owner.files for owner in clone.detail().external] == [0]
    clone.clone(str(tmp_path / "b" / "last"), checkpoint="older")
    owners = SlateStore.open(str(tmp_path / "b" / "last")).detail().external
    assert [owner.path for owner in owners] == ["b/clone", "a/parent"]
    assert [row.key for row in read_rows(Location("b/last", directory=tmp_path))] == [b"a", b"b"]


def test_another_table_of_the_parents_name_is_nearer(tmp_path: Path) -> None:
    parent = SlateStore.create(str(tmp_path / "prices"), "id BIGINT", "id")
    parent.write(pa.table({"id": [1]}))
    parent.clone(str(tmp_path / "trial" / "ours"))
    clone_database(Location("prices", directory=tmp_path), "trial/theirs")
    SlateStore.create(str(tmp_path / "trial" / "prices"), "name STRING", "name").write(pa.table({"name": ["x"]}))
    for name in ("ours", "theirs"):
        clone = SlateStore.open(str(tmp_path / "trial" / name))
        assert clone.scan().read_all().to_pydict() == {"id": [1]}
        assert clone.verify().findings == ()
    SlateStore.drop(str(tmp_path / "trial" / "ours"), force=True)
    assert "slatespark/clone/trial/ours" not in [point.name for point in parent.checkpoints()]


def test_a_clone_of_the_client_of_its_own_clone_has_the_definition(tmp_path: Path) -> None:
    """The clone between has none itself, and borrows no file any more."""
    first = SlateStore.create(str(tmp_path / "first"), "id BIGINT, v STRING", "id")
    first.write(pa.table({"id": [1], "v": ["a"]}))
    clone_database(Location.local(tmp_path / "first"), "second")
    with Client.open(Location.local(tmp_path / "second"), COMPACTING) as client:
        (row,) = client.scan()
        client.put(row.key, row.value)
        client.flush_memtable()
        compact_full(client)
    clone_database(Location.local(tmp_path / "second"), "third")
    assert [each.path for each in SlateStore.open(str(tmp_path / "third")).detail().external] == ["second"]
    assert SlateStore.open(str(tmp_path / "third")).get(1) == {"id": 1, "v": "a"}


def test_a_parent_without_a_definition_hides_none_of_those_further_up(tmp_path: Path) -> None:
    """The clone between borrows nothing any more when it is asked, and the last one does."""
    first = SlateStore.create(str(tmp_path / "first"), "id BIGINT, v STRING", "id")
    first.write(pa.table({"id": [1], "v": ["a"]}))
    clone_database(Location.local(tmp_path / "first"), "second")
    clone_database(Location.local(tmp_path / "second"), "third")
    stores = open_stores(str(tmp_path / "second"), storage={})
    number, manifest = fetch_latest_manifest(stores)
    publish_manifest(stores, number + 1, replace(manifest, external_dbs=()), manifest, SystemClock())
    assert SlateStore.open(str(tmp_path / "third")).get(1) == {"id": 1, "v": "a"}


def test_a_clone_of_the_client_follows_its_parents_definition(tmp_path: Path) -> None:
    """It has none of its own, and nobody announces a change of the parent's to its readers."""
    parent = SlateStore.create(str(tmp_path / "parent"), "id BIGINT, v STRING", "id")
    parent.write(pa.table({"id": [1], "v": ["a"]}))
    clone_database(Location.local(tmp_path / "parent"), "clone")
    clone = SlateStore.open(str(tmp_path / "clone"))
    for _ in range(3):
        assert clone.scan().read_all().column_names == ["id", "v"]
    SlateStore.open(str(tmp_path / "parent")).dropColumns("v")
    assert clone.scan().read_all().column_names == ["id"]


def test_a_clone_of_a_part_of_the_keys_forgets_what_was_cut_out_of_a_file(tmp_path: Path) -> None:
    """A trap of the client: after a compaction of the range there is nothing that it could forget."""
    location = Location.local(tmp_path / "parent")
    store = SlateStore.create(str(location.folder))
    store.write(pa.table({"key": [b"a", b"b", b"c", b"d", b"e", b"f"], "value": [b"v"] * 6}))
    store.deleteRange(startKey=b"c", endKey=b"e")
    for name, keys in (("whole", None), ("part", (b"b", b"f"))):
        clone_database(location, name, keys=keys)
    shown = {name: [row.key for row in read_rows(Location.local(tmp_path / name))] for name in ("whole", "part")}
    assert shown == {"whole": [b"a", b"b", b"e", b"f"], "part": [b"b", b"c", b"d", b"e"]}
    store.compact(startKey=b"c", endKey=b"e")
    clone_database(location, "right", keys=(b"b", b"f"))
    assert [row.key for row in read_rows(Location.local(tmp_path / "right"))] == [b"b", b"e"]
    assert SlateStore.open(str(tmp_path / "right")).scan().read_all()["key"].to_pylist() == [b"b", b"e"]
