"""Columns of typed writes: found by name, cast exactly, and refused by name where they do not fit."""

from __future__ import annotations

from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.encoding.column_types import VARIANT, list_of, map_of
from slatespark.errors import CommitConflictError, InvalidRequestError, OptionError, SchemaError, TableExistsError
from slatespark.options import WriteOptions
from slatespark.table.clock import SystemClock
from slatespark.table.stores import open_stores
from slatespark.table.write.load_run import load_batches

_numbers = count()

SCHEMA = pa.schema(
    [
        pa.field("Tenant", pa.string(), nullable=False),
        pa.field("id", pa.int32()),
        pa.field("v", pa.float64()),
        pa.field("n", pa.int16(), nullable=False),
    ]
)


def url() -> str:
    return f"memory://typed-rows-{next(_numbers)}"


def make(schema: pa.Schema = SCHEMA, keys: str = "tenant,ID", **more: Any) -> SlateStore:
    return SlateStore.create(url(), schema, keys, **more)


def rows(store: SlateStore, **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = store.scan(**options).read_all().to_pylist()
    return found


def row(**changes: Any) -> pa.Table:
    """One row that fits; a change to `...` removes the column."""
    columns = {"Tenant": "a", "id": 1, "v": 0.5, "n": 3, **changes}
    return pa.table(
        {
            name: [value] if not isinstance(value, pa.Array) else value
            for name, value in columns.items()
            if value is not ...
        }
    )


def test_columns_in_any_order_and_case() -> None:
    store = make()
    store.write(pa.table({"N": [1, 2], "V": [None, 2.0], "ID": [None, 7], "TENANT": ["b", "a"]}))
    expected = [{"Tenant": "a", "id": 7, "v": 2.0, "n": 2}, {"Tenant": "b", "id": None, "v": None, "n": 1}]
    assert rows(store) == expected
    assert store.get("b", None) == expected[1]


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (row(v=...), {}, "mergeSchema"),
        (row(v=..., n=...), {}, "v, n"),
        (row(id=...), {"mergeSchema": True}, "key"),
        (row(id=...), {"operation": "delete"}, "key"),
        (row(x=1), {}, r"\bx\b"),
        (row(tenants="a"), {}, r"Tenant\?"),
        (row(x=1), {"operation": "delete"}, r"\bx\b"),
        (row(V=1), {}, "twice"),
        (row(n=None), {}, "null"),
        (row(Tenant=None), {}, "null"),
        (row(n=...), {"mergeSchema": True}, "takes no nulls"),
        (row(n=...), {}, "takes no nulls"),
        (row(Tenant=None), {"operation": "delete"}, "null"),
        (row(n=40000), {}, "SMALLINT"),
        (row(v="1"), {}, "STRING"),
        (row(v="1"), {"mergeSchema": True}, "STRING"),
        (row(x=pa.nulls(1)), {"mergeSchema": True}, "Cast"),
        (row(x=pa.array([1], pa.uint64())), {"mergeSchema": True}, "uint64"),
        (row(_key=b"x"), {"mergeSchema": True}, "_key"),
        (row(op="put"), {"opColumn": "ops"}, r"\bop\?"),
        (row(op="replace"), {"opColumn": "OP"}, "replace"),
        (row(op=pa.array([None], pa.string())), {"opColumn": "op"}, "None"),
        (row(op=1), {"opColumn": "op"}, "int64"),
        (row(Tenant="x" * 70000), {}, "key"),
        (row(), {"keyColumns": "id,tenant"}, "keyColumns"),
        (row(), {"keyColumns": "tenant"}, "keyColumns"),
    ],
)
def test_rows_that_do_not_fit_are_refused(table: pa.Table, options: dict[str, Any], message: str) -> None:
    store = make()
    with pytest.raises(SchemaError, match=message):
        store.write(table, **options)
    assert rows(store) == []
    assert store.definition.codec().schema.equals(SCHEMA)


def test_merge_operands_need_raw_values() -> None:
    store = make()
    for table, options in [(row(), {"operation": "merge"}), (row(op="merge"), {"opColumn": "op"})]:
        with pytest.raises(InvalidRequestError, match="valueFormat"):
            store.write(table, **options)
    counters = make(pa.schema([("k", pa.string()), ("n", pa.binary())]), "k", valueFormat="raw", mergeOperator="sum")
    one, two = ((number).to_bytes(8, "little") for number in (1, 2))
    counters.write(pa.table({"k": ["a", "a"], "n": [one, one]}), operation="merge")
    assert rows(counters, mergeOperator="sum") == [{"k": "a", "n": two}]


