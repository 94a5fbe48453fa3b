"""The steps of taking over a database, and the distinction of foreign writes from ours."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from slatespark.errors import (
    CommitConflictError,
    CorruptDataError,
    InternalError,
    TableNotFoundError,
    UnsupportedFormatError,
)
from slatespark.format.compactions import (
    Compaction,
    Compactions,
    CompactionStatus,
    TieredSpec,
    WorkerSpec,
    encode_compactions,
)
from slatespark.format.manifest import Manifest, Segment
from slatespark.format.manifest_codec import encode_manifest
from slatespark.format.paths import boundary_path, compactions_path, manifest_path, wal_path
from slatespark.format.references import SortedRun
from slatespark.format.ulid import Ulid
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.commit.active_jobs import clear_active_jobs
from slatespark.table.commit.claim import Claim, claim_epochs, fetch_held, refuse_unwritable
from slatespark.table.commit.foreign_clients import (
    Baseline,
    are_epochs_ours,
    refuse_foreign_client,
    refuse_foreign_writer,
)
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.log.manifests import fetch_latest_manifest, publish_manifest
from slatespark.table.log.versioned_object import RaceLostError, Version
from slatespark.table.records.claims import CLAIMS_DIR
from slatespark.table.stores import TableStores
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock

_names = itertools.count()
NOW_MS = 1_000_000


@pytest.fixture
def store() -> FailingStore:
    return FailingStore(MemoryStore(f"protocol/{next(_names)}"))


@pytest.fixture
def stores(store: FailingStore) -> TableStores:
    return TableStores(main=store, wal=store)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW_MS)


BASE = Manifest(writer_epoch=3, compactor_epoch=2, replay_after_wal_id=4, wal_id_last_seen=4, last_l0_seq=9)
BASELINE = Baseline(7, 3, 2, 9, 5)


def put_manifest(store: FailingStore, number: int, manifest: Manifest) -> Manifest:
    store.put(manifest_path(number), [encode_manifest(manifest)])
    return manifest


def claim(stores: TableStores, clock: FakeClock) -> Claim:
    number, latest = fetch_latest_manifest(stores)
    return claim_epochs(stores, clock, Version(number, latest), write_id="w", attempt=0)[0]


# --- claims ---------------------------------------------------------------------------------------------------------


def test_a_claim_raises_both_epochs_and_fences_at_the_first_free_id(
    store: FailingStore, stores: TableStores, clock: FakeClock
) -> None:
    put_manifest(store, 7, BASE)
    for number in (4, 5, 6, 9):
        store.put(wal_path(number), [b""])
    ours = claim(stores, clock)
    number, claimed = fetch_latest_manifest(stores)
    assert ours == Claim(Version(number, claimed), fence_id=7)
    assert number == 8
    assert replace(claimed, nonce=0) == replace(BASE, writer_epoch=4, compactor_epoch=3)
    assert store.get(wal_path(7)) == b""
    # Announced before it is made, so that no sibling takes it for a foreign client's.
    order = [call.path for call in store.calls if call.operation in ("put", "create") and "gc/" not in call.path][-3:]
    assert [path.split("/")[-2] for path in order] == ["claims", "manifest", "wal"]


def test_a_faster_writer_moves_the_fence(store: FailingStore, stores: TableStores, clock: FakeClock) -> None:
    put_manifest(store, 7, BASE)
    store.run(lambda: store.inner.put(wal_path(5), [b"rows"]), "create", "wal/*")
    store.run(lambda: store.inner.put(wal_path(6), [b"rows"]), "create", "wal/*", nth=2)
    assert claim(stores, clock).fence_id == 7


def test_another_claim_is_detected_before_a_second_fence(
    store: FailingStore, stores: TableStores, clock: FakeClock
) -> None:
    put_manifest(store, 7, BASE)

    def other_client() -> None:
        put_manifest(store, 9, replace(BASE, writer_epoch=5, compactor_epoch=4))
        store.inner.put(wal_path(5), [b""])

    store.run(other_client, "create", "wal/*")
    with pytest.raises(RaceLostError, match="epoch"):
        claim(stores, clock)
    assert [meta.path for meta in store.list("wal/")] == [wal_path(5)]


class RemoteMemoryStore(MemoryStore):
    """Requests to it are sent together where that is safe."""

    @property
    def is_remote(self) -> bool:
        """True."""
        return True


def test_a_client_that_opens_between_look_and_fence_meets_no_second_fence(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FailingStore(RemoteMemoryStore(f"protocol/{next(_names)}"))
    put_manifest(store, 7, BASE)
    looked = threading.Event()

    def look(stores: TableStores, claim: Claim) -> Version[Manifest]:
        try:
            return fetch_held(stores, claim)
        finally:
            looked.set()

    def other_client() -> None:
        assert looked.wait(60)
        put_manifest(store, 9, replace(BASE, writer_epoch=5, compactor_epoch=4))
        store.inner.put(wal_path(5), [b""])

    monkeypatch.setattr("slatespark.table.commit.claim.fetch_held", look)
    store.run(other_client, "create", "wal/*")
    with pytest.raises(RaceLostError, match="epoch"):
        claim(TableStores(main=store, wal=store), clock)
    assert [meta.path for meta in store.list("wal/")] == [wal_path(5)]


@pytest.mark.parametrize("is_remote", [False, True])
@pytest.mark.parametrize("versions_since", [1, 12])
def test_a_claim_at_a_number_that_was_claimed_and_collected_does_not_count(
    versions_since: int, is_remote: bool, clock: FakeClock
) -> None:
    """This process slept before its claim. The newest version has the epochs that it would have, but is another's."""
    place = f"protocol/{next(_names)}"
    store = FailingStore(RemoteMemoryStore(place) if is_remote else MemoryStore(place))
    stores = TableStores(main=store, wal=store)
    put_manifest(store, 7, BASE)

    def another_commit() -> None:
        for number in range(9, 9 + versions_since):
            put_manifest(store, number, replace(BASE, writer_epoch=4, compactor_epoch=3, last_l0_seq=10))
        store.inner.put(boundary_path("manifest"), [b"8"])
        store.inner.put(wal_path(5), [b""])

    store.run(another_commit, "create", "manifest/*")
    with pytest.raises(RaceLostError, match="collected"):
        claim(stores, clock)
    assert [meta.path for meta in store.list("wal/")] == [wal_path(5)]


