"""The hold: a running job that no client takes over, on all runs of a history table."""

from __future__ import annotations

import pytest

from slatespark.format.compactions import CompactionStatus, TieredSpec
from slatespark.format.ulid import Ulid
from slatespark.table.commit.hold import plan_hold


@pytest.mark.parametrize(
    ("runs", "held"),
    [([4], (4,)), ([2, 7, 3], (7, 3, 2)), ([3, 3, 0], (3, 0))],
)
def test_the_hold_merges_all_runs_into_the_lowest(runs: list[int], held: tuple[int, ...]) -> None:
    job = plan_hold(runs, Ulid(9))
    assert job is not None
    assert job.spec == TieredSpec(l0_view_ids=(), sorted_runs=held, destination=held[-1])
    assert (job.id, job.status) == (Ulid(9), CompactionStatus.RUNNING)


def test_a_heartbeat_that_no_coordinator_finds_stale() -> None:
    """The client compares in 64-bit milliseconds: the sum with its time-out must not overflow."""
    job = plan_hold([1], Ulid(9))
    assert job is not None
    assert job.worker is not None
    year_9999_ms = 253_402_300_799_999
    assert year_9999_ms < job.worker.last_heartbeat_ms < 2**63 - year_9999_ms


def test_without_runs_there_is_nothing_to_hold() -> None:
    assert plan_hold([], Ulid(9)) is None
