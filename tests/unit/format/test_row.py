from __future__ import annotations

import pytest

from slatespark.format.row import Row, RowKind
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE


def test_flags() -> None:
    assert Row(b"k", 1).flags == 0
    assert Row(b"k", 1, RowKind.MERGE, b"", 1, 2).flags == MERGE | HAS_CREATE | HAS_EXPIRE
    assert Row(b"k", 1, RowKind.DELETE, create_ts_ms=0).flags == TOMBSTONE | HAS_CREATE


def test_a_delete_has_nothing_to_expire() -> None:
    for value, expire_ts_ms in ((b"x", None), (b"", 5)):
        with pytest.raises(ValueError, match="delete"):
            Row(b"k", 1, RowKind.DELETE, value, None, expire_ts_ms)
