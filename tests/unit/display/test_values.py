from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from slatespark.display.values import duration_text, json_values, text_of

UTC_MICROS = pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    ("values", "kind", "shown"),
    [
        ([1, None, -(2**63)], pa.int64(), [1, None, -(2**63)]),
        ([True, None], pa.bool_(), [True, None]),
        ([0.1, float("nan"), float("inf"), float("-inf")], pa.float64(), [0.1, "NaN", "Infinity", "-Infinity"]),
        ([0.1, None, 16777216.0], pa.float32(), [0.1, None, 16777216.0]),
        ([Decimal("1.10"), Decimal("-0.01"), None], pa.decimal128(38, 2), ["1.10", "-0.01", None]),
        ([Decimal("1E-30")], pa.decimal128(38, 30), ["0.000000000000000000000000000001"]),
        (["a", "", None], pa.string(), ["a", "", None]),
        ([b"\x00\xff", b"", None], pa.binary(), ["00ff", "", None]),
        ([0, -1, 2932896, 2932897, None], pa.date32(), ["1970-01-01", "1969-12-31", "9999-12-31", "10000-01-01", None]),
        ([0, -1, None], UTC_MICROS, ["1970-01-01T00:00:00.000Z", "1969-12-31T23:59:59.999999Z", None]),
        ([1_500_000], pa.timestamp("us"), ["1970-01-01T00:00:01.500"]),
        ([90_500_000, -1, 0, None], pa.duration("us"), ["PT90.5S", "-PT0.000001S", "PT0S", None]),
        ([1, 86_399_000_000_000], pa.time64("ns"), ["00:00:00.000000001", "23:59:59"]),
        ([[1, None], [], None], pa.list_(pa.int8()), [[1, None], [], None]),
        ([[("a", Decimal("1.5"))], [], None], pa.map_(pa.string(), pa.decimal128(5, 1)), [{"a": "1.5"}, {}, None]),
        ([[(1, b"x")], None], pa.map_(pa.int32(), pa.binary()), [[{"key": 1, "value": "78"}], None]),
        (
            [{"a": 1, "b": [dt.date(2020, 1, 2)]}, None, {"a": None, "b": None}],
            pa.struct([("a", pa.int8()), ("b", pa.list_(pa.date32()))]),
            [{"a": 1, "b": ["2020-01-02"]}, None, {"a": None, "b": None}],
        ),
    ],
)
def test_json_of_every_type(values: list[Any], kind: pa.DataType, shown: list[Any]) -> None:
    array = pa.array(values, kind)
    assert json_values(array) == shown
    assert json_values(array.slice(1)) == shown[1:]
    assert json_values(pa.concat_arrays([array, array]).slice(len(array))) == shown
    assert json_values(array.slice(0, 0)) == []
    json.dumps(shown, allow_nan=False)


def test_bytes_as_text() -> None:
    column = pa.array([{"a": b"x"}, {"a": b"\xff"}])
    assert json_values(column, as_text=True) == [{"a": "x"}, {"a": {"hex": "ff"}}]


def test_cells_never_command_the_terminal() -> None:
    assert text_of("a\x1b[2J\n") == "a\\u001b[2J\\n"
    assert text_of({"k\x1b": ["\u202e"]}) == '{"k\\u001b": ["\\u202e"]}'
    values: list[Any] = [None, True, False, 1.5, []]
    assert [text_of(value) for value in values] == ["-", "true", "false", "1.5", "[]"]


def test_durations() -> None:
    assert duration_text(10**15) == "PT1000000000S"


def test_the_first_and_the_last_instant() -> None:
    us = [-(2**63), -(2**63) + 1, None, 2**63 - 1]
    texts = ["-290308-12-21T19:59:05.224192", "-290308-12-21T19:59:05.224193", None, "294247-01-10T04:00:54.775807"]
    assert json_values(pa.array(us, pa.timestamp("us"))) == texts