def test_deletes_ignore_their_values() -> None:
    store = make()
    store.write(pa.concat_tables([row(), row(id=2), row(id=3)]))
    store.write(pa.table({"id": [1], "tenant": ["a"]}), operation="delete")
    changes = pa.table({"tenant": ["a", "a"], "id": [2, 4], "v": [None, 4.0], "n": [None, 4], "op": ["delete", "put"]})
    store.write(changes, opColumn="Op")
    assert [(item["id"], item["n"]) for item in rows(store)] == [(3, 3), (4, 4)]
    store.write(pa.table({"tenant": ["a", "a"], "id": [3, 4], "op": ["delete"] * 2}), opColumn="op", mergeSchema=True)
    assert rows(store) == []


def test_added_columns_and_wider_types() -> None:
    store = make()
    store.write(row())
    store.write(row(id=2**40, v=..., x="new", y=pa.array([[1]], pa.list_(pa.int8()))), mergeSchema=True)
    assert rows(store) == [
        {"Tenant": "a", "id": 1, "v": 0.5, "n": 3, "x": None, "y": None},
        {"Tenant": "a", "id": 2**40, "v": None, "n": 3, "x": "new", "y": [1]},
    ]
    assert store.definition.codec().schema.field("n").nullable is False


@pytest.mark.parametrize(
    ("key", "value", "formats"),
    [
        (pa.string(), pa.string(), {"keyFormat": "utf8", "valueFormat": "utf8"}),
        (pa.binary(), pa.binary(), {"keyFormat": "raw", "valueFormat": "raw"}),
        (pa.string(), pa.binary(), {"keyFormat": "utf8", "valueFormat": "raw"}),
        (pa.string(), pa.int64(), {"keyFormat": "utf8", "valueFormat": "avro"}),
        (pa.int64(), pa.string(), {"valueFormat": "utf8"}),
        (pa.int64(), pa.int64(), {"valueFormat": "json"}),
    ],
    ids=str,
)
def test_formats(key: pa.DataType, value: pa.DataType, formats: dict[str, str]) -> None:
    samples: dict[pa.DataType, list[Any]] = {
        pa.string(): ["ä", "b"],
        pa.binary(): [b"\0", b"\xff"],
        pa.int64(): [-1, 1],
    }
    store = make(pa.schema([("k", key), ("v", value)]), "k", **formats)
    table = pa.table({"k": pa.array(sorted(samples[key]), key), "v": pa.array(samples[value], value)})
    store.write(table)
    assert rows(store) == table.to_pylist()
    for name in ("k", "v"):
        bare = (formats.get("keyFormat") if name == "k" else formats.get("valueFormat")) in ("raw", "utf8")
        nulls = table.set_column(table.column_names.index(name), name, pa.nulls(2, table.schema.field(name).type))
        if bare:
            with pytest.raises(SchemaError, match=f"{name}.*null"):
                store.write(nulls)
    if formats["valueFormat"] in ("raw", "utf8"):
        with pytest.raises(SchemaError, match="value"):
            store.write(table.append_column("w", table.column("v")), mergeSchema=True)


