"""RowTimes: which options give rows times of their own, and which keep a commit from moving them."""

from __future__ import annotations

import pytest

from slatespark.options import WriteOptions
from slatespark.table.commit.row_times import COMMIT_TIMES, GIVEN_TIMES, RowTimes

OWN = GIVEN_TIMES
FIXED = RowTimes(per_row=False, fixed=True)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, COMMIT_TIMES),
        ({"ttl": "1h"}, COMMIT_TIMES),  # an expiry relative to the time of the commit moves with it
        ({"timestamp": "1970-01-01T00:00:00Z"}, FIXED),
        ({"timestampColumn": "at"}, OWN),
        ({"expireAtColumn": "ends"}, FIXED),
        ({"timestampColumn": "at", "expireAtColumn": "ends"}, OWN),
    ],
)
def test_of_options(options: dict[str, str], expected: RowTimes) -> None:
    assert RowTimes.of_options(WriteOptions.parse({"path": "memory://unused", **options})) == expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (COMMIT_TIMES, COMMIT_TIMES, COMMIT_TIMES),
        (COMMIT_TIMES, FIXED, FIXED),
        (FIXED, COMMIT_TIMES, FIXED),
        (RowTimes(per_row=True), FIXED, OWN),
        (OWN, COMMIT_TIMES, OWN),
    ],
)
def test_joined_rows_have_the_bonds_of_both(one: RowTimes, other: RowTimes, expected: RowTimes) -> None:
    assert one.joined(other) == expected
