"""Rows written under five versions of a schema are read under the newest one, as a model of dictionaries has them."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from itertools import count
from typing import Any, Final

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slatespark import SlateStore
from slatespark.encoding.column_types import list_of, map_of
from tests.support.effort import examples

_numbers = count()

VERSIONS: Final = 5
KEYS: Final = 6


def struct_of(*fields: tuple[str, pa.DataType]) -> pa.DataType:
    return pa.struct(list(fields))


# What a column may be at first, and what it may widen to, step by step.
PATHS: Final[list[list[pa.DataType]]] = [
    [pa.int8(), pa.int16(), pa.int32(), pa.int64()],
    [pa.int8(), pa.int32(), pa.float64()],
    [pa.int16(), pa.float32(), pa.float64()],
    [pa.float32(), pa.float64()],
    [pa.decimal128(5, 2), pa.decimal128(12, 2), pa.decimal128(38, 2)],
    [pa.string()],
    [pa.binary()],
    [pa.bool_()],
    [pa.date32()],
    [pa.timestamp("us", "UTC")],
    [pa.timestamp("us")],
    [pa.duration("us")],
    [list_of(pa.int8()), list_of(pa.int64())],
    [map_of(pa.string(), pa.int16()), map_of(pa.string(), pa.int32())],
    [
        struct_of(("a", pa.int8())),
        struct_of(("a", pa.int64()), ("b", pa.string())),
        struct_of(("a", pa.int64()), ("b", pa.string()), ("c", pa.bool_())),
    ],
]


def value_of(kind: pa.DataType, seed: int) -> Any:
    """Some value of a type; each is exact in all types that it widens to."""
    if seed % 4 == 0:
        return None
    if pa.types.is_list(kind):
        return [value_of(kind.value_type, seed + number) for number in range(seed % 3)]
    if pa.types.is_map(kind):
        return [(f"k{number}", value_of(kind.item_type, seed + number)) for number in range(seed % 3)]
    if pa.types.is_struct(kind):
        return {part.name: value_of(part.type, seed + number) for number, part in enumerate(kind)}
    return flat_value(kind, seed)


def flat_value(kind: pa.DataType, seed: int) -> Any:
    number = int(np.random.default_rng(seed).integers(-(2**52), 2**52))
    if pa.types.is_integer(kind):
        return number >> (53 - min(kind.bit_width - 1, 53))
    if pa.types.is_floating(kind):
        return number % 4000 / 4 - 500
    if pa.types.is_decimal(kind):
        return Decimal(number % 199999 - 99999).scaleb(-2)
    if pa.types.is_boolean(kind):
        return bool(seed % 2)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return "ü" * (seed % 5) if pa.types.is_string(kind) else bytes([seed % 256]) * (seed % 5)
    stored = pa.scalar(number % 10000, pa.int32() if pa.types.is_date(kind) else pa.int64())
    return stored.cast(kind).as_py()


@dataclass
class Column:
    """A column of the table: where it stands on its path."""

    name: str
    path: list[pa.DataType]
    step: int = 0

    @property
    def kind(self) -> pa.DataType:
        return self.path[self.step]


@dataclass
class Model:
    """The columns now, and the rows as they were written."""

    columns: list[Column] = field(default_factory=list)
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    names: int = 0

    def add(self, path: list[pa.DataType]) -> Column:
        self.names += 1
        column = Column(f"c{self.names}", path)
        self.columns.append(column)
        return column

    def expected(self, names: list[str]) -> list[dict[str, Any]]:
        """The rows by key, with what was written before read as the types of now."""
        kinds = {"k": pa.int64(), **{column.name: column.kind for column in self.columns}}
        return [
            {name: pa.array([key if name == "k" else row.get(name)], kinds[name]).to_pylist()[0] for name in names}
            for key, row in sorted(self.rows.items())
        ]


def change_columns(model: Model, store: SlateStore, data: st.DataObject) -> list[Column]:
    """Change the schema in some way, and return the columns that the next rows have."""
    choice = data.draw(st.sampled_from(["add", "add", "widen", "drop", "nothing"]))
    droppable = [column for column in model.columns if len(model.columns) > 1]
    if choice == "drop" and droppable:
        column = data.draw(st.sampled_from(droppable))
        model.columns.remove(column)
        store.dropColumns(column.name.upper())
    if choice == "widen":
        for column in model.columns:
            column.step = min(column.step + data.draw(st.integers(0, 1)), len(column.path) - 1)
    if choice == "add":
        model.add(data.draw(st.sampled_from(PATHS)))
    # Rows may lack columns, come in any order, and have them in types that are narrower than the table's by now.
    return data.draw(st.permutations(model.columns))


def write_rows(model: Model, store: SlateStore, columns: list[Column], data: st.DataObject) -> None:
    keys = data.draw(st.lists(st.integers(0, KEYS - 1), min_size=1, max_size=KEYS, unique=True))
    required = {column.name for column in columns}
    if data.draw(st.booleans()):
        grown = set(store.definition.codec().schema.names)
        required &= {name for name in required if name not in grown} | set(
            data.draw(st.lists(st.sampled_from(sorted(required)), unique=True))
        )
    chosen = [column for column in columns if column.name in required]
    seed = data.draw(st.integers(0, 2**31))
    rows = [{column.name: value_of(column.kind, seed + 7 * key + n) for n, column in enumerate(chosen)} for key in keys]
    arrays = [pa.array([row[column.name] for row in rows], column.kind) for column in chosen]
    table = pa.table([*arrays, pa.array(keys, pa.int64())], names=[*(column.name.upper() for column in chosen), "k"])
    known = store.definition.codec().schema
    for column in chosen:  # a column keeps its spelling of its first write
        if column.name not in known.names and column.name.upper() not in known.names:
            table = table.rename_columns(
                [column.name if name == column.name.upper() else name for name in table.column_names]
            )
    store.write(table, mergeSchema=True)
    model.rows.update(zip(keys, rows, strict=True))
    for column in columns:  # a widening that no row carried has not happened
        found = store.definition.codec().schema.field(column.name).type
        column.step = next(step for step, kind in enumerate(column.path) if kind == found)


@settings(
    deadline=None, max_examples=examples(30), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(st.data())
def test_five_versions(data: st.DataObject) -> None:
    value_format = data.draw(st.sampled_from(["avro", "json"]))
    model = Model()
    for path in data.draw(st.lists(st.sampled_from(PATHS), min_size=1, max_size=3)):
        model.add(path)
    first = pa.schema([("k", pa.int64()), *((column.name, column.kind) for column in model.columns)])
    store = SlateStore.create(f"memory://evolution-{next(_numbers)}", first, "k", valueFormat=value_format)
    for _ in range(VERSIONS):
        write_rows(model, store, change_columns(model, store, data), data)
        names = ["k", *(column.name for column in model.columns)]
        found = store.scan().read_all()
        assert set(found.column_names) == set(names)
        assert found.select(names).to_pylist() == model.expected(names)
        some = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
        assert store.scan(columns=some).read_all().to_pylist() == model.expected(some)
        key = data.draw(st.integers(0, KEYS - 1))
        row = store.get(key, columns=some)
        assert (None if row is None else [row]) == (
            None
            if key not in model.rows
            else [expected for at, expected in zip(sorted(model.rows), model.expected(some), strict=True) if at == key]
        )