@pytest.mark.parametrize(
    ("schema", "keys", "formats", "message"),
    [
        (
            [("a", pa.int8()), ("b", pa.int8())],
            "a",
            {"keyFormat": "utf8"},
            "keyFormat",
        ),
        ([("a", pa.string()), ("b", pa.string())], "a,b", {"keyFormat": "utf8"}, "keyFormat"),
        (
            [("a", pa.string()), ("b", pa.string())],
            "a",
            {"valueFormat": "raw"},
            "valueFormat",
        ),
        ([("a", pa.string())], "a", {"valueFormat": "utf8"}, "none"),
        ([("a", pa.list_(pa.int8()))], "a", {}, "ARRAY"),
        ([("a", pa.duration("us"))], "a", {}, "Key"),
        ([("a", pa.string())], "b", {}, "missing"),
        ([("a", pa.string()), ("A", pa.string())], "a", {}, r"\ba\b.*\bA\b"),
        ([("_seq", pa.string())], "_seq", {}, "metadata"),
    ],
)
def test_invalid_tables_are_refused(schema: list[Any], keys: str, formats: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        make(pa.schema(schema), keys, **formats)


def test_invalid_creations_are_refused() -> None:
    with pytest.raises(OptionError, match="keyColumns"):
        SlateStore.create(url(), keyColumns="a")
    with pytest.raises(OptionError, match="json"):
        SlateStore.create(url(), valueFormat="json")
    with pytest.raises(OptionError, match="tuple"):
        make(keyFormat="avro")


# --- writes that create ---------------------------------------------------------------------------------------------


def load(place: str, table: pa.Table, *, overwrite: bool = False, **options: Any) -> None:
    parsed = WriteOptions.parse({"path": place, **options})
    stores = open_stores(place, storage={})
    load_batches(stores, SystemClock(), table.schema, table.to_batches(), parsed, overwrite=overwrite)


def test_a_write_creates_a_table_of_nullable_columns() -> None:
    place, nested = url(), pa.struct([pa.field("x", pa.int8(), nullable=False)])
    table = pa.table(
        {"K": ["a"], "v": pa.array([{"x": 1}], nested)},
        schema=pa.schema([pa.field("K", pa.string(), nullable=False), ("v", nested)]),
    )
    load(place, table, keyColumns="k", defaultTtl="7d")
    definition = SlateStore.open(place).definition
    assert definition.key_columns == ("K",)
    assert definition.codec().schema.equals(pa.schema([("K", pa.string()), ("v", pa.struct([("x", pa.int8())]))]))
    assert definition.properties == {"defaultTtl": "7d"}


def test_overwrite_keeps_keys_formats_and_properties() -> None:
    store = make(valueFormat="json", defaultTtl="1h")
    store.write(row())
    store.write(row(id=2), mode="overwrite")
    assert [item["id"] for item in rows(store)] == [2]
    assert (store.definition.value_format, store.definition.properties) == ("json", {"defaultTtl": "1h"})
    for options, message in [
        ({"valueFormat": "avro"}, "valueFormat"),
        ({"keyColumns": "id"}, "keyColumns"),
    ]:
        with pytest.raises(InvalidRequestError, match=message):
            store.write(row(), mode="overwrite", **options)


def test_properties_of_an_existing_table_must_agree() -> None:
    store = make(defaultTtl="1h")
    store.write(row(), defaultTtl="60m")
    for options in ({"defaultTtl": "2h"}, {"retention": "7d"}):
        with pytest.raises(OptionError, match="setProperties"):
            store.write(row(), **options)
    for options in ({"history": "true"}, {"clock": "custom"}):
        with pytest.raises(OptionError, match="path"):  # nothing sets them later
            store.write(row(), **options)
    store.write(row(), history="false", clock="system")  # what it is without being told
    with pytest.raises(SchemaError, match="raw"):
        SlateStore.create(url()).write(row(), keyColumns="id")


def test_the_ttl_of_a_row() -> None:
    store = make(defaultTtl="1h")
    for number, options in enumerate([{}, {"ttl": "default"}, {"ttl": "none"}, {"ttl": "2h"}]):
        store.write(row(id=number), **options)
    lives = [
        None if item["_expire_ts"] is None else (item["_expire_ts"] - item["_create_ts"]).total_seconds() / 3600
        for item in rows(store, metadataColumns="create_ts,expire_ts")
    ]
    assert lives == [1, 1, None, 2]


def test_if_exists_and_an_empty_write_that_creates() -> None:
    place = url()
    load(place, row().slice(0, 0), keyColumns="id")
    assert rows(SlateStore.open(place)) == []
    load(place, row(), ifExists="ignore", keyColumns="tenant")
    with pytest.raises(TableExistsError):
        load(place, row(), ifExists="error", keyColumns="id")
    assert rows(SlateStore.open(place)) == []


# --- deletes by condition -------------------------------------------------------------------------------------------


def test_rows_are_deleted_by_a_condition_on_any_column() -> None:
    store = make()
    store.write(pa.concat_tables([row(id=number, v=float(number)) for number in range(6)]))
    before = store.definition
    version = store.delete("v >= 2 AND id <> 4")
    assert [item["id"] for item in rows(store)] == [0, 1, 4]
    assert store.delete("v > 100") == version, "nothing to delete is no commit"
    store.delete("tenant = 'a'")
    assert rows(store) == []
    assert store.definition == before
    with pytest.raises(OptionError, match="filter"):
        store.delete("v >")
    with pytest.raises(OptionError, match=r"\bid\b"):
        store.delete("idd = 1")


def test_a_delete_needs_a_condition() -> None:
    store = make()
    store.write(row())
    with pytest.raises(OptionError):
        store.delete(None)
    assert len(rows(store)) == 1


def test_a_delete_folds_operands_to_judge_them() -> None:
    store = make(pa.schema([("k", pa.string()), ("n", pa.binary())]), "k", valueFormat="raw")
    for key in ("a", "b", "b"):
        store.write(pa.table({"k": [key], "n": [(1).to_bytes(8, "little")]}), operation="merge")
    store.delete("n = X'0200000000000000'", mergeOperator="sum")
    assert [item["k"] for item in rows(store, mergeOperator="sum")] == ["a"]


def test_rows_of_a_raw_table_are_deleted_by_a_condition() -> None:
    store = SlateStore.create(url())
    store.write(pa.table({"key": [b"a", b"b", b"c"], "value": [b"1", b"2", b"1"]}))
    store.delete("value = X'31' AND key < X'63'")
    assert [item["key"] for item in rows(store)] == [b"b", b"c"]


def test_a_delete_of_changed_rows_is_refused() -> None:
    store = make()
    store.write(row())
    with pytest.raises(CommitConflictError, match="above"):
        store.delete("id = 1", ifLastSeq=0)
    assert len(rows(store)) == 1


@pytest.mark.parametrize("options", [{}, {"mergeSchema": True}])
def test_a_missing_column_that_takes_no_nulls_is_found_before_any_row(options: dict[str, Any]) -> None:
    without = pa.schema([("tenant", pa.string()), ("id", pa.int32()), ("v", pa.float64())])
    with pytest.raises(SchemaError, match="lack"):
        make().write(without.empty_table(), **options)


@pytest.mark.parametrize("option", ["ttlColumn", "expireAtColumn", "opColumn"])
def test_a_column_of_the_table_that_an_option_takes_from_the_rows(option: str) -> None:
    store = make()
    given = pa.table({"tenant": ["a"], "id": [1], "v": [0.5], "n": ["put" if option == "opColumn" else 5]})
    with pytest.raises(SchemaError, match=option):
        store.write(given, **{option: "N"})


def _below_null(kind: pa.DataType) -> pa.StructArray:
    """A value, and a null below which the parts are null as well, as Spark lays them out."""
    parts = [
        pa.array([value, None], part.type) for value, part in zip((b"\x0c\x01", b"\x01\x00\x00"), kind, strict=True)
    ]
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=pa.array([False, True]))


