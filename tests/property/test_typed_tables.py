"""A typed table under all that may happen to it, by our turns and the real client's: it reads as a dict of rows."""

from __future__ import annotations

import io
import math
import shutil
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import fdb.tuple
import pyarrow as pa
import pytest
from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from slatespark import SlateStore
from slatespark.encoding.avro_schema import avro_name
from tests.support.client import Client, ClientOptions, Location, read_rows
from tests.support.client_admin import compact_full
from tests.support.conditions import COMPARISONS, Condition
from tests.support.effort import examples

Row = dict[str, Any]
Key = tuple[Any, ...]

MARKER = b"\xc3\x01"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# What a column may be, each type holding those before it.
STAGES: Mapping[str, tuple[pa.DataType, ...]] = {
    "t": (pa.string(),),
    "n": (pa.int16(), pa.int32(), pa.int64()),
    "x": (pa.float64(),),
    "v": (pa.int32(), pa.int64()),
    "b": (pa.int8(), pa.int16(), pa.float64()),
    "f": (pa.float32(), pa.float64()),
    "p": (pa.decimal128(9, 2), pa.decimal128(20, 2)),
    "m": (pa.timestamp("us", "UTC"),),
    "w x": (pa.string(),),
    "l": (pa.list_(pa.field("element", pa.int32())), pa.list_(pa.field("element", pa.int64()))),
    "s": (
        pa.struct([pa.field("a", pa.int32())]),
        pa.struct([pa.field("a", pa.int64()), pa.field("c d", pa.string())]),
    ),
}
KEYS: tuple[tuple[str, ...], ...] = (("t", "n"), ("n", "x"), ("x", "t"), ("n",), ("t",))
SEQUENCES = ("v", "b", "f", "p", "m")

VALUES: Mapping[str, st.SearchStrategy[Any]] = {
    "t": st.sampled_from(["", "a", "ab", "b", "a\0", "é", "zz" * 40]),
    "n": st.sampled_from([-300, -1, 0, 1, 255, 256]),
    "x": st.sampled_from([0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan]),
    "v": st.integers(-3, 3),
    "b": st.integers(-3, 3),
    "f": st.sampled_from([0.0, -0.0, 1.5, -2.25, math.nan, math.inf]),
    "p": st.integers(-3, 3).map(lambda cents: Decimal(cents).scaleb(-2)),
    "m": st.integers(-3, 3).map(lambda us: EPOCH + timedelta(microseconds=us)),
    "w x": st.sampled_from(["", "x", "xy", "z", "long " * 300]),
    "l": st.lists(st.none() | st.integers(-2, 2), max_size=3),
    "s": st.fixed_dictionaries({"a": st.none() | st.integers(-2, 2)}),
}


def rank(value: Any) -> Any:
    """Order as SQL does: NaN above all, text by its bytes."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return (False, float(value)) if isinstance(value, int) else value


def plain(value: Any) -> Any:
    """Make values comparable with ==: NaN equals itself, and 0.0 is not -0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else (value, math.copysign(1, value))
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def key_item(value: Any) -> Any:
    """How a value comes back from a key: zero has no sign."""
    return value + 0.0 if isinstance(value, float) else value


def as_type(value: Any, kind: pa.DataType) -> Any:
    """How a value reads after its column became `kind`."""
    if value is None:
        return None
    if pa.types.is_floating(kind):
        return float(value)
    return {part.name: value.get(part.name) for part in kind} if pa.types.is_struct(kind) else value


