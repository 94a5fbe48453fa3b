"""Which records of compactions with filters a vacuum keeps."""

from __future__ import annotations

import itertools
from typing import Any, Final

import pytest

from slatespark.format.compactions import Compaction, CompactionStatus, TieredSpec
from slatespark.format.ulid import Ulid
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.gc.filterings import judge_filterings
from slatespark.table.gc.plan import KeptVersion, Needs, Reason
from slatespark.table.gc.survey import list_own
from slatespark.table.records.filtered_jobs import FILTERED_DIR, FilteredJob, publish_filtered_job
from slatespark.table.stores import TableStores
from tests.support.fake_clock import FakeClock

NOW_MS: Final = 1_800_000_000_000
HOUR_MS: Final = 3_600_000
OLD, NEW, OTHER, JOB_ID = Ulid(1), Ulid(2), Ulid(3), Ulid(9)
JOB: Final = FilteredJob(str(JOB_ID), "", (str(OLD),), (str(NEW),))
NEWEST, BEFORE = (KeptVersion(number, Reason("it is needed"), 0, 0) for number in (8, 7))
_names = itertools.count()


def listed(*ids: Ulid) -> dict[str, Any]:
    return {"jobs": tuple(Compaction(each, TieredSpec((), (0,), 0), CompactionStatus.COMPACTED) for each in ids)}


def shown(*ids: Ulid) -> dict[str, Any]:
    return {"shown_by": dict.fromkeys(ids, NEWEST)}


def goes(age_ms: int, *, is_damaged: bool = False, **needs: Any) -> list[bool]:
    """Whether a record of that age goes; nothing for one of which nothing is said."""
    clock = FakeClock(NOW_MS - age_ms)
    store = MemoryStore(f"filterings-{next(_names)}", clock.now_ms)
    publish_filtered_job(store, JOB, 0)
    if is_damaged:
        (meta,) = store.list(FILTERED_DIR)
        store.delete(meta.path)
        store.put(meta.path, [b"{}"])
    given = {"replay_after": 0, "versions": (NEWEST,), **needs}
    stores = TableStores(main=store, wal=store)
    found = judge_filterings(stores, list_own(store, FILTERED_DIR), Needs(NOW_MS, HOUR_MS, **given))
    return [verdict.goes for verdict in found]


def test_a_record_goes_once_no_version_is_left_from_before_its_commit() -> None:
    assert goes(HOUR_MS) == [True]
    assert goes(HOUR_MS - 1) == [False], "it is young"
    assert goes(HOUR_MS, **listed(OTHER), **shown(OTHER)) == [True], "others have nothing to do with it"


@pytest.mark.parametrize(
    "needs",
    [listed(JOB_ID), shown(OLD), shown(NEW), {"unknown": "a version cannot be read"}],
    ids=["a client may commit it", "before the commit", "after it", "unknown"],
)
def test_a_record_stays_while_it_may_be_needed(needs: dict[str, Any]) -> None:
    assert goes(100 * HOUR_MS, **needs) == [False]


def test_a_damaged_record_may_be_about_any_version_but_the_newest() -> None:
    assert goes(HOUR_MS, is_damaged=True) == [True]
    assert goes(HOUR_MS - 1, is_damaged=True) == [False]
    assert goes(HOUR_MS, is_damaged=True, versions=(BEFORE, NEWEST)) == [False]
    assert goes(HOUR_MS, is_damaged=True, **listed(JOB_ID)) == [False]
    assert goes(HOUR_MS, is_damaged=True, **listed(OTHER)) == [True]


def test_nothing_is_said_of_a_record_that_is_gone() -> None:
    store = MemoryStore(f"filterings-{next(_names)}", lambda: NOW_MS - HOUR_MS)
    publish_filtered_job(store, JOB, 0)
    metas = store.list(FILTERED_DIR)
    store.delete(metas[0].path)
    needs = Needs(NOW_MS, HOUR_MS, replay_after=0, versions=(NEWEST,))
    assert list(judge_filterings(TableStores(main=store, wal=store), metas, needs)) == []
