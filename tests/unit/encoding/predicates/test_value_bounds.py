"""Bounds of columns by Parquet's statistics: exactly those of the values, or unknown; the test passes no row by."""

from __future__ import annotations

import io
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark.encoding.predicates import bind_filter, parse_filter
from slatespark.encoding.predicates.ordering import float_ordinal, has_bytes, ordinals
from slatespark.encoding.predicates.value_bounds import ValueBounds, bounds_of, key_range_of, may_pass
from slatespark.encoding.row_codec import RowCodec
from slatespark.ranges import ALL_KEYS
from tests.support.effort import examples

INTEGERS: dict[pa.DataType, tuple[pa.DataType, int]] = {
    pa.bool_(): (pa.bool_(), 0),
    pa.int8(): (pa.int8(), 7),
    pa.int16(): (pa.int16(), 15),
    pa.int32(): (pa.int32(), 31),
    pa.int64(): (pa.int64(), 63),
    pa.date32(): (pa.int32(), 31),
    pa.timestamp("us"): (pa.int64(), 63),
    pa.timestamp("us", "UTC"): (pa.int64(), 63),
}
TEXTS = st.text(alphabet="aéz\0\U0001f600", max_size=3)


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if kind in INTEGERS:
        bits = INTEGERS[kind][1]
        return st.integers(-(1 << bits), (1 << bits) - 1) if bits else st.booleans()
    if pa.types.is_floating(kind):
        return st.floats(width=kind.bit_width) | st.sampled_from([0.0, -0.0, float("nan")])
    if pa.types.is_decimal(kind):
        return st.decimals(-(10 ** (kind.precision - kind.scale)) + 1, 10**6, places=kind.scale)
    if pa.types.is_time(kind):
        return st.integers(0, 86_399_999_999).map(lambda micros: micros * 1000)
    return TEXTS if pa.types.is_string(kind) else st.binary(max_size=3)


KINDS = [
    *INTEGERS, pa.float32(), pa.float64(), pa.decimal128(9, 2), pa.decimal128(38, 6), pa.time64("ns"),
    pa.string(), pa.binary(),
]  # fmt: skip


def array_of(values: list[Any], kind: pa.DataType) -> pa.Array:
    if kind in INTEGERS:
        return pa.array(values, INTEGERS[kind][0]).cast(kind)
    if pa.types.is_time(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, kind, from_pandas=False)


def stored(array: pa.Array) -> ValueBounds | None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"c": array}), sink, compression="zstd")
    return bounds_of(pq.ParquetFile(sink).metadata.row_group(0).column(0).statistics, array.type)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_bounds_are_those_of_the_values(kind: pa.DataType) -> None:
    @settings(max_examples=examples(30), deadline=None)
    @given(values=st.lists(st.none() | values_of(kind), min_size=1, max_size=6))
    def check(values: list[Any]) -> None:
        array = array_of(values, kind)
        found = stored(array)
        there = array.drop_null()
        if pa.types.is_floating(kind):
            there = there.filter(pa.array(~np.isnan(there.to_numpy(zero_copy_only=False))))
        if found is None:
            assert pa.types.is_floating(kind)
            assert not len(there)
            return
        assert found.has_nulls == bool(array.null_count)
        if not len(there):
            assert (found.first, found.last) == (None, None)
        elif has_bytes(kind):
            plain = sorted(there.cast(pa.binary()).to_pylist())
            assert (found.first, found.last) == (plain[0], plain[-1])
        else:
            plain = sorted(map(_number, ordinals(there).tolist()))
            if pa.types.is_floating(kind) and np.isinf(there.to_numpy()).all():
                # Old releases of Arrow have the largest finite number for one of the bounds, which makes them wider.
                assert found.first <= plain[0] <= plain[-1] <= found.last
            else:
                assert (found.first, found.last) == (plain[0], plain[-1])

    check()


