"""An erasure that fails, is killed, or meets another commit at any call: nothing else is lost, and the key goes."""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pytest

from slatespark import SlateError, SlateStore
from slatespark.errors import InvalidRequestError, SchemaError, UnavailableError
from slatespark.format.paths import COMPACTED_DIR
from slatespark.format.row import RowKind
from slatespark.storage.memory_store import MemoryStore
from slatespark.storage.object_store import ObjectStore
from slatespark.table.records.leases import LEASES_DIR
from tests.faults.jobs import store_on, table_of
from tests.simulation.client import ClientWriter
from tests.support.effort import points
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock

DAY_MS = 86_400_000
KEY = b"secret"
OTHERS = [(b"a", b"2"), (b"b", b"1"), (b"t", b"1"), (b"z", b"2")]
_names = itertools.count()


class KilledError(BaseException):
    """The process ends here; nothing handles it, and nothing is cleaned up."""


@pytest.fixture(scope="module")
def objects() -> dict[str, bytes]:
    """An older version below a newer one, both below a tombstone, each in a layer of its own; and a cut beside them."""
    clock = FakeClock()
    store = MemoryStore(f"erase-faults-{next(_names)}", clock.now_ms)
    table = SlateStore.create(store.url, clock=clock, versionRetention="none", autoCompact=False)
    table.write(table_of([(KEY, b"old"), (b"a", b"1"), (b"b", b"1"), (b"x", b"1"), (b"z", b"1")]))
    table.write(table_of([(KEY, b"new"), (b"t", b"1"), (b"z", b"2")]))
    table.deleteRange(startKey=KEY + b"!", endKey=b"t")
    table.write(table_of([(b"a", b"2")]))
    table.write(table_of([(KEY, b""), (b"x", b"")]), operation="delete")
    return {path: data for path, (data, _) in store._bucket.objects.items()}


def copy_of(objects: dict[str, bytes], clock: FakeClock) -> MemoryStore:
    store = MemoryStore(f"erase-faults-{next(_names)}", clock.now_ms)
    for path, data in objects.items():
        store.put(path, [data])
    return store


def rows_of(store: ObjectStore) -> list[tuple[bytes, bytes]]:
    return [(row["key"], row["value"]) for row in store_on(store, FakeClock()).scan().read_all().to_pylist()]


def calls_of(objects: dict[str, bytes]) -> int:
    clock = FakeClock()
    store = FailingStore(copy_of(objects, clock))
    assert store_on(store, clock).erase(KEY).gone
    assert rows_of(store.inner) == OTHERS
    return store.count()


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_fault_at_any_call(objects: dict[str, bytes], is_killed: bool) -> None:
    outcomes = set()
    for nth in points(calls_of(objects), 4 if is_killed else 7):
        clock = FakeClock()
        store = FailingStore(copy_of(objects, clock))
        error = KilledError() if is_killed else None
        store.fail("*", nth=nth, times=10**9 if is_killed else 1, moment="after", error=error)
        try:
            store_on(store, clock).erase(KEY)
        except (SlateError, KilledError) as exc:
            outcomes.add(type(exc))
        assert rows_of(store.inner) == OTHERS, "neither a version below the tombstone nor anything else"
        clock.advance(DAY_MS + 1000)  # past the lease
        assert store_on(store.inner, clock).erase(KEY).gone
        assert rows_of(store.inner) == OTHERS
    assert outcomes


def another_key(table: SlateStore) -> None:
    table.write(table_of([(b"b", b"1"), (b"t", b"1")]))


def the_key(table: SlateStore) -> None:
    table.write(table_of([(KEY, b"again")]))


def compaction(table: SlateStore) -> None:
    table.compact(full=True)


@pytest.mark.parametrize("other", [another_key, the_key, compaction])
def test_another_commit_at_any_call(objects: dict[str, bytes], other: Callable[[SlateStore], None]) -> None:
    """Rows that came before the commit are erased, later ones stay; all that the report says is true."""
    shown = set()
    for nth in points(calls_of(objects), 5):
        clock = FakeClock()
        inner = copy_of(objects, clock)
        store = FailingStore(inner).run(partial(other, store_on(inner, copy.copy(clock))), "*", nth=nth)
        report = store_on(store, clock).erase(KEY)
        found = rows_of(inner)
        assert [row for row in found if row[0] != KEY] == OTHERS
        shown.add(dict(found).get(KEY))
        if dict(found).get(KEY) is None:
            assert not any(place.is_current for place in report.found)
        else:
            assert not report.gone or report.version < store_on(inner, clock).resolve().version
        clock.advance(DAY_MS)
        assert store_on(inner, clock).erase(KEY).gone
    assert shown == ({None, b"again"} if other is the_key else {None})


