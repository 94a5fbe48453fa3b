from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slatespark.errors import InternalError
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE
from tests.unit.kernels.rows import Version, columns, delete, operand, packed, put

FIRST = columns(
    put(b"a", 9, b"12", create_ts=-7),
    put(b"b", 2**64 - 1, b"345", create_ts=5, expire_ts=30),
    delete(b"cc", 4),
    operand(b"dd", 3, b"6", expire_ts=-20),
)
SECOND = columns(Version(b"e", 8, flags=TOMBSTONE | HAS_EXPIRE, expire_ts=99), put(b"", 1, b""))
SOURCES, ROWS = [FIRST, SECOND], np.array([*packed(0, 0, 1, 2, 3), *packed(1, 0, 1)])
NO_MIN, NO_MAX = 2**63 - 1, -(2**63)


def test_blocks(kernels: Any) -> None:
    found = kernels.summarise_blocks(SOURCES, ROWS, np.array([0, 2, 4, 5]))
    assert (found.counts.dtype, found.counts.tolist()) == (np.uint16, [[2, 0, 0], [0, 1, 1], [0, 1, 0], [1, 0, 0]])
    assert found.min_create_ts.tolist() == [-7, NO_MIN, NO_MIN, NO_MIN]
    assert found.max_create_ts.tolist() == [5, NO_MAX, NO_MAX, NO_MAX]
    assert found.min_expire_ts.tolist() == [30, -20, NO_MIN, NO_MIN]  # a tombstone has none, whatever its row says
    assert found.max_expire_ts.tolist() == [30, -20, NO_MAX, NO_MAX]
    assert found.any_flags.tolist() == [HAS_CREATE | HAS_EXPIRE, TOMBSTONE | MERGE | HAS_EXPIRE, TOMBSTONE, 0]
    assert found.all_flags.tolist() == [HAS_CREATE, 0, TOMBSTONE, 0]
    assert (found.key_bytes, found.value_bytes, found.min_seq, found.max_seq) == (7, 6, 1, 2**64 - 1)


def test_one_block(kernels: Any) -> None:
    found = kernels.summarise_blocks(SOURCES, ROWS[:1], np.array([0]))
    assert (found.counts.tolist(), found.min_seq, found.max_seq) == ([[1, 0, 0]], 9, 9)


@pytest.mark.parametrize("first_rows", [[], [1], [0, 0], [0, 3, 2], [0, 6], [-1, 2]])
def test_blocks_that_are_empty_or_lie_outside(kernels: Any, first_rows: list[int]) -> None:
    with pytest.raises(InternalError, match="blocks"):
        kernels.summarise_blocks(SOURCES, ROWS, np.array(first_rows, np.int64))


@pytest.mark.parametrize("row", [*packed(0, 4), *packed(2, 0), -1])
def test_rows_that_do_not_exist(kernels: Any, row: int) -> None:
    with pytest.raises(InternalError, match="exist"):
        kernels.summarise_blocks(SOURCES, np.array([0, row]), np.array([0]))
