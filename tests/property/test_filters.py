"""Key plans against a plain model: rows that match = rows whose key is planned and that pass the residual."""

from __future__ import annotations

import itertools
import math
import re
import struct
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, TypeAlias
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark.encoding.predicates import (
    Comparison,
    Filter,
    KeyPlan,
    Literal,
    bind_filter,
    operators,
    parse_filter,
    plan_keys,
)
from slatespark.encoding.predicates import key_plan as planning
from slatespark.encoding.predicates import literals as kinds
from slatespark.encoding.row_codec import RowCodec
from slatespark.errors import OptionError
from tests.support.effort import examples
from tests.support.random_filters import SCHEMA, Dice, random_filter

TYPES = {
    "flag": pa.bool_(),
    "tiny": pa.int8(),
    "big": pa.int64(),
    "price": pa.decimal128(38, 2),
    "half": pa.float32(),
    "double": pa.float64(),
    "text": pa.string(),
    "data": pa.binary(),
    "moment": pa.timestamp("us", tz="UTC"),
}
Case: TypeAlias = tuple[RowCodec, list[dict[str, Any]], list[Comparison]]
SIGNS: dict[str, Callable[[int], bool]] = {
    operators.EQ: lambda order: order == 0,
    operators.NULL_SAFE_EQ: lambda order: order == 0,
    operators.NE: lambda order: order != 0,
    operators.LT: lambda order: order < 0,
    operators.LE: lambda order: order <= 0,
    operators.GT: lambda order: order > 0,
    operators.GE: lambda order: order >= 0,
}


def to_half(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0]) if abs(value) < 3e38 else value


FEW_FLOATS = st.sampled_from([0.0, -0.0, 1.0, -1.5, 0.5, math.inf, -math.inf, math.nan, 5e-324, 1e300])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "flag": st.booleans(),
    "tiny": st.sampled_from([-128, -2, -1, 0, 1, 2, 3, 127]),
    "big": st.sampled_from([-(2**63), -257, -256, -255, -1, 0, 1, 2, 255, 256, 2**63 - 1]),
    "price": st.sampled_from([-(10**38) + 1, -(2**64), -150, -1, 0, 1, 100, 150, 2**63, 2**64, 10**38 - 1]),  # unscaled
    "half": FEW_FLOATS.map(lambda value: to_half(value) if abs(value) < 1e30 else math.copysign(math.inf, value)),
    "double": FEW_FLOATS,
    "text": st.sampled_from(["", "a", "a\0", "a\0b", "aa", "ab", "b", "\x7f", "ä", "\uffff", "\U0010ffff"]),
    "data": st.sampled_from([b"", b"\0", b"\0\xff", b"a", b"a\0", b"a\xff", b"a\xff\xff", b"b", b"\xff", b"\xff\xff"]),
    "moment": st.sampled_from([-(2**63), -1, 0, 1, 1_700_000_000_000_000, 2**63 - 1]),
}


def literal_of(name: str) -> st.SearchStrategy[Literal]:
    """A literal for a column: often one of its values, at times beyond its type."""
    if name in ("tiny", "big"):
        odd = st.sampled_from([Fraction(3, 2), Fraction(10**30), Fraction(-(10**30)), Fraction(-1, 2)])
        return st.one_of(VALUES[name].map(Fraction), odd).map(lambda value: Literal(kinds.NUMBER, value))
    if name == "price":
        odd = st.sampled_from([Fraction(1, 1000), Fraction(10**37), Fraction(-(10**37))])
        exact = st.one_of(VALUES[name].map(lambda value: Fraction(value, 100)), odd)
        return exact.map(lambda value: Literal(kinds.NUMBER, value))
    if name in ("half", "double"):
        return VALUES[name].map(lambda value: Literal(kinds.DOUBLE, value))
    kind = {"flag": kinds.BOOLEAN, "text": kinds.STRING, "data": kinds.BINARY, "moment": kinds.TIMESTAMP}[name]
    return VALUES[name].map(lambda value: Literal(kind, value))


def or_null(literals: st.SearchStrategy[Literal]) -> st.SearchStrategy[Literal]:
    return st.one_of(literals, literals, literals, literals, st.just(Literal(kinds.NULL, None)))


