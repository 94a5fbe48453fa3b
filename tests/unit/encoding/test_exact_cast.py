"""A cast keeps every value exactly, or raises an error that names the column."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from slatespark.encoding.column_types import VARIANT, list_of, map_of
from slatespark.encoding.exact_cast import cast_column
from slatespark.errors import SchemaError

UTC = pa.timestamp("us", "UTC")
NAIVE = dt.datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC).replace(tzinfo=None)


def cast(values: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> Any:
    column = cast_column(pa.chunked_array(values), pa.field("c", kind))
    assert column.type.equals(kind)
    column.validate(full=True)
    return column.to_pylist()


_WRAPPING = (2**128 + 10**37) // 10**18  # times 10^18 it is about 10^37 in 128 bits

NESTED = pa.struct([("a", pa.int8()), ("B", list_of(pa.string()))])


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (pa.array([1, None, -128], pa.int64()), pa.int8(), [1, None, -128]),
        (pa.array([2**53, None]), pa.float64(), [2.0**53, None]),
        (pa.array([0.5, float("inf"), -0.0], pa.float64()), pa.float32(), [0.5, float("inf"), -0.0]),
        (pa.array([7, None], pa.int32()), pa.decimal128(10, 2), [Decimal("7.00"), None]),
        (pa.array([Decimal("1.50")], pa.decimal128(5, 2)), pa.decimal128(4, 1), [Decimal("1.5")]),
        (pa.array([Decimal(10**19)], pa.decimal128(38, 0)), pa.decimal128(38, 18), [Decimal(10**19)]),
        (pa.array([-(10**7), None]), pa.decimal128(38, 30), [Decimal(-(10**7)), None]),
        (pa.nulls(2), NESTED, [None, None]),
        (pa.array(["a", None, "a"]).dictionary_encode(), pa.string(), ["a", None, "a"]),
        (
            pa.DictionaryArray.from_arrays(pa.array([1, None, 0]), pa.array(["a", None], pa.string_view())),
            pa.string(),
            [None, None, "a"],
        ),
        (pa.array([[], None, [None]]), list_of(pa.string()), [[], None, [None]]),
        (pa.array([{"a": None}]), NESTED, [{"a": None, "B": None}]),
        (pa.array([1000, None], pa.timestamp("ns")), pa.timestamp("us"), [NAIVE, None]),
        (pa.array([5], pa.time32("s")), pa.time64("ns"), [dt.time(0, 0, 5)]),
        (pa.array([[1, 2], None, []], pa.large_list(pa.int64())), list_of(pa.int8()), [[1, 2], None, []]),
        (pa.array([[1, 2], None, [3, None]], pa.list_(pa.int8(), 2)), list_of(pa.int64()), [[1, 2], None, [3, None]]),
        (pa.array([[1], None, [2]], pa.list_view(pa.int8())), list_of(pa.int16()), [[1], None, [2]]),
        (
            pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int8())),
            map_of(pa.string(), pa.int64()),
            [[("k", 1)], None, []],
        ),
        (
            pa.array([{"b": ["x"]}, None], pa.struct([("b", pa.list_(pa.large_string()))])),
            NESTED,
            [{"a": None, "B": ["x"]}, None],
        ),
    ],
    ids=str,
)
def test_values_that_fit(values: pa.Array, kind: pa.DataType, expected: list[Any]) -> None:
    assert cast(values, kind) == expected
    sliced = pa.concat_arrays([values, values]).slice(1, len(values))
    assert cast(sliced, kind) == [*expected[1:], *expected[:1]]
    assert cast(pa.chunked_array([values.slice(0, 1), values.slice(0, 0), values.slice(1)]), kind) == expected


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([128]), pa.int8()),
        (pa.array([2**53 + 1]), pa.float64()),
        (pa.array([2**24 + 1]), pa.float32()),
        (pa.array([0.1]), pa.float32()),
        (pa.array([1e300]), pa.float32()),
        (pa.array([Decimal("1.55")]), pa.decimal128(4, 1)),
        (pa.array([12345]), pa.decimal128(4, 2)),
        (pa.array([10**18]), pa.decimal128(38, 30)),
        (pa.array([Decimal(_WRAPPING)], pa.decimal128(38, 0)), pa.decimal128(38, 18)),
        (pa.array([-Decimal(_WRAPPING)], pa.decimal256(38, 0)), pa.decimal128(38, 18)),
        (pa.array([[Decimal(_WRAPPING)]], pa.list_(pa.decimal128(38, 0))), list_of(pa.decimal128(38, 18))),
        (pa.array([1], pa.timestamp("ns")), pa.timestamp("us")),
        (pa.array([1], pa.date64()), pa.date32()),
        (pa.array([[300]]), list_of(pa.int8())),
        (pa.array([[1, None]], pa.large_list(pa.int8())), list_of(pa.int8(), nullable=False)),
        (
            pa.array([{"a": None}], pa.struct([("a", pa.int16())])),
            pa.struct([pa.field("a", pa.int8(), nullable=False)]),
        ),
        (pa.array([[("k", None)]], pa.map_(pa.string(), pa.int16())), map_of(pa.string(), pa.int8(), nullable=False)),
    ],
    ids=str,
)
def test_what_does_not_fit_is_named(values: pa.Array, kind: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="value"):
        cast(values, kind)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array(["1"]), pa.int8()),
        (pa.array([1]), pa.string()),
        (pa.array([1.0]), pa.int64()),
        (pa.array([True]), pa.int8()),
        (pa.array([Decimal(1)]), pa.int8()),
        (pa.array([b"x"]), pa.string()),
        (pa.array(["x"]), pa.binary()),
        (pa.array([0], pa.timestamp("us")), UTC),
        (pa.array([{"value": b"", "metadata": b"", "x": 1}]), VARIANT),
        (pa.array([{"a": 1, "lost": 2}]), pa.struct([("a", pa.int8())])),
    ],
    ids=str,
)
def test_other_kinds_of_values_are_refused(values: pa.Array, kind: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="table"):
        cast(values, kind)


def test_an_empty_null_within_a_struct_that_is_null_is_none() -> None:
    kind = pa.struct([pa.field("a", pa.int8(), nullable=False)])
    given = pa.StructArray.from_arrays([pa.array([1, None])], names=["a"], mask=pa.array([False, True]))
    assert cast(given, kind) == [{"a": 1}, None]
