"""A table that a later release wrote is refused by every call, and no call changes it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pytest

from slatespark import SlateStore, SstWriter, UnsupportedFormatError, Upkeep
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.definition.versions import definition_path
from slatespark.table.log.manifests import fetch_latest_manifest
from tests.faults.jobs import stores_of
from tests.support.fake_clock import FakeClock

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("n", pa.int32())])
ROWS = pa.table({"id": [1, 2, 3], "n": [1, 1, 1]}, SCHEMA)
NOW_MS = 1_700_000_000_000
_names = itertools.count()


def new_table(*, is_raw: bool, **properties: Any) -> SlateStore:
    """Two versions, a checkpoint, and rows past their retention."""
    url, clock = f"memory://newer-{next(_names)}/table", FakeClock(NOW_MS)
    given = {"versionRetention": "7d", "retention": "1h", **properties}
    store = SlateStore.create(url, None if is_raw else SCHEMA, None if is_raw else "id", clock=clock, **given)
    rows = pa.table({"key": [b"a", b"b"], "value": [b"1", b"2"]}) if is_raw else ROWS
    for _ in range(2):
        store.write(rows)
        clock.advance(7_200_000)
    store.createCheckpoint("kept")
    return store


def store_in(store: SlateStore) -> MemoryStore:
    return MemoryStore(store.url.removeprefix("memory://"))


def objects(store: SlateStore) -> dict[str, bytes]:
    memory = store_in(store)
    return {meta.path: bytes(memory.get(meta.path)) for meta in memory.list_below("")}


def raise_definition(store: SlateStore) -> None:
    """A later release changed the definition."""
    content = json.loads(bytes(store_in(store).get(definition_path(1))))
    content["formatVersion"] += 1
    store_in(store).create(definition_path(2), json.dumps(content).encode())


def raise_envelope(store: SlateStore) -> None:
    """A later release published a manifest."""
    number, _ = fetch_latest_manifest(stores_of(store_in(store)))
    data = bytes(store_in(store).get(f"manifest/{number:020d}.manifest"))
    store_in(store).create(f"manifest/{number + 1:020d}.manifest", b"\0\3" + data[2:])


def write_outside(store: SlateStore) -> str:
    path = f"memory://newer-{next(_names)}/outside.sst"
    SstWriter(path, SCHEMA, "id").write(ROWS)
    return path


def transact(store: SlateStore) -> None:
    with store.begin() as txn:
        txn.write(ROWS)


def keep_up(store: SlateStore) -> None:
    clock = FakeClock(NOW_MS + 100_000_000)
    for outcome in Upkeep([store.url], clock=clock).runOnce():
        if outcome.error is not None:
            raise outcome.error


READS: Final[dict[str, Callable[[SlateStore], object]]] = {
    "scan": lambda store: store.scan(),
    "scan of a version": lambda store: store.scan(versionAsOf=3),
    "scan of a checkpoint": lambda store: store.scan(checkpoint="kept"),
    "all versions": lambda store: store.scan(readVersions="all"),
    "get": lambda store: store.get(1),
    "look-up": lambda store: store.lookup(ROWS.select(["id"])),
    "snapshot": lambda store: store.snapshot(),
    "changes": lambda store: store.changes(startingVersion=3),
    "explain": lambda store: store.explain(filter="id = 1"),
    "files": lambda store: store.files(),
    "detail": lambda store: store.detail(),
    "expiry": lambda store: store.expiry(),
    "timeline": lambda store: store.timeline(),
    "definition": lambda store: store.definition,
    "proveAbsent": lambda store: store.proveAbsent(1),
}

WRITES: Final[dict[str, Callable[[SlateStore], object]]] = {
    "write": lambda store: store.write(ROWS),
    "overwrite": lambda store: store.write(ROWS, mode="overwrite"),
    "replace": lambda store: store.write(ROWS, mode="overwrite", replaceWhere="id < 9"),
    "idempotent write": lambda store: store.write(ROWS, txnAppId="job", txnVersion=1),
    "delete": lambda store: store.delete("n = 1"),
    "update": lambda store: store.update("n = 1", {"n": 2}),
    "deleteRange": lambda store: store.deleteRange("id = 1"),
    "ingest": lambda store: store.ingest(write_outside(store)),
    "transaction": transact,
    "compact": lambda store: store.compact(full=True),
    "copies": lambda store: store.compact(columnar=True),
    "reap": lambda store: store.reap(),
    "vacuum": lambda store: store.vacuum(minAge="0s", force=True),
    "erase": lambda store: store.erase(1),
    "restore": lambda store: store.restoreToVersion(3),
    "trim": lambda store: store.trimHistory(after=3),
    "setHistoryFloor": lambda store: store.setHistoryFloor(NOW_MS + 1),
    "clone": lambda store: store.clone(f"{store.url}-clone"),
    "copy": lambda store: store.copyTo(f"{store.url}-copy"),
    "setProperties": lambda store: store.setProperties(autoCompact="false"),
    "dropColumns": lambda store: store.dropColumns("n"),
    "drop": lambda store: SlateStore.drop(store.url, clock=FakeClock(NOW_MS)),
    "upkeep": keep_up,
}

CALLS: Final = {**READS, **WRITES}

CHECKPOINTS: Final[dict[str, Callable[[SlateStore], object]]] = {
    "create": lambda store: store.createCheckpoint("new"),
    "refresh": lambda store: store.refreshCheckpoint("kept", "1d"),
    "delete": lambda store: store.deleteCheckpoint("kept"),
}


@pytest.mark.parametrize("raised", [raise_definition, raise_envelope], ids=["definition", "manifest"])
@pytest.mark.parametrize("call", CALLS)
def test_every_call_refuses_a_newer_table(call: str, raised: Callable[[SlateStore], None]) -> None:
    store = new_table(is_raw=False)
    raised(store)
    before = objects(store)
    with pytest.raises(UnsupportedFormatError):
        CALLS[call](store)
    assert objects(store) == before


@pytest.mark.parametrize("call", CHECKPOINTS)
def test_checkpoints_need_the_manifest_alone(call: str) -> None:
    store = new_table(is_raw=False)
    raise_definition(store)
    CHECKPOINTS[call](store)
    raise_envelope(store)
    before = objects(store)
    with pytest.raises(UnsupportedFormatError):
        CHECKPOINTS[call](store)
    assert objects(store) == before


@pytest.mark.parametrize("call", ["scan", "write", "compact", "vacuum"])
def test_raw_tables_have_a_number_too(call: str) -> None:
    store = new_table(is_raw=True, versionRetention="none")
    raise_definition(store)
    before = objects(store)
    rows = pa.table({"key": [b"c"], "value": [b"3"]})
    calls: dict[str, Callable[[], object]] = {"write": lambda: store.write(rows)}
    with pytest.raises(UnsupportedFormatError):
        calls.get(call, lambda: CALLS[call](store))()
    assert objects(store) == before


def raise_records(store: SlateStore, folder: str) -> None:
    """A later release writes the records of a folder in another way."""
    memory = store_in(store)
    for meta in memory.list_below(folder):
        content = json.loads(bytes(memory.get(meta.path)))
        memory.put(meta.path, [json.dumps({**content, "formatVersion": 2}).encode()])


def put_lease(store: SlateStore) -> None:
    content = {"formatVersion": 2, "write_id": "0" * 16, "created_ms": 0, "expires_ms": NOW_MS * 2}
    store_in(store).create(f"slatespark/leases/{'0' * 16}.json", json.dumps(content).encode())


RECORDS: Final[dict[str, tuple[Callable[[SlateStore], object], Callable[[SlateStore], object]]]] = {
    "commit": (lambda store: raise_records(store, "slatespark/commits/"), lambda store: store.history()),
    "lease": (put_lease, WRITES["vacuum"]),
    "idempotent write": (lambda store: raise_records(store, "slatespark/txn/"), WRITES["idempotent write"]),
    "load": (
        lambda store: store_in(store).create(f"slatespark/loads/{1:020d}-0.json", b'{"formatVersion": 2}'),
        WRITES["vacuum"],
    ),
    "filtered job": (
        lambda store: store_in(store).create("slatespark/filtered/0.json", b'{"formatVersion": 2}'),
        WRITES["vacuum"],
    ),
}


@pytest.mark.parametrize("kind", RECORDS)
def test_records_of_a_later_release(kind: str) -> None:
    """Whoever raises the number of a record raises that of the definition as well; this is the second line."""
    store = new_table(is_raw=False)
    WRITES["idempotent write"](store)
    store.write(ROWS)  # until then the manifest itself has the outcome of the one before
    change, call = RECORDS[kind]
    change(store)
    newest = fetch_latest_manifest(stores_of(store_in(store))).number
    with pytest.raises(UnsupportedFormatError, match="record has format version 2"):
        call(store)
    assert fetch_latest_manifest(stores_of(store_in(store))).number == newest
