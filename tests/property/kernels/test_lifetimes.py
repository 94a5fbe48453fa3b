"""One rule says when rows have ended: for one row, for many, for bounds, and inside compiled kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slatespark.kernels import _lifetimes
from slatespark.kernels._compile import OBJECT_CODE
from slatespark.kernels._lifetimes import has_reached
from slatespark.kernels._sources import address_of
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, TOMBSTONE
from slatespark.kernels.lifetimes import reached
from slatespark.units import MAX_MS, MIN_MS

TIMES = st.sampled_from([MIN_MS, -1, 0, 1, 5, MAX_MS])

FLAGS = st.sampled_from([0, TOMBSTONE, HAS_EXPIRE, HAS_CREATE, HAS_CREATE | HAS_EXPIRE])


@pytest.fixture(autouse=True, scope="module")
def loads() -> Iterator[None]:
    """With object code, steps of kernels are plain functions without the instruction that loads a number."""
    with pytest.MonkeyPatch.context() as patch:
        if OBJECT_CODE is not None:
            patch.setattr(_lifetimes, "load64", lambda address: ctypes.c_int64.from_address(address).value)
        yield


@given(st.lists(st.tuples(FLAGS, TIMES), min_size=1, max_size=8), TIMES, st.sampled_from([HAS_CREATE, HAS_EXPIRE]))
def test_rows_bounds_and_kernels_agree(rows: list[tuple[int, int]], limit_ms: int, flag: int) -> None:
    flags, times = np.array([f for f, _ in rows], np.uint8), np.array([t for _, t in rows], np.int64)
    column = np.array([address_of(times)], np.int64)
    expected = [f & flag != 0 and t <= limit_ms for f, t in rows]
    assert reached(flags, flag, times, limit_ms).tolist() == expected
    assert [reached(f, flag, t, limit_ms) for f, t in rows] == expected
    found = [has_reached(f, flag, address_of(column), row, limit_ms) for row, (f, _) in enumerate(rows)]
    assert found == expected
    timed = [t for f, t in rows if f & flag]
    any_flags, all_flags = int(np.bitwise_or.reduce(flags)), int(np.bitwise_and.reduce(flags))
    assert reached(all_flags, flag, max(timed, default=None), limit_ms) == all(expected)
    assert reached(any_flags, flag, min(timed, default=None), limit_ms) == any(expected)
