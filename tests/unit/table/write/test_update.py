"""`SlateStore.update`: new values of the rows that fulfil a condition."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from slatespark import (
    InvalidRequestError,
    OptionError,
    SchemaError,
    SlateStore,
    TableNotFoundError,
    TransactionConflictError,
)
from slatespark.table.read.reader import run_read
from slatespark.table.write import deletion, key_deletes, load_run
from slatespark.table.write import update as update_module
from slatespark.table.write.load_plan import begin_load
from tests.support.fake_clock import FakeClock

pd = pytest.importorskip("pandas")  # slatespark does without

SCHEMA = pa.schema(
    [
        pa.field("tenant", pa.string(), nullable=False),
        pa.field("id", pa.int64(), nullable=False),
        pa.field("n", pa.int32(), nullable=False),
        ("note", pa.string()),
        ("price", pa.decimal128(8, 2)),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
AT = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
START = [("a", 1, 10, "one", Decimal("1.50"), AT), ("a", 2, 20, None, None, None), ("b", 1, 30, "three", None, AT)]
_numbers = count()

Row = tuple[Any, ...]


def new_store(**properties: Any) -> SlateStore:
    url = f"memory://update-{next(_numbers)}"
    store = SlateStore.create(url, SCHEMA, keyColumns="tenant,id", **properties)
    store.write(pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in START], schema=SCHEMA))
    return store


def shown(store: SlateStore, **options: Any) -> list[Row]:
    return [tuple(row.values()) for row in store.scan(**options).read_all().to_pylist()]


def changed(row: Row, **values: Any) -> Row:
    return tuple(values.get(name, value) for name, value in zip(SCHEMA.names, row, strict=True))


def test_values_of_the_rows_that_match() -> None:
    store = new_store()
    before = store.detail().version
    version = store.update("tenant = 'a'", {"NOTE": "new", "n": pc.field("n") + pc.field("id"), "price": None})
    assert shown(store) == [
        changed(START[0], note="new", n=11, price=None),
        changed(START[1], note="new", n=22, price=None),
        START[2],
    ]
    assert store.resolve().version == version > before
    assert store.history(1)[0].rows == {"put": 2, "delete": 0, "merge": 0}


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("n", 7, 7),
        ("n", pc.scalar(8), 8),
        ("n", pa.scalar(9, pa.int64()), 9),
        ("n", pc.field("n") * 2, 60),
        ("note", pc.utf8_upper(pc.field("note")), "THREE"),
        ("note", None, None),
        ("price", Decimal("2.25"), Decimal("2.25")),
        ("at", AT + datetime.timedelta(days=1), AT + datetime.timedelta(days=1)),
        ("at", pc.field("at"), AT),
    ],
)
def test_kinds_of_values(name: str, value: object, found: object) -> None:
    store = new_store()
    store.update("tenant = 'b'", {name: value})
    assert shown(store) == [*START[:2], changed(START[2], **{name: found})]


_SHAPES = "id BIGINT, tags ARRAY<STRING>, m MAP<STRING, INT>, s STRUCT<a: INT, b: DATE>, f FLOAT, d DATE, \
z TIMESTAMP_NTZ, t TIMESTAMP, i INTERVAL DAY TO SECOND, c TIME"
_DAY, _NOON = datetime.date(2026, 1, 1), datetime.datetime(2026, 1, 1, 12)  # noqa: DTZ001  # as the column has it


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("tags", ["a", None], ["a", None]),
        ("tags", [], []),
        ("tags", pa.scalar(["a"]), ["a"]),
        ("m", {"a": 1}, [("a", 1)]),
        ("m", [("a", 1)], [("a", 1)]),
        ("s", {"a": 1}, {"a": 1, "b": None}),
        ("s", (1, _DAY), {"a": 1, "b": _DAY}),
        ("z", np.datetime64("2026-01-01T12:00:00"), _NOON),
        ("t", pd.Timestamp(AT), AT),
        ("i", datetime.timedelta(hours=1), datetime.timedelta(hours=1)),
        ("c", datetime.time(1, 2), datetime.time(1, 2)),
    ],
    ids=str,
)
@pytest.mark.parametrize("condition", ["id = 1", "id = 2"])
def test_values_of_many_types(name: str, value: object, found: object, condition: str) -> None:
    store = SlateStore.create(f"memory://update-{next(_numbers)}", _SHAPES, "id")
    store.write(pa.table({"id": [1]}), mergeSchema=True)
    store.update(condition, {name: value})
    row = store.get(1)
    assert row is not None
    assert row[name] == (found if condition == "id = 1" else None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("s", {"a": 1.5}),
        ("s", {"a": 1, "c": 2}),
        ("tags", "text"),
        ("tags", [1]),
        ("m", {"a": 1.5}),
        ("m", 5),
        ("f", 1e300),
        ("d", AT),
        ("z", AT),
        ("t", pd.Timestamp(AT) + pd.Timedelta(1, "ns")),
        ("i", pd.Timedelta(1, "ns")),
        ("i", np.timedelta64(1, "ns")),
        ("c", datetime.time(1, tzinfo=datetime.UTC)),
    ],
    ids=str,
)
def test_values_that_would_change(name: str, value: object) -> None:
    store = SlateStore.create(f"memory://update-{next(_numbers)}", _SHAPES, "id")
    store.write(pa.table({"id": [1]}), mergeSchema=True)
    with pytest.raises(SchemaError):
        store.update("id = 1", {name: value})


def test_without_a_condition_all_rows_are_set() -> None:
    store = new_store()
    store.update(set={"note": "all"})
    assert shown(store) == [changed(row, note="all") for row in START]


def test_expressions_see_the_old_values() -> None:
    store = new_store()
    store.update("tenant = 'b'", {"n": pc.field("n") + 1, "note": pc.field("n").cast(pa.string())})
    assert shown(store)[2] == changed(START[2], n=31, note="30")


def test_nothing_matches() -> None:
    store = new_store()
    version = store.resolve().version
    assert store.update("tenant = 'z'", {"note": "x"}) == version
    assert shown(store) == START


def test_values_of_a_raw_table() -> None:
    store = SlateStore.create(f"memory://update-{next(_numbers)}", mergeOperator="concat")
    store.write(pa.table({"key": [b"a", b"b"], "value": [b"1", b"2"]}))
    store.write(pa.table({"key": [b"a"], "value": [b"+"]}), operation="merge")
    store.update("key = X'61'", {"value": pc.binary_join_element_wise(pc.field("value"), pc.field("key"), b"")})
    assert shown(store) == [(b"a", b"1+a"), (b"b", b"2")]


@pytest.mark.parametrize(
    ("assigned", "error", "word"),
    [
        ({}, InvalidRequestError, "nothing"),
        ("note = 'x'", InvalidRequestError, "str"),
        ({"id": 5}, InvalidRequestError, "key column"),
        ({"Tenant": "x"}, InvalidRequestError, "key column"),
        ({"color": 5}, SchemaError, "color"),
        ({5: 1}, SchemaError, "column 5"),
        ({"n": 1, "N": 2}, SchemaError, "twice"),
        ({"n": "many"}, SchemaError, "column n"),
        ({"n": None}, SchemaError, "n"),
        ({"n": 1 << 40}, SchemaError, "n"),
        ({"n": 1.5}, SchemaError, "n"),
        ({"n": Decimal("1.5")}, SchemaError, "n"),
        ({"n": pc.field("n") + (1 << 40)}, SchemaError, "n"),
        ({"n": pc.field("color")}, SchemaError, "n"),
        ({"n": pc.utf8_upper(pc.field("n"))}, SchemaError, "n"),
        ({"note": pc.field("n")}, SchemaError, "note"),
    ],
)
def test_what_is_refused(assigned: dict[str, object], error: type[Exception], word: str) -> None:
    store = new_store()
    version = store.resolve().version
    with pytest.raises(error, match=word):
        store.update("tenant = 'a'", assigned)
    assert (shown(store), store.resolve().version) == (START, version)


@pytest.mark.parametrize("options", [{"operation": "delete"}, {"opColumn": "note"}, {"clock": "a:b"}])
def test_options_that_do_not_apply(options: dict[str, str]) -> None:
    with pytest.raises(OptionError, match=next(iter(options))):
        new_store().update("tenant = 'a'", {"n": 1}, **options)


def test_a_change_after_the_read_is_a_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    store = new_store()

    def overtaken(*arguments: Any) -> Any:
        other = {**dict(zip(SCHEMA.names, START[1], strict=True)), "n": 21}
        store.write(pa.Table.from_pylist([other], schema=SCHEMA))
        return run_read(*arguments)

    monkeypatch.setattr(update_module, "run_read", overtaken)
    with pytest.raises(TransactionConflictError, match="id=2"):
        store.update("tenant = 'a'", {"n": 0})
    store.update("tenant = 'b'", {"n": 0})  # another range
    assert [row[2] for row in shown(store)] == [10, 21, 0]


def test_an_update_that_runs_again_takes_effect_once() -> None:
    store = new_store()
    pair: dict[str, Any] = {"txnAppId": "fees", "txnVersion": 1}
    for _ in range(2):
        store.update("tenant = 'b'", {"n": pc.field("n") + 1}, **pair)
    assert shown(store)[2][2] == 31


def test_updated_rows_expire_as_new_ones_do() -> None:
    clock = FakeClock()
    store = new_store(clock=clock, defaultTtl="1h")
    clock.advance(1_800_000)
    store.update("tenant = 'a'", {"note": "later"})
    store.update("tenant = 'b'", {"note": "soon"}, ttl="1m")
    clock.advance(60_000)
    assert [row[:2] for row in shown(store)] == [("a", 1), ("a", 2)]
    clock.advance(3_539_999)
    assert len(shown(store)) == 2
    clock.advance(1)
    assert shown(store) == []


def test_a_history_table_keeps_the_old_values() -> None:
    clock = FakeClock()
    store = new_store(clock=clock, history=True)
    then = clock.now_ms()
    clock.advance(1000)
    store.update("tenant = 'b'", {"n": 0})
    assert [row[2] for row in shown(store)] == [10, 20, 0]
    assert [row[2] for row in shown(store, timestampAsOf=then)] == [10, 20, 30]


@pytest.mark.parametrize("keys", [None, "id"], ids=["raw", "typed"])
@pytest.mark.parametrize("change", ["update", "delete", "delete of keys"])
def test_a_table_that_is_dropped_meanwhile_does_not_come_back(
    change: str, keys: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    store = SlateStore.create(path, None if keys is None else "id BINARY, value BINARY", keys)
    name = "key" if keys is None else keys
    store.write(pa.table({name: [b"a", b"b"], "value": [b"1", b"2"]}))
    acts: dict[str, Callable[[], int]] = {
        "update": lambda: store.update(f"{name} = X'61'", {"value": b"3"}),
        "delete": lambda: store.delete(f"{name} = X'61'"),
        "delete of keys": lambda: store.delete(keys=[b"a"]),
    }

    def after_drop(*given: Any, **named: Any) -> Any:
        SlateStore.drop(path, force=True)
        return begin_load(*given, **named)

    for module in (load_run, deletion, key_deletes):
        monkeypatch.setattr(module, "begin_load", after_drop)
    with pytest.raises(TableNotFoundError):
        acts[change]()
    with pytest.raises(TableNotFoundError):
        SlateStore.open(path)
