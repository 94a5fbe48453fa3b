"""What a vacuum without a minimum age leaves to jobs that are running, of others and of ours."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slatespark import SlateStore
from slatespark.format.compactions import WorkerSpec
from slatespark.format.paths import sst_path
from slatespark.format.ulid import make_ulid
from slatespark.storage.local_store import LocalStore
from slatespark.table.clock import SystemClock
from slatespark.table.commit.active_jobs import HEARTBEAT_FRESH_MS
from slatespark.table.records.leases import publish_lease
from tests.faults.jobs import table_of
from tests.unit.table.gc.place import HOUR_MS, Place, actions, job_of


@pytest.mark.parametrize(("silent_ms", "goes"), [(HEARTBEAT_FRESH_MS - 1, False), (HEARTBEAT_FRESH_MS, True)])
def test_a_compaction_of_another_client_that_has_just_reported_is_kept(silent_ms: int, goes: bool) -> None:
    place = Place()
    place.write(b"a")
    began_ms = place.clock.now_ms()
    place.list_jobs(job_of(began_ms, WorkerSpec("theirs", began_ms)))
    output = place.put_sst(began_ms)
    place.clock.advance(silent_ms)
    report = place.vacuum("0s")
    assert (len(report.jobs_dropped), actions(report, [output])) == ((1, ["deleted"]) if goes else (0, ["kept"]))


def test_a_copy_that_has_the_time_of_its_source_is_of_the_job_that_made_it(tmp_path: Path) -> None:
    """On a disk it is a hard link; its id tells when it was made."""
    store, clock = LocalStore(tmp_path / "db"), SystemClock()
    table = SlateStore.create(str(tmp_path / "db"), versionRetention="none")
    table.write(table_of([(b"a", b"x")]))
    (source,) = store.list("compacted/")
    before_s = (clock.now_ms() - HOUR_MS) / 1000
    os.utime(tmp_path / "db" / source.path, (before_s, before_s))
    publish_lease(store, "00000000000000aa", clock.now_ms())
    copy = sst_path(make_ulid(clock.now_ms(), 1))
    store.copy(source.path, copy)
    assert actions(table.vacuum("0s", force=True), [copy]) == ["kept"]
