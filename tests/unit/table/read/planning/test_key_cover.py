"""KeyCover: the union of key ranges, with its neighbours. tests/property compares it with a model."""

from __future__ import annotations

import pytest

from slatespark.ranges import ALL_KEYS, KeyRange
from slatespark.table.read.planning.key_cover import KeyCover

# b-e, f-h, p-: neighbours join, whichever is added first
COVER = KeyCover(KeyRange(*each) for each in ((b"p", None), (b"b", b"d"), (b"g", b"h"), (b"f", b"g"), (b"d", b"e")))


@pytest.mark.parametrize(
    ("start", "end", "within"),
    [
        pytest.param(b"", None, [(b"b", b"e"), (b"f", b"h"), (b"p", None)], id="everything, adjacent ranges as one"),
        pytest.param(b"c", b"g", [(b"c", b"e"), (b"f", b"g")], id="cut at both ends"),
        pytest.param(b"e", b"f", [], id="a gap"),
        pytest.param(b"", b"b", [], id="before the first key"),
        pytest.param(b"h", b"p", [], id="between an end and a start"),
        pytest.param(b"z", b"zz", [(b"z", b"zz")], id="behind an open end"),
        pytest.param(b"c", b"c", [], id="empty"),
    ],
)
def test_parts_of_a_range(start: bytes, end: bytes | None, within: list[tuple[bytes, bytes | None]]) -> None:
    asked = KeyRange(start, end)
    assert COVER.within(asked) == tuple(KeyRange(*bounds) for bounds in within)
    assert COVER.overlaps(asked) is bool(within)
    assert COVER.shared(asked) == (KeyRange(within[0][0], within[-1][1]) if within else None)


def test_nothing_was_added() -> None:
    for cover in (KeyCover(), KeyCover([KeyRange(b"b", b"b"), KeyRange(b"c", b"a")])):
        assert cover.within(ALL_KEYS) == ()
        assert not cover.overlaps(ALL_KEYS)
        assert cover.shared(ALL_KEYS) is None