@pytest.mark.parametrize("value_format", ["avro", "json"])
def test_a_null_struct_whose_parts_take_no_null(value_format: str) -> None:
    strict = pa.struct([pa.field("a", pa.binary(), nullable=False), pa.field("b", pa.binary(), nullable=False)])
    columns = {
        "variant": _below_null(VARIANT),
        "struct": _below_null(strict),
        "list": pa.ListArray.from_arrays([0, 2, 2], _below_null(strict), type=list_of(strict)),
        "map": pa.MapArray.from_arrays([0, 2, 2], ["x", "y"], _below_null(strict), type=map_of(pa.string(), strict)),
    }
    rows = pa.table({"id": [1, 2], **columns})
    store = SlateStore.create(f"memory://strict-{value_format}", rows.schema, "id", valueFormat=value_format)
    store.write(rows)
    for columnar in (False, True):
        assert store.scan().read_all().to_pylist() == rows.to_pylist()
        store.compact(full=True, force=True, columnar=columnar)
    assert store.scan().read_all().to_pylist() == rows.to_pylist()
    missing = rows.set_column(2, "struct", pa.StructArray.from_arrays([pa.array([None, b""])] * 2, fields=list(strict)))
    with pytest.raises(SchemaError, match="struct"):
        store.write(missing)
    SlateStore.drop(store.url, force=True)


def test_a_float_in_json_is_read_as_it_was_written() -> None:
    schema = pa.schema([("id", pa.int64()), ("f", pa.float32())])
    store = SlateStore.create(url(), schema, "id", valueFormat="json")
    store.write(pa.table({"id": [1], "f": [0.1]}, schema=schema))
    before = store.get(1)
    with pytest.raises(SchemaError, match="f is DOUBLE"):
        store.write(pa.table({"id": [2], "f": [0.1]}), mergeSchema=True)
    store.write(pa.table({"id": [2], "f": [0.5]}), mergeSchema=True)
    assert [store.get(1), store.get(2)] == [before, {"id": 2, "f": 0.5}]
