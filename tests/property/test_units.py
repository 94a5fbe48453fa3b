from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slatespark.units import ms_to_text, parse_time_ms


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_text_of_an_instant_parses_back(ms: int) -> None:
    assert parse_time_ms(ms_to_text(ms)) == ms
