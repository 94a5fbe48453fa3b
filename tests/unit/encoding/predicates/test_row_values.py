"""`(a, b) IN ((1, 2), ...)`: parsed, bound, tested on rows as a model does, and planned as keys."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slatespark import OptionError, SlateStore
from slatespark.encoding.predicates import (
    Filter,
    RowComparison,
    bind_filter,
    binding,
    intervals,
    parse_filter,
    plan_keys,
)
from slatespark.encoding.predicates.intervals import Intervals, intersect
from slatespark.encoding.predicates.key_plan import MAX_RANGES
from slatespark.encoding.row_codec import RowCodec
from slatespark.ranges import KeyRange
from tests.support.random_filters import SCHEMA, Dice, random_rows

TYPED = RowCodec(
    pa.schema([("tenant", pa.string()), ("day", pa.int64()), ("id", pa.int64()), ("v", pa.float64())]),
    ("tenant", "day", "id"),
    "tuple",
    "avro",
)


def bound(text: str, schema: pa.Schema = TYPED.schema) -> Filter:
    return bind_filter(parse_filter(text), schema)


@pytest.mark.parametrize(
    ("text", "columns", "rows"),
    [
        ("(a, b) IN ((1, 2), (3, 4))", ("a", "b"), 2),
        ("((a,`b c`) in ((1, 'x')))", ("a", "b c"), 1),
        ("(a, b, c) = (1, 2, NULL)", ("a", "b", "c"), 1),
    ],
)
def test_forms(text: str, columns: tuple[str, ...], rows: int) -> None:
    (found,) = parse_filter(text)
    assert isinstance(found, RowComparison)
    assert (found.columns, len(found.rows)) == (columns, rows)


def test_beside_other_comparisons() -> None:
    assert len(parse_filter("v > 1 AND ((tenant, id) IN (('a', 1)) AND (day = 2)) AND (id, day) = (1, 2)")) == 4


@pytest.mark.parametrize("text", ["(tenant, id) IN ({})", "id > 3 AND (tenant, id) IN ({})"])
def test_a_long_list_is_bound_row_by_row(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Each row was compared with the values of all rows: a list of 50,000 took minutes."""
    count, looks = 500, 0

    def counted(one: Intervals, other: Intervals) -> Intervals:
        nonlocal looks
        looks += len(one) + len(other)
        return intersect(one, other)

    for module in (binding, intervals):
        monkeypatch.setattr(module, "intersect", counted)
    found = bound(text.format(", ".join(f"('t{number % 7}', {number})" for number in range(count))))
    assert len(found.row_sets[0].rows) == count - 4 * text.startswith("id")
    assert looks < 20 * count


@pytest.mark.parametrize(
    "text",
    [
        "(tenant, id) IN (('a'))",
        "(tenant, id) IN (('a', 1), ('b', 2, 3))",
        "(tenant, id) IN ('a', 1)",
        "(tenant, id) IN ()",
        "(tenant, id) IN (('a', 1)",
        "(tenant, id) NOT IN (('a', 1))",
        "(tenant, id) > ('a', 1)",
        "(tenant, 1) IN (('a', 1))",
        "(tenant, tenant) = ('a', 'b')",
        "(tenant, nothing) = ('a', 'b')",
        "(tenant, id) IN (('a', 'x'))",
        "(tenant,",
        "(tenant",
        "(",
    ],
)
def test_errors(text: str) -> None:
    with pytest.raises(OptionError):
        bound(text)


def literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return (
        "'" + value.replace("\\", "\\\\").replace("\0", "\\0").replace("'", "''") + "'"
        if isinstance(value, str)
        else str(value)
    )


@pytest.mark.parametrize("seed", range(30))
def test_rows_pass_as_in_a_model(seed: int) -> None:
    dice = Dice(seed)
    table = random_rows(dice, 200)
    names = [name for name in ("tiny", "number", "big", "text", "data", "wide") if dice.random() < 0.5] or [
        "text",
        "big",
    ]
    names = names if len(names) > 1 else [*names, "price"]
    listed = [tuple(row.values()) for row in table.select(names).slice(0, dice.randint(1, 40)).to_pylist()]
    mixed = [tuple(dice.choice(column) for column in zip(*listed, strict=True)) for _ in range(20)]
    wanted = listed + mixed
    rows = ", ".join(f"({', '.join(map(literal, row))})" for row in wanted)
    found = bound(f"({', '.join(names)}) IN ({rows})", SCHEMA)
    expected = [
        None not in row.values() and tuple(row.values()) in set(wanted) for row in table.select(names).to_pylist()
    ]
    mask = found.mask({name: table[name].combine_chunks() for name in found.columns})
    assert mask.tolist() == expected


