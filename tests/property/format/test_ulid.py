from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slatespark.format.ulid import Ulid, make_ulid

ulids = st.integers(0, (1 << 128) - 1).map(Ulid)


@given(ulids)
def test_text_and_halves_round_trip(ulid: Ulid) -> None:
    assert Ulid.parse(str(ulid)) == ulid
    assert Ulid.parse(str(ulid).lower()) == ulid
    assert Ulid.from_halves(ulid.high, ulid.low) == ulid
    assert make_ulid(ulid.timestamp_ms, ulid.value & ((1 << 80) - 1)) == ulid


@given(ulids, ulids)
def test_order_equals_that_of_the_text(one: Ulid, other: Ulid) -> None:
    assert (one < other) == (str(one) < str(other))
