from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slatespark.encoding.column_types import VARIANT, list_of, map_of
from slatespark.encoding.json_value import decode_json_values, encode_json_values
from slatespark.errors import InternalError, SchemaError
from slatespark.kernels.avro_program import FINE, MALFORMED
from tests.unit.encoding.columns_and_rows import cut, rows_of
from tests.unit.kernels.rows import columns, delete, put

INSTANT, LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")

# type, plain value, written form
WRITTEN = [
    (pa.bool_(), True, "true"),
    (pa.int64(), -(2**63), "-9223372036854775808"),
    (pa.float32(), 0.1, "0.1"),
    (pa.float64(), 1e300, "1e+300"),
    (pa.float64(), float("nan"), '"NaN"'),
    (pa.float64(), float("-inf"), '"-Infinity"'),
    (pa.decimal128(38, 3), Decimal("12345678901234567890.125"), '"12345678901234567890.125"'),
    (pa.decimal128(3, 3), Decimal("0.001"), '"0.001"'),
    (pa.string(), 'é"\n', '"é\\"\\n"'),
    (pa.binary(), b"\0\xff", '"AP8="'),
    (pa.date32(), 20484, '"2026-01-31"'),
    (pa.date32(), -719529, '"-0001-12-31"'),
    (pa.date32(), 2**31 - 1, '"5881580-07-11"'),
    (INSTANT, 1, '"1970-01-01T00:00:00.000001Z"'),
    (INSTANT, 2**63 - 1, '"294247-01-10T04:00:54.775807Z"'),
    (LOCAL, -1, '"1969-12-31T23:59:59.999999"'),
    (pa.time64("ns"), 86_399_999_999_000, '"23:59:59.999999"'),
    (pa.duration("us"), -5, "-5"),
    (list_of(pa.int8()), [1, None], "[1,null]"),
    (map_of(pa.string(), pa.int8()), [("k", 1), ("", None)], '{"k":1,"":null}'),
    (map_of(pa.int8(), pa.date32()), [(1, 0)], '[{"key":1,"value":"1970-01-01"}]'),
    (pa.struct([("x", pa.int8()), ("y", LOCAL)]), {"x": 1, "y": None}, '{"x":1}'),
    (VARIANT, {"value": b"1", "metadata": b""}, '{"value":"MQ==","metadata":""}'),
]


@pytest.mark.parametrize(("kind", "value", "text"), WRITTEN, ids=str)
def test_written_values(kind: Any, value: Any, text: str) -> None:
    fields = [pa.field("a", kind), pa.field("b c", pa.int8())]
    arrays = [pa.array([value, None], kind), pa.array([None, 1], pa.int8())]
    values = cut(encode_json_values(arrays, fields))
    assert [item.decode() for item in values] == [f'{{"a":{text}}}', '{"b c":1}']
    found, status = decode_json_values(*rows_of(values), fields=fields, wanted=["a"])
    assert status.tolist() == [FINE, FINE]
    assert cut(encode_json_values([found["a"]], fields[:1])) == [values[0], b"{}"]


# type, other accepted spelling, value
TAKEN = [
    (pa.float64(), "1", 1.0),
    (pa.float64(), "1.5", 1.5),
    (pa.decimal128(5, 2), "1", Decimal("1.00")),
    (pa.decimal128(5, 2), "1.10", Decimal("1.10")),
    (pa.decimal128(5, 2), "1.100000e1", Decimal("11.00")),
    (INSTANT, '"2026-01-01T01:00:00+01:00"', 1_767_225_600_000_000),
    (INSTANT, '"2025-12-31T23:30:00.5-00:30"', 1_767_225_600_500_000),
    (pa.time64("ns"), '"01:02:03"', 3_723_000_000_000),
    (map_of(pa.int8(), pa.int8()), '[{"key":1}]', [(1, None)]),
    (pa.struct([("x", pa.int8())]), '{"x":1,"more":2}', {"x": 1}),
    (pa.int8(), "null", None),
]


@pytest.mark.parametrize(("kind", "text", "value"), TAKEN, ids=str)
def test_other_accepted_spellings(kind: Any, text: str, value: Any) -> None:
    values = [f' {{"more": [], "a": {text}}} '.encode()]
    found, status = decode_json_values(*rows_of(values), fields=[pa.field("a", kind)], wanted=["a"])
    assert status.tolist() == [FINE]
    assert found["a"].equals(pa.array([value], kind))


