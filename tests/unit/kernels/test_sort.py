from __future__ import annotations

import random  # noqa: TID251  (seeded)
from typing import Any

import numpy as np
import pytest

from tests.unit.kernels.rows import columns, put


def order(kernels: Any, keys: list[bytes]) -> list[int]:
    found = kernels.sort_rows(columns(*(put(key, 1) for key in keys)))
    assert found.dtype == np.int64
    rows: list[int] = found.tolist()
    return rows


def expected(keys: list[bytes]) -> list[int]:
    return sorted(range(len(keys)), key=keys.__getitem__)


@pytest.mark.parametrize(
    "keys",
    [
        [],
        [b""],
        [b"b", b"a"],
        [b"b", b"a", b"b", b"a", b""],
        [b"a\0\0", b"a\0", b"a", b"a\0\0\0\0\0\0\0\0", b"\xff", b"\x7f"],
    ],
)
def test_by_hand(kernels: Any, keys: list[bytes]) -> None:
    assert order(kernels, keys) == expected(keys)
    assert order(kernels, sorted(keys)) == list(range(len(keys)))


@pytest.mark.parametrize("alphabet", [b"a", b"\0a", b"\0\1\x7f\x80\xff"])
@pytest.mark.parametrize("longest", [1, 9, 40])
@pytest.mark.parametrize("prefix", [b"", b"common prefix"])
def test_many_ties_and_long_runs(kernels: Any, alphabet: bytes, longest: int, prefix: bytes) -> None:
    draw = random.Random(longest)
    keys = [prefix + bytes(draw.choices(alphabet, k=draw.randint(0, longest))) for _ in range(500)]
    assert order(kernels, keys) == expected(keys)


def test_keys_with_long_common_prefixes(kernels: Any) -> None:
    draw = random.Random(1)
    keys = [bytes([group]) * 30 + draw.randbytes(2) for group in range(5) for _ in range(100)]
    draw.shuffle(keys)
    assert order(kernels, keys) == expected(keys)