def test_a_claim_of_a_table_that_is_being_dropped_is_not_repeated(clock: FakeClock) -> None:
    """A remote listing still shows the versions that the boundary has passed."""
    store = FailingStore(RemoteMemoryStore(f"protocol/{next(_names)}"))
    put_manifest(store, 7, BASE)
    store.put(boundary_path("manifest"), [b"%d" % (2**64 - 1)])
    with pytest.raises(TableNotFoundError, match="being removed"):
        claim(TableStores(main=store, wal=store), clock)


def test_a_lost_race_for_the_manifest_leaves_no_fence(
    store: FailingStore, stores: TableStores, clock: FakeClock
) -> None:
    put_manifest(store, 7, BASE)
    store.run(lambda: store.inner.put(manifest_path(8), [encode_manifest(BASE)]), "create", "manifest/*")
    with pytest.raises(RaceLostError, match="manifest"):
        claim(stores, clock)
    assert store.list("wal/") == []


def test_a_manifest_that_breaks_a_rule_is_not_published(
    store: FailingStore, stores: TableStores, clock: FakeClock
) -> None:
    put_manifest(store, 7, BASE)
    with pytest.raises(InternalError, match="epochs_do_not_decrease"):
        publish_manifest(stores, 8, replace(BASE, writer_epoch=1), BASE, clock)
    assert fetch_latest_manifest(stores)[0] == 7


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (Manifest(segments=(Segment(b"a", None, (), ()),)), "no segment extractor"),
        (
            Manifest(
                segments=(Segment(b"a", None, (), ()),), segment_extractor_name="x", compacted=(SortedRun(1, ()),)
            ),
            "outside",
        ),
        (Manifest(initialized=False), "clone"),
    ],
)
def test_read_only_databases_are_refused(manifest: Manifest, message: str) -> None:
    with pytest.raises(UnsupportedFormatError, match=message):
        refuse_unwritable("s3://b/t", manifest)


