"""Comparisons on the columns of a schema that need no Spark for the expected result."""

from __future__ import annotations

import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from slatespark import OptionError
from slatespark.encoding.predicates import Filter, bind_filter, parse_filter

SCHEMA = pa.schema(
    [
        ("Tenant", pa.string()),
        ("id", pa.int32()),
        ("big", pa.int64()),
        ("price", pa.decimal128(38, 2)),
        ("half", pa.float32()),
        ("flag", pa.bool_()),
        ("data", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("clock", pa.time64("ns")),
        ("wait", pa.duration("us")),
        ("tags", pa.list_(pa.string())),
        ("props", pa.map_(pa.string(), pa.int32())),
        ("point", pa.struct([("x", pa.int32())])),
        ("_seq", pa.int64()),
    ]
)


def bound(text: str) -> Filter:
    return bind_filter(parse_filter(text), SCHEMA)


def passing(text: str, values: list[Any]) -> list[Any]:
    """The values of the filter's one column that pass."""
    condition = bound(text)
    (name,) = condition.columns
    mask = condition.mask({name: pa.array(values, SCHEMA.field(name).type, from_pandas=False)})
    return [value for value, passes in zip(values, mask.tolist(), strict=True) if passes]


def test_comparisons_of_one_column_become_one_condition() -> None:
    condition = bound("id > 1 AND TENANT = 'a' AND ID < 4 AND `tenant` <> 'b'")
    assert condition.columns == ("id", "Tenant")
    assert condition.conditions[0].intervals == ((2, 4),)
    assert condition.conditions[1].intervals == ((b"a", b"a\0"),)


def test_filters_can_be_pickled() -> None:
    condition = bound("price IN (1, 2.5) AND at > '2026' AND tags IS NULL")
    assert pickle.loads(pickle.dumps(condition)) == condition
    assert not Filter()
    assert condition


@pytest.mark.parametrize(
    "text",
    [
        "id = 1 AND id = 2",
        "id = NULL",
        "id <> NULL",
        "id < NULL",
        "NULL >= id",
        "id IN (NULL)",
        "id NOT IN (1, NULL)",
        "id BETWEEN NULL AND 5",
        "id BETWEEN 5 AND 4",
        "id = 1.5",
        "id = 10000000000000000000000000000000",
        "id > 2147483647",
        "id IS NULL AND id IS NOT NULL",
        "id IS NULL AND id = 1",
        "Tenant LIKE NULL",
        "Tenant LIKE 'a%' AND Tenant < 'a'",
        "tags = NULL",
    ],
)
def test_unsatisfiable_filters(text: str) -> None:
    assert bound(text).is_unsatisfiable


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("id < 10000000000000000000000000000000", [1, None, 2**31 - 1], [1, 2**31 - 1]),
        ("id >= -1e30BD", [-(2**31), None], [-(2**31)]),
        ("id <> 1.5", [1, 2, None], [1, 2]),
        ("id <=> NULL", [1, None], [None]),
        ("id IN (1, NULL, 3)", [1, 2, 3, None], [1, 3]),
        ("id NOT IN (1, 3)", [1, 2, 3, None], [2]),
        ("id IN (0,1,2,3,5,7,9,11,13,15)", [-1, 0, 3, 4, 5, 15, 16, None], [0, 3, 5, 15]),
        ("big > 9007199254740992D", [2**53, 2**53 + 1, 2**53 + 2], [2**53 + 2]),  # 2^53 + 1 is 2^53 as DOUBLE
        ("big IN (9007199254740993, 1D)", [2**53, 2**53 + 1], [2**53, 2**53 + 1]),  # a list has one type
        ("half = 0", [0.0, -0.0, None], [0.0, -0.0]),
        ("half >= 'inf'", [1.0, float("inf")], [float("inf")]),
        ("Tenant LIKE 'a%'", ["a", "ab", "b", None, "A"], ["a", "ab"]),
        ("Tenant > 'a'", ["a", "a\0", "ä", None], ["a\0", "ä"]),
        ("Tenant NOT IN ('a', 'b')", ["a", "b", "c", None], ["c"]),
        ("Tenant NOT IN ('a', 'b') AND Tenant < 'c'", ["", "a", "aa", "c", None], ["", "aa"]),
        ("Tenant IN ('a', 'b') AND Tenant >= 'b'", ["a", "b", "c"], ["b"]),
        ("data LIKE 'a%'", [b"a\xff", b"b", None], [b"a\xff"]),
        ("flag <> true", [True, False, None], [False]),
        ("tags IS NULL", [["a"], None, []], [None]),
        ("props IS NOT NULL", [[], None], [[]]),
        ("point IS NOT NULL", [{"x": None}, None], [{"x": None}]),
        ("wait IS NULL", [None], [None]),
        ("clock < TIME '00:00:01'", [0, 10**9, None], [0]),
        ("price = 0.015", [Decimal("0.01"), Decimal("0.02")], []),
        ("price BETWEEN 0.015 AND 1e1", [Decimal("0.01"), Decimal("0.02"), Decimal(11)], [Decimal("0.02")]),
    ],
)
def test_passing_values(text: str, values: list[Any], expected: list[Any]) -> None:
    assert passing(text, values) == expected


def test_many_wide_decimals() -> None:
    values = [Decimal(10**35 + number) for number in range(0, 100, 2)]
    text = f"price IN ({', '.join(map(str, values))})"
    assert passing(text, [*values, Decimal(10**35 + 1), Decimal(-(10**35)), None]) == values


def test_conditions_on_several_columns_are_joined() -> None:
    condition = bound("id > 1 AND Tenant IS NULL")
    arrays = {"id": pa.array([1, 2, 3, None], pa.int32()), "Tenant": pa.array([None, None, "a", None])}
    assert condition.mask(arrays).tolist() == [False, True, False, False]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tenat = 'x'", "`>>>tenat<<< = 'x'`"),
        ("id = 1 AND zzz = 1", "zzz"),
        ("id = 'x'", "`id = >>>'x'<<<`"),
        ("id = '9223372036854775808'", "INT"),
        ("id = true", "boolean"),
        ("Tenant = 5", "number"),
        ("price = 'a'", "DECIMAL(38,2)"),
        ("half = '1_0'", "FLOAT"),
        ("flag = 1", "BOOLEAN"),
        ("day = '2026-13-01'", "2026-01-31"),
        ("day > 5", "DATE"),
        ("at = 'now'", "TIMESTAMP"),
        ("clock = '12:00'", "TIME"),
        ("wait = '1'", "INTERVAL"),
        ("tags = 'a'", "ARRAY<STRING>"),
        ("id LIKE '1%'", "LIKE"),
        ("id IN (1, '2')", "character 11"),
    ],
)
def test_errors_show_column_and_position(text: str, message: str) -> None:
    with pytest.raises(OptionError) as error:
        bound(text)
    found = str(error.value)
    assert all(part in found for part in message.split(" .* ")), found
