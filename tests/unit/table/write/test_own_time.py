"""Tables with `clock=custom`: every write gives its time, in any unit, and no other clock matters."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from slatespark import ClockRegressionError, OptionError, SlateStore, TableExistsError
from slatespark.errors import ConflictError
from slatespark.format.paths import COMPACTED_DIR
from slatespark.table.definition.plan import join_created, join_growth
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.stores import open_stores
from slatespark.units import MAX_MS
from tests.support.fake_clock import FakeClock

NOW_MS = 1_700_000_000_000
FAR_MS = 10**17  # ms; a number of something else

_numbers = count()


def new_store(*columns: Any, **properties: Any) -> SlateStore:
    url = f"memory://own-time-{next(_numbers)}"
    SlateStore.create(url, *columns, clock="custom", **properties)
    return SlateStore.open(url, clock=FakeClock(NOW_MS))


def rows(*keys: bytes, **more: Any) -> pa.Table:
    column = pa.array(keys, pa.binary())
    return pa.table({"key": column, "value": column, **more})


def keys(store: SlateStore, **options: Any) -> list[bytes]:
    found: list[bytes] = store.scan(**options).read_all()["key"].to_pylist()
    return found


@pytest.mark.parametrize("start", [-FAR_MS, -1, 0, 7, NOW_MS, FAR_MS, MAX_MS - 3])
def test_any_number_is_a_time_and_the_last_one_is_now(start: int) -> None:
    store = new_store()
    assert keys(store) == []
    store.write(rows(b"a", b"b", ttl=pa.array([2, None])), timestamp=start, ttlColumn="ttl")
    assert keys(store) == [b"a", b"b"]
    first = store.write(rows(b"c"), timestamp=start + 1)
    assert (keys(store), store.get(b"a")) == ([b"a", b"b", b"c"], {"key": b"a", "value": b"a"})
    store.write(rows(b"d"), timestamp=start + 2)
    assert keys(store) == [b"b", b"c", b"d"]
    assert (store.get(b"a"), store.get(b"a", now=start + 1)) == (None, {"key": b"a", "value": b"a"})
    assert keys(store, now=start + 1) == [b"a", b"b", b"c", b"d"]
    assert keys(store, versionAsOf=first) == [b"a", b"b", b"c"], "now is that version's tick"
    assert store.expiry().now_ms == start + 2
    assert not store.verify().has_damage


def test_file_ids_use_the_system_clock() -> None:
    store = new_store()
    store.write(rows(b"a"), timestamp=FAR_MS)
    names = [entry.path for entry in open_stores(store.url, storage={}).main.list(COMPACTED_DIR)]
    assert len(names) == 1
    assert store.history(1)[0].committed_ms == NOW_MS


@pytest.mark.parametrize("options", [{}, {"ttl": "1h"}, {"mode": "overwrite"}, {"operation": "delete"}])
def test_a_write_without_a_timestamp_is_refused(options: dict[str, Any]) -> None:
    store = new_store()
    version = store.write(rows(b"a"), timestamp=5)
    with pytest.raises(OptionError, match="clock"):
        store.write(rows(b"b"), **options)
    with pytest.raises(OptionError, match="timestamp"):
        store.delete("key = X'61'")
    assert (keys(store), store.history(1)[0].version) == ([b"a"], version)


def test_time_does_not_go_back() -> None:
    store = new_store()
    store.write(rows(b"a"), timestamp=FAR_MS)
    with pytest.raises(ClockRegressionError, match=rf"\({FAR_MS - 1}\).*\({FAR_MS}\)"):
        store.write(rows(b"b"), timestamp=FAR_MS - 1)
    store.write(rows(b"c"), timestamp=FAR_MS)
    assert keys(store) == [b"a", b"c"]


def test_deletes_by_condition_and_retention_use_the_same_time() -> None:
    schema = pa.schema([pa.field("id", pa.int32()), pa.field("n", pa.int32())])
    store = new_store(schema, ["id"], retention="5ms", defaultTtl="9ms")
    for number in range(8):
        table = pa.table({"id": pa.array([number], pa.int32()), "n": pa.array([number], pa.int32())})
        store.write(table, timestamp=100 + number)
    assert store.scan().read_all()["id"].to_pylist() == [3, 4, 5, 6, 7]
    store.delete("n = 4", timestamp=107)
    assert store.scan().read_all()["id"].to_pylist() == [3, 5, 6, 7]
    assert store.scan(includeExpired=True).read_all()["id"].to_pylist() == [0, 1, 2, 3, 5, 6, 7]
    assert store.get(2) is None


@pytest.mark.parametrize("given", ["past", "last", "later"])
def test_a_range_of_a_history_table_is_deleted_at_any_time_of_its_clock(given: str) -> None:
    """A write moves the clock, so its time may be later than any time a read can ask for."""
    schema = pa.schema([pa.field("id", pa.int32()), pa.field("n", pa.int32())])
    at = {"past": 150, "last": 200, "later": 300}[given]

    def write(store: SlateStore, numbers: list[int], timestamp: int, **options: Any) -> None:
        column = pa.array(numbers, pa.int32())
        store.write(pa.table({"id": column, "n": column}), timestamp=timestamp, **options)

    def shown(store: SlateStore, **options: Any) -> list[int]:
        return store.scan(**options).read_all()["id"].to_pylist()  # type: ignore[no-any-return]

    for replaces in (False, True):
        store = new_store(schema, ["id"], history=True)
        write(store, [1, 2], 100, ttl=250)
        write(store, [9], 200)
        if replaces:
            write(store, [2], at, mode="overwrite", replaceWhere="id < 5")
        else:
            store.deleteRange("id < 5", timestamp=at)
        left = [2] if replaces else []
        write(store, [8], 1000)
        assert shown(store, timestampAsOf=at - 1) == [1, 2] + [9] * (at > 200)
        assert shown(store, timestampAsOf=at) == left + [9] * (at >= 200)
        assert shown(store) == [*left, 8, 9]


def test_the_property_cannot_change() -> None:
    for store, other in (new_store(), "system"), (SlateStore.create(f"memory://own-time-{next(_numbers)}"), "custom"):
        with pytest.raises(OptionError, match="clock"):
            store.setProperties(clock=other)
        store.setProperties(retention="1d")
    new_store().setProperties(clock="custom")


def test_a_concurrent_creator_with_another_clock_is_refused() -> None:
    keyed = TableDefinition(key_columns=("id",), key_format="tuple", value_format="avro")
    keyed = keyed.with_schema(pa.schema([pa.field("id", pa.int32()), pa.field("n", pa.int32())]))
    for plain in (TableDefinition(), keyed):
        own = replace(plain, properties={"clock": "custom"})
        for here, ours in ((plain, own), (own, plain)):
            with pytest.raises(TableExistsError):
                join_created(here, ours, merge_schema=True)
            with pytest.raises(ConflictError, match="created"):
                join_growth(here, ours)
