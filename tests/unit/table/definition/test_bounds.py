"""Which bounds of the past older versions keep when a bound rises."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slatespark.table.definition.bounds import keep_earlier_bounds
from slatespark.table.definition.table_definition import EarlierBounds, TableDefinition

RAISED_TWICE = TableDefinition(
    full_history_ts_low_ms=20,
    lost_through_ms=7,
    earlier_bounds=(EarlierBounds(3), EarlierBounds(8, full_history_ts_low_ms=10)),
)


@pytest.mark.parametrize(
    ("version", "floor_ms", "lost_ms"),
    [(1, None, None), (3, None, None), (4, 10, None), (8, 10, None), (9, 20, 7), (99, 20, 7)],
)
def test_a_version_has_the_bounds_of_its_time(version: int, floor_ms: int | None, lost_ms: int | None) -> None:
    found = RAISED_TWICE.at_version(version)
    assert (found.full_history_ts_low_ms, found.lost_through_ms) == (floor_ms, lost_ms)


def raised(newest: int, kept: list[int]) -> list[tuple[int, int | None]]:
    """The earlier bounds after one more rise: through which version, and the floor."""
    higher = replace(RAISED_TWICE, full_history_ts_low_ms=30)
    found = keep_earlier_bounds(RAISED_TWICE, higher, newest, kept)
    assert found.full_history_ts_low_ms == 30
    return [(each.through, each.full_history_ts_low_ms) for each in found.earlier_bounds]


@pytest.mark.parametrize(
    ("newest", "kept", "expected"),
    [
        (12, [2, 5, 12], [(3, None), (8, 10), (12, 20)]),
        (12, [12], [(12, 20)]),
        (12, [3, 9], [(3, None), (12, 20)]),
        (12, [4], [(8, 10)]),
        (8, [2, 8], [(3, None), (8, 10)]),
    ],
    ids=["all", "only the newest exists", "one in between is gone", "a gap", "no version since the last rise"],
)
def test_bounds_are_kept_while_a_version_needs_them(
    newest: int, kept: list[int], expected: list[tuple[int, int | None]]
) -> None:
    assert raised(newest, kept) == expected