def test_other_conditions_narrow_the_rows() -> None:
    found = bound("(tenant, day) IN (('a', 1), ('a', 7), ('b', 2), (NULL, 3)) AND day < 5 AND tenant <> 'b'")
    assert [len(rows.rows) for rows in found.row_sets] == [1]
    assert bound("(tenant, day) = ('a', 1) AND day = 2").is_unsatisfiable
    assert bound("(tenant, day) = ('a', NULL)").is_unsatisfiable


def test_values_that_equal_several_numbers() -> None:
    text = "(day, id) IN ((9007199254740992D, 1)) AND day IN (9007199254740992, 9007199254740993)"
    codec = RowCodec(TYPED.schema, ("day", "id"), "tuple", "avro")
    plan = plan_keys(bound(text), codec)
    assert plan.points is not None
    assert len(plan.points) == 2
    assert not plan.residual
    ids = pa.array([1, 1, 2, 1])
    days = pa.array([2**53, 2**53 + 1, 2**53, 5])
    assert bound(text).mask({"day": days, "id": ids}).tolist() == [True, True, False, False]


def test_whole_keys_are_points() -> None:
    rows = ", ".join(f"({number}, 'a', {number + 7})" for number in range(500))
    plan = plan_keys(bound(f"(id, tenant, day) IN ({rows}, (1, 'a', 8))"), TYPED)
    assert plan.points is not None
    assert len(plan.points) == 500
    assert list(plan.points) == sorted(plan.points)
    assert not plan.residual


def test_part_of_the_key_beside_a_list() -> None:
    plan = plan_keys(bound("(tenant, day) IN (('a', 1), ('b', 2)) AND id IN (5, 6) AND v > 1"), TYPED)
    assert plan.points is not None
    assert len(plan.points) == 4
    assert plan.residual.columns == ("v",)


def test_prefixes_are_ranges() -> None:
    plan = plan_keys(bound("(tenant, day) IN (('b', 2), ('a', 1))"), TYPED)
    a, b = b"\x02a\x00\x15\x01", b"\x02b\x00\x15\x02"
    assert list(plan.ranges) == [KeyRange(a, a + b"\xff"), KeyRange(b, b + b"\xff")]
    assert plan.points is None
    assert not plan.residual


@pytest.mark.parametrize("text", ["(tenant, id) IN (('a', 1), ('b', 2))", "(tenant, v) IN (('a', 1), ('b', 2))"])
def test_columns_apart_are_tested_on_rows(text: str) -> None:
    plan = plan_keys(bound(text), TYPED)
    assert len(plan.ranges) == 2
    assert len(plan.residual.row_sets) == 1


def test_many_prefixes_are_tested_on_rows() -> None:
    rows = ", ".join(f"('a', {2 * number})" for number in range(MAX_RANGES + 1))
    plan = plan_keys(bound(f"(tenant, day) IN ({rows})"), TYPED)
    assert len(plan.ranges) == 1
    assert plan.residual.row_sets


def test_two_sets_of_rows() -> None:
    plan = plan_keys(bound("(tenant, day) IN (('a', 1), ('b', 2)) AND (day, id) IN ((1, 5), (2, 6), (3, 7))"), TYPED)
    assert plan.points is not None
    assert plan.residual.row_sets  # of the combinations of ids, some are not wanted


@pytest.mark.parametrize("seed", range(8))
def test_scans_look_rows_up(seed: int) -> None:
    dice = Dice(seed)
    store = SlateStore.create(f"memory://row-values-{seed}", TYPED.schema, "tenant,day,id")
    rows = [
        {"tenant": tenant, "day": day, "id": number, "v": float(number)}
        for tenant, day, number in itertools.product(["", "a", "a\0", "b", "bb"], range(4), range(5))
    ]
    store.write(pa.Table.from_pylist(rows, schema=TYPED.schema))
    store.delete("id = 3")
    columns = dice.choice([("tenant", "day", "id"), ("id", "tenant"), ("tenant", "day"), ("day", "v"), ("day", "id")])
    wanted = {tuple(dice.choice(rows)[name] for name in columns) for _ in range(12)}
    listed = ", ".join(f"({', '.join(map(literal, row))})" for row in wanted)
    found = store.scan(filter=f"({', '.join(columns)}) IN ({listed})").read_all().to_pylist()
    assert found == [row for row in rows if tuple(row[name] for name in columns) in wanted and row["id"] != 3]


def test_deletes_of_listed_keys() -> None:
    store = SlateStore.create("memory://row-values-deleted", TYPED.schema, "tenant,day,id")
    rows = [{"tenant": "a", "day": day, "id": number, "v": 0.0} for day in range(3) for number in range(3)]
    store.write(pa.Table.from_pylist(rows, schema=TYPED.schema))
    store.delete("(day, id) IN ((0, 1), (2, 2))")
    assert store.scan().read_all().num_rows == 7
    store.deleteRange("(tenant, day) IN (('a', 0), ('a', 2))")
    assert np.unique(store.scan().read_all()["day"].to_numpy()).tolist() == [1]
