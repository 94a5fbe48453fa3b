"""The as-of join gives each row the version of its key that was valid at its time, and nothing else."""

from __future__ import annotations

from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark import HistoryTrimmedError, OptionError, SchemaError, SlateStore
from slatespark.table.read import as_of_join, batch_cuts
from slatespark.units import ms_to_text
from tests.support.effort import examples
from tests.support.fake_clock import FakeClock
from tests.support.history_model import HistoryModel, HistoryVersion

NOW_MS = 1_700_000_000_000
SCHEMA = pa.schema(
    [
        pa.field("shop", pa.string()),
        pa.field("item", pa.int32(), nullable=False),
        pa.field("price", pa.int64()),
        pa.field("note", pa.string()),
        pa.field("since", pa.int64()),
    ]
)
MICROS = pa.timestamp("us", "UTC")
TTL_MS = 3

_numbers = count()

items = st.integers(0, 3)
times = st.integers(0, 20)
changes = st.lists(st.tuples(items, times, st.sampled_from(["put", "put", "delete", "expires"])), max_size=20)
probes = st.lists(st.tuples(items, st.none() | times), max_size=20)


def new_store(**properties: Any) -> SlateStore:
    url = f"memory://as-of-join-{next(_numbers)}/table"
    return SlateStore.create(url, SCHEMA, ["shop", "item"], clock=FakeClock(NOW_MS), **{"history": True, **properties})


def write(store: SlateStore, *rows: tuple[int, int, int | None], ttl: int | None = None, shop: str | None = "a") -> int:
    """Rows as item, time and price; price None is a deletion."""
    columns = {
        "shop": pa.array([shop] * len(rows), pa.string()),
        "item": pa.array([item for item, _, _ in rows], pa.int32()),
        "price": pa.array([price for _, _, price in rows], pa.int64()),
        "note": pa.array([f"since {ts}" for _, ts, _ in rows]),
        "since": [ts for _, ts, _ in rows],
        "op": ["delete" if price is None else "put" for _, _, price in rows],
    }
    return store.write(pa.table(columns), timestampColumn="since", opColumn="op", ttl=ttl)


def sales(rows: list[tuple[int, int | None]], shop: str | None = "a") -> pa.Table:
    return pa.table(
        {
            "number": pa.array(range(len(rows)), pa.int64()),
            "item": pa.array([item for item, _ in rows], pa.int64()),
            "shop": pa.array([shop] * len(rows), pa.string()),
            "at": pa.array([None if at is None else at * 1000 + 999 for _, at in rows], MICROS),  # in us
        }
    )


def joined(store: SlateStore, rows: pa.Table, *columns: str, **options: Any) -> list[Any]:
    wanted = columns or ("price",)
    found = store.asOf(rows, "at", columns=list(wanted), **options).read_all()
    assert found.schema.names == [*rows.schema.names, *wanted]
    assert found.select(rows.schema.names) == rows or options.get("how") == "inner"
    values = [tuple(row[name] for name in wanted) for row in found.to_pylist()]
    return [value[0] for value in values] if len(wanted) == 1 else values


