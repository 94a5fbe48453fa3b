"""Ordinals have the order of the values, for single values and for arrays."""

from __future__ import annotations

import math

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from slatespark.encoding.predicates.ordering import (
    as_double,
    constant_ordinals,
    first_double_at_least,
    float_ordinal,
    ordinals,
    ordinals_to_array,
    universe,
)

TYPES = [
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(5, 2),
    pa.decimal128(18, 0),
    pa.decimal128(38, 38),
    pa.date32(),
    pa.timestamp("us", tz="UTC"),
    pa.timestamp("us"),
]


@given(st.sampled_from(TYPES), st.data())
def test_ordinals_round_trip(kind: pa.DataType, data: st.DataObject) -> None:
    low, high = universe(kind)
    values = data.draw(st.lists(st.one_of(st.none(), st.integers(low, high - 1)), max_size=8))
    array = ordinals_to_array(values, kind)
    assert array.type == kind
    assert [item is None for item in values] == array.is_null().to_pylist()
    known = [item for item in values if item is not None]
    assert (ordinals(array.drop_null()) == constant_ordinals(known, kind)).all()


@given(st.lists(st.one_of(st.floats(), st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf])), min_size=2))
def test_floats_order_with_nan_above_all(values: list[float]) -> None:
    found = ordinals(pa.array(values, pa.float64(), from_pandas=False)).tolist()
    for value, ordinal in zip(values, found, strict=True):
        assert ordinal == float_ordinal(value, pa.float64())
    expected = sorted(values, key=lambda value: (math.isnan(value), 0 if math.isnan(value) else value))
    ordered = [value for _, value in sorted(zip(found, values, strict=True), key=lambda pair: pair[0])]
    assert [repr(value + 0.0) for value in ordered] == [repr(value + 0.0) for value in expected]


@given(st.lists(st.integers(1 - 10**38, 10**38 - 1), min_size=2, max_size=6))
def test_wide_decimals_order_as_numbers(values: list[int]) -> None:
    found = ordinals(ordinals_to_array(list(values), pa.decimal128(38, 0))).tolist()
    by_bytes = sorted(zip(found, values, strict=True), key=lambda pair: pair[0].ljust(16, b"\0"))
    assert [value for _, value in by_bytes] == sorted(values)


@given(st.floats(width=32))
def test_bounds_of_floats(value: float) -> None:
    kind = pa.float32()
    exact = first_double_at_least(value, kind), first_double_at_least(value, kind, above=True)
    assert exact == (float_ordinal(value, kind), float_ordinal(value, kind) + 1)
    again = as_double(exact[0], kind)
    assert again == value or (math.isnan(again) and math.isnan(value))
