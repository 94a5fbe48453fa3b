"""Bounds that are no text: the least text at or above them; `tests/property/encoding` has the law."""

from __future__ import annotations

import pytest

from slatespark.encoding.least_key import least_text


@pytest.mark.parametrize(
    ("bound", "least"),
    [
        (b"a\xed\x9f\xbf", b"a\xed\x9f\xbf"),
        (b"a\xed\xa0", b"a\xee\x80\x80"),
        (b"a\xed\xa0\x80", b"a\xee\x80\x80"),
        (b"a\xed\xbf\xbf\xff", b"a\xee\x80\x80"),
        (b"\xf4\x90\x80\x80", None),
        (b"a\xf4\x90\x80\x80", b"b"),
    ],
)
def test_the_least_text_around_code_points_that_are_no_characters(bound: bytes, least: bytes | None) -> None:
    assert least_text(bound) == least