@st.composite
def comparisons(draw: st.DrawFn, name: str) -> Comparison:
    literals = or_null(literal_of(name))
    shape = draw(st.sampled_from(["sign", "sign", "equal", "equal", "list", "between", "null", "prefix"]))
    if shape == "equal":
        return Comparison(name, operators.EQ, (draw(literals),))
    if shape == "list":
        word = draw(st.sampled_from([operators.IN, operators.IN, operators.NOT_IN]))
        return Comparison(name, word, tuple(draw(st.lists(literals, min_size=1, max_size=4))))
    if shape == "between":
        return Comparison(name, operators.BETWEEN, (draw(literals), draw(literals)))
    if shape == "null":
        return Comparison(name, draw(st.sampled_from([operators.IS_NULL, operators.IS_NOT_NULL])))
    if shape == "prefix" and name == "text":
        return Comparison(name, operators.STARTS_WITH, (draw(literal_of(name)),))
    return Comparison(name, draw(st.sampled_from(list(SIGNS))), (draw(literals),))


@st.composite
def cases(draw: st.DrawFn, first: str) -> Case:
    """A table with some key columns, `first` in front, and a value column; rows, and comparisons."""
    others = [name for name in TYPES if name != first]
    names = [first, *draw(st.permutations(others))[: draw(st.integers(0, 3))]]
    key_format = "tuple"
    if len(names) == 1 and names[0] in ("text", "data") and draw(st.booleans()):
        key_format = "utf8" if names[0] == "text" else "raw"
    schema = pa.schema([*((name, TYPES[name]) for name in names), ("value", pa.int64())])
    codec = RowCodec(schema, tuple(names), key_format, "avro")
    row = {  # no key of SlateDB is empty
        name: VALUES[name].filter(bool) if key_format != "tuple" else st.one_of(VALUES[name], VALUES[name], st.none())
        for name in names
    }
    rows = draw(st.lists(st.fixed_dictionaries({**row, "value": st.integers(0, 2)}), min_size=1, max_size=12))
    asked = draw(st.lists(st.sampled_from(names), min_size=0, max_size=5))
    found = [draw(comparisons(name)) for name in asked]
    if draw(st.booleans()):
        found.append(Comparison("value", operators.LT, (Literal(kinds.NUMBER, Fraction(2)),)))
    return codec, rows, found


def array_of(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(kind):
        data = b"".join((value or 0).to_bytes(16, "little", signed=True) for value in values)
        valid = np.packbits([value is not None for value in values], bitorder="little")
        return pa.Array.from_buffers(kind, len(values), [pa.py_buffer(valid), pa.py_buffer(data)])
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, kind)


def keys_of(codec: RowCodec, table: pa.Table) -> list[bytes]:
    data, offsets = codec.encode_keys(table)
    whole, reach = bytes(data), list(offsets)
    return [whole[start:end] for start, end in itertools.pairwise(reach)]


# --- the model --------------------------------------------------------------------------------------------------------


def is_true(comparison: Comparison, row: Mapping[str, Any]) -> bool:
    """SQL's three values, of which only TRUE counts."""
    value = row[comparison.column]
    literals = comparison.literals
    if comparison.operator == operators.IS_NULL:
        return value is None
    if comparison.operator == operators.IS_NOT_NULL:
        return value is not None
    orders = [compare(comparison.column, value, literal) for literal in literals]
    if comparison.operator == operators.NULL_SAFE_EQ and literals[0].kind == kinds.NULL:
        return value is None
    if value is None:
        return False
    if comparison.operator == operators.STARTS_WITH:
        return str(value).startswith(literals[0].value)
    if comparison.operator == operators.IN:
        return 0 in orders
    if comparison.operator == operators.NOT_IN:
        return None not in orders and 0 not in orders
    if None in orders:
        return False
    known = [order for order in orders if order is not None]
    if comparison.operator == operators.BETWEEN:
        return known[0] >= 0 >= known[1]
    return SIGNS[comparison.operator](known[0])


def compare(name: str, value: Any, literal: Literal) -> int | None:
    if value is None or literal.kind == kinds.NULL:
        return None
    one, other = sortable(Fraction(value, 100) if name == "price" else value), sortable(literal.value)
    return int(one > other) - int(one < other)


def sortable(value: Any) -> Any:
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


# --- tests ------------------------------------------------------------------------------------------------------------