# --- foreign clients ------------------------------------------------------------------------------------------------


def check(stores: TableStores, baseline: Baseline = BASELINE) -> None:
    number, latest = fetch_latest_manifest(stores)
    refuse_foreign_client(stores, Version(number, latest), baseline, now_ms=NOW_MS)


def test_an_idle_table_is_accepted(store: FailingStore, stores: TableStores) -> None:
    put_manifest(store, 7, BASE)
    store.put(wal_path(5), [b""])  # a fence that another job of ours left
    check(stores)


def test_checkpoints_of_readers_are_accepted(store: FailingStore, stores: TableStores) -> None:
    put_manifest(store, 7, BASE)
    put_manifest(store, 8, replace(BASE, nonce=1))
    check(stores)


def test_claims_of_siblings_are_ours(store: FailingStore, stores: TableStores, clock: FakeClock) -> None:
    put_manifest(store, 7, BASE)
    for _ in range(3):
        claim(stores, clock)
    check(stores)


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (replace(BASE, writer_epoch=4), "epoch 4"),
        (replace(BASE, compactor_epoch=3), "epoch 3"),
        (replace(BASE, last_l0_seq=10), "epoch 3"),
    ],
)
def test_foreign_writes_are_named(store: FailingStore, stores: TableStores, raised: Manifest, message: str) -> None:
    put_manifest(store, 7, BASE)
    put_manifest(store, 8, raised)
    with pytest.raises(CommitConflictError, match=message):
        check(stores)


def test_a_foreign_claim_between_two_of_ours_is_refused(
    store: FailingStore, stores: TableStores, clock: FakeClock
) -> None:
    put_manifest(store, 7, BASE)
    ours = claim(stores, clock)
    latest = fetch_latest_manifest(stores)[1]
    put_manifest(store, 9, replace(latest, writer_epoch=ours.version.value.writer_epoch + 1))
    claim(stores, clock)
    with pytest.raises(CommitConflictError, match="epoch 5"):
        check(stores)


def test_a_damaged_claim_counts_as_a_clients(store: FailingStore, stores: TableStores, clock: FakeClock) -> None:
    put_manifest(store, 7, BASE)
    claim(stores, clock)
    (record,) = store.list(CLAIMS_DIR)
    store.put(record.path, [b"{"])
    assert not are_epochs_ours(stores, fetch_latest_manifest(stores))
    with pytest.raises(CommitConflictError, match="epoch 4"):
        check(stores)


def test_a_claim_of_ours_that_lost_its_race_does_not_count(
    store: FailingStore, stores: TableStores, clock: FakeClock
) -> None:
    put_manifest(store, 7, BASE)
    theirs = replace(BASE, writer_epoch=4, compactor_epoch=3, nonce=99)
    store.run(lambda: store.inner.put(manifest_path(8), [encode_manifest(theirs)]), "create", "manifest/*")
    with pytest.raises(RaceLostError):
        claim(stores, clock)
    with pytest.raises(CommitConflictError, match="epoch 4"):
        check(stores)


def test_collected_versions_may_have_been_foreign(store: FailingStore, stores: TableStores, clock: FakeClock) -> None:
    put_manifest(store, 7, BASE)
    claim(stores, clock)
    claim(stores, clock)
    store.delete(manifest_path(7))
    check(stores)
    store.delete(manifest_path(8))
    check(stores)  # whoever claimed the epochs then, a job of ours has claimed them since
    theirs = replace(fetch_latest_manifest(stores)[1], writer_epoch=6, nonce=0)
    put_manifest(store, 10, theirs)
    with pytest.raises(CommitConflictError, match="epoch 6"):
        check(stores)


