# mypy: untyped-calls-exclude="slatespark.format._generated"

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slatespark.format.references import BytesRange
from slatespark.ranges import KeyRange


@given(st.binary(max_size=3), st.none() | st.binary(max_size=3))
def test_key_ranges_round_trip(start: bytes, end: bytes | None) -> None:
    assert BytesRange.of(KeyRange(start, end)).key_range() == KeyRange(start, end)
