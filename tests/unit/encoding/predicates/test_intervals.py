"""The algebra of intervals, compared with sets of numbers."""

from __future__ import annotations

from slatespark.encoding.predicates.intervals import (
    is_single,
    union,
)


def test_values_of_a_list_stay_apart() -> None:
    assert union([(3, 4), (1, 2), (2, 3), (2, 3)]) == ((1, 2), (2, 3), (3, 4))
    assert is_single((1, 2))
    assert not is_single((1, 3))
    assert is_single((b"a", b"a\0"))
    assert not is_single((b"a", None))