REFUSED = [
    (pa.bool_(), ["1", '"true"']),
    (pa.int8(), ["128", "-129", "1.0", "true", '"1"', "[]"]),
    (pa.int64(), ["9223372036854775808", "1" + "0" * 5000]),
    (pa.float32(), ["1e39", "1e400", "1" + "0" * 400, '"inf"', "true", "NaN", "Infinity"]),
    (pa.decimal128(3, 1), ["100", "0.01", '"x"', '"NaN"', '"Infinity"', "true", '"1e999999999"']),
    (pa.string(), ["1", '"\\ud800"', '"\\x"']),
    (pa.binary(), ['"A"', '"A P8="', '"é"', "1"]),
    (
        pa.date32(),
        ['"2026-02-30"', '"2026-1-1"', '"2026"', '"NaT"', '"today"', '"9999999-01-01"', "1"],
    ),
    (INSTANT, ['"2026-01-01T00:00:00"', '"2026-01-01"', '"2026-01-01T24:00:00Z"', '"294248-01-01T00:00:00Z"']),
    (INSTANT, [rf'"2026-01-01T00:00:00{end}"' for end in ("Z\\n", "+01:60", "+\u0660\u0661:00", "+1:00", "Z+01:00")]),
    (LOCAL, ['"2026-01-01T00:00:00Z"', '"2026-01-01 00:00:00"', '"2026-01-01T00:00"', "0"]),
    (pa.time64("ns"), ['"24:00:00"', '"1:00:00"', '"00:00:00.0000001"']),
    (list_of(pa.int8()), ["{}", "[300]", "1"]),
    (map_of(pa.string(), pa.int8()), ["[]", '{"k":"v"}', '{"\\udc00":1}']),
    (map_of(pa.int8(), pa.int8()), ["{}", "[1]", '[{"value":1}]', '[{"key":null}]']),
    (pa.struct([("x", pa.int8())]), ["[]", '{"x":[]}']),
    (list_of(pa.int8(), nullable=False), ["[null]", "[1,null]"]),
    (map_of(pa.string(), pa.int8(), nullable=False), ['{"k":null}']),
    (map_of(pa.int8(), pa.int8(), nullable=False), ['[{"key":1}]', '[{"key":1,"value":null}]']),
    (pa.struct([pa.field("x", pa.int8(), nullable=False)]), ["{}", '{"x":null}']),
    (list_of(pa.struct([pa.field("x", pa.int8(), nullable=False)])), ["[{}]", '[null,{"y":1}]']),
    (VARIANT, ["{}", '{"value":"MQ=="}', '{"metadata":""}']),
]


@pytest.mark.parametrize(("kind", "texts"), REFUSED, ids=str)
def test_refused_values(kind: Any, texts: list[str]) -> None:
    values = [f'{{"a":{text}}}'.encode() for text in [*texts, "null"]]
    found, status = decode_json_values(*rows_of(values), fields=[pa.field("a", kind)], wanted=["a"])
    assert status.tolist() == [MALFORMED] * len(texts) + [FINE], texts
    assert found["a"].null_count == len(values)


@pytest.mark.parametrize(
    "value", [b"", b"{", b"[]", b"1", b"null", b'{"a":1}x', b'{"a":"\xff"}', b"\xc3\x01", b"[" * 100_000, b'{"a":1,}']
)
def test_arbitrary_bytes(value: bytes) -> None:
    found, status = decode_json_values(*rows_of([value]), fields=[pa.field("a", pa.int8())], wanted=["a"])
    assert (found["a"].to_pylist(), status.tolist()) == ([None], [MALFORMED])


def test_tombstones_are_null() -> None:
    rows = columns(put(b"1", 1, b'{"a":1}'), delete(b"2", 1))
    found, status = decode_json_values([rows], np.arange(2), fields=[pa.field("a", pa.int8())], wanted=["a"])
    assert (found["a"].to_pylist(), status.tolist()) == ([1, None], [FINE, FINE])


def test_what_a_column_refuses() -> None:
    with pytest.raises(SchemaError, match="null"):
        encode_json_values([pa.array([None], pa.int8())], [pa.field("a", pa.int8(), nullable=False)])
    for kind, value in (
        (list_of(pa.int8(), nullable=False), [1, None]),
        (map_of(pa.string(), pa.int8(), nullable=False), [("k", None)]),
        (map_of(pa.int8(), pa.int8(), nullable=False), [(1, None)]),
    ):
        with pytest.raises(SchemaError, match=r"null in .*not nullable"):
            encode_json_values([pa.array([value], kind)], [pa.field("a", kind)])
    kind = map_of(pa.string(), pa.int8())
    with pytest.raises(SchemaError, match="repeats"):
        encode_json_values([pa.array([[("k", 1), ("k", 2)]], kind)], [pa.field("a", kind)])
    with pytest.raises(SchemaError, match="range"):
        encode_json_values([pa.array([-(2**63)], LOCAL)], [pa.field("a", LOCAL)])
    with pytest.raises(InternalError, match="count"):
        encode_json_values([], [])
    assert [json.loads(value) for value in cut(encode_json_values([], [], count=2))] == [{}, {}]
