from __future__ import annotations

import uuid

import pytest

from slatespark.format.manifest import Checkpoint, Manifest
from slatespark.table.verify.plan import VerifiedVersion, find_stray_wal, find_wal_gaps, pinned_numbers


@pytest.mark.parametrize(
    ("present", "gaps"),
    [
        ([], [range(3, 8)]),
        ([3, 4, 5, 6, 7], []),
        ([1, 2, 9], [range(3, 8)]),
        ([4, 7], [range(3, 4), range(5, 7)]),
    ],
)
def test_wal_gaps(present: list[int], gaps: list[range]) -> None:
    assert find_wal_gaps(range(3, 8), present) == gaps


def test_a_huge_wal_id_costs_nothing() -> None:
    assert find_wal_gaps(range(1, 1 << 64), [2]) == [range(1, 2), range(3, 1 << 64)]


def test_stray_wal_files_lie_beyond_the_first_gap() -> None:
    newest = VerifiedVersion.of(1, Manifest(replay_after_wal_id=2, wal_id_last_seen=3), is_needed=True)
    assert find_stray_wal(newest, [1, 2, 3, 4, 5]) == []
    assert find_stray_wal(newest, [3, 4, 6]) == [6]


def test_expired_checkpoints_pin_nothing() -> None:
    points = tuple(
        Checkpoint(uuid.UUID(int=number), number, expiry, 0) for number, expiry in ((1, 0), (2, 10), (3, 11))
    )
    assert set(pinned_numbers(Manifest(checkpoints=points), 10_500)) == {1, 3}
