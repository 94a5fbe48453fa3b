"""Jobs for the version that the commit of another one will make."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slatespark.format.compactions import Compaction, Compactions, CompactionStatus, TieredSpec, WorkerSpec
from slatespark.format.references import SortedRun, SstView
from slatespark.table.cooperation.claimed_job import new_worker_id
from slatespark.table.cooperation.following import after_commit, can_follow, need_commits, pending_runs
from slatespark.table.cooperation.job_rules import spec_of_slice
from tests.support.fake_clock import FakeClock
from tests.unit.table.cooperation.lists import job, manifest, sst, view_ids

BEFORE = manifest(l0=3, runs=(7, 4))
OUTPUTS = (sst(20, first=b"a", last=b"m"), sst(21, first=b"n", last=b"z"))
HANDED = replace(job(1, TieredSpec(view_ids(2, 3), (), 8), CompactionStatus.COMPACTED, "client"), output_ssts=OUTPUTS)


def test_the_run_is_where_the_client_will_put_it() -> None:
    after = after_commit(BEFORE, [HANDED])
    run = SortedRun(8, tuple(SstView(output.id, output.id) for output in OUTPUTS))
    assert after.l0 == BEFORE.l0[:1]
    assert after.compacted == (run, *BEFORE.compacted)
    assert [after.ssts[output.id] for output in OUTPUTS] == list(OUTPUTS)
    assert after_commit(after, [HANDED]) == after, "committed meanwhile"


@pytest.mark.parametrize(
    "other",
    [
        replace(HANDED, status=CompactionStatus.RUNNING),
        replace(HANDED, output_ssts=()),
        replace(HANDED, spec=TieredSpec((), (7, 4), 4)),
        replace(HANDED, spec=TieredSpec(view_ids(1, 2, 3), (7,), 7)),
        replace(HANDED, worker=WorkerSpec(new_worker_id(FakeClock()), 5)),
    ],
    ids=["not handed over", "no rows left", "runs", "an old run", "ours"],
)
def test_other_jobs_have_to_be_waited_for(other: Compaction) -> None:
    assert can_follow(HANDED)
    assert not can_follow(other)


def test_a_job_needs_the_run_so_that_it_fails_with_the_commit() -> None:
    listed, after = Compactions(1, (HANDED,)), after_commit(BEFORE, [HANDED])
    assert need_commits([spec_of_slice(after, listed, b"", l0=1, runs=(0, 1))], [HANDED])
    assert not need_commits([spec_of_slice(after, listed, b"", l0=1)], [HANDED])
    assert need_commits([TieredSpec((), (3,), 3, b"another segment")], [HANDED])


def test_runs_that_wait_for_their_commit() -> None:
    listed = Compactions(1, (HANDED, job(2, TieredSpec((), (7, 4), 4), CompactionStatus.COMPACTED, "client")))
    assert pending_runs(after_commit(BEFORE, [HANDED]), listed) == {8}
    assert pending_runs(BEFORE, listed) == frozenset()
