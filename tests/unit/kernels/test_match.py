from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from slatespark.errors import InternalError
from tests.unit.kernels.rows import columns, put

ROWS = columns(put(b"", 1), put(b"a", 2), put(b"a", 1), put(b"c", 1), put(b"d", 9), put(b"d", 1))


def keys(*wanted: bytes) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    return np.frombuffer(b"".join(wanted), np.uint8), np.cumsum([0, *map(len, wanted)], dtype=np.int64)


@pytest.mark.parametrize(
    ("low", "high", "wanted", "found"),
    [
        (0, 6, [b"a", b"d"], [1, 2, 4, 5]),
        (0, 6, [b"", b"b", b"c"], [0, 3]),
        (2, 5, [b"a", b"d"], [2, 4]),
        (0, 6, [b"a\0", b"e"], []),
        (0, 6, [], []),
        (3, 3, [b"c"], []),
    ],
)
def test_rows_of_wanted_keys(kernels: Any, low: int, high: int, wanted: list[bytes], found: list[int]) -> None:
    matches = kernels.match_keys(ROWS, low, high, *keys(*wanted))
    assert (matches.dtype, matches.tolist()) == (np.int64, found)


@pytest.mark.parametrize("every", [1, 7, 1000])
def test_sparse_on_either_side(kernels: Any, every: int) -> None:
    numbers = range(0, 3000, every)
    rows = columns(*(put(number.to_bytes(4, "big"), 1) for number in numbers))
    wanted = keys(*(number.to_bytes(4, "big") for number in range(0, 3000, 3)))
    expected = [row for row, number in enumerate(numbers) if number % 3 == 0]
    assert kernels.match_keys(rows, 0, len(rows), *wanted).tolist() == expected


def test_lower_bounds(kernels: Any) -> None:
    rows = keys(b"", b"b", b"b", b"bc", b"x" * 40)
    wanted = [b"", b"a", b"b", b"bb", b"bc", b"x", b"x" * 41, b"b", b"z", b""]
    assert kernels.lower_bounds(*rows, *keys(*wanted)).tolist() == [0, 1, 1, 3, 3, 4, 5, 1, 5, 0]
    assert kernels.lower_bounds(*rows, *keys()).tolist() == []
    assert kernels.lower_bounds(*keys(), *keys(b"a")).tolist() == [0]


def test_invalid_arguments(kernels: Any) -> None:
    for low, high in ((0, 7), (-1, 3), (4, 3)):
        with pytest.raises(InternalError, match="Row range"):
            kernels.lower_bound(ROWS, b"a", low, high)
        with pytest.raises(InternalError):
            kernels.lower_bound_in_each([ROWS], b"a", np.array([low]), np.array([high]))
    with pytest.raises(InternalError, match="Row range"):
        kernels.match_keys(ROWS, 0, 7, *keys(b"a"))
    with pytest.raises(InternalError, match="Offsets"):
        kernels.match_keys(ROWS, 0, 6, np.zeros(0, np.uint8), np.array([0, 1]))