def _number(ordinal: int | bytes) -> int:
    """An ordinal; of wide decimals it is bytes, see `ordering.ordinals`."""
    return ordinal if isinstance(ordinal, int) else int.from_bytes(ordinal.ljust(16, b"\0"), "big") - (1 << 127)


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.string()], ids=str)
def test_no_row_that_passes_is_left_out(kind: pa.DataType) -> None:
    literals = ["'a'", "'é'"] if kind == pa.string() else ["0", "-1", "5"]
    known = TEXTS if kind == pa.string() else st.sampled_from([-2, -1, 0, 1, 5, 9])

    @settings(max_examples=examples(40), deadline=None)
    @given(
        values=st.lists(st.none() | known, min_size=1),
        has_nan=st.booleans(),
        comparison=st.sampled_from(["=", "<>", "<", "<=", ">", ">="]),
        literal=st.sampled_from(literals),
        of_null=st.sampled_from([None, "c IS NULL", "c IS NOT NULL"]),
    )
    def check(values: list[Any], has_nan: bool, comparison: str, literal: str, of_null: str | None) -> None:
        if kind == pa.float64() and has_nan:
            values = [*values, float("nan")]
        array = array_of(values, kind)
        condition = bind_filter(parse_filter(of_null or f"c {comparison} {literal}"), pa.schema([("c", kind)]))
        found = stored(array)
        if condition.mask({"c": array}).any():
            assert may_pass(condition, {} if found is None else {"c": found})

    check()


def test_rows_outside_the_bounds_cannot_pass() -> None:
    condition = bind_filter(parse_filter("c >= 5 AND c < 9"), pa.schema([("c", pa.int64())]))
    for first, last, expected in ((0, 4, False), (0, 5, True), (8, 8, True), (9, 20, False)):
        assert may_pass(condition, {"c": ValueBounds(first, last, True)}) is expected
    assert not may_pass(condition, {"c": ValueBounds(None, None, True)})
    of_null = bind_filter(parse_filter("c IS NULL"), pa.schema([("c", pa.int64())]))
    assert not may_pass(of_null, {"c": ValueBounds(0, 9, False)})
    assert may_pass(of_null, {"c": ValueBounds(0, 9, True)})


def test_nan_lies_above_all_bounds_where_there_may_be_any() -> None:
    schema = pa.schema([("c", pa.float64())])
    first, last = (float_ordinal(value, pa.float64()) for value in (0.0, 9.0))
    for text, expected in (("c > 10", True), ("c < -1", False), ("c = 3", True)):
        condition = bind_filter(parse_filter(text), schema)
        assert may_pass(condition, {"c": ValueBounds(first, last, False)}) is expected
        known = {"c": ValueBounds(first, last, False, has_nan=False)}
        assert may_pass(condition, known) is (text == "c = 3")


def test_values_too_long_for_statistics_are_unknown() -> None:
    assert stored(pa.array(["x" * 10_000, "y"])) is None


SCHEMA = pa.schema([("t", pa.string()), ("n", pa.int32()), ("v", pa.int64())])


@settings(max_examples=examples(50), deadline=None)
@given(
    keys=st.lists(
        st.tuples(st.none() | TEXTS, st.none() | st.integers(-300, 300)), min_size=1, max_size=6, unique=True
    ),
    key_format=st.sampled_from(["tuple", "utf8"]),
)
def test_keys_lie_in_the_range_of_their_bounds(keys: list[tuple[str | None, int | None]], key_format: str) -> None:
    names = ("t", "n") if key_format == "tuple" else ("t",)
    codec = RowCodec(SCHEMA, names, key_format, "avro")
    columns = {
        "t": pa.array([text if key_format == "tuple" else f"{text}" for text, _ in keys], pa.string()),
        "n": pa.array([number for _, number in keys], pa.int32()),
    }
    found = key_range_of([stored(columns[name]) for name in names], codec)
    data, offsets = codec.encode_keys(pa.table(columns))
    encoded = [data[start:end].tobytes() for start, end in itertools.pairwise(offsets)]
    keys_found, is_exact = found
    assert all(keys_found.contains(key) for key in encoded)
    if is_exact:
        assert min(encoded) == keys_found.start


def test_unknown_bounds_are_all_keys() -> None:
    codec = RowCodec(SCHEMA, ("t", "n"), "tuple", "avro")
    assert key_range_of([None, ValueBounds(1, 2, False)], codec) == (ALL_KEYS, False)
    one, is_exact = key_range_of([ValueBounds(b"a", b"a", False), ValueBounds(1, 2, False)], codec)
    assert is_exact
    whole, is_exact = key_range_of([ValueBounds(b"a", b"a", False), None], codec)
    assert not is_exact
    assert whole.start < one.start
    assert one.end is not None
    assert whole.end is not None
    assert one.end < whole.end
