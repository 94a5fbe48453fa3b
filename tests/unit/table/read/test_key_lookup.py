"""Look-ups of many keys: the rows that a scan shows and that have the keys, each once and in key order."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slatespark import InvalidRequestError, OptionError, SchemaError, SlateStore
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.stores import TableStores
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock

pd = pytest.importorskip("pandas")  # slatespark does without

SCHEMA = pa.schema(
    [pa.field("tenant", pa.string(), nullable=False), pa.field("id", pa.int64()), pa.field("name", pa.string())]
)
NOW_MS = 1_800_000_000_000
_names = itertools.count()


def new_store() -> SlateStore:
    """Three layers: the newer ones hide, delete and expire rows of the older ones."""
    clock = FakeClock(NOW_MS)
    store = SlateStore.create(f"memory://lookup-{next(_names)}", SCHEMA, "tenant,id", clock=clock)
    store.write(rows([("a", number, "old") for number in range(200)] + [("b", None, "null")]), blockSize=1024)
    store.write(rows([("a", number, "new") for number in range(50, 60)]))
    store.write(rows([("a", number, "gone") for number in range(70, 75)]), ttl="1m")
    store.delete("tenant = 'a' AND id BETWEEN 80 AND 85")
    clock.advance(120_000)
    return store


def rows(values: list[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, value, strict=True)) for value in values], SCHEMA)


def keys_table(wanted: list[tuple[Any, Any]]) -> pa.Table:
    return pa.table({"id": pa.array([key[1] for key in wanted], pa.int32()), "Tenant": [key[0] for key in wanted]})


STORE = new_store()


@pytest.mark.parametrize(
    "given",
    [
        pl.DataFrame,
        lambda keys: pl.DataFrame(keys, schema_overrides={"tenant": pl.Categorical}),
        pd.DataFrame,
        lambda keys: pd.DataFrame(keys).astype({"tenant": "category"}),
        lambda keys: pa.table(keys).set_column(0, "tenant", pa.array(keys["tenant"], pa.large_string())),
    ],
    ids=["polars", "polars category", "pandas", "pandas category", "large"],
)
def test_keys_of_any_form_that_a_write_takes(given: Callable[[dict[str, Any]], Any]) -> None:
    keys = given({"tenant": ["a", "a"], "id": [55, 1]})
    for found in (STORE.lookup(keys), STORE.snapshot().lookup(keys)):
        assert [row["name"] for row in found.read_all().to_pylist()] == ["old", "new"]


def test_a_time_between_two_keys_is_not_found() -> None:
    store = SlateStore.create(f"memory://lookup-{next(_names)}", "t TIMESTAMP, v INT", "t")
    time = pd.Timestamp("2026-01-01", tz="UTC")
    store.write(pd.DataFrame({"t": [time], "v": pd.array([1], "int32")}))
    assert store.get(time) is not None
    with pytest.raises(InvalidRequestError):
        store.get(time + pd.Timedelta(1, "ns"))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.integers(-5, 210))), max_size=40))
def test_it_finds_what_a_scan_shows(wanted: list[tuple[str, int | None]]) -> None:
    table = pa.table(
        {
            "id": pa.array([key[1] for key in wanted], pa.int32()),
            "TENANT": pa.array([key[0] for key in wanted], pa.string()),
        }
    )
    shown = STORE.scan().read_all().to_pylist()
    expected = [row for row in shown if (row["tenant"], row["id"]) in set(wanted)]
    assert STORE.lookup(table).read_all().to_pylist() == expected
    assert STORE.snapshot().lookup(table).read_all().to_pylist() == expected


def test_columns_filters_and_versions() -> None:
    wanted = keys_table([("a", 55), ("a", 3)])
    assert STORE.lookup(wanted, "name").read_all().to_pylist() == [{"name": "old"}, {"name": "new"}]
    assert STORE.lookup(wanted, ["id"], filter="name = 'new'").read_all().to_pylist() == [{"id": 55}]
    assert STORE.lookup(wanted, ["name"], versionAsOf=3).read_all()["name"].to_pylist() == ["old", "old"]
    assert STORE.lookup(keys_table([("a", 72)]), includeExpired=True).read_all().num_rows == 1
    assert STORE.lookup(wanted.slice(0, 0)).read_all().num_rows == 0


def test_batches_of_a_reader() -> None:
    wanted = keys_table([("a", number) for number in (9, 5, 9, 7)])
    reader = pa.RecordBatchReader.from_batches(wanted.schema, wanted.to_batches(max_chunksize=1))
    assert STORE.lookup(reader, "id").read_all()["id"].to_pylist() == [5, 7, 9]


@pytest.mark.parametrize("split", ["1k", "1m"])
def test_a_key_is_found_once_and_rows_without_one_find_nothing(split: str) -> None:
    store = SlateStore.create(f"memory://lookup-{next(_names)}")
    store.write(pa.table({"key": [b"a", b"b", b"c"], "value": [b"1", b"2", b"3"]}))
    wanted = pa.table({"key": pa.array([b"c", None, b"a", b"", b"c", b"x", None, b"a"], pa.binary())})
    assert store.lookup(wanted, splitSize=split).read_all()["value"].to_pylist() == [b"1", b"3"]


def test_only_blocks_of_the_keys_are_read() -> None:
    main = FailingStore(MemoryStore(STORE.url.removeprefix("memory://")))
    store = SlateStore(TableStores(main, main), FakeClock(NOW_MS), {"path": main.url})
    store.lookup(keys_table([("a", 3)])).read_all()
    main.clear()
    store.lookup(keys_table([("a", 3), ("a", 4)])).read_all()
    assert main.count("get_ranges", "compacted/*") == 1


def test_calls_that_are_refused() -> None:
    wanted = keys_table([("a", 1)])
    given: Any
    for given in ({"startKey": b"a"}, {"endKey": b"a"}, {"key_prefix": b"a"}):
        with pytest.raises(OptionError, match="lookup"):
            STORE.lookup(wanted, **given)
    with pytest.raises(SchemaError, match="tenant"):
        STORE.lookup(wanted.select(["id"]))
    for again in ("id", "ID"):
        with pytest.raises(SchemaError, match="Key column id occurs 2 times"):
            STORE.lookup(wanted.append_column(again, wanted["id"]))
    with pytest.raises(SchemaError, match="id"):
        STORE.lookup(pa.table({"tenant": ["a"], "id": ["x"]}))
    with pytest.raises(SchemaError, match="none"):
        STORE.lookup(wanted, "none")
    with pytest.raises(OptionError, match="changes"):
        STORE.lookup(wanted, readChangeFeed=True, startingVersion=1)
    with pytest.raises(InvalidRequestError):
        STORE.lookup(wanted, versionAsOf=999)
    with pytest.raises(OptionError, match="versionAsOf"):
        STORE.snapshot().lookup(wanted, versionAsOf=1)
