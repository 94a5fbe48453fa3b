from __future__ import annotations

import numpy as np
import pytest

from slatespark.kernels import key_span, lower_bound, lower_bound_in_each
from slatespark.ranges import ALL_KEYS, KeyRange
from tests.unit.kernels.rows import columns, put

ROWS = columns(put(b"a", 2), put(b"a", 1), put(b"c", 1), put(b"d", 1))


@pytest.mark.parametrize(("key", "row"), [(b"", 0), (b"a", 0), (b"a\0", 2), (b"c", 2), (b"d", 3), (b"e", 4)])
def test_whole(key: bytes, row: int) -> None:
    assert lower_bound(ROWS, key, 0, 4) == row


def test_part() -> None:
    assert lower_bound(ROWS, b"a", 1, 3) == 1
    assert lower_bound(ROWS, b"z", 1, 3) == 3
    assert lower_bound(ROWS, b"b", 2, 2) == 2


def test_many_sources_at_once() -> None:
    other, none = columns(put(b"b", 1), put(b"e", 1)), columns()
    lows, highs = np.array([1, 0, 0], np.int64), np.array([3, 2, 0], np.int64)
    for key, expected in [(b"", [1, 0, 0]), (b"c", [2, 1, 0]), (b"z", [3, 2, 0])]:
        assert lower_bound_in_each([ROWS, other, none], key, lows, highs).tolist() == expected
    assert lower_bound_in_each([], b"a", lows[:0], highs[:0]).tolist() == []


@pytest.mark.parametrize(
    ("keys", "span"),
    [
        (ALL_KEYS, (0, 4)),
        (KeyRange(b"a", b"c"), (0, 2)),
        (KeyRange(b"b", None), (2, 4)),
        (KeyRange(b"", b"a"), (0, 0)),
        (KeyRange(b"b", b"c"), (2, 2)),
        (KeyRange(b"e", None), (4, 4)),
    ],
)
def test_span(keys: KeyRange, span: tuple[int, int]) -> None:
    assert key_span(ROWS, keys) == span


def test_span_of_a_part() -> None:
    assert key_span(ROWS, ALL_KEYS, 1, 3) == (1, 3)
    assert key_span(ROWS, KeyRange(b"a", b"d"), 1, 4) == (1, 3)
    assert key_span(ROWS, KeyRange(b"d", None), 0, 2) == (2, 2)
