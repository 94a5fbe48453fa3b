"""The history floor: what moves it, what it refuses, and what a client's compaction is asked to keep."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from slatespark import HistoryTrimmedError, InvalidRequestError, OptionError, SlateStore, SnapshotExpiredError
from slatespark.format.manifest import Manifest
from slatespark.format.paths import manifest_path
from slatespark.format.properties import SstProperties
from slatespark.table.commit.claim import claim_epochs
from slatespark.table.log.manifests import fetch_latest_manifest, publish_manifest
from slatespark.table.log.versioned_object import Version
from slatespark.table.read.versions.floor import lost_through
from slatespark.table.records.commits import newest_commit_records
from slatespark.table.stores import TableStores, open_stores
from slatespark.units import ms_to_text
from tests.support.fake_clock import FakeClock

NOW_MS = 1_700_000_000_000
_numbers = count()


def new_store(**properties: Any) -> SlateStore:
    url = f"memory://floor-{next(_numbers)}/table"
    return SlateStore.create(url, clock=FakeClock(NOW_MS), history=True, **properties)


def stores_of(store: SlateStore) -> TableStores:
    return open_stores(store.url, storage={})


def write(store: SlateStore, *rows: tuple[bytes, int]) -> int:
    keys, times = [key for key, _ in rows], [ts for _, ts in rows]
    values = pa.array([b"%d" % ts for ts in times], pa.binary())
    return store.write(
        pa.table({"key": pa.array(keys, pa.binary()), "value": values, "ts": times}), timestampColumn="ts"
    )


def values(store: SlateStore, **options: Any) -> list[bytes]:
    found: list[bytes] = store.scan(**options).read_all()["value"].to_pylist()
    return found


def test_reads_below_the_floor_are_refused_and_name_it() -> None:
    store = new_store()
    write(store, (b"a", 10), (b"a", 20), (b"a", 30))
    assert [values(store, timestampAsOf=ts) for ts in (10, 20, 29)] == [[b"10"], [b"20"], [b"20"]]
    store.setHistoryFloor(25)
    assert store.definition.full_history_ts_low_ms == 25
    assert [values(store, timestampAsOf=ts) for ts in (25, 30)] == [[b"20"], [b"30"]]
    for read in (store.scan, lambda **options: store.get(b"a", **options)):
        with pytest.raises(HistoryTrimmedError, match=ms_to_text(25)):
            read(timestampAsOf=24)
    assert [row["value"] for row in store.versions().read_all().to_pylist()] == [b"30", b"20"]


def test_a_floor_only_rises() -> None:
    store = new_store()
    store.setHistoryFloor("2020-01-01")
    store.setHistoryFloor("2020-01-01")
    with pytest.raises(InvalidRequestError, match="floor"):
        store.setHistoryFloor("2019-12-31")
    with pytest.raises(OptionError, match="future"):
        store.setHistoryFloor(NOW_MS + 1)
    with pytest.raises(OptionError):
        store.setHistoryFloor("soon")
    store.setHistoryFloor(NOW_MS)


def test_other_tables_have_no_floor_and_no_intervals() -> None:
    store = SlateStore.create(f"memory://floor-{next(_numbers)}", clock=FakeClock(NOW_MS))
    with pytest.raises(InvalidRequestError, match="history"):
        store.setHistoryFloor(0)
    with pytest.raises(InvalidRequestError, match="restoreToTimestamp"):
        store.trimHistory(0)
    with pytest.raises(OptionError, match="history"):
        store.versions()


def test_only_history_tables_are_held() -> None:
    with pytest.raises(OptionError, match="holdHistory"):
        SlateStore.create(f"memory://floor-{next(_numbers)}", holdHistory=True)
    plain = SlateStore.create(f"memory://floor-{next(_numbers)}")
    with pytest.raises(OptionError, match="holdHistory"):
        plain.setProperties(holdHistory=True)
    plain.setProperties(holdHistory=False)


def test_before_the_first_version_there_is_no_table() -> None:
    store = new_store()
    assert values(store, timestampAsOf=5) == [], "nothing was ever stored"
    write(store, (b"b", 20), (b"a", 10))
    with pytest.raises(HistoryTrimmedError, match=r"1970-01-01T00:00:00.009Z"):
        store.scan(timestampAsOf=9)
    store.setHistoryFloor(5)
    assert values(store, timestampAsOf=9) == [], "a floor promises everything above it"


def test_commits_of_ours_lose_nothing_not_even_one_that_died() -> None:
    store = new_store()
    write(store, (b"a", 10))
    write(store, (b"a", 20))
    stores = stores_of(store)
    number, manifest = fetch_latest_manifest(stores)
    assert lost_through(stores, manifest) is None
    claim_epochs(stores, FakeClock(NOW_MS, seed=9), Version(number, manifest), write_id="0" * 16, attempt=0)
    assert lost_through(stores, fetch_latest_manifest(stores)[1]) is None
    write(store, (b"a", 30))
    assert store.definition.lost_through_ms is None
    assert values(store, timestampAsOf=10) == [b"10"]


def test_versions_that_were_collected_are_no_loss_but_claims_that_were_are() -> None:
    store = new_store()
    write(store, (b"a", 10), (b"a", 20))
    stores = stores_of(store)
    first, _ = fetch_latest_manifest(stores)
    for _ in range(3):
        store.createCheckpoint()
    for seed in (1, 2):  # writers that die after their claims
        newest = fetch_latest_manifest(stores)
        claim_epochs(stores, FakeClock(NOW_MS, seed=seed), newest, write_id=f"{seed:016x}", attempt=0)
        store.createCheckpoint()
    for number in (first + 1, first + 2, first + 5):
        stores.main.delete(manifest_path(number))
    latest = fetch_latest_manifest(stores)[1]
    assert lost_through(stores, latest) is None
    write(store, (b"a", 30))
    assert store.definition.lost_through_ms is None
    assert lost_through(stores, replace(latest, compacted=())) is None, "a claim of ours compacts nothing"
    stores.main.delete(manifest_path(first + 4))
    assert lost_through(stores, replace(latest, last_l0_seq=latest.last_l0_seq + 1)) == 20, "nobody knows whose it was"


def test_a_client_that_came_and_went_among_versions_that_were_collected_is_found() -> None:
    store = new_store()
    write(store, (b"a", 10), (b"a", 20))
    stores = stores_of(store)
    number, manifest = fetch_latest_manifest(stores)
    foreign = replace(manifest, compactor_epoch=manifest.compactor_epoch + 1, last_l0_seq=manifest.last_l0_seq + 1)
    publish_manifest(stores, number + 1, foreign, manifest, FakeClock(NOW_MS))
    claim_epochs(stores, FakeClock(NOW_MS, seed=9), Version(number + 1, foreign), write_id="0" * 16, attempt=0)
    stores.main.delete(manifest_path(number + 1))
    assert lost_through(stores, fetch_latest_manifest(stores)[1]) == 20


def test_an_epoch_that_nobody_explains_is_a_loss_where_files_changed() -> None:
    store = new_store()
    write(store, (b"a", 10))
    write(store, (b"a", 20))
    stores = stores_of(store)
    number, manifest = fetch_latest_manifest(stores)
    foreign = replace(manifest, compactor_epoch=manifest.compactor_epoch + 1)
    assert lost_through(stores, foreign) is None, "a compactor that came and went"
    assert lost_through(stores, replace(foreign, compacted=foreign.compacted[:1])) == 20
    assert lost_through(stores, replace(foreign, last_l0_seq=foreign.last_l0_seq + 1)) == 20
    assert lost_through(stores, replace(manifest, l0=manifest.compacted[0].views)) == 20
    publish_manifest(stores, number + 1, foreign, manifest, FakeClock(NOW_MS))
    assert lost_through(stores, replace(foreign, compacted=foreign.compacted[:1])) == 20, "no claim announces it"


def test_without_any_record_everything_may_be_lost() -> None:
    store = new_store()
    write(store, (b"a", 10))
    stores = stores_of(store)
    manifest = fetch_latest_manifest(stores)[1]
    for record in newest_commit_records(stores.main):
        stores.main.delete(f"slatespark/commits/{record.manifest_id:020d}.json")
    assert lost_through(stores, manifest) == 10
    write(store, (b"a", 30))
    assert store.definition.lost_through_ms == 10


# --- the bounds of older versions -----------------------------------------------------------------------------------


def beside(store: SlateStore, name: str) -> str:
    return f"{store.url.rpartition('/')[0]}/{name}"


def past(store: SlateStore, **options: Any) -> list[bytes]:
    """The versions of all rows, keys ascending, newest first."""
    found: list[bytes] = store.versions(**options).read_all()["value"].to_pylist()
    return found


def test_a_checkpoint_keeps_its_past_when_the_floor_rises() -> None:
    store = new_store()
    write(store, (b"a", 10), (b"a", 20))
    store.createCheckpoint("first")
    store.setHistoryFloor(15)
    write(store, (b"a", 30), (b"a", 40))
    store.createCheckpoint("second")
    store.setHistoryFloor(35)
    store.compact(full=True)
    assert past(store) == [b"40", b"30"]
    assert past(store, checkpoint="first") == [b"20", b"10"]
    assert past(store, checkpoint="second") == [b"40", b"30", b"20", b"10"], "10 is valid until 20, above that floor"


def test_a_raised_floor_judges_the_newest_state_at_once_but_not_the_version_that_it_is() -> None:
    store = new_store()
    version = write(store, (b"a", 10), (b"a", 20))
    store.setHistoryFloor(20)
    assert past(store) == [b"20"]
    assert past(store, versionAsOf=version) == [b"20", b"10"]


def test_a_clone_of_a_checkpoint_has_its_past() -> None:
    store = new_store()
    write(store, (b"a", 10), (b"a", 20))
    store.createCheckpoint("first")
    store.setHistoryFloor(15)
    write(store, (b"a", 30))
    store.setHistoryFloor(25)
    copied = store.clone(beside(store, "clone"), checkpoint="first")
    assert copied.definition.full_history_ts_low_ms is None
    assert past(copied) == [b"20", b"10"]
    assert values(copied, timestampAsOf=10) == [b"10"]
    assert values(store.clone(beside(store, "newest")), timestampAsOf=25) == [b"20"]
    copied.setHistoryFloor(20)
    assert past(copied) == [b"20"], "it has its own floor, and its own version numbers"


def test_a_clone_begins_with_the_first_row_of_its_parent() -> None:
    store = new_store()
    write(store, (b"a", 10))
    copied = store.clone(beside(store, "clone"))

    def refused_before_the_first_row() -> None:
        with pytest.raises(HistoryTrimmedError, match=ms_to_text(10)):
            values(copied, timestampAsOf=9)
        assert values(copied, timestampAsOf=10) == [b"10"]

    refused_before_the_first_row()
    write(copied, (b"b", 15))
    refused_before_the_first_row()
    again = copied.clone(beside(store, "again"))
    with pytest.raises(HistoryTrimmedError, match=ms_to_text(10)):
        values(again, timestampAsOf=9)
    copied.compact(full=True)
    refused_before_the_first_row()


def test_files_whose_properties_contradict_themselves_do_not_tell_where_a_clone_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, true_json = new_store(), SstProperties.to_json
    monkeypatch.setattr(SstProperties, "to_json", lambda found: {**true_json(found), "min_create_ts": 20})
    write(store, (b"a", 10))
    copied = store.clone(beside(store, "clone"))
    assert values(copied, timestampAsOf=10) == [b"10"]


def test_a_clone_whose_parents_files_are_gone() -> None:
    store = new_store()
    write(store, (b"a", 10))
    copied = store.clone(beside(store, "clone"))
    main = stores_of(store).main
    for found in [*main.list("compacted/")]:
        main.delete(found.path)
    with pytest.raises(SnapshotExpiredError):
        values(copied, timestampAsOf=9)


# --- recent_snapshot_min_seq ----------------------------------------------------------------------------------------


def test_the_manifest_says_what_to_keep() -> None:
    def least(store: SlateStore) -> tuple[int, int]:
        manifest: Manifest = fetch_latest_manifest(stores_of(store))[1]
        return manifest.recent_snapshot_min_seq, manifest.last_l0_seq

    store = new_store()
    for ts in (10, 20, 30):
        write(store, (b"a", ts))
    assert least(store) == (0, 3)
    store.setHistoryFloor(20)
    write(store, (b"a", 40))
    assert least(store) == (2, 4)
    plain = SlateStore.create(f"memory://floor-{next(_numbers)}", clock=FakeClock(NOW_MS))
    plain.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    assert least(plain) == (1, 1)
