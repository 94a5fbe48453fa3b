"""Which segment a key belongs to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slatespark.errors import InvalidRequestError
from slatespark.format.manifest import Manifest, Segment
from slatespark.format.segments import WHOLE, KeySegments, SegmentExtractor

FIXED = SegmentExtractor("fixed", prefix_length=3)
SLASH = SegmentExtractor("slash", delimiter=b"/")
WIDE = SegmentExtractor("wide", delimiter=b"::")

KEYS = st.binary(max_size=6) | st.text("ab/:", max_size=8).map(str.encode)


@pytest.mark.parametrize(
    ("extractor", "key", "prefix"),
    [
        (FIXED, b"abcd", b"abc"),
        (FIXED, b"abc", b"abc"),
        (FIXED, b"ab", None),
        (FIXED, b"", None),
        (SLASH, b"a/b/c", b"a/"),
        (SLASH, b"a/", b"a/"),
        (SLASH, b"/a", b"/"),
        (SLASH, b"a", None),
        (WIDE, b"a:b::c", b"a:b::"),
        (WIDE, b"a:::c", b"a::"),
        (WIDE, b"a:", None),
    ],
)
def test_an_extractor_cuts_keys(extractor: SegmentExtractor, key: bytes, prefix: bytes | None) -> None:
    assert extractor.find_prefix(key) == prefix


@given(st.sampled_from([FIXED, SLASH, WIDE]), KEYS, st.binary(max_size=3))
def test_what_follows_a_prefix_does_not_matter(extractor: SegmentExtractor, key: bytes, more: bytes) -> None:
    """So no prefix is the beginning of another, and each one is its own."""
    prefix = extractor.find_prefix(key)
    if prefix is not None:
        assert extractor.find_prefix(prefix + more) == prefix


def test_keys_of_segments_need_no_extractor() -> None:
    known = KeySegments((b"a/", b"b/", b"b0"))
    assert [known.find_prefix(key) for key in (b"a/1", b"b/", b"b0x", b"a", b"a0", b"c", b"")] == [
        b"a/",
        b"b/",
        b"b0",
        None,
        None,
        None,
        None,
    ]
    assert known.prefix_of(b"b/2") == b"b/"
    for key in (b"", b"a", b"b.", b"c/1"):
        with pytest.raises(InvalidRequestError, match=f"{key.hex()} needs a new segment"):
            known.prefix_of(key)


def test_a_declared_extractor_cuts_the_others() -> None:
    known = KeySegments((b"a/",), SLASH)
    assert [known.prefix_of(key) for key in (b"a/1", b"b/2")] == [b"a/", b"b/"]
    with pytest.raises(InvalidRequestError, match="slash"):
        known.prefix_of(b"c")


def test_without_segments_there_is_one() -> None:
    assert KeySegments.of(Manifest()) == WHOLE
    assert WHOLE.prefix_of(b"any") == WHOLE.prefix_of(b"") == b""


def test_the_segments_of_a_version() -> None:
    tree = Segment(b"a/", None, (), ())
    segmented = Manifest(segments=(tree,), segment_extractor_name="slash")
    assert KeySegments.of(segmented, SLASH) == KeySegments((b"a/",), SLASH)
    assert KeySegments.of(Manifest(segment_extractor_name="slash")).find_prefix(b"a/1") is None


def test_segments_of_a_plan_and_of_a_later_version() -> None:
    joined = KeySegments((b"c/",)).joined(KeySegments((b"a/", b"c/"), SLASH))
    assert joined == KeySegments((b"a/", b"c/"), SLASH)
    assert WHOLE.joined(WHOLE) == WHOLE
