"""Random tables, filters, columns and splits: the same rows as a filter of the whole table in plain Python."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark import SlateStore
from slatespark.errors import CorruptDataError
from slatespark.options import ReadOptions
from slatespark.table.clock import SystemClock
from slatespark.table.read.materialise import UndecodableRowsWarning
from slatespark.table.read.reader import fetch_read_plan, run_read
from tests.support.conditions import COMPARISONS, Condition
from tests.support.effort import examples
from tests.support.typed_tables import define, encoded, make_typed, stores_of, write_raw

_numbers = itertools.count()

Row = dict[str, Any]


FORMATS = {
    ("tuple", "avro"): pa.schema(
        [("s", pa.string()), ("n", pa.int32()), ("v", pa.int64()), ("w", pa.string()), ("l", pa.list_(pa.int32()))]
    ),
    ("tuple", "json"): pa.schema([("s", pa.string()), ("n", pa.int32()), ("v", pa.int64()), ("w", pa.string())]),
    ("utf8", "avro"): pa.schema([("s", pa.string()), ("v", pa.int64()), ("w", pa.string())]),
    ("utf8", "utf8"): pa.schema([("s", pa.string()), ("w", pa.string())]),
}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "s": st.sampled_from(["a", "aa", "ab", "b", "c\0", "é"]),
    "n": st.sampled_from([None, -300, -1, 0, 1, 2, 3, 255, 256]),
    "v": st.none() | st.integers(-3, 3),
    "w": st.sampled_from([None, "", "x", "xy", "z"]),
    "l": st.none() | st.lists(st.none() | st.integers(0, 3), max_size=2),
}


def ordered(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def literal(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


@st.composite
def conditions(draw: st.DrawFn, names: list[str]) -> Condition:
    name = draw(st.sampled_from([name for name in names if name != "l"]))
    plain = VALUES[name].filter(lambda value: value is not None and "\0" not in str(value))
    kind = draw(st.sampled_from([*COMPARISONS, "IN", "NULL", "NOT NULL", "BETWEEN"]))
    if kind in COMPARISONS:
        value, compare = draw(plain), COMPARISONS[kind]
        return Condition(
            f"{name} {kind} {literal(value)}",
            lambda row: row[name] is not None and compare(ordered(row[name]), ordered(value)),
        )
    if kind == "IN":
        values = draw(st.lists(plain, min_size=1, max_size=4))
        return Condition(f"{name} IN ({', '.join(map(literal, values))})", lambda row: row[name] in values)
    if kind == "BETWEEN":
        low, high = draw(plain), draw(plain)
        return Condition(
            f"{name} BETWEEN {literal(low)} AND {literal(high)}",
            lambda row: row[name] is not None and ordered(low) <= ordered(row[name]) <= ordered(high),
        )
    wanted = kind == "NULL"
    return Condition(f"{name} IS {kind}", lambda row: (row[name] is None) is wanted)


@dataclass(frozen=True)
class Case:
    store: SlateStore
    rows: list[Row]
    names: list[str]


@st.composite
def tables(draw: st.DrawFn) -> Case:
    """Some commits of puts and deletes, in small blocks, perhaps in several files."""
    formats = draw(st.sampled_from(sorted(FORMATS)))
    schema = FORMATS[formats]
    keys = ["s", "n"] if "n" in schema.names else ["s"]
    definition = define(schema, keys, key_format=formats[0], value_format=formats[1])
    url = f"memory://typed-property-{next(_numbers)}"
    make_typed(url, definition)
    state: dict[bytes, Row] = {}
    row = st.fixed_dictionaries({name: VALUES[name] for name in schema.names})
    for _ in range(draw(st.integers(1, 3))):
        part = draw(st.lists(row, min_size=1, max_size=25))
        if formats == ("utf8", "utf8"):  # they have no null
            part = [{**each, "w": each["w"] or ""} for each in part]
        coded = encoded(definition.codec(), pa.Table.from_pylist(part, schema=schema))
        gone = draw(st.booleans())
        table = coded.select(["key"]) if gone else coded
        write_raw(url, table, operation="delete" if gone else "upsert", blockSize=1024, bloomBitsPerKey=10)
        for key, each in zip(coded["key"].to_pylist(), part, strict=True):
            state.pop(key, None)
            if not gone:
                state[key] = each
    return Case(SlateStore.open(url), [state[key] for key in sorted(state)], schema.names)


@settings(max_examples=examples(60), deadline=None)
@given(tables(), st.data())
def test_filters_columns_and_splits(case: Case, data: st.DataObject) -> None:
    conjuncts = data.draw(st.lists(conditions(case.names), min_size=1, max_size=3))
    columns = data.draw(st.lists(st.sampled_from(case.names), min_size=1, unique=True))
    split_size = data.draw(st.sampled_from([1, 500, 64 << 20]))
    condition = " AND ".join(each.text for each in conjuncts)
    expected = [
        {name: row[name] for name in columns} for row in case.rows if all(each.holds(row) for each in conjuncts)
    ]
    given_options = {"path": "p", "filter": condition, "columns": columns, "splitSize": split_size}
    stores = stores_of(case.store.url)
    plan = fetch_read_plan(stores, ReadOptions.parse(given_options), SystemClock())
    found = pa.Table.from_batches(list(run_read(stores, plan)), plan.schema)
    found.validate(full=True)
    assert found.to_pylist() == expected, condition


@settings(max_examples=examples(20), deadline=None)
@given(tables())
def test_points_equal_ranges_equal_the_whole(case: Case) -> None:
    assert case.store.scan().read_all().to_pylist() == case.rows
    keys = [name for name in ("s", "n") if name in case.names]
    for row in case.rows:
        key = [row[name] for name in keys]
        assert case.store.get(*key) == row
        if None in key or "\0" in str(key):
            continue
        point = " AND ".join(f"{name} = {literal(row[name])}" for name in keys)
        ranged = " AND ".join(f"{name} >= {literal(row[name])} AND {name} <= {literal(row[name])}" for name in keys)
        assert case.store.scan(filter=point).read_all().to_pylist() == [row]
        assert case.store.scan(filter=ranged).read_all().to_pylist() == [row]


@settings(max_examples=examples(75), deadline=None)
@given(st.sampled_from(sorted(FORMATS)), st.data())
def test_any_bytes_are_rows_or_damage(formats: tuple[str, str], data: st.DataObject) -> None:
    """Bytes of anybody: they decode, or are named as damage; rows that decode are there without the others."""
    schema = FORMATS[formats]
    keys = ["s", "n"] if "n" in schema.names else ["s"]
    definition = define(schema, keys, key_format=formats[0], value_format=formats[1])
    url = f"memory://typed-bytes-{next(_numbers)}"
    make_typed(url, definition)
    row = st.fixed_dictionaries({name: VALUES[name] for name in schema.names})
    good = data.draw(st.lists(row, min_size=1, max_size=4))
    coded = encoded(definition.codec(), pa.Table.from_pylist(good, schema=schema)).to_pylist()
    stored = [(one["key"], data.draw(mutations(one["value"]))) for one in coded]
    stored += [(data.draw(mutations(one["key"])) or b"x", one["value"]) for one in coded]
    table = pa.table({"key": [key for key, _ in stored], "value": [value for _, value in stored]})
    write_raw(url, table)
    store = SlateStore.open(url)
    count = len(dict(stored))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndecodableRowsWarning)
        found = store.scan(ignoreUndecodable=True, metadataColumns="key").read_all()
    found.validate(full=True)
    if len(found) == count:
        assert store.scan(metadataColumns="key").read_all().equals(found)
        return
    with pytest.raises(CorruptDataError) as caught:
        store.scan(metadataColumns="key").read_all()
    lost = {key for key, _ in stored} - set(found["_key"].to_pylist())
    assert any(key.hex() in str(caught.value) for key in lost)


@st.composite
def mutations(draw: st.DrawFn, content: bytes) -> bytes:
    """The same bytes, some of them changed, cut off or added; or any."""
    if draw(st.booleans()):
        return content
    changed = bytearray(content)
    for at in draw(st.lists(st.integers(0, max(0, len(content) - 1)), max_size=3)):
        changed[at : at + 1] = draw(st.binary(max_size=2))
    return bytes(changed[: draw(st.integers(0, len(changed)))]) + draw(st.binary(max_size=3))
