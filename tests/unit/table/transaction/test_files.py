"""Files, leases and checkpoints of a transaction: what stays, and what is left of an ended one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slatespark import (
    ConflictError,
    SchemaError,
    SlateStore,
    SnapshotExpiredError,
    TransactionConflictError,
    UnavailableError,
)
from slatespark.format.paths import COMPACTED_DIR, manifest_path
from slatespark.storage import open_store
from slatespark.table.records.leases import LEASE_LIFETIME_MS, LEASES_DIR, fetch_lease
from slatespark.table.stores import TableStores
from slatespark.table.transaction.own_writes import MAX_LAYERS, MAX_SMALL_TASKS
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock
from tests.unit.table.transaction.tables import NOW_MS, SCHEMA, amounts, new_store, pairs, shown, stored, typed_store


def files_of(store: SlateStore) -> set[str]:
    return {meta.path for meta in open_store(store.url, {}).list(COMPACTED_DIR)}


def test_a_rolled_back_transaction_leaves_nothing() -> None:
    store = typed_store()
    store.write(amounts(("a", 1, 1)))
    files = files_of(store)
    for prepares in (False, True):
        txn = store.begin()
        txn.write(amounts(("a", 1, 2)))
        txn.write(amounts(("a", 1, 3)))
        assert files_of(store) > files
        if prepares:
            txn.prepare()
        txn.rollback()
        assert files_of(store) == files
    txn = store.begin()
    txn.write(amounts(("a", 1, 4)))
    with pytest.raises(SchemaError), txn:
        txn.write(pa.table({"tenant": ["a"]}))
    assert (txn.state, files_of(store)) == ("rolled back", files)
    assert open_store(store.url, {}).list(LEASES_DIR) == []
    assert shown(store) == [("a", 1, 1)]


def test_a_block_whose_commit_fails_leaves_nothing() -> None:
    store = typed_store()
    txn = store.begin()
    txn.write(amounts(("a", 1, 2)))
    store.write(amounts(("a", 1, 1)))
    with pytest.raises(TransactionConflictError), txn:
        txn.get("a", 1)
    assert txn.state == "rolled back"
    assert {f"{COMPACTED_DIR}{file.id}.sst" for file in store.files()} == files_of(store)
    assert open_store(store.url, {}).list(LEASES_DIR) == []


def test_a_block_that_failed_inside_leaves_nothing() -> None:
    store = new_store()
    txn = store.begin()
    txn.write(pairs((b"a", b"1")))
    assert txn.get(b"a") is not None
    own = files_of(store)
    store.write(pairs((b"a", b"2")))
    with pytest.raises(TransactionConflictError), txn:
        txn.prepare()
    assert txn.state == "rolled back"
    assert len(own) == len(files_of(store) - own) == len(files_of(store)) == 1
    assert open_store(store.url, {}).list(LEASES_DIR) == []


def test_a_pair_that_another_writer_committed_leaves_nothing() -> None:
    store = new_store()
    early = store.begin(txnAppId="app", txnVersion=1)
    early.write(pairs((b"a", b"1")))
    with store.begin(txnAppId="app", txnVersion=1) as late:
        late.write(pairs((b"b", b"2")))
    kept = files_of(store)
    assert early.commit() == store.history(1)[0].version
    assert files_of(store) < kept
    assert shown(store) == [(b"b", b"2")]
    assert open_store(store.url, {}).list(LEASES_DIR) == []


def test_many_small_writes_are_merged_before_the_commit() -> None:
    store = new_store(mergeOperator="concat")
    store.write(pairs((b"a", b"-"), (b"b", b"-")))
    with store.begin() as txn:
        for number in range(3 * MAX_LAYERS):
            letter = bytes([97 + number % 26])
            txn.write(pairs((b"a", letter)), operation="merge" if number % 7 else "upsert")
            txn.write(pairs((b"b", letter), (b"c", letter)))
        layers = txn.planScan().splits[0].layers
        assert sum(layer.is_above_wal for layer in layers) <= MAX_LAYERS
        seen = shown(txn)
    assert seen == shown(store) == [(b"a", b"qrstuv"), (b"b", b"v"), (b"c", b"v")]


def test_the_files_of_many_small_writes_are_joined() -> None:
    """Keys apart from each other: no write hides another, and each of them became a file of the table."""
    store, rng = new_store(mergeOperator="concat"), np.random.default_rng(5)
    store.write(pairs(*((b"%03d" % number, b"-") for number in range(0, 900, 3))))
    expected = dict(shown(store))
    with store.begin() as txn:
        for turn in range(150):
            key, value = b"%03d" % rng.integers(0, 900), bytes([97 + turn % 26])
            match turn % 5:
                case 0:
                    txn.write(pairs((key, value)), operation="merge")
                    expected[key] = expected.get(key, b"") + value
                case 1:
                    txn.delete(keys=[key])
                    expected.pop(key, None)
                case _:
                    txn.write(pairs((key, value)))
                    expected[key] = value
            if turn % 10 == 9:
                assert shown(txn) == sorted(expected.items())
    assert shown(store) == sorted(expected.items())
    assert len(store.files()) <= 2 + MAX_SMALL_TASKS


def test_a_write_whose_join_fails_is_not_part_of_the_transaction() -> None:
    """Who repeats the call applies an operand once."""
    near = new_store(mergeOperator="concat")
    store = FailingStore(open_store(near.url, {}))
    with SlateStore(TableStores(store, store), FakeClock(NOW_MS), {"path": near.url}).begin() as txn:
        for _ in range(MAX_SMALL_TASKS):
            txn.write(pairs((b"a", b"x")), operation="merge")
        before = store.count("put", f"{COMPACTED_DIR}*")
        store.fail("put", f"{COMPACTED_DIR}*", nth=2)  # after the upload of the write
        with pytest.raises(UnavailableError):
            txn.write(pairs((b"a", b"y")), operation="merge")
        assert store.count("put", f"{COMPACTED_DIR}*") == before + 2
        txn.write(pairs((b"a", b"y")), operation="merge")
    assert shown(near) == [(b"a", b"x" * MAX_SMALL_TASKS + b"y")]


def test_files_of_many_segments_are_not_joined_again_and_again() -> None:
    near, turns = new_store(segmentExtractor="two", segmentPrefixLength=2), 10 * MAX_SMALL_TASKS
    store = FailingStore(open_store(near.url, {}))
    with SlateStore(TableStores(store, store), FakeClock(NOW_MS), {"path": near.url}).begin() as txn:
        for turn in range(turns):
            txn.write(pairs((turn.to_bytes(2, "big") + b"k", b"v")))
        assert store.count("put", f"{COMPACTED_DIR}*") <= 2 * turns
    assert len(shown(near)) == turns


def test_writes_that_expire_at_instants_are_joined_apart() -> None:
    """Instants stay, and other expiries move with the time of the commit."""
    clock, until_ms, expected = FakeClock(NOW_MS), NOW_MS + 7_200_000, []
    store, turns = new_store(clock=clock), 4 * MAX_SMALL_TASKS
    with store.begin() as txn:
        for turn in range(turns):
            key, is_instant = b"%03d" % turn, turn % 64 >= 48
            if is_instant:
                until = pa.array([until_ms], pa.timestamp("ms", "UTC"))
                txn.write(pairs((key, b"v"), until=until), expireAtColumn="until")
            else:
                txn.write(pairs((key, b"v")), ttl="1h")
            expected.append((key, "put", 1000, until_ms - NOW_MS if is_instant else 3_601_000))
        clock.advance(1000)
    assert stored(store, "key") == expected
    assert len(store.files()) <= turns / 2


def test_a_commit_leaves_only_the_files_it_published() -> None:
    clock = FakeClock(NOW_MS)
    store = typed_store(clock=clock)
    txn = store.begin()
    txn.write(amounts(("a", 1, 1), ("a", 2, 1)))
    clock.advance(10)
    txn.write(amounts(("a", 2, 2)))
    store.write(amounts(("b", 1, 1)))
    clock.advance(10)
    txn.commit()
    assert {f"{COMPACTED_DIR}{file.id}.sst" for file in store.files()} == files_of(store)
    assert open_store(store.url, {}).list(LEASES_DIR) == []


@pytest.mark.parametrize("call", ["get", "write", "delete"])
def test_leases_and_files_of_a_long_transaction_are_kept_alive(call: str) -> None:
    """Calls that only write did not keep them: a collector took the files once the lease had ended."""
    clock = FakeClock(NOW_MS)
    store = typed_store(clock=clock)
    txn = store.begin()
    txn.write(amounts(("a", 1, 1)))
    first = files_of(store)
    place, lease = open_store(store.url, {}), f"{LEASES_DIR}{txn.id}.json"
    for _ in range(10):
        clock.advance(LEASE_LIFETIME_MS // 2)
        if call == "get":
            assert txn.get("a", 1) is not None
        elif call == "write":
            txn.write(amounts(("a", 1, 1)))
        else:
            txn.delete(keys=[("b", 1)])
        found = fetch_lease(place, lease)
        assert found is not None
        assert (found.created_ms, found.expires_ms) == (NOW_MS, clock.now_ms() + LEASE_LIFETIME_MS)
    assert files_of(store) > first
    for path in first:
        place.delete(path)  # as a collector does, which goes by the age of ids
    txn.commit()
    assert shown(store) == [("a", 1, 1)]


def test_collected_files_are_named() -> None:
    clock = FakeClock(NOW_MS)
    store = typed_store(clock=clock)
    txn = store.begin()
    txn.write(amounts(("a", 1, 1)))
    for path in files_of(store):
        open_store(store.url, {}).delete(path)
    with pytest.raises(SnapshotExpiredError):
        txn.read().read_all()
    clock.advance(300_000)
    with pytest.raises(SnapshotExpiredError):
        txn.commit()
    txn.rollback()
    assert shown(store) == []


def test_a_collected_read_point_is_named() -> None:
    store = typed_store()
    store.write(amounts(("a", 1, 1)))
    txn = store.begin()
    assert txn.get("a", 1) is not None
    txn.write(amounts(("a", 1, 2)))
    store.write(amounts(("b", 1, 1)))
    open_store(store.url, {}).delete(manifest_path(txn.readVersion))
    with pytest.raises(TransactionConflictError):
        txn.commit()
    old = typed_store()
    old.write(amounts(("a", 1, 1)))
    txn, files = old.begin(), files_of(old)
    old.deleteRange("tenant = 'a'")
    for path in files:
        open_store(old.url, {}).delete(path)
    with pytest.raises(SnapshotExpiredError):
        txn.read().read_all()


def test_vacuum_keeps_the_files_of_an_open_transaction() -> None:
    clock = FakeClock()  # of the present, as the times of objects are
    store = typed_store(clock=clock, versionRetention="none")
    store.write(amounts(("a", 1, 1), ("b", 1, 1)))
    txn = store.begin()
    txn.write(amounts(("c", 1, 2)))
    own = files_of(store) - {f"{COMPACTED_DIR}{file.id}.sst" for file in store.files()}
    given_up = store.begin()
    given_up.write(amounts(("c", 1, 3)))
    open_store(store.url, {}).delete(f"{LEASES_DIR}{given_up.id}.json")
    for tenant in ("a", "d"):
        clock.advance(3_600_000)
        store.deleteRange(f"tenant = '{tenant}'")
    clock.advance(3_600_000)
    store.vacuum(minAge="1m", force=True)
    assert own <= files_of(store)
    txn.commit()
    assert shown(store) == [("b", 1, 1), ("c", 1, 2)]
    clock.advance(3_600_000)
    store.vacuum(minAge="1m", force=True)
    assert files_of(store) == {f"{COMPACTED_DIR}{file.id}.sst" for file in store.files()}


def test_a_pinned_read_point_has_a_checkpoint() -> None:
    store = typed_store()
    store.write(amounts(("a", 1, 1)))
    known = len(store.checkpoints())
    txn = store.begin(pin="1h")
    assert [point.version for point in store.checkpoints()[known:]] == [txn.readVersion]


@pytest.mark.parametrize("versions", [1, 3, 6])
@pytest.mark.parametrize("read", [[("a", 1)], "id < 5"])
def test_a_table_that_was_created_again_in_its_place(tmp_path: Path, versions: int, read: Any) -> None:
    """With fewer, as many, or more versions, and the same definition: what was read were rows of another table."""
    path = tmp_path / "table"

    def created(commits: int, amount: int) -> SlateStore:
        store = SlateStore.create(str(path), SCHEMA, ["tenant", "id"])
        for _ in range(commits):
            store.write(amounts(("a", 1, amount)))
        return store

    txn = created(3, 100).begin()
    txn.getForUpdate(read)
    shutil.rmtree(path)
    again = created(versions, 7)
    txn.write(amounts(("b", 2, 0)))
    with pytest.raises(ConflictError):
        txn.commit()
    assert shown(again) == [("a", 1, 7)]
