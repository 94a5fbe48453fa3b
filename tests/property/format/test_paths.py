from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slatespark.format import paths


@given(st.integers(0, (1 << 64) - 1))
def test_numbers_round_trip(number: int) -> None:
    assert paths.numbered(paths.manifest_path(number), "manifest") == number
    assert paths.numbered(paths.compactions_path(number), "compactions") == number
    assert paths.numbered(paths.wal_path(number), "sst") == number
    assert paths.decode_boundary(paths.encode_boundary(number)) == number
