"""Remains of an earlier table, at places where a table is to be created."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from slatespark import InvalidRequestError, SlateStore, TableExistsError
from slatespark.format.manifest import Manifest
from slatespark.format.manifest_codec import encode_manifest
from slatespark.format.paths import manifest_path
from slatespark.options import WriteOptions
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.clock import SystemClock
from slatespark.table.commit.earlier_table import find_earlier_objects
from slatespark.table.records.streams import claim_stream_name
from slatespark.table.stores import TableStores, open_stores
from slatespark.table.write.clone import clone_table
from slatespark.table.write.deep_copy import copy_table
from slatespark.table.write.load_run import load_batches
from tests.faults.jobs import stores_of, table_of
from tests.support.failing_store import FailingStore
from tests.support.round_trips import DistantTable

_names = itertools.count()
ONE: Final = table_of([(b"a", b"1")])
SIGNS: Final = (
    "wal/00000000000000000001.sst",
    "compactions/00000000000000000001.compactions",
    "gc/manifest.boundary",
    "slatespark/claims/00000000000000000002-a-0.json",
    "slatespark/commits/x.json",
    "slatespark/commits/batches/x.json",
    "slatespark/txn/job/00000000000000000001.json",
    "slatespark/loads/x.json",
    "slatespark/filtered/x.json",
    "slatespark/identity.json",
)


def load(stores: TableStores) -> None:
    load_batches(stores, SystemClock(), ONE.schema, ONE.to_batches(), WriteOptions(path=stores.url))


def parent() -> SlateStore:
    store = SlateStore.create(f"memory://remains/{next(_names)}")
    store.write(ONE)
    return store


CREATIONS: Final[dict[str, Callable[[str], object]]] = {
    "create": SlateStore.create,
    "load": lambda url: load(open_stores(url, storage={})),
    "copy": lambda url: parent().copyTo(url),
    "clone": lambda url: parent().clone(url),
}


@pytest.mark.parametrize("creation", CREATIONS)
@pytest.mark.parametrize("sign", SIGNS)
def test_what_an_earlier_table_left_is_no_place_for_a_new_one(creation: str, sign: str) -> None:
    url = f"memory://remains/{next(_names)}"
    store = MemoryStore(url.removeprefix("memory://"))
    store.put(sign, [b"1"])
    before = dict(store._bucket.objects)
    with pytest.raises(InvalidRequestError, match=f"{sign}.*{url}/{sign.partition('/')[0]}/"):
        CREATIONS[creation](url)
    assert {path: store._bucket.objects[path] for path in before} == before
    store.delete(sign)
    CREATIONS[creation](url)


@pytest.mark.parametrize("creation", CREATIONS)
def test_no_write_is_skipped_for_one_of_a_table_that_was_removed_by_hand(creation: str, tmp_path: Path) -> None:
    folder, again = tmp_path / "t", tmp_path / "again"
    table = SlateStore.create(folder)
    table.write(ONE, txnAppId="job", txnVersion=1)
    table.write(ONE)  # records the pair
    shutil.copytree(folder / "slatespark", again / "slatespark")
    for name in ("claims", "commits", "table", "leases"):
        shutil.rmtree(again / "slatespark" / name)
    creations = {**CREATIONS, "copy": table.copyTo, "clone": table.clone}
    with pytest.raises(InvalidRequestError, match="slatespark/txn/"):
        creations[creation](str(again))
    shutil.rmtree(again)
    creations[creation](str(again))
    made = SlateStore.open(again)
    made.write(table_of([(b"b", b"2")]), txnAppId="job", txnVersion=1)
    assert made.get(b"b") == {"key": b"b", "value": b"2"}


@pytest.mark.parametrize("creation", CREATIONS)
def test_the_place_of_a_dropped_table_is_free(creation: str, tmp_path: Path) -> None:
    table = SlateStore.create(tmp_path / "t")
    table.write(ONE, txnAppId="job", txnVersion=1)
    table.write(ONE)
    SlateStore.drop(tmp_path / "t", force=True)
    creations = {**CREATIONS, "copy": parent().copyTo, "clone": SlateStore.create(tmp_path / "p").clone}
    creations[creation](str(tmp_path / "t"))


@pytest.mark.parametrize("creation", CREATIONS)
@pytest.mark.parametrize(
    "folder", ["wal", "compactions", "gc", *(f"slatespark/{name}" for name in ("txn", "loads", "filtered", "leases"))]
)
def test_files_of_others_that_a_drop_leaves_are_no_remains(creation: str, folder: str, tmp_path: Path) -> None:
    SlateStore.create(tmp_path / "t").write(ONE, txnAppId="job", txnVersion=1)
    foreign = tmp_path / "t" / folder / ".DS_Store"
    foreign.parent.mkdir(parents=True, exist_ok=True)
    foreign.write_bytes(b"1")
    SlateStore.drop(tmp_path / "t", force=True)
    creations = {**CREATIONS, "copy": parent().copyTo, "clone": SlateStore.create(tmp_path / "p").clone}
    creations[creation](str(tmp_path / "t"))
    made = SlateStore.open(tmp_path / "t")
    made.write(table_of([(b"c", b"3")]), txnAppId="job", txnVersion=1)
    assert made.get(b"c") == {"key": b"c", "value": b"3"}
    made.vacuum(minAge="1h")
    assert foreign.exists()


def test_a_stream_that_died_before_its_table_was_there_comes_again() -> None:
    stores = open_stores(f"memory://remains/{next(_names)}", storage={})
    claim_stream_name(stores.main, "daily", "query")
    load(stores)


def test_records_of_a_table_that_comes_meanwhile_are_no_remains(monkeypatch: pytest.MonkeyPatch) -> None:
    table = parent()
    makes: list[Callable[..., object]] = [copy_table, clone_table]
    for number, make in enumerate(makes):
        inner = MemoryStore(f"remains/{next(_names)}")

        def overtake(inner: MemoryStore = inner) -> None:
            inner.create(manifest_path(1), encode_manifest(Manifest()))
            inner.put("slatespark/commits/x.json", [b"1"])

        made = stores_of(FailingStore(inner).run(overtake, "list_below", "slatespark/"))
        monkeypatch.setattr("slatespark.table.write.clone.open_stores", lambda *_, made=made, **__: made)
        with pytest.raises(TableExistsError):
            make(table._stores, SystemClock(), (made, inner.url)[number])


def test_the_looks_go_together() -> None:
    table = DistantTable(f"remains-{next(_names)}", SystemClock())
    spent = table.spent(lambda store: find_earlier_objects(store._stores))
    assert (spent.requests, spent.round_trips) == (4, 1)
