"""Filtered jobs: which version may be their commit, and what damaged records do."""

from __future__ import annotations

import pytest

from slatespark.errors import CorruptDataError
from slatespark.format.ulid import Ulid
from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.records.filtered_jobs import (
    FILTERED_DIR,
    FilteredJob,
    fetch_filtered_job,
    fetch_filtered_jobs,
    job_id_in,
    publish_filtered_job,
)
from tests.support.failing_store import FailingStore

OLD, NEW, OTHER = Ulid(1), Ulid(2), Ulid(3)
JOB = FilteredJob("01M82BFQ5TC5DGSMW160FNH9A1", "", (str(OLD),), (str(NEW),))
EMPTY = FilteredJob("01M82BFQ5TC5DGSMW160FNH9A2", "6162", (str(OLD),), ())


def test_they_are_found_again() -> None:
    store = MemoryStore("filtered jobs")
    assert fetch_filtered_jobs(store, {}) == []
    for nonce, job in enumerate((JOB, JOB, EMPTY)):
        publish_filtered_job(store, job, nonce)
    store.put(f"{FILTERED_DIR}.DS_Store", [b"a file of somebody else"])
    assert fetch_filtered_jobs(store, {}) == [JOB, JOB, EMPTY]
    assert [job_id_in(meta.path) for meta in store.list(FILTERED_DIR)][1:] == [JOB.job_id, JOB.job_id, EMPTY.job_id]
    assert (JOB.keys, EMPTY.keys) == (ALL_KEYS, KeyRange(b"ab", b"ac"))


@pytest.mark.parametrize(
    ("job", "added", "gone", "is_commit"),
    [
        (JOB, [NEW], [OLD], True),
        (JOB, [OTHER], [OLD], False),
        (EMPTY, [], [OLD], True),
        (EMPTY, [OLD], [OTHER], False),
    ],
)
def test_the_version_that_commits_it(job: FilteredJob, added: list[Ulid], gone: list[Ulid], is_commit: bool) -> None:
    assert job.is_committed_by(added, gone) == is_commit


@pytest.mark.parametrize("damage", [b"{}", b"[]", b"?", None])
def test_damage_is_named(damage: bytes | None) -> None:
    store = MemoryStore(f"damaged filtered job {damage!r}")
    publish_filtered_job(store, EMPTY, 0)
    (meta,) = store.list(FILTERED_DIR)
    data = bytes(store.get(meta.path))
    store.put(meta.path, [data.replace(b'"6162"', b'"6163"') if damage is None else damage])
    with pytest.raises(CorruptDataError, match=FILTERED_DIR):
        fetch_filtered_job(store, meta.path)
    publish_filtered_job(store, JOB, 1)
    assert fetch_filtered_jobs(store, {}) == [JOB, None]


def test_each_record_is_read_once() -> None:
    inner = FailingStore(MemoryStore("many filtered jobs"))
    for nonce in range(70):
        publish_filtered_job(inner, JOB, nonce)
    known: dict[str, FilteredJob] = {}
    assert fetch_filtered_jobs(inner, known) == [JOB] * 70
    read = inner.count("get")
    publish_filtered_job(inner, EMPTY, 0)
    assert fetch_filtered_jobs(inner, known) == [*[JOB] * 70, EMPTY]
    assert inner.count("get") == read + 1
    inner.delete(next(iter(known)))
    assert fetch_filtered_jobs(inner, known) == [*[JOB] * 69, EMPTY]
