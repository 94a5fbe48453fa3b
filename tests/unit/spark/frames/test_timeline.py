from __future__ import annotations

import datetime as dt

import pyarrow as pa

from slatespark import SlateStore
from slatespark.spark.frames.timeline import timeline_table

SCHEMA = pa.schema([("tenant", pa.string()), ("day", pa.date32()), ("n", pa.int64())])


def day(number: int) -> dt.date:
    return dt.date(2026, 1, number)


def test_bounds_are_key_columns_as_far_as_they_have_them() -> None:
    store = SlateStore.create("memory://timeline-frame", schema=SCHEMA, keyColumns=["tenant", "day"])
    rows = [{"tenant": tenant, "day": day(number), "n": 1} for tenant in "ab" for number in range(1, 11)]
    store.write(pa.Table.from_pylist(rows, SCHEMA))
    store.deleteRange("tenant = 'a' AND day >= '2026-01-05'")
    store.deleteRange("tenant = 'b' AND day BETWEEN '2026-01-03' AND '2026-01-04'")
    found = timeline_table(store.timeline()).to_pylist()
    told = [(row["first"], row["firstIncluded"], row["last"], row["lastIncluded"], row["state"]) for row in found]
    assert told == [
        ({"tenant": "a", "day": day(1)}, True, {"tenant": "a", "day": day(5)}, False, "visible"),
        ({"tenant": "a", "day": day(5)}, True, {"tenant": "a", "day": None}, True, "overshadowed"),
        ({"tenant": "a", "day": None}, False, {"tenant": "b", "day": day(3)}, False, "visible"),
        ({"tenant": "b", "day": day(3)}, True, {"tenant": "b", "day": day(5)}, False, "overshadowed"),
        ({"tenant": "b", "day": day(5)}, True, {"tenant": "b", "day": day(10)}, True, "visible"),
    ]
    assert [(row["added"], row["since"], row["replaced"]) for row in found] == [
        (3, None, None),
        (3, 5, 5),
        (3, None, None),
        (3, 7, 7),
        (3, None, None),
    ]


def test_raw_keys_and_a_table_without_files() -> None:
    store = SlateStore.create("memory://timeline-frame-raw")
    assert timeline_table(store.timeline()).num_rows == 0
    store.write(pa.table({"key": [b"a", b"n", b"z"], "value": [b"1", b"1", b"2"]}))
    store.deleteRange(startKey=b"m", endKey=b"p")
    found = timeline_table(store.timeline()).to_pylist()
    assert [(row["first"], row["last"], row["lastIncluded"], row["state"]) for row in found] == [
        ({"key": b"a"}, {"key": b"m"}, False, "visible"),
        ({"key": b"m"}, {"key": b"p"}, False, "overshadowed"),
        ({"key": b"p"}, {"key": b"z"}, True, "visible"),
    ]