def literal(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("\0", "\\0") + "'"
    if isinstance(value, float):
        return f"'{value}'" if math.isnan(value) or math.isinf(value) else f"{value!r}D"
    return f"TIMESTAMP '{value.isoformat()}'" if isinstance(value, datetime) else str(value)


def conditions(columns: list[str]) -> st.SearchStrategy[Condition]:
    names = st.sampled_from([name for name in columns if name not in ("l", "s")])
    return names.flatmap(conditions_on)


@st.composite
def conditions_on(draw: st.DrawFn, name: str) -> Condition:
    values, column = VALUES[name], f"`{name}`"
    kind = draw(st.sampled_from([*COMPARISONS, "IN", "NULL", "NOT NULL", "BETWEEN", "LIKE"]))
    if kind == "LIKE" and name in ("t", "w x"):
        start = draw(st.sampled_from(["", "a", "x", "xy"]))
        return Condition(f"{column} LIKE '{start}%'", lambda row: row[name] is not None and row[name].startswith(start))
    if kind in COMPARISONS:
        value, compare = draw(values), COMPARISONS[kind]
        return Condition(
            f"{column} {kind} {literal(value)}",
            lambda row: row[name] is not None and compare(rank(row[name]), rank(value)),
        )
    if kind == "IN":
        wanted = draw(st.lists(values, min_size=1, max_size=4))
        if any(isinstance(one, float) and not math.isfinite(one) for one in wanted):
            wanted = [one for one in wanted if not math.isfinite(one)]  # strings and numbers do not go together
        ranks = [rank(one) for one in wanted]
        return Condition(
            f"{column} IN ({', '.join(map(literal, wanted))})",
            lambda row: row[name] is not None and rank(row[name]) in ranks,
        )
    if kind == "BETWEEN":
        low, high = draw(values), draw(values)
        return Condition(
            f"{column} BETWEEN {literal(low)} AND {literal(high)}",
            lambda row: row[name] is not None and rank(low) <= rank(row[name]) <= rank(high),
        )
    null = kind == "NULL"
    return Condition(f"{column} IS {'' if null else 'NOT '}NULL", lambda row: (row[name] is None) is null)


write_options = st.fixed_dictionaries(
    {
        "compression": st.sampled_from(["none", "snappy", "zlib", "lz4", "zstd"]),
        "blockSize": st.sampled_from([1024, 4096]),
        "sstSize": st.sampled_from([2000, 1 << 20]),
        "writeBuffer": st.sampled_from([300, 1000, 1 << 20]),
        "bloomBitsPerKey": st.sampled_from([0, 10]),
    }
)


class TypedTable(RuleBasedStateMachine):
    """One table, its rows by key as a dict, and a client that may be open."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.location = Location.local(Path(self.folder) / "db")
        self.client: Client | None = None
        self.steps = 0

    def teardown(self) -> None:
        self.close_client()
        shutil.rmtree(self.folder)

    @initialize(
        data=st.data(),
        keys=st.sampled_from(KEYS),
        columns=st.lists(st.sampled_from(sorted(set(STAGES) - {"t", "n", "x"})), max_size=4, unique=True),
        value_format=st.sampled_from(["avro", "avro", "json"]),
    )
    def create(self, data: st.DataObject, keys: tuple[str, ...], columns: list[str], value_format: str) -> None:
        names = data.draw(st.permutations([*keys, *columns]))
        self.keys, self.value_format = keys, value_format
        self.kinds = {name: STAGES[name][0] for name in names}
        self.dropped: set[str] = set()
        self.rows: dict[Key, Row] = {}
        schema = pa.schema(list(self.kinds.items()))
        self.store = SlateStore.create(str(self.location.folder), schema, keyColumns=keys, valueFormat=value_format)

    # --- ours -----------------------------------------------------------------------------------------------------

    @rule(data=st.data(), options=write_options, overwrite=st.sampled_from([False, False, False, True]))
    def write(self, data: st.DataObject, options: dict[str, Any], overwrite: bool) -> None:
        rows = self.draw_rows(data, list(self.kinds), max_size=25)
        arrangement = data.draw(st.sampled_from(["as drawn", "sorted", "sorted but one"]))
        if arrangement != "as drawn":  # what comes sorted takes another way, until a row does not
            rows.sort(key=self.pack_key)
        if arrangement == "sorted but one" and rows:
            rows.append(rows.pop(data.draw(st.integers(0, len(rows) - 1))))
        with_ops = data.draw(st.booleans())
        ops = data.draw(st.lists(st.sampled_from(["put", "put", "delete"]), min_size=len(rows), max_size=len(rows)))
        usable = [name for name in SEQUENCES if name in self.kinds]
        sequence = data.draw(st.none() | st.sampled_from(usable)) if usable else None
        table = pa.Table.from_pylist(rows, pa.schema(list(self.kinds.items())))
        if with_ops:
            table = table.append_column("op", pa.array(ops, pa.string()))
            options = {**options, "opColumn": "op"}
        if sequence is not None:
            options = {**options, "sequenceColumn": sequence}
        batches = table.to_batches(max_chunksize=data.draw(st.sampled_from([1, 3, 100]))) or [
            pa.RecordBatch.from_pylist([], table.schema)
        ]
        self.commit(batches, mode="overwrite" if overwrite else "append", **options)
        if overwrite:
            self.rows.clear()
        self.apply(rows, ops if with_ops else ["put"] * len(rows), sequence)

    @rule(data=st.data(), options=write_options)
    def evolve(self, data: st.DataObject, options: dict[str, Any]) -> None:
        """Write some columns of the table, some in a wider type, and new ones."""
        new = [name for name in STAGES if name not in self.kinds and name not in self.dropped and name not in "tnx"]
        added = data.draw(st.lists(st.sampled_from(new), max_size=2, unique=True)) if new else []
        old = [name for name in self.kinds if name not in self.keys]
        kept = data.draw(st.lists(st.sampled_from(old), unique=True)) if old else []
        kinds = {name: data.draw(st.sampled_from(STAGES[name])) for name in [*self.keys, *kept, *added]}
        rows = self.draw_rows(data, list(kinds), max_size=6)
        table = pa.Table.from_pylist(rows, pa.schema(list(kinds.items())))
        self.commit(table, mergeSchema=True, **options)
        if rows:  # without any there is nothing to commit, so the table stays as it is
            for name, kind in kinds.items():
                stages = STAGES[name]
                self.kinds[name] = max(self.kinds.get(name, kind), kind, key=stages.index)
            self.apply(rows, ["put"] * len(rows), None)

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        chosen = data.draw(st.lists(conditions(list(self.kinds)), min_size=1, max_size=2))
        text = " AND ".join(one.text for one in chosen)
        note(text)
        self.store.delete(text, ifClientActive="fence")
        self.close_client()
        gone = [key for key in self.rows if all(one.holds(self.read_as(key)) for one in chosen)]
        for key in gone:
            del self.rows[key]

    @rule(data=st.data())
    @precondition(lambda self: len(self.kinds) > len(self.keys))
    def drop(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([name for name in self.kinds if name not in self.keys]))
        self.store.dropColumns(name)
        del self.kinds[name]
        self.dropped.add(name)

    @rule(days=st.integers(1, 9))
    def set_property(self, days: int) -> None:
        self.store.setProperties(versionRetention=f"{days}d")
        assert self.store.definition.properties["versionRetention"] == f"{days}d"

    def commit(self, rows: Any, **options: Any) -> None:
        self.store.write(rows, ifClientActive="fence", **options)
        self.close_client()

    def draw_rows(self, data: st.DataObject, names: list[str], *, max_size: int) -> list[Row]:
        row = st.fixed_dictionaries({name: st.none() | VALUES[name] for name in names})
        return data.draw(st.lists(row, max_size=max_size))

    def apply(self, rows: list[Row], ops: list[str], sequence: str | None) -> None:
        """Let the last row of each key win, or the one whose column is highest."""
        winners: dict[Key, tuple[Any, int]] = {}
        for at, row in enumerate(rows):
            key, place = self.key_of(row), (at,)
            if sequence is not None:
                value = row[sequence]
                place = (value is not None, rank(value) if value is not None else 0, at)  # type: ignore[assignment]
            winners[key] = max(winners.get(key, (place, at)), (place, at))
        for key, (_, at) in winners.items():
            self.rows.pop(key, None)
            if ops[at] == "put":
                self.rows[key] = rows[at]

    # --- the client's ---------------------------------------------------------------------------------------------

    @rule(
        data=st.data(),
        codec=st.sampled_from([None, "Snappy", "Zlib", "Lz4", "Zstd"]),
        compact=st.booleans(),
        stays_open=st.booleans(),
    )
    def run_client(self, data: st.DataObject, codec: str | None, compact: bool, stays_open: bool) -> None:
        self.close_client()
        self.client = Client.open(self.location, ClientOptions(codec=codec, compactor=compact))
        for _ in range(data.draw(st.integers(0, 4))):
            self.client_writes(data, self.client)
            if data.draw(st.booleans()):
                self.client.flush_memtable()
        self.client.flush_wal()
        if compact:
            compact_full(self.client)
        if not stays_open:
            self.close_client()

    def client_writes(self, data: st.DataObject, client: Client) -> None:
        [key_row] = data.draw(
            st.lists(st.fixed_dictionaries({k: st.none() | VALUES[k] for k in self.keys}), min_size=1, max_size=1)
        )
        key = self.key_of(key_row)
        packed = self.pack_key(key_row)
        if self.value_format != "avro" or data.draw(st.booleans()):
            client.delete(packed)
            self.rows.pop(key, None)
            return
        number, schema = data.draw(st.sampled_from(sorted(self.store.definition.writer_schemas.items())))
        names = {avro_name(name): name for name in STAGES}
        columns = [names[field["name"]] for field in schema["fields"]]
        row = {name: data.draw(st.none() | VALUES[name]) for name in columns}
        body = io.BytesIO()
        fastavro.schemaless_writer(body, fastavro.parse_schema(dict(schema)), {avro_name(k): v for k, v in row.items()})
        client.put(packed, MARKER + number.to_bytes(8, "little") + body.getvalue())
        self.rows[key] = {**key_row, **{name: value for name, value in row.items() if name in self.kinds}}

    def close_client(self) -> None:
        if self.client is not None:
            client, self.client = self.client, None
            client.close(flush=False)

    # --- what must hold -------------------------------------------------------------------------------------------

    @invariant()
    def reads_as_the_model(self) -> None:
        self.steps += 1
        assert self.ours() == self.expected(), "scan"
        if self.steps % 4 == 0 and self.value_format == "avro":
            assert self.theirs() == self.expected(), "the client's scan"

    @rule(data=st.data(), split=st.sampled_from([1, 700, 1 << 26]), order=st.sampled_from(["asc", "asc", "desc"]))
    def scan(self, data: st.DataObject, split: int, order: str) -> None:
        chosen = data.draw(st.lists(conditions(list(self.kinds)), max_size=2))
        columns = data.draw(st.lists(st.sampled_from(list(self.kinds)), min_size=1, unique=True))
        text = " AND ".join(one.text for one in chosen)
        note(text)
        options: dict[str, Any] = {"filter": text} if chosen else {}
        rows = self.store.scan(order, columns=columns, splitSize=split, **options).read_all().to_pylist()
        expected = [row for row in map(self.read_as, self.in_order()) if all(one.holds(row) for one in chosen)]
        if order == "desc":
            rows.reverse()
        assert [plain(row) for row in rows] == [plain({name: row[name] for name in columns}) for row in expected]

    @rule(data=st.data())
    def get(self, data: st.DataObject) -> None:
        values = {name: data.draw(st.none() | VALUES[name]) for name in self.keys}
        key = self.key_of(values)
        found = self.store.get(*values.values())
        assert plain(found) == (plain(self.read_as(key)) if key in self.rows else None)

    @rule(split=st.sampled_from([1, 1 << 26]))
    def all_versions(self, split: int) -> None:
        """The newest version of each key is what a scan shows."""
        versions = self.store.scan(readVersions="all", metadataColumns=True, splitSize=split).read_all().to_pylist()
        newest: dict[bytes, Row] = {}
        for row in versions:  # newest first within a key
            newest.setdefault(row["_key"], row)
        shown = [{name: row[name] for name in self.kinds} for row in newest.values() if row["_op"] == "put"]
        assert [plain(row) for row in shown] == self.expected()

    def ours(self) -> list[Any]:
        rows = self.store.scan().read_all()
        rows.validate(full=True)
        assert set(rows.schema.names) == set(self.kinds)
        assert {field.name: field.type for field in rows.schema} == self.kinds
        return [plain({name: row[name] for name in self.kinds}) for row in rows.to_pylist()]

    def theirs(self) -> list[Any]:
        """What the client's scan gives, decoded with the tuple layer and fastavro."""
        writers = self.store.definition.writer_schemas
        found = []
        for row in read_rows(self.location):
            items = [float(item) if isinstance(item, float) else item for item in fdb.tuple.unpack(row.key)]
            assert row.value.startswith(MARKER)
            number = int.from_bytes(row.value[2:10], "little")
            body: Any = fastavro.schemaless_reader(
                io.BytesIO(row.value[10:]), fastavro.parse_schema(dict(writers[number])), None
            )
            by_name: Row = dict(zip(self.keys, items, strict=True))
            by_name |= {name: body[avro_name(name)] for name in self.kinds if avro_name(name) in body}
            if isinstance(by_name.get("s"), dict):
                by_name["s"] = {name: by_name["s"].get(avro_name(name)) for name in ("a", "c d")}
            found.append(plain({name: as_type(by_name.get(name), kind) for name, kind in self.kinds.items()}))
        return found

    def expected(self) -> list[Any]:
        return [plain(self.read_as(key)) for key in self.in_order()]

    def in_order(self) -> list[Key]:
        return sorted(self.rows, key=lambda key: self.pack_key(self.rows[key]))

    def read_as(self, key: Key) -> Row:
        row = self.rows[key]
        return {
            name: key_item(row[name]) if name in self.keys else as_type(row.get(name), kind)
            for name, kind in self.kinds.items()
        }

    def key_of(self, row: Row) -> Key:
        return tuple(plain(key_item(row[name])) for name in self.keys)

    def pack_key(self, row: Row) -> bytes:
        packed: bytes = fdb.tuple.pack(tuple(key_item(row[name]) for name in self.keys))
        return packed


@pytest.mark.slow
def test_a_typed_table_is_a_dict_of_rows() -> None:
    run_state_machine_as_test(TypedTable, settings=settings(max_examples=examples(10), stateful_step_count=12))
