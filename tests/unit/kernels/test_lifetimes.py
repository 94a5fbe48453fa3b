"""One rule says when rows have ended: for one row, for many, for bounds, and inside compiled kernels."""

from __future__ import annotations

import numpy as np
import pytest

from slatespark.kernels.lifetimes import ends_after, retired_groups
from slatespark.units import MAX_MS, MIN_MS


def test_a_group_is_as_young_as_its_youngest_row() -> None:
    counted = np.array([True, True, True, True, False, False])
    is_retired = np.array([True, False, True, True, False, False])
    assert retired_groups(counted, is_retired, np.array([0, 2, 4])).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("time_ms", "duration_ms", "end_ms", "ends"),
    [(5, 0, 5, True), (MIN_MS, MAX_MS, -1, True), (1, MAX_MS - 1, MAX_MS, True), (1, MAX_MS, MAX_MS, False)],
)
def test_an_end_beyond_64_bits_never_comes(time_ms: int, duration_ms: int, end_ms: int, ends: bool) -> None:
    found, has_end = ends_after(np.array([time_ms], np.int64), duration_ms)
    assert (found.tolist(), has_end.tolist()) == ([end_ms], [ends])
