"""What a vacuum makes of the records of loads that were handed to a client."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from slatespark import SlateStore
from slatespark.format.compactions import CompactionStatus, TieredSpec
from slatespark.format.manifest import Manifest
from slatespark.format.paths import manifest_path
from slatespark.table.clock import SystemClock
from slatespark.table.gc import loads as gc_loads
from slatespark.table.gc.loads import LoadResolution, Loads
from slatespark.table.gc.run import vacuum_table
from slatespark.table.gc.survey import list_own, survey_jobs
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.log.versioned_object import Version
from slatespark.table.records.commits import fetch_commit_record, publish_commit_record
from slatespark.table.records.handed_loads import HANDED_LOADS_DIR, HandedLoad, publish_handed_load
from slatespark.table.records.idempotent_writes import fetch_txn_record
from slatespark.table.stores import TableStores
from tests.faults.jobs import table_of
from tests.support.fake_clock import FakeClock
from tests.unit.table.commit.test_handed_loads import BEFORE, FLUSHED, L0_LOAD, L0_PART, MERGED, SHOWN
from tests.unit.table.cooperation.lists import database, job, job_id, publish

HOUR_MS = 3_600_000

_names = itertools.count()
LOAD = replace(L0_LOAD, parts=(replace(L0_PART, job_id=str(job_id(7))),))
HANDED = job(7, TieredSpec(tuple(view.id for view in BEFORE.l0), (), 5), CompactionStatus.COMPACTED)


def settled(
    *later: Manifest, listed: bool, load: HandedLoad = LOAD, gone: int | None = None, age_ms: int = 0, dry: bool = False
) -> tuple[TableStores, Loads]:
    """A load after some versions; its job is listed as finished, or has left the list."""
    stores = database(f"gc loads {next(_names)}", BEFORE, *([HANDED] if listed else []))
    for number, each in enumerate(later, 2):
        publish(stores, number, each)
    publish_handed_load(stores.main, load)
    if gone is not None:
        stores.main.delete(manifest_path(gone))
    (meta,) = list_own(stores.main, HANDED_LOADS_DIR)
    now_ms = meta.modified_ms + age_ms
    jobs = survey_jobs(stores, now_ms, HOUR_MS)[1]
    return stores, LoadResolution(stores, FakeClock(now_ms), jobs, now_ms, HOUR_MS, dry).run([meta])


@pytest.mark.parametrize(
    ("later", "listed", "goes", "base"),
    [
        pytest.param([], True, False, 1, id="waits for the client"),
        pytest.param([FLUSHED], True, False, 1, id="waits, and the client flushed"),
        pytest.param([FLUSHED], False, True, None, id="the client refused it"),
        pytest.param([FLUSHED, SHOWN], False, True, None, id="committed"),
        pytest.param([SHOWN], True, True, None, id="committed, and the list not written yet"),
        pytest.param([SHOWN, MERGED], False, True, None, id="committed, and merged since"),
        pytest.param([MERGED], True, True, None, id="others merged its sources"),
    ],
)
@pytest.mark.parametrize("dry", [False, True])
def test_a_record_goes_when_its_fate_is_known(
    later: list[Manifest], listed: bool, goes: bool, base: int | None, dry: bool
) -> None:
    stores, loads = settled(*later, listed=listed, dry=dry)
    assert [verdict.goes for verdict in loads.verdicts] == [goes]
    assert loads.base == base
    number = next((at for at, each in enumerate(later, 2) if each is SHOWN), None)
    if number is not None:
        record, outcome = fetch_commit_record(stores.main, number), fetch_txn_record(stores.main, "app", 1)
        if dry:
            assert (record, outcome) == (None, None)
        else:
            assert record is not None
            assert outcome is not None
            assert (record.write_id, outcome.manifest_id) == (LOAD.record.write_id, number)


@pytest.mark.parametrize("dry", [False, True])
def test_a_load_that_nobody_can_commit_is_taken_back(dry: bool) -> None:
    """A coordinator that is back later finds a job without sources, and ends it."""
    stores, loads = settled(MERGED, listed=True, dry=dry)
    assert loads.jobs.active == (), "so that its files may go"
    (left,) = fetch_compactions(stores).value.jobs
    assert left.spec.l0_view_ids == (HANDED.spec.l0_view_ids if dry else ())


def test_a_load_that_is_committed_between_the_looks_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    def commits_now(stores: TableStores) -> Version[Manifest]:
        if fetch_latest_manifest(stores).number == 1:
            publish(stores, 2, SHOWN)
        return fetch_latest_manifest(stores)

    monkeypatch.setattr(gc_loads, "fetch_latest_manifest", commits_now)
    stores, loads = settled(listed=True)
    assert [verdict.goes for verdict in loads.verdicts] == [True]
    record, outcome = fetch_commit_record(stores.main, 2), fetch_txn_record(stores.main, "app", 1)
    assert record is not None
    assert outcome is not None
    assert (record.write_id, outcome.manifest_id) == (LOAD.record.write_id, 2)


def test_a_load_that_waits_keeps_its_files() -> None:
    _, loads = settled(listed=True)
    assert loads.jobs.active == (HANDED,)


def test_of_several_loads_the_oldest_keeps_versions() -> None:
    """The record of the older one is listed last."""
    stores = database(f"gc loads {next(_names)}", BEFORE, HANDED, replace(HANDED, id=job_id(8)))
    publish(stores, 2, FLUSHED)
    newer = replace(LOAD, base=2, parts=(replace(L0_PART, job_id=str(job_id(8))),))
    for load, write_id in ((newer, "a" * 16), (LOAD, "b" * 16)):
        publish_handed_load(stores.main, replace(load, record=replace(load.record, write_id=write_id)))
    listed = list_own(stores.main, HANDED_LOADS_DIR)
    jobs = survey_jobs(stores, 0, HOUR_MS)[1]
    assert LoadResolution(stores, FakeClock(), jobs, 0, HOUR_MS, dry_run=False).run(listed).base == 1


@pytest.mark.parametrize(
    ("load", "age_ms", "goes"),
    [
        (LOAD, 2 * HOUR_MS, False),
        (replace(LOAD, app=None, version=None), 2 * HOUR_MS, True),
        (replace(LOAD, app=None, version=None), HOUR_MS - 1, False),
    ],
)
def test_what_cannot_be_known_any_more_is_kept_for_those_who_may_ask(load: HandedLoad, age_ms: int, goes: bool) -> None:
    _, loads = settled(SHOWN, MERGED, listed=False, gone=2, load=load, age_ms=age_ms)
    assert [verdict.goes for verdict in loads.verdicts] == [goes]


def test_a_load_stays_where_its_version_has_the_record_of_another_write() -> None:
    """Until nobody can compare that version any more; its outcome was recorded."""
    stores, _ = settled(listed=False)
    publish(stores, 2, SHOWN)
    publish_commit_record(stores.main, replace(LOAD.record, manifest_id=2, write_id="f" * 16))
    assert _judged_again(stores) == [False]
    publish(stores, 3, MERGED)
    stores.main.delete(manifest_path(2))
    assert _judged_again(stores) == [True]


def _judged_again(stores: TableStores) -> list[bool]:
    (meta,) = list_own(stores.main, HANDED_LOADS_DIR)
    now_ms = meta.modified_ms + HOUR_MS
    jobs = survey_jobs(stores, now_ms, HOUR_MS)[1]
    loads = LoadResolution(stores, FakeClock(now_ms), jobs, now_ms, HOUR_MS, dry_run=False).run([meta])
    return [verdict.goes for verdict in loads.verdicts]


def test_a_damaged_record_stays() -> None:
    stores, _ = settled(listed=True)
    stores.main.put(f"{HANDED_LOADS_DIR}damaged.json", [b"{}"])
    jobs = survey_jobs(stores, 0, HOUR_MS)[1]
    listed = [meta for meta in list_own(stores.main, HANDED_LOADS_DIR) if "damaged" in meta.path]
    loads = LoadResolution(stores, FakeClock(), jobs, 0, HOUR_MS, dry_run=False).run(listed)
    assert [verdict.goes for verdict in loads.verdicts] == [False]


@pytest.mark.parametrize("folder", ["filtered", "loads", "claims", "commits", "leases", "txn", "columns"])
def test_files_of_others_among_the_records_stay(folder: str) -> None:
    table = SlateStore.create(f"memory://gc-others/{folder}", versionRetention="none")
    store, path = table._stores.main, f"slatespark/{folder}/notes.txt"
    store.put(path, [b"mine"])
    for number in range(2):
        table.write(table_of([(b"%d" % number, b"v")]))
    vacuum_table(table._stores, SystemClock(), min_age_ms=0)
    assert store.get(path) == b"mine"
