from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.kernels.rows import columns, put


@pytest.mark.parametrize(
    ("last", "first", "separator"),
    [
        (b"apple", b"banana", b"b"),
        (b"apple", b"apricot", b"apr"),
        (b"app", b"apple", b"appl"),
        (b"same", b"same", b"same"),
        (b"", b"\0", b"\0"),
        (b"k" * 30 + b"a", b"k" * 30 + b"bcd", b"k" * 30 + b"b"),
    ],
)
def test_shortest_prefix_above_the_last_key(kernels: Any, last: bytes, first: bytes, separator: bytes) -> None:
    rows = columns(put(b"", 1), put(last, 9), put(first, 8))
    key_bytes, key_offsets = kernels.separator_keys([rows], np.arange(3), np.array([0, 2]))
    assert key_bytes.tobytes() == separator
    assert key_offsets.tolist() == [0, 0, len(separator)]


def test_across_sources_and_without_blocks(kernels: Any) -> None:
    sources = [columns(put(b"ab", 1)), columns(put(b"ad", 1))]
    key_bytes, key_offsets = kernels.separator_keys(sources, np.array([0, 1 << 40]), np.array([1]))
    assert (key_bytes.tobytes(), key_offsets.tolist()) == (b"ad", [0, 2])
    key_bytes, key_offsets = kernels.separator_keys(sources, np.array([0]), np.zeros(0, np.int64))
    assert (key_bytes.tobytes(), key_offsets.tolist()) == (b"", [0])
