"""JSON and text -> Arrow: the way back from what is printed, and what is refused."""

from __future__ import annotations

import json
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slatespark import SchemaError
from slatespark.cli.files.input_values import array_of_json, array_of_text
from slatespark.cli.files.json_rows import parse_object
from slatespark.display.values import json_values

LONG = st.integers(-(2**63) + 1, 2**63 - 1)
TYPES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int8(), st.integers(-128, 127)),
    (pa.int64(), LONG),
    (pa.bool_(), st.booleans()),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.decimal128(38, 10), st.decimals(-(10**27), 10**27, places=10)),
    (pa.string(), st.text()),
    (pa.binary(), st.binary()),
    (pa.date32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.timestamp("us", "UTC"), LONG),
    (pa.timestamp("us"), LONG),
    (pa.duration("us"), LONG),
    (pa.time64("ns"), st.integers(0, 86_400 * 10**9 - 1)),
    (pa.list_(pa.timestamp("us", "UTC")), st.lists(st.none() | LONG)),
    (pa.map_(pa.string(), pa.binary()), st.dictionaries(st.text(), st.binary()).map(lambda items: list(items.items()))),
    (pa.map_(pa.int32(), pa.float64()), st.just([(1, 0.5), (2, None)])),
    (pa.struct([("a", pa.int8()), ("b", pa.string())]), st.fixed_dictionaries({"a": st.none(), "b": st.text()})),
]


@pytest.mark.parametrize(("kind", "values"), TYPES, ids=[str(kind) for kind, _ in TYPES])
def test_what_is_printed_comes_back(kind: pa.DataType, values: st.SearchStrategy[Any]) -> None:
    field = pa.field("c", kind)

    @given(st.lists(st.none() | values))
    def check(items: list[Any]) -> None:
        array = pa.array(items, kind)
        shown = json_values(array)
        assert array_of_json(json.loads(json.dumps(shown, allow_nan=False)), field, as_text=False).equals(array)
        cells = [item if item is None or isinstance(item, str) else json.dumps(item) for item in shown]
        assert array_of_text(pa.array(cells, pa.string()), field, as_text=False).equals(array)

    check()


def test_what_is_no_number_comes_back() -> None:
    values = ["NaN", "Infinity", "-Infinity", 1]
    for kind in (pa.float32(), pa.float64()):
        array = array_of_json(values, pa.field("c", kind), as_text=False)
        assert json_values(array) == values


def test_what_means_infinity() -> None:
    texts = ["inf", "-Infinity", " +INF", "1e300", "nan"]
    array = array_of_text(pa.array(texts), pa.field("c", pa.float64()), as_text=False)
    assert json_values(array) == ["Infinity", "-Infinity", "Infinity", 1e300, "NaN"]
    row = parse_object('{"a": Infinity, "b": -Infinity}', "OBJECT", float)
    assert json_values(array_of_json(list(row.values()), pa.field("c", pa.float32()), as_text=False)) == [
        "Infinity",
        "-Infinity",
    ]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_whole_numbers_that_a_float_holds(kind: pa.DataType) -> None:
    numbers = [2**24, 10**11, 123456789012345680000, 2**100, -(2**60)]
    numbers = [number for number in numbers if kind == pa.float64() or number != 123456789012345680000]
    field = pa.field("c", kind)
    expected = pa.array([float(number) for number in numbers]).cast(kind)
    assert array_of_json(numbers, field, as_text=False).equals(expected)
    assert array_of_text(pa.array([str(number) for number in numbers]), field, as_text=False).equals(expected)


def test_zeros_below_a_microsecond_change_nothing() -> None:
    texts = ["2026-01-31T12:00:00.500000000Z"]
    array = array_of_json(texts, pa.field("c", pa.timestamp("us", "UTC")), as_text=False)
    assert array.cast(pa.int64()).to_pylist() == [1_769_860_800_500_000]


def test_bytes_with_half_of_a_surrogate_pair() -> None:
    with pytest.raises(SchemaError):
        array_of_json(["\ud800"], pa.field("c", pa.binary()), as_text=True)


def test_bytes_among_text() -> None:
    field = pa.field("c", pa.binary())
    values = ["é", {"hex": "ff"}, None]
    array = array_of_json(values, field, as_text=True)
    assert array.to_pylist() == ["é".encode(), b"\xff", None]
    assert json_values(array, as_text=True) == values