@settings(max_examples=examples(13))
@given(
    changed=changes,
    probed=probes,
    chunk=st.sampled_from([1, 3, 1000]),
    batch=st.sampled_from([1, 1 << 20]),
    compacts=st.booleans(),
)
def test_any_rows_get_what_a_read_as_of_their_time_shows(
    changed: list[tuple[int, int, str]], probed: list[tuple[int, int | None]], chunk: int, batch: int, compacts: bool
) -> None:
    store, model = new_store(), HistoryModel()
    for number, (item, ts, kind) in enumerate(sorted(changed, key=lambda change: change[1])):
        price = None if kind == "delete" else number
        write(store, (item, ts, price), ttl=TTL_MS if kind == "expires" else None)
        value = None if price is None else b"%d" % price
        model.add(b"%d" % item, HistoryVersion(ts, value, ts + TTL_MS if kind == "expires" else None))
    if compacts:
        store.compact(full=True)
    expected = [
        None if at is None or b"%d" % item not in (then := dict(model.as_of(at))) else int(then[b"%d" % item])
        for item, at in probed
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(as_of_join, "MAX_CHUNK_ROWS", chunk)
        patch.setattr(batch_cuts, "MAX_BATCH_BYTES", batch)
        assert joined(store, sales(probed)) == expected
        kept = [price for price in expected if price is not None]
        assert joined(store, sales(probed), how="inner") == kept


@pytest.mark.parametrize(("how", "count"), [("left", 100), ("inner", 80)])
def test_rows_that_find_large_versions_come_in_parts(how: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them has a copy of the version, and one array of Arrow holds 2 GiB."""
    store = new_store()
    for item in range(4):
        write(store, (item, 10, item))
    row_bytes = 8 + len("since 10")  # at least
    monkeypatch.setattr(batch_cuts, "MAX_BATCH_BYTES", 20 * row_bytes)
    rows = sales([(at % 5, 12) for at in range(100)])
    batches = list(store.asOf(rows, "at", columns="price,note", how=how, splitSize=1))  # each key by itself
    assert len(batches) >= 4
    assert all(0 < len(batch) <= 25 for batch in batches)
    expected = [price for at in range(100) if (price := at % 5) < 4 or how == "left"]
    assert len(expected) == count
    found = pa.Table.from_batches(batches)
    assert found["price"].to_pylist() == [None if price == 4 else price for price in expected]


@pytest.mark.parametrize("how", ["left", "inner"])
def test_rows_that_find_many_large_versions_are_joined_a_few_at_a_time(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store()
    write(store, *((item, 10, item) for item in range(100)))
    row_bytes = 8 + len("since 10")  # at least
    held: list[int] = []
    with_columns = as_of_join._with_columns

    def noting(*args: Any) -> Any:
        held.append(sum(int(each.sizes.sum()) for each in args[3]))
        return with_columns(*args)

    monkeypatch.setattr(as_of_join, "_with_columns", noting)
    rows = sales([(99 - number, 12 if number % 2 else 3) for number in range(100)])
    expected = [99 - number if number % 2 else None for number in range(100)]
    expected = [price for price in expected if price is not None or how == "left"]
    for most_rows in (1, 5, 1000):
        monkeypatch.setattr(as_of_join, "MAX_VERSION_BYTES", most_rows * row_bytes)
        held.clear()
        found = store.asOf(rows, "at", columns="price,note", how=how).read_all()
        assert found["price"].to_pylist() == expected
        assert max(held) <= max(most_rows * row_bytes, 100)
        assert (len(held) == 1) == (most_rows == 1000)


# --- columns --------------------------------------------------------------------------------------------------------


def test_which_columns_are_added() -> None:
    store = new_store()
    write(store, (1, 10, 5))
    rows = sales([(1, 12), (1, 9)])
    whole = store.asOf(rows, "AT", metadataColumns="create_ts").read_all()
    assert whole.schema.names == ["number", "item", "shop", "at", "price", "note", "since", "_create_ts"]
    assert [row["note"] for row in whole.to_pylist()] == ["since 10", None]
    assert joined(store, rows, "price", "_valid_from", "_is_current")[1] == (None, None, None)
    assert joined(store, rows, "_seq", "price", metadataColumns="seq")[0] == (1, 5)
    with pytest.raises(SchemaError, match="price"):
        store.asOf(rows.rename_columns(["price", "item", "shop", "at"]).append_column("number", rows["number"]), "at")
    with pytest.raises(SchemaError, match="item"):
        store.asOf(rows, "at", columns="item")


def test_times_of_every_type() -> None:
    store = new_store()
    write(store, (1, 10, 5), (1, 11, 6))
    for kind, value in [
        (pa.int64(), 10),
        (pa.timestamp("ms"), 10),
        (pa.timestamp("us", "Asia/Tokyo"), 10_999),
        (pa.timestamp("ns"), 10_999_999),
    ]:
        rows = pa.table({"shop": ["a"], "item": [1], "at": pa.array([value], pa.int64()).cast(kind)})
        assert joined(store, rows) == [5]
    seconds = pa.table({"shop": ["a"], "item": [1], "at": pa.array([1], pa.timestamp("s"))})
    assert joined(store, seconds) == [6]


def test_keys_with_nulls_are_keys_where_the_column_takes_them() -> None:
    store = new_store()
    write(store, (1, 10, 5), shop=None)
    assert joined(store, sales([(1, 10)], shop=None)) == [5]
    without_item = pa.table({"shop": ["a"], "item": pa.array([None], pa.int32()), "at": [10]})
    assert joined(store, without_item) == [None]
    assert joined(store, without_item.slice(0, 0)) == []


def test_a_raw_table() -> None:
    store = SlateStore.create(f"memory://as-of-join-{next(_numbers)}", history=True, clock=FakeClock(NOW_MS))
    store.write(pa.table({"key": [b"k"], "value": [b"v"], "ts": [10]}), timestampColumn="ts")
    rows = pa.table({"key": pa.array([b"k", b"", None, b"other"], pa.binary()), "at": [10] * 4})
    assert store.asOf(rows, "at").read_all()["value"].to_pylist() == [b"v", None, None, None]


def test_batches_and_readers_are_rows_too() -> None:
    store = new_store()
    write(store, (1, 10, 5))
    rows = sales([(1, 10), (1, 9)])
    for given_rows in (rows.to_reader(), rows.to_batches(max_chunksize=1), rows.to_batches()[0]):
        assert store.asOf(given_rows, "at", columns="price").read_all()["price"].to_pylist() == [5, None]


# --- the past -------------------------------------------------------------------------------------------------------


def test_what_a_version_of_the_table_knew() -> None:
    store = new_store()
    first = write(store, (1, 10, 5))
    write(store, (1, 12, 6))
    rows = sales([(1, 11), (1, 15)])
    assert joined(store, rows) == [5, 6]
    assert joined(store, rows, versionAsOf=first) == joined(store, rows, seqAsOf=1) == [5, 5]


def test_a_time_below_the_floor_is_refused_and_one_ahead_of_the_present_is_not() -> None:
    store = new_store()
    version = write(store, (1, 10, 5), (1, 20, 6))
    store.setHistoryFloor(15)
    assert joined(store, sales([(1, 15), (1, None), (1, 2 * NOW_MS)])) == [5, None, 6]
    with pytest.raises(HistoryTrimmedError, match=ms_to_text(15)):
        joined(store, sales([(1, 15), (1, 14)]))
    assert joined(store, sales([(1, 14)]), versionAsOf=version) == [5]


def test_expired_and_retired_rows_are_no_match() -> None:
    store = new_store(retention="10ms")
    write(store, (1, 10, 5), ttl=5)
    write(store, (2, 10, 6))
    rows = sales([(1, 14), (1, 15), (2, 19), (2, 20)])
    assert joined(store, rows) == [5, None, 6, None]
    assert joined(store, rows, includeExpired=True) == [5, 5, 6, 6]


def test_an_empty_table_has_no_match() -> None:
    assert joined(new_store(), sales([(1, 10)])) == [None]


# --- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"how": "outer"}, "how"),
        ({"timestampAsOf": 3}, "timestampAsOf"),
        ({"filter": "item = 1"}, "filter"),
        ({"versionsAsOf": 3}, "versionAsOf"),
    ],
)
def test_options_that_do_not_apply(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        new_store().asOf(sales([]), "at", **options)


def test_rows_that_cannot_be_joined() -> None:
    store, rows = new_store(), sales([(1, 1)])
    with pytest.raises(SchemaError, match="when"):
        store.asOf(rows, "when")
    with pytest.raises(SchemaError, match="shop"):
        store.asOf(rows.drop(["shop"]), "at")
    for again in ("item", "ITEM", "at", "At"):
        with pytest.raises(SchemaError, match=f"{again.lower()} occurs 2 times"):
            store.asOf(rows.append_column(again, rows[again.lower()]), "at")
    with pytest.raises(SchemaError, match="shop"):
        store.asOf(rows, "shop")
    with pytest.raises(SchemaError, match="item"):
        store.asOf(rows.drop(["item"]).append_column("item", pa.array(["x"])), "at")
    plain = SlateStore.create(f"memory://as-of-join-{next(_numbers)}", SCHEMA, "item")
    with pytest.raises(OptionError, match="history"):
        plain.asOf(rows, "at")
    keys = SlateStore.create(
        f"memory://as-of-join-{next(_numbers)}", pa.schema([("item", pa.int32())]), "item", history=True
    )
    with pytest.raises(OptionError, match="columns"):
        keys.asOf(rows, "at")


def test_times_beyond_64_bits_have_no_row() -> None:
    store = SlateStore.create("memory://as-of-join-far/t", history=True)
    store.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    times = pa.array([2**63, 2**63 - 1], pa.uint64())
    found = store.asOf(pa.table({"key": [b"a", b"a"], "at": times}), "at").read_all()
    assert found["value"].to_pylist() == [None, b"1"]
    seconds = pa.array([2**62, (2**63 - 1) // 1000], pa.timestamp("s"))
    found = store.asOf(pa.table({"key": [b"a", b"a"], "at": seconds}), "at").read_all()
    assert found["value"].to_pylist() == [None, b"1"]
    with pytest.raises(SchemaError):
        store.asOf(pa.table({"key": [b"a"], "at": times[1:]}), None)  # type: ignore[arg-type]
