"""A month loaded again day by day takes no more space than a fresh load."""

from __future__ import annotations

import datetime as dt
import itertools

import pyarrow as pa
import pytest
from numpy.random import default_rng

from slatespark import SlateStore
from tests.support.fake_clock import FakeClock

HOUR_MS = 3_600_000
DAYS, ROWS = 31, 3000
SCHEMAS = {
    "DATE": pa.schema([("day", pa.date32()), ("id", pa.int32()), ("value", pa.string())]),
    "STRING": pa.schema([("day", pa.string()), ("id", pa.int32()), ("value", pa.string())]),
}
_names = itertools.count()


def day_of(number: int, name: str) -> dt.date | str:
    day = dt.date(2026, 1, 1 + number)
    return day if name == "DATE" else day.isoformat()


def rows_of(number: int, name: str) -> pa.Table:
    values = [f"{value:.15f}" for value in default_rng(number).random(ROWS)]
    return pa.table({"day": [day_of(number, name)] * ROWS, "id": range(ROWS), "value": values}, SCHEMAS[name])


def new_table(name: str, clock: FakeClock) -> SlateStore:
    """A month that is no small run to autoCompact would not be merged with its own days, as one of this size is."""
    store = SlateStore.create(
        f"memory://reloaded-{next(_names)}",
        SCHEMAS[name],
        ["day", "id"],
        clock=clock,
        versionRetention="none",
        autoCompact=False,
    )
    store.write(pa.concat_tables([rows_of(day, name) for day in range(DAYS)]))
    return store


def stored_bytes(store: SlateStore, clock: FakeClock) -> int:
    clock.advance(2 * HOUR_MS)
    store.vacuum("1h")
    return sum(meta.size for meta in store._stores.main.list("compacted/"))


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("is_shuffled", [False, True], ids=["in order", "in any order"])
def test_a_reloaded_month_is_as_large_as_a_fresh_one(name: str, is_shuffled: bool) -> None:
    clock = FakeClock()
    fresh, store = new_table(name, clock), new_table(name, clock)
    order = default_rng(1).permutation(DAYS).tolist() if is_shuffled else range(DAYS)
    for day in order:
        store.write(rows_of(day, name), mode="overwrite", replaceWhere=f"day = '{day_of(day, name)}'")
    assert store.scan().read_all().num_rows == DAYS * ROWS
    assert stored_bytes(store, clock) <= 1.02 * stored_bytes(fresh, clock)