@pytest.mark.parametrize("later", ["ours", "theirs"])
def test_a_vacuum_that_deletes_a_version_and_its_claim_while_we_look(
    store: FailingStore, stores: TableStores, clock: FakeClock, later: str
) -> None:
    put_manifest(store, 7, BASE)
    for _ in range(3):
        claim(stores, clock)
    if later == "theirs":
        put_manifest(store, 11, replace(fetch_latest_manifest(stores)[1], writer_epoch=7, nonce=99))
    store.delete(manifest_path(9))  # it deletes several at a time, in any order

    def vacuum() -> None:
        store.inner.delete(manifest_path(8))
        for claimed in store.inner.list(CLAIMS_DIR):
            if claimed.path < f"{CLAIMS_DIR}{9:020d}":
                store.inner.delete(claimed.path)

    store.run(vacuum, "get", manifest_path(8), nth=2, moment="after")  # the first look is for all together
    if later == "ours":
        check(stores)
    else:
        with pytest.raises(CommitConflictError, match="epoch 7"):
            check(stores)


@pytest.mark.parametrize(
    "asked", [are_epochs_ours, lambda stores, latest: refuse_foreign_writer(stores, latest, BASELINE)]
)
def test_a_damaged_version_is_named(
    store: FailingStore, stores: TableStores, asked: Callable[[TableStores, Version[Manifest]], object]
) -> None:
    put_manifest(store, 7, BASE)
    put_manifest(store, 8, replace(BASE, writer_epoch=4))
    latest = fetch_latest_manifest(stores)
    store.put(manifest_path(8), [store.get(manifest_path(8))[:-20]])
    with pytest.raises(CorruptDataError, match=manifest_path(8)):
        asked(stores, latest)


def test_rows_in_the_wal_are_foreign_writes(store: FailingStore, stores: TableStores) -> None:
    put_manifest(store, 7, BASE)
    store.put(wal_path(5), [b""])
    store.put(wal_path(6), [b"rows"])
    with pytest.raises(CommitConflictError, match="epoch 3"):
        check(stores)
    check(stores, replace(BASELINE, wal_end=7))  # they were there when the write was planned


def test_a_table_that_a_sibling_created(store: FailingStore, stores: TableStores) -> None:
    put_manifest(store, 1, Manifest(last_l0_seq=5))
    check(stores, Baseline(0, 0, 0, 0, 1))
    put_manifest(store, 2, Manifest(last_l0_seq=5, writer_epoch=1))
    with pytest.raises(CommitConflictError, match="epoch 1"):
        check(stores, Baseline(0, 0, 0, 0, 1))


def test_rows_published_under_a_claim_of_ours(store: FailingStore, stores: TableStores, clock: FakeClock) -> None:
    """The write was planned between a sibling's claim and its publication: the epochs stay, the rows move up."""
    put_manifest(store, 7, BASE)
    ours = claim(stores, clock)
    claimed = fetch_latest_manifest(stores)[1]
    put_manifest(store, 9, replace(claimed, nonce=5))  # a reader's checkpoint
    put_manifest(store, 10, replace(claimed, last_l0_seq=12))
    planned = Baseline(8, ours.version.value.writer_epoch, ours.compactor_epoch, 9, 6)
    check(stores, planned)
    store.delete(manifest_path(8))
    with pytest.raises(CommitConflictError, match="ifClientActive"):  # nobody can tell any more
        check(stores, planned)


def job(number: int, status: CompactionStatus, heartbeat_ms: int | None = None) -> Compaction:
    worker = None if heartbeat_ms is None else WorkerSpec("worker", heartbeat_ms)
    return Compaction(Ulid(number), TieredSpec((), (1,), 1), status, worker=worker)


