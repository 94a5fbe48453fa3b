"""The read option `pin`: a checkpoint on exactly the data that the read sees."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from slatespark import InvalidRequestError, OptionError, SlateStore, SnapshotExpiredError
from slatespark.format.manifest import Checkpoint
from slatespark.format.paths import wal_path
from slatespark.format.row import Row
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.log.manifests import fetch_latest_manifest
from tests.faults.jobs import Job, store_on, stores_of, table_of
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock
from tests.support.wal_files import encode_wal, forget_own_commits

NOW_MS = 1_700_000_000_000
_names = itertools.count()


class Place:
    """A table of two versions in memory."""

    def __init__(self) -> None:
        self.inner = FailingStore(MemoryStore(f"pins/{next(_names)}"))
        self.clock = FakeClock(NOW_MS)
        Job(self.inner, self.clock).upload(table_of([(b"a", b"1")])).commit()
        self.store = store_on(self.inner, self.clock)
        self.old = self.store.write(table_of([(b"a", b"2")]))
        self.newest = self.store.write(table_of([(b"a", b"3")]))

    def points(self) -> tuple[Checkpoint, ...]:
        return fetch_latest_manifest(stores_of(self.inner))[1].checkpoints

    def put_wal_row(self, value: bytes) -> None:
        manifest = fetch_latest_manifest(stores_of(self.inner))[1]
        number = manifest.wal_id_last_seen + 1
        row = Row(b"a", manifest.last_l0_seq + 1, value=value, create_ts_ms=NOW_MS)
        self.inner.put(wal_path(number), [encode_wal([row])])
        forget_own_commits(self.store)

    def value(self, **options: Any) -> bytes:
        rows: pa.Table = self.store.scan(**options).read_all()
        return bytes(rows["value"][0].as_py())


@pytest.fixture
def place() -> Place:
    return Place()


def test_the_newest_version_is_pinned(place: Place) -> None:
    assert place.value(pin="1h") == b"3"
    (point,) = place.points()
    assert (point.manifest_id, point.name) == (place.newest, "slatespark/pin")
    assert point.expire_time_s == NOW_MS // 1000 + 3600


def test_an_older_version_is_pinned(place: Place) -> None:
    assert place.value(versionAsOf=place.old, pin=1_000) == b"2"
    assert [point.manifest_id for point in place.points()] == [place.old]


def test_rows_of_the_wal_are_pinned(place: Place) -> None:
    place.put_wal_row(b"4")
    assert place.value(pin="1h") == b"4"
    number, manifest = fetch_latest_manifest(stores_of(place.inner))
    (point,) = manifest.checkpoints
    assert (point.manifest_id, number) == (place.newest + 1, place.newest + 1)
    assert place.value(versionAsOf=number) == b"4"


def test_an_older_version_with_rows_of_the_wal_is_pinned(place: Place) -> None:
    place.put_wal_row(b"4")
    kept = place.store.createCheckpoint("kept").version
    place.store.write(table_of([(b"a", b"5")]), ifClientActive="fence")
    assert place.value(versionAsOf=kept, pin="1h") == b"4"
    assert [(point.manifest_id, point.name) for point in place.points()][-1] == (kept, "slatespark/pin")


def test_a_concurrent_commit_is_read_too(place: Place) -> None:
    place.put_wal_row(b"4")
    rival = store_on(place.inner.inner, FakeClock(NOW_MS, seed=1))

    def overtake() -> None:
        rival.write(table_of([(b"a", b"5")]))

    place.inner.run(overtake, "create", "manifest/*")
    assert place.value(pin="1h") == b"5"
    assert len(place.points()) == 1


@pytest.mark.parametrize("is_asked_for", [False, True])
def test_a_version_that_is_collected_before_its_pin_is_there(place: Place, is_asked_for: bool) -> None:
    rival = store_on(place.inner.inner, FakeClock(NOW_MS, seed=1))

    def overtake() -> None:
        rival.write(table_of([(b"a", b"5")]))
        rival.vacuum("0s", force=True)

    place.inner.run(overtake, "create", "manifest/*")
    if is_asked_for:
        with pytest.raises(SnapshotExpiredError):
            place.value(versionAsOf=place.newest, pin="1h")
        assert place.points() == ()
    else:
        assert place.value(pin="1h") == b"5"
        assert len(place.points()) == 1


def test_a_look_up_pins_too(place: Place) -> None:
    assert place.store.get(b"a", pin="1h") == {"key": b"a", "value": b"3"}
    assert len(place.points()) == 1


def test_a_read_only_store_is_refused(place: Place) -> None:
    place.inner.fail("create", times=100, error=InvalidRequestError("Access denied."))
    with pytest.raises(InvalidRequestError, match="pin"):
        place.value(pin="1h")
    assert place.value() == b"3"
    place.inner.clear()
    for wrong in ("0", "soon", -1):
        with pytest.raises(OptionError):
            place.value(pin=wrong)
    assert place.points() == ()


_ROWS = pa.table({"k": [1], "since": [5]})
_REFUSED: dict[str, Callable[[SlateStore], object]] = {
    "column": lambda store: store.scan(columns="nope", pin="1h"),
    "filter": lambda store: store.scan(filter="nope = 1", pin="1h"),
    "range": lambda store: store.scan(startKey=b"a", pin="1h"),
    "operator": lambda store: store.scan(mergeOperator="nope", pin="1h"),
    "versions": lambda store: store.versions(columns="nope", pin="1h"),
    "key": lambda store: store.get("text", pin="1h"),
    "lookup": lambda store: store.lookup(pa.table({"k": ["text"]}), pin="1h"),
    "changes": lambda store: store.changes(startingVersion=1, filter="nope = 1", pin="1h"),
    "time of a join": lambda store: store.asOf(_ROWS, "nope", pin="1h"),
    "columns of a join": lambda store: store.asOf(_ROWS, "since", columns="nope", pin="1h"),
}


@pytest.mark.parametrize("read", _REFUSED.values(), ids=_REFUSED.keys())
@pytest.mark.parametrize("history", [False, True], ids=["plain", "history"])
def test_what_is_refused_pins_nothing(read: Callable[[SlateStore], object], history: bool) -> None:
    store = SlateStore.create(f"memory://pins/{next(_names)}", "k BIGINT, v STRING", "k", history=history)
    version = store.write(pa.table({"k": [1], "v": ["a"]}))
    with pytest.raises(InvalidRequestError):
        read(store)
    assert store.resolve().version == version
