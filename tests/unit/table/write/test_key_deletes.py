"""`SlateStore.delete(keys=...)`: the rows of listed keys, whatever others write meanwhile."""

from __future__ import annotations

from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from slatespark import (
    ClockRegressionError,
    CommitConflictError,
    InvalidRequestError,
    OptionError,
    SchemaError,
    SlateError,
    SlateStore,
)
from slatespark.slate_store.base import last_commit
from slatespark.table.write import key_deletes, load_plan
from slatespark.units import DAY_MS
from tests.support.fake_clock import FakeClock

SCHEMA = pa.schema(
    [pa.field("tenant", pa.string(), nullable=False), pa.field("id", pa.int64(), nullable=False), ("n", pa.int32())]
)
_numbers = count()


def new_store(**properties: Any) -> SlateStore:
    store = SlateStore.create(f"memory://key-deletes-{next(_numbers)}", SCHEMA, keyColumns="tenant,id", **properties)
    put(store, ("a", 1), ("a", 2), ("b", 1))
    return store


def put(store: SlateStore, *keys: tuple[str, int]) -> None:
    rows = [{"tenant": tenant, "id": number, "n": number} for tenant, number in keys]
    store.write(pa.Table.from_pylist(rows, schema=SCHEMA))


def keys_of(store: SlateStore) -> list[tuple[str, int]]:
    return [(row["tenant"], row["id"]) for row in store.scan().read_all().to_pylist()]


@pytest.mark.parametrize(
    "keys",
    [
        [("b", 1), ("a", 1)],
        (["a", 1], ["b", 1], ["a", 1]),
        pa.table({"n": [None, None], "id": [1, 1], "tenant": ["a", "b"]}),
        pa.RecordBatchReader.from_batches(
            SCHEMA, [pa.RecordBatch.from_pylist([{"tenant": key, "id": 1, "n": 0}], schema=SCHEMA) for key in "ab"]
        ),
    ],
    ids=["tuples", "lists", "table", "reader"],
)
def test_the_rows_of_listed_keys_go(keys: Any) -> None:
    store = new_store()
    version, record = store.delete(keys=keys), last_commit(store)
    assert keys_of(store) == [("a", 2)]
    assert record is not None
    assert (record.manifest_id, record.rows["delete"]) == (version, 2)


def test_without_a_row_nothing_is_committed() -> None:
    store = new_store()
    version = store.detail().version
    for keys in ([("c", 1), ("a", 3)], []):
        assert store.delete(keys=keys) == version
    assert store.detail().version == version


@pytest.mark.parametrize("history", [False, True])
def test_a_row_past_retention_is_deleted_too(history: bool) -> None:
    clock = FakeClock(1_700_000_000_000)
    store = new_store(clock=clock, retention="1d", history=history)
    clock.advance(2 * DAY_MS)
    assert keys_of(store) == []
    version = store.detail().version
    assert store.delete(keys=[("a", 1), ("c", 1)]) > version
    store.setProperties(retention="none")
    assert keys_of(store) == [("a", 2), ("b", 1)]


def test_an_expired_row_is_deleted_too() -> None:
    """A SlateDB client shows it until a compaction."""
    clock = FakeClock(1_700_000_000_000)
    store = new_store(clock=clock, defaultTtl="1d")
    clock.advance(2 * DAY_MS)
    version = store.detail().version
    assert store.delete(keys=[("a", 1)]) > version
    shown = store.scan(includeExpired=True).read_all().to_pylist()
    assert [(row["tenant"], row["id"]) for row in shown] == [("a", 2), ("b", 1)]
    assert store.delete(keys=[("a", 1)]) == store.detail().version, "once"


def test_a_key_that_gets_its_row_meanwhile_is_deleted_with_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    store, begin = new_store(), load_plan.begin_load

    def beside_a_writer(*given: Any, **named: Any) -> Any:
        put(store, ("c", 1), ("a", 1), ("c", 2))
        return begin(*given, **named)

    monkeypatch.setattr(key_deletes, "begin_load", beside_a_writer)
    store.delete(keys=[("a", 1), ("c", 1)])
    assert keys_of(store) == [("a", 2), ("b", 1), ("c", 2)]


def test_what_is_refused() -> None:
    store = new_store()
    version = store.detail().version
    wrong: list[tuple[type[SlateError], dict[str, Any]]] = [
        (OptionError, {}),
        (OptionError, {"condition": "tenant = 'a'", "keys": [("a", 1)]}),
        (OptionError, {"keys": [("a", 1)], "ttl": "1d"}),
        (InvalidRequestError, {"keys": "a"}),
        (InvalidRequestError, {"keys": [("a",)]}),
        (InvalidRequestError, {"keys": ["a"]}),
        (InvalidRequestError, {"keys": pa.table({"tenant": ["a"], "id": pa.array([None], pa.int64())})}),
        (SchemaError, {"keys": pa.table({"tenant": ["a"]})}),
        (CommitConflictError, {"keys": [("a", 1)], "ifLastSeq": 0}),
        (CommitConflictError, {"keys": [("c", 1)], "ifLastSeq": 0}),
        (ClockRegressionError, {"keys": [("a", 1)], "timestamp": 1}),
    ]
    for error, given in wrong:
        with pytest.raises(error):
            store.delete(**given)
    assert store.detail().version == version


def test_a_repeated_deletion_deletes_nothing_more() -> None:
    store = new_store()
    pair: dict[str, Any] = {"txnAppId": "job", "txnVersion": 1}
    store.delete(keys=[("a", 1)], **pair)
    put(store, ("a", 1))
    version = store.detail().version
    assert store.delete(keys=[("a", 1)], **pair) == version == store.detail().version
    assert len(keys_of(store)) == 3


def test_rows_of_a_history_table_are_deleted_as_of_the_given_time() -> None:
    store = SlateStore.create(f"memory://key-deletes-{next(_numbers)}", history=True)
    store.write(pa.table({"key": [b"a", b"b"], "value": [b"1", b"2"], "ts": [2000, 1000]}), timestampColumn="ts")
    version = store.detail().version
    assert store.delete(keys=[b"a"], timestamp=500) == store.delete(keys=[b"a"], timestamp=1500) == version
    assert store.delete(keys=[b"a"], timestamp=3000) > version
    assert store.get(b"a", timestampAsOf=2500) == {"key": b"a", "value": b"1"}
    assert store.get(b"a") is None
