"""Deleting the files of a failed commit, although an error does not tell whether it was published."""

from __future__ import annotations

from itertools import count

from slatespark import InvalidRequestError, SlateStore
from slatespark.format.paths import COMPACTED_DIR, manifest_path, sst_path
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.commit.discard import delete_unshown
from slatespark.table.log.manifests import fetch_latest_manifest, list_manifests
from tests.faults.jobs import Job, store_on, stores_of, table_of
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock

_names = count()


def new_place() -> tuple[FailingStore, FakeClock, SlateStore]:
    clock = FakeClock()
    store = FailingStore(MemoryStore(f"discard-{next(_names)}/db", clock.now_ms))
    SlateStore.create(store.url, clock=clock, versionRetention="none", autoCompact=False)
    table = store_on(store, clock)
    table.write(table_of([(b"a", b"1")]))
    return store, clock, table


def ssts(store: FailingStore) -> set[str]:
    return {meta.path for meta in store.list(COMPACTED_DIR)}


def test_files_that_a_version_may_show_are_kept() -> None:
    store, clock, table = new_place()
    before, _ = fetch_latest_manifest(stores_of(store))
    table.write(table_of([(b"b", b"1")]))
    shown = [file.handle.id for group in Job(store, clock).upload(table_of([(b"c", b"1")])).outputs for file in group]
    job = Job(store, clock).upload(table_of([(b"d", b"1")]))
    job.commit()
    published = [file.handle.id for group in job.outputs for file in group]
    table.deleteRange("key >= X'62'")
    numbers = list_manifests(stores_of(store))
    assert not set(published) & set(fetch_latest_manifest(stores_of(store))[1].ssts)
    store.fail("get", manifest_path(numbers[-3]))
    delete_unshown(stores_of(store), [*shown, *published], before)
    assert {sst_path(sst_id) for sst_id in [*shown, *published]} <= ssts(store), "a version cannot be read"
    store.clear()
    delete_unshown(stores_of(store), [*shown, *published], before)
    assert {sst_path(sst_id) for sst_id in published} <= ssts(store), "a version in between shows them"
    assert not {sst_path(sst_id) for sst_id in shown} & ssts(store)


def test_a_transaction_that_failed_leaves_no_file() -> None:
    store, _, table = new_place()
    before = ssts(store)
    txn = table.begin()
    txn.getForUpdate([b"a"]).read_all()
    txn.write(table_of([(b"t", b"1")]))
    store.fail(
        "create", manifest_path(fetch_latest_manifest(stores_of(store))[0] + 1), error=InvalidRequestError("403")
    )
    try:
        txn.commit()
    except InvalidRequestError:
        assert txn.state == "failed"
    txn.rollback()
    assert ssts(store) == before
