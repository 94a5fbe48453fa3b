"""What a job must be like so that it harms no client."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slatespark.errors import InternalError
from slatespark.format.compactions import Compaction, Compactions, CompactionStatus, DrainSpec, TieredSpec
from slatespark.format.manifest import Manifest, Segment
from slatespark.format.references import SstMap
from slatespark.table.commit.hold import plan_hold
from slatespark.table.cooperation.job_rules import (
    VOID,
    blocking_jobs,
    check_outputs,
    check_spec,
    free_destination,
    has_sources,
    next_job_id,
    overlap,
    rivals_at_work,
    same_sources,
    spec_of_slice,
    with_job,
)
from tests.support.fake_clock import FakeClock
from tests.unit.table.cooperation.lists import MADE_MS, job, job_id, manifest, sst, view_ids

TREES = manifest(l0=3, runs=(7, 5, 2))
NONE = Compactions(3)
SUBMITTED, SCHEDULED, RUNNING, COMPACTED, FAILED = (
    CompactionStatus.SUBMITTED,
    CompactionStatus.SCHEDULED,
    CompactionStatus.RUNNING,
    CompactionStatus.COMPACTED,
    CompactionStatus.FAILED,
)


def listing(*jobs: Compaction) -> Compactions:
    return Compactions(3, jobs)


@pytest.mark.parametrize(
    ("l0", "runs", "spec"),
    [
        (3, (0, 3), TieredSpec(view_ids(1, 2, 3), (7, 5, 2), 2)),
        (2, (0, 0), TieredSpec(view_ids(2, 3), (), 8)),
        (1, (0, 1), TieredSpec(view_ids(3), (7,), 7)),
        (0, (1, 3), TieredSpec((), (5, 2), 2)),
    ],
)
def test_a_slice_goes_down_to_the_oldest_view_and_into_the_lowest_run(
    l0: int, runs: tuple[int, int], spec: TieredSpec
) -> None:
    assert spec_of_slice(TREES, NONE, b"", l0=l0, runs=runs) == spec


def test_a_new_run_is_above_those_that_other_jobs_will_make() -> None:
    active = job(1, TieredSpec((), (5, 2), 11), RUNNING, "w")
    ended = job(2, TieredSpec((), (7,), 40), FAILED)
    drain = replace(active, id=job_id(3), spec=DrainSpec(b"s", view_ids(1), ()))  # it makes no run
    assert free_destination(TREES, listing(active, ended, drain)) == 12
    assert free_destination(Manifest(), NONE) == 0


def test_a_new_run_is_far_above_the_runs_of_all_segments() -> None:
    """The coordinator may be giving the next numbers to jobs of other segments at this moment."""
    segment = Segment(b"s", None, TREES.l0, ())
    whole = replace(manifest(runs=(9,)), ssts=TREES.ssts, segments=(segment,))
    spec = spec_of_slice(whole, NONE, b"s", l0=1)
    assert (spec.l0_view_ids, spec.sorted_runs, spec.segment) == (view_ids(3), (), b"s")
    assert spec.destination > 500


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(VOID, id="nothing"),
        pytest.param(TieredSpec(view_ids(1, 2), (), 8), id="the oldest view is left out"),
        pytest.param(TieredSpec(view_ids(3, 2), (), 8), id="views in the wrong order"),
        pytest.param(TieredSpec(view_ids(3), (5,), 5), id="a run between"),
        pytest.param(TieredSpec((), (7, 2), 2), id="a hole"),
        pytest.param(TieredSpec((), (2, 5), 2), id="runs in the wrong order"),
        pytest.param(TieredSpec((), (7, 5), 7), id="not into the lowest"),
        pytest.param(TieredSpec(view_ids(3), (), 7), id="into a run that exists"),
        pytest.param(TieredSpec(view_ids(3), (), 8, b"s"), id="no such segment"),
        pytest.param(TieredSpec((), (6,), 6), id="no such run"),
    ],
)
def test_a_job_that_would_harm_the_client_is_refused(spec: TieredSpec) -> None:
    with pytest.raises(InternalError):
        check_spec(TREES, spec)


def test_sources() -> None:
    assert has_sources(TREES, TieredSpec(view_ids(2, 3), (7,), 7))
    assert not has_sources(TREES, TieredSpec(view_ids(2, 4), (7,), 7))
    assert not has_sources(TREES, TieredSpec((), (6,), 6))
    assert not has_sources(TREES, TieredSpec((), (7,), 7, b"s"))


def test_sources_that_show_something_else() -> None:
    spec = TieredSpec(view_ids(3), (7,), 7)
    assert same_sources(TREES, TREES, spec)
    assert same_sources(TREES, replace(TREES, l0=TREES.l0[1:], compacted=TREES.compacted[:1]), spec)
    assert not same_sources(TREES, replace(TREES, l0=TREES.l0[:2]), spec)
    rewritten = replace(TREES.compacted[0], views=TREES.compacted[1].views)
    assert not same_sources(TREES, replace(TREES, compacted=(rewritten, *TREES.compacted[1:])), spec)
    missing = TieredSpec((), (6,), 6)
    assert not same_sources(TREES, TREES, missing)


def test_jobs_overlap_by_sources_and_destinations() -> None:
    wide = TieredSpec(view_ids(2, 3), (7,), 7)
    assert overlap(wide, TieredSpec(view_ids(3), (), 9))
    assert overlap(wide, TieredSpec((), (9,), 7))
    assert overlap(TieredSpec(view_ids(1), (), 9), TieredSpec(view_ids(2), (), 9))
    assert overlap(wide, DrainSpec(b"", (), (7,)))
    assert not overlap(wide, TieredSpec(view_ids(1), (5,), 5))
    assert not overlap(VOID, TieredSpec(view_ids(1), (), 0))


def test_what_is_in_the_way_of_a_job() -> None:
    spec = TieredSpec(view_ids(3), (), 8)
    second = job(1, TieredSpec(view_ids(1), (), 9))
    apart = job(2, TieredSpec((), (5, 2), 2))
    elsewhere = job(3, TieredSpec(view_ids(1), (), 10, b"s"))
    same = job(4, TieredSpec((), (9,), 8), SUBMITTED)
    ended = job(5, spec, FAILED)
    hold = plan_hold((8,), job_id(6))
    assert hold is not None
    listed = listing(second, apart, elsewhere, same, ended, hold)
    assert blocking_jobs(listed, spec) == (second, same)
    assert blocking_jobs(listed, spec, same.id) == (second,)


def test_only_begun_jobs_are_rivals() -> None:
    ours = job(1, TieredSpec((), (5, 2), 2), RUNNING, "we")
    others = [
        job(number, TieredSpec((), (2,), 2), status) for number, status in enumerate([SUBMITTED, SCHEDULED, FAILED], 2)
    ]
    assert rivals_at_work(listing(ours, *others), ours) == ()
    begun = job(9, TieredSpec((), (5,), 5), COMPACTED, "they")
    assert rivals_at_work(listing(ours, *others, begun), ours) == (begun,)


def test_outputs_are_younger_than_the_job_and_in_order() -> None:
    check_outputs(job_id(1), [sst(1, last=b"k"), sst(2, first=b"k")])
    check_outputs(job_id(1), [])
    with pytest.raises(InternalError):
        check_outputs(job_id(1), [sst(1, at_ms=MADE_MS - 1)])
    with pytest.raises(InternalError):
        check_outputs(job_id(1), [sst(1, last=b"k"), sst(2, first=b"j")])


def test_the_id_of_a_new_job_is_above_all_and_its_time_not_ahead_of_the_client() -> None:
    listed = listing(job(1, VOID, at_ms=5), job(2, VOID, FAILED, at_ms=9))
    made = next_job_id(TREES, listed, FakeClock(7))
    assert made.timestamp_ms == 9
    assert made > job_id(2, 9)
    assert next_job_id(TREES, NONE, FakeClock(MADE_MS + 50)).timestamp_ms == MADE_MS
    assert next_job_id(TREES, NONE, FakeClock(MADE_MS - 50)).timestamp_ms == MADE_MS - 50
    assert next_job_id(Manifest(), NONE, FakeClock(70)).timestamp_ms == 70
    files = SstMap([sst(1), sst(2, at_ms=MADE_MS + 20)])
    assert next_job_id(Manifest(ssts=files), NONE, FakeClock(MADE_MS + 50)).timestamp_ms == MADE_MS + 20


def test_the_id_of_a_new_job_is_above_the_newest_whatever_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock(7)
    monkeypatch.setattr(clock, "random_bits", lambda _: 0)
    assert next_job_id(TREES, listing(job(1, VOID), job(2, VOID)), clock) > job_id(2)


def test_a_job_is_added_or_replaced() -> None:
    first, second = job(1, VOID), job(2, VOID)
    assert with_job(listing(first), second) == listing(first, second)
    changed = replace(first, status=FAILED)
    assert with_job(listing(first, second), changed) == listing(changed, second)
    assert with_job(NONE, first).compactor_epoch == 3
