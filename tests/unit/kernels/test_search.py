from __future__ import annotations

import pytest

from slatespark.kernels import lower_bound
from tests.unit.kernels.rows import columns, put

ROWS = columns(put(b"a", 2), put(b"a", 1), put(b"c", 1), put(b"d", 1))


@pytest.mark.parametrize(("key", "row"), [(b"", 0), (b"a", 0), (b"a\0", 2), (b"c", 2), (b"d", 3), (b"e", 4)])
def test_whole(key: bytes, row: int) -> None:
    assert lower_bound(ROWS, key, 0, 4) == row


def test_part() -> None:
    assert lower_bound(ROWS, b"a", 1, 3) == 1
    assert lower_bound(ROWS, b"z", 1, 3) == 3
    assert lower_bound(ROWS, b"b", 2, 2) == 2