@pytest.mark.parametrize(
    ("status", "heartbeat_ms", "refused"),
    [
        (CompactionStatus.RUNNING, NOW_MS, True),
        (CompactionStatus.RUNNING, NOW_MS - 29_999, True),
        (CompactionStatus.RUNNING, NOW_MS + 5_000, True),  # its clock is ahead of ours
        (CompactionStatus.RUNNING, NOW_MS - 30_000, False),
        (CompactionStatus.RUNNING, 2**62, False),  # a hold, which is never given up, and no work
        (CompactionStatus.RUNNING, None, False),
        (CompactionStatus.SCHEDULED, NOW_MS, False),
        (CompactionStatus.COMPLETED, NOW_MS, False),
    ],
)
def test_a_running_compaction(
    store: FailingStore, stores: TableStores, status: CompactionStatus, heartbeat_ms: int | None, refused: bool
) -> None:
    put_manifest(store, 7, BASE)
    store.put(compactions_path(1), [encode_compactions(Compactions(2, (job(1, status, heartbeat_ms),)))])
    if refused:
        with pytest.raises(CommitConflictError, match="epoch 2"):
            check(stores)
    else:
        check(stores)


# --- compactions ----------------------------------------------------------------------------------------------------

CLAIM = Claim(Version(8, replace(BASE, writer_epoch=4, compactor_epoch=3)), fence_id=5)


def test_no_compactions_file_is_created(store: FailingStore, stores: TableStores) -> None:
    clear_active_jobs(stores, CLAIM, now_ms=NOW_MS, runs=())
    assert store.list("compactions/") == []


def test_finished_jobs_are_unchanged(store: FailingStore, stores: TableStores) -> None:
    store.put(compactions_path(3), [encode_compactions(Compactions(2, (job(1, CompactionStatus.COMPLETED),)))])
    clear_active_jobs(stores, CLAIM, now_ms=NOW_MS, runs=())
    assert fetch_compactions(stores)[0] == 3


@pytest.mark.parametrize("status", [status for status in CompactionStatus if status.is_active()])
def test_active_jobs_are_removed_under_our_epoch(
    store: FailingStore, stores: TableStores, status: CompactionStatus
) -> None:
    done = job(1, CompactionStatus.FAILED)
    store.put(compactions_path(3), [encode_compactions(Compactions(2, (done, job(2, status, 5))))])
    clear_active_jobs(stores, CLAIM, now_ms=NOW_MS, runs=())
    assert fetch_compactions(stores) == (4, Compactions(3, (done,)))


def test_a_hold_replaces_active_jobs(store: FailingStore, stores: TableStores) -> None:
    clear_active_jobs(stores, CLAIM, job(7, CompactionStatus.RUNNING), now_ms=NOW_MS, runs=())
    assert fetch_compactions(stores) == (1, Compactions(3, (job(7, CompactionStatus.RUNNING),)))
    clear_active_jobs(stores, CLAIM, job(8, CompactionStatus.RUNNING), now_ms=NOW_MS, runs=())
    assert fetch_compactions(stores) == (2, Compactions(3, (job(8, CompactionStatus.RUNNING),)))
    clear_active_jobs(stores, CLAIM, now_ms=NOW_MS, runs=())
    assert fetch_compactions(stores) == (3, Compactions(3, ()))


def test_another_coordinator_wins(store: FailingStore, stores: TableStores) -> None:
    active = (job(2, CompactionStatus.RUNNING),)
    store.put(compactions_path(3), [encode_compactions(Compactions(2, active))])
    store.run(lambda: store.inner.put(compactions_path(4), [b"theirs"]), "create", "compactions/*")
    with pytest.raises(RaceLostError, match="compactions"):
        clear_active_jobs(stores, CLAIM, now_ms=NOW_MS, runs=())
    store.put(compactions_path(4), [encode_compactions(Compactions(4, active))])
    with pytest.raises(RaceLostError, match="epoch"):  # ours would make the client stop
        clear_active_jobs(stores, CLAIM, now_ms=NOW_MS, runs=())