@pytest.mark.parametrize(
    ("text", "kind", "us"),
    [
        ("2026-01-31", pa.timestamp("us", "UTC"), 1_769_817_600_000_000),
        ("2026-01-31 12:00", pa.timestamp("us", "UTC"), 1_769_860_800_000_000),
        ("2026-01-31T12:00:00.5+02:00", pa.timestamp("us", "UTC"), 1_769_853_600_500_000),
        ("2026-01-31T12:00:00", pa.timestamp("us"), 1_769_860_800_000_000),
        ("P1DT1H1M1.5S", pa.duration("us"), 90_061_500_000),
        ("-PT1S", pa.duration("us"), -1_000_000),
    ],
)
def test_other_ways_to_write_times(text: str, kind: pa.DataType, us: int) -> None:
    for array in (
        array_of_json([text], pa.field("c", kind), as_text=False),
        array_of_text(pa.array([text]), pa.field("c", kind), as_text=False),
    ):
        assert array.cast(pa.int64()).to_pylist() == [us]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (5, pa.string()),
        ("1", pa.int64()),
        (True, pa.int64()),
        (1.0, pa.int64()),
        (128, pa.int8()),
        (2**63, pa.int64()),
        (1, pa.bool_()),
        ("1", pa.float64()),
        ("1.234", pa.decimal128(10, 2)),
        ("123456789", pa.decimal128(10, 2)),
        ("1_0", pa.decimal128(10, 2)),
        ("\u0661", pa.decimal128(10, 2)),
        ("NaN", pa.decimal128(10, 2)),
        ("1e999999999", pa.decimal128(10, 2)),
        (True, pa.decimal128(10, 2)),
        ("0x", pa.binary()),
        (b"", pa.binary()),
        ("2026-02-30", pa.date32()),
        ("2026-01-31T00:00:00", pa.date32()),
        (0, pa.date32()),
        ("2026-01-31T12:00:00Z", pa.timestamp("us")),
        ("999999-01-01", pa.timestamp("us")),
        ("P", pa.duration("us")),
        ("24:00:00", pa.time64("ns")),
        ({}, pa.list_(pa.int8())),
        ([], pa.struct([("a", pa.int8())])),
        ({"b": 1}, pa.struct([("a", pa.int8())])),
        ([1], pa.map_(pa.string(), pa.int8())),
        ({"a": "b"}, pa.map_(pa.string(), pa.int8())),
        (1e300, pa.float32()),
        (float("inf"), pa.float64()),  # what `json.loads` makes of 1e400
        (Decimal("1e400"), pa.float64()),
        (2**53 + 1, pa.float64()),
        (2**24 + 1, pa.float32()),
        ([1e300], pa.list_(pa.float32())),
        ("2026-01-31T12:00:00.123456789Z", pa.timestamp("us", "UTC")),
        ("2026-01-31T12:00:00.0000001", pa.timestamp("us")),
        ("\ud800", pa.string()),
        ("\ud800", pa.date32()),
    ],
)
def test_what_does_not_fit_is_named(value: object, kind: pa.DataType) -> None:
    field = pa.field("price", kind)
    with pytest.raises(SchemaError, match=r"\b12\b.*price"):
        array_of_json([None, None, value, None], field, as_text=False, first_row=10)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("x", pa.int64()),
        ("1.5", pa.int64()),
        ("", pa.int64()),
        ("9" * 5000, pa.int64()),
        ("0xff", pa.int8()),
        ("0XFFFF", pa.int16()),
        (" 0x0 ", pa.int64()),
        ("12_34", pa.int64()),
        ("\u0661\u0662", pa.int64()),
        ("1_0.5", pa.float64()),
        ("1_0", pa.decimal128(10, 2)),
        ("yes", pa.bool_()),
        ("[1", pa.list_(pa.int8())),
        ("2026-01-31T12:00:00Z", pa.timestamp("us")),
        ("2026-01-31T12:00:00.123456789Z", pa.timestamp("us", "UTC")),
        ("1e300", pa.float32()),
        ("-1e400", pa.float64()),
        ("9" * 400, pa.float64()),
        ("9007199254740993", pa.float64()),
        (" 16777217", pa.float32()),
        ("[1e400]", pa.list_(pa.float64())),
        (f"[4e{'4' * 30}]", pa.list_(pa.float64())),
        ("[" * 100_000, pa.list_(pa.float64())),
    ],
)
def test_text_that_does_not_fit_is_named(text: str, kind: pa.DataType) -> None:
    with pytest.raises(SchemaError, match=r"\b2\b.*price"):
        array_of_text(pa.array([None, text], pa.string()), pa.field("price", kind), as_text=False)


@pytest.mark.parametrize(
    "kind", [pa.decimal128(5, 2), pa.decimal128(38, 0), pa.decimal128(38, 10), pa.decimal128(38, 38)]
)
@pytest.mark.parametrize("lead", ["0.", "1.", "-12.", "0.99"])
def test_decimals_of_any_scale_are_exact_or_refused(kind: pa.DataType, lead: str) -> None:
    field = pa.field("price", kind)
    for zeros in (*range(90), 5000):
        for end in ("", "1"):
            number = Decimal(f"{lead}{'0' * zeros}{end}")
            digits = number.normalize(Context(prec=6000)).as_tuple()
            fits = -int(digits.exponent) <= kind.scale and number.adjusted() < kind.precision - kind.scale
            for convert, value in ((array_of_text, pa.array([f"{number:f}"])), (array_of_json, [number])):
                if fits or not number:
                    assert convert(value, field, as_text=False).to_pylist() == [number]
                else:
                    with pytest.raises(SchemaError):
                        convert(value, field, as_text=False)


@pytest.mark.parametrize(
    "text", ["1e-41", "1.5e-79", "9e-40", "1e-999999999", "1e38", "1e999999999", "NaN", "Infinity"]
)
def test_decimals_far_from_their_type(text: str) -> None:
    with pytest.raises(SchemaError):
        array_of_text(pa.array([text]), pa.field("price", pa.decimal128(5, 2)), as_text=False)
