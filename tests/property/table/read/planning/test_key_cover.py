"""KeyCover holds exactly the keys of the ranges that were added, as ranges that do not touch."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from slatespark.ranges import KeyRange
from slatespark.table.read.planning.key_cover import KeyCover
from tests.unit.table.retention.test_plan import ranges


@given(st.lists(ranges, max_size=6), ranges)
def test_a_cover_contains_added_ranges(added: list[KeyRange], asked: KeyRange) -> None:
    cover = KeyCover(added)
    points = [bytes([letter]) + tail for letter in b"`abcdefg" for tail in (b"", b"x")]
    inside = [key for key in points if asked.contains(key) and any(keys.contains(key) for keys in added)]
    found = cover.within(asked)
    assert [key for key in points if any(keys.contains(key) for keys in found)] == inside
    assert cover.overlaps(asked) is (len(found) > 0) is (any(keys.overlaps(asked) for keys in added))
    assert all(not keys.is_empty() for keys in found)
    assert all(one.end is not None and one.end < other.start for one, other in itertools.pairwise(found))
