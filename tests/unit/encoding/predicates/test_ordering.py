"""Ordinals have the order of the values, for single values and for arrays."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from slatespark.encoding.predicates.ordering import (
    as_double,
    first_double_at_least,
    float_ordinal,
    ordinals,
)


def test_all_nans_are_equal() -> None:
    bits = [0x7FF0000000000001, 0x7FF8000000000000, 0xFFF8000000000000, 0xFFFFFFFFFFFFFFFF]
    array = pa.Array.from_buffers(pa.float64(), 4, [None, pa.py_buffer(struct.pack("<4Q", *bits))])
    assert set(ordinals(array).tolist()) == {float_ordinal(math.nan, pa.float64())}
    assert float_ordinal(math.nan, pa.float64()) == float_ordinal(math.inf, pa.float64()) + 1


@pytest.mark.parametrize(
    ("bound", "kind", "first", "first_above"),
    [
        (9007199254740992.0, pa.int64(), 2**53, 2**53 + 2),  # 2^53 + 1 rounds down to it
        (1.5, pa.int32(), 2, 2),
        (math.inf, pa.int32(), 2**31, 2**31),
        (-math.inf, pa.int32(), -(2**31), -(2**31)),
        (math.nan, pa.int32(), 2**31, 2**31),
        (0.1, pa.decimal128(10, 2), 10, 11),
        (1e300, pa.decimal128(10, 2), 10**10, 10**10),
    ],
)
def test_comparisons_as_double(bound: float, kind: pa.DataType, first: int, first_above: int) -> None:
    assert first_double_at_least(bound, kind) == first
    assert first_double_at_least(bound, kind, above=True) == first_above


@pytest.mark.parametrize("value", [Decimal("0.1"), Decimal("99999999.99"), Decimal("-123456.78")])
def test_decimals_as_double_round_once(value: Any) -> None:
    assert as_double(int(value * 100), pa.decimal128(10, 2)) == float(value)
