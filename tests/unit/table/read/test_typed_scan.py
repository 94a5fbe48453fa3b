"""Scans of typed tables: columns, filters, damaged rows."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.encoding.predicates.row_filter import Condition, ValueTest
from slatespark.errors import CorruptDataError, InvalidRequestError, OptionError, SchemaError
from slatespark.options import ReadOptions
from slatespark.table.clock import SystemClock
from slatespark.table.definition.versions import publish_definition
from slatespark.table.log.versioned_object import Version
from slatespark.table.read.arrow import MAX_BATCH_BYTES, MAX_BATCH_ROWS, project
from slatespark.table.read.materialise import UndecodableRowsWarning, join_small
from slatespark.table.read.reader import fetch_read_plan
from tests.support.typed_tables import define, encoded, make_typed, stores_of, write_raw

SCHEMA = pa.schema(
    [
        pa.field("Tenant", pa.string(), nullable=False),
        pa.field("amount", pa.float64()),
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
    ]
)
DEFINITION = define(SCHEMA, ["Tenant", "id"])
_numbers = itertools.count()


def rows(count: int = 100) -> pa.Table:
    """A row per number, in key order; every third name is missing."""
    numbers = range(count)
    return pa.table(
        {
            "Tenant": ["a" if number < count // 2 else "b" for number in numbers],
            "amount": [number / 2 for number in numbers],
            "id": list(numbers),
            "name": [None if number % 3 == 0 else f"name {number}" for number in numbers],
        },
        schema=SCHEMA,
    )


def new_table(*parts: pa.Table, **options: Any) -> SlateStore:
    return make_typed(f"memory://typed-scan-{next(_numbers)}", DEFINITION, *(parts or (rows(),)), **options)


def test_all_columns_in_the_order_of_the_table() -> None:
    found = new_table().scan().read_all()
    assert found.schema.names == SCHEMA.names
    assert all(item.nullable for item in found.schema)
    assert found.to_pylist() == rows().to_pylist()


def test_columns_are_found_whatever_their_case() -> None:
    found = new_table().scan(columns="ID,tenant").read_all()
    assert found.schema.names == ["id", "Tenant"]
    assert found["id"].to_pylist() == list(range(100))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("nam", r"name\?"),
        ("_seq", "metadataColumns"),
        ("id,ID", "twice"),
        ("zzz", "Tenant, amount, id, name"),
    ],
)
def test_columns_that_cannot_be(columns: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        new_table().scan(columns=columns)


def test_metadata_columns_come_last() -> None:
    store = new_table()
    found = store.scan(metadataColumns="key,seq,op", columns="id,_seq,_op,_key").read_all()
    keys = encoded(DEFINITION.codec(), rows())["key"]
    assert found["_key"].to_pylist() == keys.to_pylist()
    assert set(found["_op"].to_pylist()) == {"put"}
    assert store.scan(metadataColumns=True).schema.names[:5] == [*SCHEMA.names, "_key"]


def test_what_a_projection_calls_its_columns() -> None:
    options = ReadOptions.parse({"path": "p"})
    asked = project(options, ["TENANT", "Name"], codec=DEFINITION.codec())
    assert (asked.names, asked.schema.names) == (("Tenant", "name"), ["TENANT", "Name"])
    assert asked.schema.field("Name").type == pa.string()


def test_deleted_rows_show_their_keys() -> None:
    store = new_table()
    keys = encoded(DEFINITION.codec(), rows().slice(3, 2))["key"]
    write_raw(store.url, pa.table({"key": keys}), operation="delete")
    assert store.scan().read_all().num_rows == 98
    shown = store.scan(includeDeleted=True, metadataColumns="op").read_all().slice(2, 4).to_pylist()
    assert [(row["id"], row["name"], row["amount"], row["_op"]) for row in shown] == [
        (2, "name 2", 1.0, "put"),
        (3, None, None, "delete"),
        (4, None, None, "delete"),
        (5, "name 5", 2.5, "put"),
    ]
    assert store.scan(includeDeleted=True, metadataColumns="op", filter="_op = 'delete'").read_all().num_rows == 2


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("tenant = 'a' AND id = 7", [7]),
        ("tenant = 'b' AND id = 7", []),
        ("tenant = 'a' AND id IN (3, 1, 2, 70)", [1, 2, 3]),
        ("tenant IN ('a', 'b') AND id IN (49, 50)", [49, 50]),
        ("tenant = 'b' AND id >= 97", [97, 98, 99]),
        ("id BETWEEN 48 AND 51", [48, 49, 50, 51]),
        ("name LIKE 'name 1%' AND tenant = 'a'", [1, 10, 11, 13, 14, 16, 17, 19]),
        ("name IS NULL AND id < 10", [0, 3, 6, 9]),
        ("tenant = 'a' AND id = 7 AND amount > 3.4", [7]),
        ("tenant = 'a' AND id = 7 AND amount > 3.5", []),
        ("id = 1 AND id = 2", []),
        ("amount >= 0", list(range(100))),
    ],
)
@pytest.mark.parametrize("columns", ["id", "name,id"])
def test_filters(order: str, condition: str, expected: list[int], columns: str) -> None:
    store = new_table(blockSize=1024)
    found = store.scan(order=order, filter=condition, columns=columns).read_all()
    assert found["id"].to_pylist() == (expected if order == "asc" else expected[::-1])


def test_a_filter_reads_only_what_it_needs() -> None:
    store = new_table(blockSize=1024)
    stores = stores_of(store.url)

    def planned(condition: str) -> Any:
        return fetch_read_plan(stores, ReadOptions.parse({"path": "p", "filter": condition}), SystemClock())

    point = planned("tenant = 'a' AND id IN (5, 9, 5)")
    assert [len(split.points) for split in point.splits] == [2]
    assert point.settings.residual is None
    assert planned("tenant = 'a' AND tenant = 'b'").splits == ()
    ranged = planned("tenant = 'a' AND id > 5 AND name = 'x'")
    assert ranged.splits[0].points is None
    assert ranged.splits[0].keys.end is not None
    assert tuple(ranged.settings.residual.columns) == ("name",)


@pytest.mark.parametrize("option", ["startKey", "endKey", "keyPrefix"])
def test_key_bytes_are_for_raw_tables(option: str) -> None:
    given: dict[str, Any] = {option: b"a"}
    with pytest.raises(OptionError, match=f"{option}.*Tenant, id"):
        new_table().scan("asc", **given)


def test_get_takes_a_value_for_each_key_column() -> None:
    store = new_table()
    assert store.get("a", 7) == {"Tenant": "a", "amount": 3.5, "id": 7, "name": "name 7"}
    assert store.get("b", 7) is None
    assert store.get("a", 7, columns="amount") == {"amount": 3.5}
    for wrong in (("a",), (b"a", 7), ("a", "7"), ("a", 2**70), ("a", 1, 2)):
        with pytest.raises(InvalidRequestError):
            store.get(*wrong)


# --- rows that do not decode ----------------------------------------------------------------------------------------


def with_damage() -> SlateStore:
    """Rows 7 and 60 cannot be decoded: no Avro, and no known fingerprint."""
    store = new_table()
    keys = encoded(DEFINITION.codec(), rows())["key"].to_pylist()
    values = [b"not Avro", b"\xc3\x01" + b"\x11" * 8 + b"\x02"]
    write_raw(store.url, pa.table({"key": [keys[7], keys[60]], "value": values}))
    return store


def test_rows_that_do_not_decode_are_named() -> None:
    store = with_damage()
    keys = encoded(DEFINITION.codec(), rows())["key"].to_pylist()
    with pytest.raises(CorruptDataError, match=f"{store.url}.*{keys[7].hex()}.*ignoreUndecodable"):
        store.scan().read_all()
    with pytest.raises(CorruptDataError, match=f"{keys[60].hex()}.*{'11' * 8}"):
        store.get("b", 60)
    assert store.scan(columns="id").read_all().num_rows == 100  # nobody looks at their values
    assert store.scan(filter="tenant = 'a' AND id < 7").read_all().num_rows == 7


@pytest.mark.parametrize("condition", [None, "amount >= 0", "id >= 0", "name LIKE 'name%' AND id > 3"])
@pytest.mark.parametrize("split_size", [None, 1000])
def test_they_can_be_left_out(condition: str | None, split_size: int | None) -> None:
    store = with_damage()
    with pytest.warns(UndecodableRowsWarning, match=rf"{store.url}\b.*\b2\b") as caught:
        found = store.scan(ignoreUndecodable=True, filter=condition, splitSize=split_size).read_all()
    assert len(caught) == 1
    expected = [
        row
        for row in rows().to_pylist()
        if row["id"] not in (7, 60)
        and (condition is None or "LIKE" not in condition or (row["name"] and row["id"] > 3))
    ]
    assert found.to_pylist() == expected


def test_every_read_warns_again() -> None:
    store = with_damage()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(2):
            store.scan(ignoreUndecodable=True).read_all()
            assert store.get("a", 7, ignoreUndecodable=True) is None
    texts = [str(each.message).partition(": ")[2].split(" not ")[0] for each in caught]
    assert texts == ["2 rows do", "1 row does"] * 2


def test_nothing_is_said_where_all_rows_decode() -> None:
    assert new_table().scan(ignoreUndecodable=True).read_all().num_rows == 100


# --- planning and batches -------------------------------------------------------------------------------------------


def test_columns_that_changed_since_they_were_promised() -> None:
    store = new_table()
    stores, options = stores_of(store.url), ReadOptions.parse({"path": "p", "columns": "id,amount"})
    promised = project(options, codec=DEFINITION.codec())
    wider = DEFINITION.with_schema(SCHEMA.append(pa.field("more", pa.int32())))
    publish_definition(stores, Version(2, wider))
    plan = fetch_read_plan(stores, options, SystemClock(), projection=promised)
    assert plan.settings.projection.codec.writer_schemas == wider.writer_schemas
    changed = DEFINITION.with_schema(SCHEMA.set(1, pa.field("amount", pa.string())))
    publish_definition(stores, Version(3, changed))
    with pytest.raises(SchemaError, match="changed"):
        fetch_read_plan(stores, options, SystemClock(), projection=promised)


def test_small_batches_are_joined() -> None:
    batches = [pa.record_batch({"a": list(range(size))}) for size in (10, 20, 9000, 5, 8192, 1)]
    assert [len(batch) for batch in join_small(batches)] == [9030, 8197, 1]
    assert [len(batch) for batch in join_small(batches[2:3])] == [9000]
    assert list(join_small([])) == []


def test_joined_batches_are_no_larger_than_others() -> None:
    many = [
        pa.record_batch({"a": pa.nulls(size, pa.int8())}) for size in (5, MAX_BATCH_ROWS, 7, 8, MAX_BATCH_ROWS - 15)
    ]
    assert [len(batch) for batch in join_small(many)] == [5, MAX_BATCH_ROWS, MAX_BATCH_ROWS]
    large = [pa.record_batch({"a": [b"x" * size]}) for size in (900_000, MAX_BATCH_BYTES - 100_000, 1000)]
    assert [len(batch) for batch in join_small(large)] == [1, 1, 1]


def test_batches_of_small_rows_have_the_size_that_is_promised() -> None:
    """A window of a scan has more rows than a batch, and what is left of it goes with the next window."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("text", pa.string())])
    store = SlateStore.create(f"memory://small-rows-{next(_numbers)}", schema, "id")
    store.write(pa.table({"id": range(300_000), "text": ["x" * 12] * 300_000}, schema))
    sizes = [len(batch) for batch in store.scan(parallelism=1)]
    assert sum(sizes) == 300_000
    assert max(sizes) <= MAX_BATCH_ROWS


def test_a_filter_is_prepared_once_for_all_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of thousands took longer than the rows if each batch prepared it."""
    prepared: list[Condition] = []
    true_test = Condition.test

    def test(condition: Condition) -> ValueTest:
        prepared.append(condition)
        return true_test(condition)

    monkeypatch.setattr(Condition, "test", test)
    parts = [rows(200_000).slice(start, 50_000) for start in range(0, 200_000, 50_000)]
    store = new_table(*parts)
    prepared.clear()
    found = store.scan(filter="name IN ('name 1', 'name 7', 'name 199999')", columns="id", parallelism=1)
    assert [row["id"] for batch in found for row in batch.to_pylist()] == [1, 7, 199_999]
    assert len(prepared) == 1
