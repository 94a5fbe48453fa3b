from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.kernels.implementations import COMPILED, REFERENCE
from tests.unit.kernels.test_lz4 import sizes

LENGTHS = st.sampled_from([0x00, 0x0F, 0x10, 0x1F, 0xF0, 0xFF]) | st.integers(0, 255)


@given(st.lists(st.lists(LENGTHS, max_size=40).map(bytes), min_size=1, max_size=4))
def test_kernel_and_twin_agree_on_any_bytes(blocks: list[bytes]) -> None:
    assert sizes(COMPILED, blocks) == sizes(REFERENCE, blocks)