def is_planned(plan: KeyPlan, key: bytes) -> bool:
    inside = [span for span in plan.ranges if span.contains(key)]
    assert len(inside) <= 1
    if plan.points is None:
        return bool(inside)
    assert inside or key not in plan.points
    return key in plan.points


def check_plan(plan: KeyPlan) -> None:
    for before, after in itertools.pairwise(plan.ranges):
        assert before.end is not None
        assert before.end <= after.start
    assert not any(span.is_empty() for span in plan.ranges)
    assert plan.points is None or list(plan.points) == sorted(set(plan.points))


@pytest.mark.parametrize("first", TYPES)
@given(data=st.data())
@settings(deadline=None, max_examples=examples(75))
def test_planned_keys_and_residual_are_the_filter(first: str, data: st.DataObject) -> None:
    check(*data.draw(cases(first)))


@pytest.mark.parametrize("first", TYPES)
@given(data=st.data(), most=st.sampled_from([1, 2, 3]))
@settings(deadline=None, max_examples=examples(50))
def test_few_ranges_are_right_too(first: str, data: st.DataObject, most: int) -> None:
    """With hardly any ranges allowed, the plan is coarser and the residual does the rest."""
    with patch.object(planning, "MAX_RANGES", most), patch.object(planning, "MAX_POINTS", most):
        check(*data.draw(cases(first)))


def check(codec: RowCodec, rows: list[dict[str, Any]], found: list[Comparison]) -> None:
    table = pa.table({item.name: array_of([row[item.name] for row in rows], item.type) for item in codec.schema})
    arrays = {name: table[name].combine_chunks() for name in table.column_names}
    expected = [all(is_true(comparison, row) for comparison in found) for row in rows]

    condition = bind_filter(found, codec.schema)
    assert not condition or condition.mask(arrays).tolist() == expected

    plan = plan_keys(condition, codec)
    check_plan(plan)
    rest = plan.residual.mask(arrays).tolist() if plan.residual else [True] * len(rows)
    planned = [is_planned(plan, key) for key in keys_of(codec, table)]
    assert [inside and passes for inside, passes in zip(planned, rest, strict=True)] == expected


@given(st.lists(st.one_of(st.none(), st.integers(-5, 5)), max_size=30), st.integers(0, 30))
@settings(deadline=None)
def test_arrays_may_begin_within_their_buffers(values: list[int | None], start: int) -> None:
    not_negative = Comparison("x", operators.GE, (Literal(kinds.NUMBER, Fraction(0)),))
    condition = bind_filter([not_negative], pa.schema([("x", pa.int32())]))
    array = pa.array(values, pa.int32())[start:]
    assert condition.mask({"x": array}).tolist() == [value is not None and value >= 0 for value in values[start:]]


# --- any text ---------------------------------------------------------------------------------------------------------

WORDS = "text number AND IN NOT LIKE BETWEEN IS NULL DATE TIMESTAMP <=> <> 1 .5 1e999 1e9999BD 'a%' '2026' X'0' r' '\\"
PIECES = st.sampled_from([*WORDS.split(), "`Mixed Case`", "9" * 50, *"=,()'`\"-"])


ANY_TEXT = st.text(st.characters())  # halves of surrogate pairs too


@st.composite
def damaged_filters(draw: st.DrawFn) -> str:
    """A filter that Spark takes, in which something was put, cut or changed."""
    text = random_filter(Dice(draw(st.integers(0, 10_000))))
    start = draw(st.integers(0, len(text)))
    end = min(len(text), start + draw(st.integers(0, 3)))
    return text[:start] + draw(st.one_of(PIECES, st.text(max_size=3))) + text[end:]


@given(st.one_of(ANY_TEXT, st.lists(PIECES, max_size=12).map(" ".join), damaged_filters()))
@settings(deadline=None, max_examples=examples(750))
def test_any_text_is_a_filter_or_an_error_that_shows_the_place(text: str) -> None:
    codec = RowCodec(SCHEMA, ("text", "number"), "tuple", "avro")
    found = outcome(text)
    if isinstance(found, OptionError):
        assert re.search("character [0-9]+: `|end .*`", str(found))
    else:
        check_plan(plan_keys(found, codec))


def outcome(text: str) -> Filter | OptionError:
    try:
        return bind_filter(parse_filter(text), SCHEMA)
    except OptionError as error:
        return error