class RemoteStore(MemoryStore):
    """One whose requests are worth sending together."""

    @property
    def is_remote(self) -> bool:
        """True."""
        return True


def test_the_lease_of_a_write_is_there_before_its_first_file() -> None:
    """An erasure collects files of any age: one without a lease could be deleted before its commit."""
    clock = FakeClock()
    inner = RemoteStore(f"erase-faults-{next(_names)}", clock.now_ms)
    SlateStore.create(inner.url, clock=clock)
    store = FailingStore(inner)
    table = store_on(store, clock)
    for turn in range(3):
        store.cues.clear()
        files = len(inner.list(COMPACTED_DIR))
        seen: list[int] = []

        def come_late(files: int = files, seen: list[int] = seen) -> None:
            time.sleep(0.05)  # for as long as the store takes, nothing may be uploaded
            seen.append(len(inner.list(COMPACTED_DIR)) - files)

        store.run(come_late, "create", f"{LEASES_DIR}*")
        table.write(table_of([(b"k", b"%d" % turn)]))
        assert seen == [0]


def test_a_write_that_is_refused_leaves_no_lease() -> None:
    clock = FakeClock()
    table = SlateStore.create(f"memory://erase-faults-{next(_names)}", "id BIGINT, v STRING", "id", clock=clock)
    table.write(pa.table({"id": [1], "v": ["a"]}))
    with pytest.raises(SchemaError):
        table.write(pa.table({"id": [1], "other": ["a"]}))
    assert not table._stores.main.list(LEASES_DIR)


def test_a_commit_that_moves_the_key_out_of_the_wal(objects: dict[str, bytes]) -> None:
    """At any call of the erasure: the row gets into a new file, with the number that it had."""
    clock = FakeClock()
    base = copy_of(objects, clock)
    client = ClientWriter(base, clock)
    client.open()
    client.write([(KEY, RowKind.PUT, b"wal"), (b"w", RowKind.PUT, b"1")])
    left = {path: data for path, (data, _) in base._bucket.objects.items()}
    store = FailingStore(copy_of(left, clock))
    store_on(store, clock).erase(KEY)
    for nth in points(store.count() - 1, 12):
        inner = copy_of(left, clock)

        def commit(inner: MemoryStore = inner, seed: int = nth) -> None:
            store_on(inner, FakeClock(clock.now_ms(), seed=seed)).write(table_of([(b"w", b"2")]))

        store_on(FailingStore(inner).run(commit, "*", nth=nth), clock).erase(KEY)
        rows = dict(rows_of(inner))
        assert KEY not in rows, nth
        assert rows.items() >= dict(OTHERS).items()
        assert rows[b"w"] == b"2"


@pytest.mark.parametrize("error", [UnavailableError("The answer is lost."), KilledError()], ids=type)
def test_an_erasure_of_a_history_table_that_left_no_record(error: BaseException) -> None:
    """The versions before it stay as the proof that nobody dropped any history, until there is a record again."""
    clock = FakeClock()
    inner = MemoryStore(f"erase-faults-{next(_names)}", clock.now_ms)
    columns = "id BIGINT, v STRING"
    table = SlateStore.create(inner.url, columns, "id", clock=clock, history=True, versionRetention="none")
    for value in ("a", "b"):
        table.write(pa.table({"id": [1, 2], "v": [value, value]}))
    store = FailingStore(inner).fail("create", "manifest/*", nth=2, moment="after", error=error)  # after the claim
    with pytest.raises(type(error)):
        store_on(store, clock).erase(1)
    clock.advance(DAY_MS + 1000)  # past the lease
    report = store_on(inner, clock).erase(1)
    assert report.gone
    assert report.erasure is not None
    assert report.erasure.removed.rows == 0, "they went before"
    assert store_on(inner, clock).scan(columns="id,v", readVersions="all").read_all().num_rows == 2
    assert store_on(inner, clock).erase(1).version == report.version, "no further version"


def test_a_store_that_refuses_to_delete(objects: dict[str, bytes]) -> None:
    """As to the credentials of a writer: the version without the key stays, and the next call does the rest."""
    clock = FakeClock()
    store = FailingStore(copy_of(objects, clock))
    store.fail("delete", f"{COMPACTED_DIR}*", times=10**9, error=InvalidRequestError("Cannot delete."))
    with pytest.raises(InvalidRequestError):
        store_on(store, clock).erase(KEY)
    inner = store_on(store.inner, clock)
    assert not any(place.is_current for place in inner.proveAbsent(KEY).found)
    assert inner.erase(KEY).gone
    assert rows_of(store.inner) == OTHERS
