"""Checkpoints: the manifest after each change, and refused calls."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from uuid import UUID

import pytest

from slatespark import (
    CommitConflictError,
    HistoryTrimmedError,
    InvalidRequestError,
    OptionError,
    SnapshotExpiredError,
    TableNotFoundError,
    UnsupportedFormatError,
)
from slatespark.format.manifest import Checkpoint, Manifest
from slatespark.format.manifest_codec import encode_manifest
from slatespark.format.paths import COMPACTED_DIR, manifest_path, wal_path
from slatespark.format.row import Row
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.checkpoints.store import (
    create_checkpoint,
    delete_checkpoint,
    list_checkpoints,
    refresh_checkpoint,
    repeat_checkpoint,
)
from slatespark.table.log.manifests import fetch_latest_manifest, manifest_log
from slatespark.table.log.versioned_object import MAX_ATTEMPTS
from slatespark.table.records.operations import Operation
from slatespark.table.stores import TableStores
from tests.faults.jobs import Job, table_of
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock
from tests.support.wal_files import encode_wal

NOW_MS = 1_700_000_000_500
_names = itertools.count()


class Place:
    """A table in memory, and a clock."""

    def __init__(self) -> None:
        self.store = FailingStore(MemoryStore(f"checkpoints/{next(_names)}"))
        self.stores = TableStores(main=self.store, wal=self.store)
        self.clock = FakeClock(NOW_MS)

    def write(self, value: bytes = b"1") -> int:
        record = Job(self.store, self.clock).upload(table_of([(b"a", value)])).commit()
        assert record is not None
        return record.manifest_id

    def latest(self) -> tuple[int, Manifest]:
        return fetch_latest_manifest(self.stores)

    def points(self) -> tuple[Checkpoint, ...]:
        return self.latest()[1].checkpoints


@pytest.fixture
def place() -> Place:
    place = Place()
    place.write()
    return place


def test_a_checkpoint_pins_its_own_manifest(place: Place) -> None:
    before_id, before = place.latest()
    made = create_checkpoint(place.stores, place.clock, name="monday", lifetime_ms=1_000)
    after_id, after = place.latest()
    assert after_id == before_id + 1 == made.version
    (point,) = after.checkpoints
    assert point == Checkpoint(UUID(made.id), after_id, 1_700_000_002, 1_700_000_000, "monday")  # 1001.5 s, rounded up
    assert UUID(made.id).version == 4
    assert (made.created_ms, made.expires_ms) == (1_700_000_000_000, 1_700_000_002_000)
    assert (after.writer_epoch, after.compactor_epoch) == (before.writer_epoch, before.compactor_epoch)
    assert (after.ssts, after.compacted, after.last_l0_seq) == (before.ssts, before.compacted, before.last_l0_seq)
    assert list_checkpoints(place.stores) == (made,)


def test_a_checkpoint_covers_all_files_of_the_wal(place: Place) -> None:
    _, before = place.latest()
    seq = before.last_l0_seq + 1
    place.store.put(wal_path(before.wal_id_last_seen + 1), [b""])
    place.store.put(wal_path(before.wal_id_last_seen + 2), [encode_wal([Row(b"w", seq, create_ts_ms=NOW_MS)])])
    create_checkpoint(place.stores, place.clock)
    assert place.latest()[1].wal_id_last_seen == before.wal_id_last_seen + 2


def test_for_ever_of_an_earlier_version_without_a_name(place: Place) -> None:
    second = place.write(b"2")
    place.write(b"3")
    made = create_checkpoint(place.stores, place.clock, manifest_id=second)
    assert (made.version, made.name, made.expires_ms) == (second, None, None)
    assert place.points()[0].expire_time_s == 0


@pytest.mark.parametrize("find", [lambda made: made.id, lambda made: made.name])
def test_refresh_and_delete_by_id_and_by_name(place: Place, find: Callable[[object], str]) -> None:
    create_checkpoint(place.stores, place.clock, name="other")
    made = create_checkpoint(place.stores, place.clock, name="monday", lifetime_ms=1_000)
    place.clock.advance(60_000)  # it has expired, but nobody has taken it away
    refreshed = refresh_checkpoint(place.stores, place.clock, find(made), 5_000)
    assert refreshed.expires_ms == 1_700_000_066_000
    assert (refreshed.id, refreshed.version, refreshed.created_ms) == (made.id, made.version, made.created_ms)
    assert refresh_checkpoint(place.stores, place.clock, find(made)).expires_ms is None
    delete_checkpoint(place.stores, place.clock, find(made))
    assert [point.name for point in place.points()] == ["other"]


@pytest.mark.parametrize("lifetime_ms", [0, -1, (1 << 32) * 1000, 1 << 62])
def test_invalid_lifetimes_are_refused(place: Place, lifetime_ms: int) -> None:
    before = place.latest()
    with pytest.raises(OptionError, match="checkpoint"):
        create_checkpoint(place.stores, place.clock, lifetime_ms=lifetime_ms)
    create_checkpoint(place.stores, place.clock, name="x")
    with pytest.raises(OptionError, match="checkpoint"):
        refresh_checkpoint(place.stores, place.clock, "x", lifetime_ms)
    assert place.latest()[0] == before[0] + 1


def test_the_last_second_of_the_format(place: Place) -> None:
    made = create_checkpoint(place.stores, place.clock, lifetime_ms=((1 << 32) - 1) * 1000 - NOW_MS)
    assert made.expires_ms == ((1 << 32) - 1) * 1000


def test_names_are_unique(place: Place) -> None:
    create_checkpoint(place.stores, place.clock, name="x", lifetime_ms=1_000)
    with pytest.raises(InvalidRequestError, match="'x'"):
        create_checkpoint(place.stores, place.clock, name="x")
    place.clock.advance(2_000)
    made = create_checkpoint(place.stores, place.clock, name="x")
    assert [str(point.id) for point in place.points()] == [made.id]
    place.clock.advance(1 << 40)
    with pytest.raises(InvalidRequestError, match="'x'"):  # that one lasts forever
        create_checkpoint(place.stores, place.clock, name="x")
    with pytest.raises(InvalidRequestError, match="slatespark"):
        create_checkpoint(place.stores, place.clock, name="slatespark/mine")
    with pytest.raises(InvalidRequestError, match="Unicode"):
        create_checkpoint(place.stores, place.clock, name="half \ud800")
    with pytest.raises(InvalidRequestError, match="characters"):
        create_checkpoint(place.stores, place.clock, name="two\nlines")
    with pytest.raises(InvalidRequestError, match=r"\bid\b"):
        create_checkpoint(place.stores, place.clock, name=made.id)
    assert create_checkpoint(place.stores, place.clock, name="montag früh 🌅").name == "montag früh 🌅"


def test_unknown_name_names_the_known_ones(place: Place) -> None:
    for call in (refresh_checkpoint, delete_checkpoint):
        with pytest.raises(InvalidRequestError, match="none"):
            call(place.stores, place.clock, "y")
    for number in range(30):
        create_checkpoint(place.stores, place.clock, name=f"n{number}")
    with pytest.raises(InvalidRequestError, match=r"expired.*n29"):
        delete_checkpoint(place.stores, place.clock, "y")


def test_repeating_a_deleted_checkpoint_is_refused(place: Place) -> None:
    made = create_checkpoint(place.stores, place.clock, name="x")
    delete_checkpoint(place.stores, place.clock, "x")
    with pytest.raises(HistoryTrimmedError, match=made.id):
        repeat_checkpoint(place.stores, place.clock, UUID(made.id), checkpoint_id=UUID(int=9))


def test_the_version_of_the_checkpoint_that_is_meant_is_kept_by_a_second_one(place: Place) -> None:
    old = place.write(b"2")
    create_checkpoint(place.stores, place.clock, name="of another version")
    made = create_checkpoint(place.stores, place.clock, lifetime_ms=1_000, manifest_id=old)
    repeat_checkpoint(place.stores, place.clock, UUID(made.id), checkpoint_id=UUID(int=9), name="clone")
    *_, again = place.points()
    assert (again.id.int, again.manifest_id, again.expire_time_s, again.name) == (9, old, 0, "clone")


def test_checkpoints_with_the_same_name_need_their_ids(place: Place) -> None:
    number, manifest = place.latest()
    points = tuple(Checkpoint(UUID(int=nth), number, 0, 1, "twice") for nth in (1, 2))
    place.store.put(manifest_path(number), [encode_manifest(Manifest(checkpoints=points))])
    assert manifest.checkpoints == ()
    for call in (refresh_checkpoint, delete_checkpoint):
        with pytest.raises(InvalidRequestError, match="twice"):
            call(place.stores, place.clock, "twice")
    delete_checkpoint(place.stores, place.clock, str(UUID(int=2)))
    assert [point.id.int for point in place.points()] == [1]


def test_collected_versions_are_refused(place: Place) -> None:
    old = place.write(b"2")
    Job(place.store, place.clock, operation=Operation.OVERWRITE).upload(table_of([(b"b", b"3")])).commit()
    latest = place.latest()
    with pytest.raises(InvalidRequestError, match=str(latest[0] + 1)):
        create_checkpoint(place.stores, place.clock, manifest_id=latest[0] + 1)
    gone = next(
        meta.path for meta in place.store.list(COMPACTED_DIR) if meta.path[10:36] not in map(str, latest[1].ssts)
    )
    place.store.delete(gone)
    with pytest.raises(SnapshotExpiredError, match=f"{gone}.*{old}"):
        create_checkpoint(place.stores, place.clock, manifest_id=old)
    place.store.delete(manifest_path(old))
    with pytest.raises(SnapshotExpiredError, match=str(old)):
        create_checkpoint(place.stores, place.clock, manifest_id=old)
    assert place.latest() == latest


def test_a_version_collected_meanwhile_is_not_left_pinned(place: Place) -> None:
    old = place.write(b"2")
    number = place.write(b"3")
    path = manifest_path(number + 1)
    place.store.run(lambda: place.store.inner.delete(manifest_path(old)), "create", path, moment="after")
    with pytest.raises(SnapshotExpiredError, match=str(old)):
        create_checkpoint(place.stores, place.clock, manifest_id=old)
    assert place.points() == ()


def test_a_version_that_a_collector_declares_dead_meanwhile_is_not_left_pinned(place: Place) -> None:
    """Its manifest is still there: the collector may look for checkpoints before this one, and delete it after."""
    old, number = place.write(b"2"), place.write(b"3")
    inner = TableStores(main=place.store.inner, wal=place.store.inner)

    def declare() -> None:
        manifest_log(inner).raise_boundary(old, FakeClock(0))

    place.store.run(declare, "create", manifest_path(number + 1), moment="after")
    with pytest.raises(SnapshotExpiredError, match=str(old)):
        create_checkpoint(place.stores, place.clock, manifest_id=old)
    assert place.points() == ()


def test_a_version_that_is_being_collected_gets_no_checkpoint(place: Place) -> None:
    """Not even for a moment: a process killed then would leave a dangling checkpoint, which stops all collectors."""
    old = place.write(b"2")
    place.write(b"3")
    latest = place.latest()
    manifest_log(place.stores).raise_boundary(old, FakeClock(0))
    with pytest.raises(SnapshotExpiredError, match=f"{old}.*collected"):
        create_checkpoint(place.stores, place.clock, manifest_id=old)
    assert place.latest() == latest
    create_checkpoint(place.stores, place.clock, manifest_id=latest[0])


def test_a_lost_race_is_retried(place: Place) -> None:
    number, _ = place.latest()
    rival = FakeClock(NOW_MS, seed=1)
    inner = TableStores(main=place.store.inner, wal=place.store.inner)

    def overtake() -> None:
        create_checkpoint(inner, rival, name="rival")

    place.store.run(overtake, "create", manifest_path(number + 1))
    made = create_checkpoint(place.stores, place.clock, name="ours")
    assert [point.name for point in place.points()] == ["rival", "ours"]
    assert made.version == number + 2


def test_a_deletion_that_loses_a_race_is_retried(place: Place) -> None:
    create_checkpoint(place.stores, place.clock, name="kept")
    create_checkpoint(place.stores, place.clock, name="deleted")
    number, _ = place.latest()
    inner = TableStores(main=place.store.inner, wal=place.store.inner)
    rival = FakeClock(NOW_MS, seed=1)
    place.store.run(lambda: create_checkpoint(inner, rival, name="rival"), "create", manifest_path(number + 1))
    delete_checkpoint(place.stores, place.clock, "deleted")
    assert [point.name for point in place.points()] == ["kept", "rival"]
    place.store.fail("create", "manifest/*", moment="after", error=FileExistsError())  # as of its own repetition
    delete_checkpoint(place.stores, place.clock, "kept")
    assert [point.name for point in place.points()] == ["rival"]


def test_retries_are_limited(place: Place) -> None:
    place.store.fail("create", "manifest/*", times=MAX_ATTEMPTS, error=FileExistsError())
    with pytest.raises(CommitConflictError, match=r"\b20\b"):
        create_checkpoint(place.stores, place.clock)


def test_a_missing_table_and_an_unfinished_clone_are_refused(place: Place) -> None:
    nowhere = Place()
    with pytest.raises(TableNotFoundError):
        create_checkpoint(nowhere.stores, nowhere.clock)
    with pytest.raises(TableNotFoundError):
        list_checkpoints(nowhere.stores)
    nowhere.store.put(manifest_path(1), [encode_manifest(Manifest(initialized=False))])
    with pytest.raises(UnsupportedFormatError, match="clone"):
        create_checkpoint(nowhere.stores, nowhere.clock)
